//! Pods that terminate while others run in their place. The controller of a job that is suspended and not gated makes
//! another pod as soon as one is deleted, and nothing holds that pod back: what runs beyond the admission uses quota
//! of its own until it is gone (`pod_usage.rs`). A pod that has no longer grace period than the default is left out,
//! as in `plan/job.rs`.

use std::collections::BTreeSet;

use sluice_kinds::hold::Hold;

use crate::cache::{PodRecord, Subject, Uid};
use crate::controller::Controller;
use crate::plan::Note;
use crate::process::hashing::HashMap;

/// The pods that jobs have beyond what they were admitted with.
#[derive(Debug, Default)]
pub struct ReplacedPods {
    of_jobs: HashMap<Subject, BTreeSet<Uid>>,
    jobs: HashMap<Uid, Subject>,
}

impl ReplacedPods {
    /// Whether a pod runs beyond what its job was admitted with.
    pub fn contains(&self, pod: &Uid) -> bool {
        self.jobs.contains_key(pod)
    }

    fn job_of(&self, pod: &Uid) -> Option<&Subject> {
        self.jobs.get(pod)
    }

    /// Notes which pods of a job these are. Returns those that were not, or are no more.
    fn note(&mut self, job: &Subject, pods: &BTreeSet<Uid>) -> Vec<Uid> {
        let before = if pods.is_empty() {
            self.of_jobs.remove(job)
        } else {
            self.of_jobs.insert(job.clone(), pods.clone())
        };
        let before = before.unwrap_or_default();
        for pod in before.difference(pods) {
            self.jobs.remove(pod);
        }
        for pod in pods {
            self.jobs.insert(pod.clone(), job.clone());
        }
        before.symmetric_difference(pods).cloned().collect()
    }

    /// Forgets a pod that is gone.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(job) = self.jobs.remove(pod) else {
            return;
        };
        if let Some(pods) = self.of_jobs.get_mut(&job) {
            pods.remove(pod);
            if pods.is_empty() {
                self.of_jobs.remove(&job);
            }
        }
    }
}

impl Controller {
    /// Looks which pods of a job run beyond its admission. They have usage of their own from then on.
    pub(in crate::controller) fn look_at_replaced_pods(&mut self, subject: &Subject) {
        let beyond = self.beyond_admission(subject);
        for pod in self.replaced_pods.note(subject, &beyond) {
            self.sync_pod(&pod);
            self.tell_replaced(&pod);
        }
    }

    /// The LocalQueue of a pod that names none and has usage of its own: that of the job that it runs beyond, if it does.
    pub(in crate::controller) fn own_queue(&self, pod: &Uid) -> &str {
        let job = self.replaced_pods.job_of(pod);
        let workload = job.and_then(|job| self.objects.workload_of(job));
        workload.map_or("", |(_, record)| &record.spec.queue_name)
    }

    fn tell_replaced(&mut self, uid: &Uid) {
        if !self.replaced_pods.contains(uid) {
            return;
        }
        let pod = Subject::Pod(uid.clone());
        if let Some(admission) = self.engine.admission(&pod.id()) {
            let text = format!(
                "The pod terminates while another one runs in its place: its usage counts in ClusterQueue {:?} until it is gone, beside that of the job",
                admission.queue.as_str()
            );
            self.tell_about(&pod, Note::warning("Replaced", text));
        }
    }

    /// The pods that terminate and are more than the job was admitted with.
    fn beyond_admission(&self, subject: &Subject) -> BTreeSet<Uid> {
        let job = self.objects.job_of(subject);
        let is_suspendable = job.is_some_and(|(_, job)| job.hold == Hold::Suspend);
        let workload = self.objects.workload_of(subject);
        let workload =
            workload.filter(|(_, record)| !record.is_finished() && !record.is_evicting());
        let (true, Some((_, record))) = (is_suspendable, workload) else {
            return BTreeSet::new();
        };
        let admission = record.status.admission.iter();
        let sets = admission.flat_map(|admission| &admission.pod_set_assignments);
        sets.flat_map(|set| {
            let admitted = u32::try_from(set.count).unwrap_or_default();
            let count = admitted.saturating_sub(record.reclaimed(&set.name));
            self.beyond(subject, &set.name, count)
        })
        .collect()
    }

    /// The pods of a set that terminate and are more than `count`.
    fn beyond(&self, subject: &Subject, pod_set: &str, count: u32) -> Vec<Uid> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let of_set = |pod: &PodRecord| pod.pod_set.as_deref() == Some(pod_set);
        let pods = self.objects.pods_of(subject);
        let lasting: Vec<&PodRecord> = pods
            .into_iter()
            .map(|(_, pod)| pod)
            .filter(|pod| of_set(pod) && pod.is_released() && !pod.is_soon_gone)
            .collect();
        let beyond = lasting.len().saturating_sub(count);
        let mut terminating: Vec<Uid> = lasting
            .into_iter()
            .filter(|pod| pod.deleting)
            .map(|pod| pod.uid.clone())
            .collect();
        terminating.sort_unstable();
        terminating.truncate(beyond);
        terminating
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_told_once() {
        let mut replaced = ReplacedPods::default();
        let job = Subject::Job("job".into());
        let pods = |names: &[&str]| names.iter().map(|name| Uid::from(*name)).collect();
        let note = |replaced: &mut ReplacedPods, names: &[&str]| -> String {
            replaced.note(&job, &pods(names)).concat()
        };
        assert_eq!(note(&mut replaced, &["a", "b"]), "ab");
        assert_eq!(note(&mut replaced, &["a", "b"]), "");
        assert_eq!(note(&mut replaced, &["b", "c"]), "ac");
        assert!(!replaced.contains(&"a".into()) && replaced.contains(&"c".into()));
        replaced.forget(&"c".into());
        assert_eq!(note(&mut replaced, &[]), "b");
        assert!(replaced.of_jobs.is_empty() && replaced.jobs.is_empty());
    }
}
