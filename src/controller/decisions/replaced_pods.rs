//! Pods that run beyond what their job was admitted with: they use quota of their own until they are gone
//! (`pod_usage.rs`). Those that terminate while others run in their place: the controller of a job that is suspended and
//! not gated makes another pod as soon as one is deleted, and nothing holds that pod back. And those that somebody else
//! made. Of pods that terminate within the default grace period (`PodRecord::is_soon_gone`) one for each place is left out,
//! and no more: else whoever deletes pods again and again could have any number of them terminate.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use sluice_crds::reasons::event;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::PodAdmission;

use crate::cache::{PodRecord, Subject, Uid};
use crate::controller::Controller;
use crate::plan::Note;
use crate::process::hashing::HashMap;

/// The pods that jobs have beyond what they were admitted with.
#[derive(Debug, Default)]
pub struct ReplacedPods {
    of_jobs: HashMap<Subject, BTreeSet<Uid>>,
    pods: HashMap<Uid, Replaced>,
}

/// A pod that runs beyond what its job was admitted with. It may outlive the job and its Workload.
#[derive(Debug)]
struct Replaced {
    job: Subject,
    /// What it uses.
    share: PodAdmission,
    /// The LocalQueue of its job.
    local_queue: String,
}

impl ReplacedPods {
    /// Whether a pod runs beyond what its job was admitted with.
    pub fn contains(&self, pod: &Uid) -> bool {
        self.pods.contains_key(pod)
    }

    /// What such a pod uses.
    pub fn share(&self, pod: &Uid) -> Option<&PodAdmission> {
        Some(&self.pods.get(pod)?.share)
    }

    fn of_job(&self, job: &Subject) -> Option<&BTreeSet<Uid>> {
        self.of_jobs.get(job)
    }

    fn add(&mut self, pod: Uid, replaced: Replaced) {
        let of_job = self.of_jobs.entry(replaced.job.clone()).or_default();
        of_job.insert(pod.clone());
        self.pods.insert(pod, replaced);
    }

    /// Forgets a pod that is gone, or is not beyond its job's admission any more.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(Replaced { job, .. }) = self.pods.remove(pod) else {
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
        let Some(beyond) = self.beyond_admission(subject) else {
            return;
        };
        let known = self.replaced_pods.of_job(subject).cloned();
        let known = known.unwrap_or_default();
        for pod in known.difference(&beyond) {
            self.replaced_pods.forget(pod);
            self.sync_pod(pod);
        }
        for pod in beyond.difference(&known) {
            self.note_replaced(pod, subject);
        }
    }

    fn note_replaced(&mut self, uid: &Uid, job: &Subject) {
        let pod = self.objects.pods.of(uid);
        let share = pod.and_then(|(_, pod)| self.share(pod, job));
        let workload = self.objects.workload_of(job);
        let (Some(share), Some((_, workload))) = (share, workload) else {
            return;
        };
        let has_finished = pod.is_some_and(|(key, pod)| self.is_of_finished(key, pod));
        let note = if has_finished {
            note_after_end(&share)
        } else {
            note_beyond(pod.is_some_and(|(_, pod)| pod.deleting), &share)
        };
        let replaced = Replaced {
            job: job.clone(),
            share,
            local_queue: workload.spec.queue_name.clone(),
        };
        self.replaced_pods.add(uid.clone(), replaced);
        self.sync_pod(uid);
        self.tell_about(&Subject::Pod(uid.clone()), note);
    }

    /// The LocalQueue for a pod that names none and has usage of its own: that of the job whose admission it exceeds, or
    /// which it outlives. Empty if there is none.
    pub(in crate::controller) fn own_queue(&self, pod: &Uid) -> &str {
        if let Some(replaced) = self.replaced_pods.pods.get(pod) {
            return &replaced.local_queue;
        }
        let known = self.objects.pods.of(pod);
        let above = known.and_then(|(key, pod)| self.belongs_to(pod, &key.namespace));
        let workload = above.and_then(|above| self.objects.workload_of(&above));
        let workload = workload.filter(|(_, record)| record.is_finished());
        workload.map_or("", |(_, record)| &record.spec.queue_name)
    }

    /// The pods that are more than the job was admitted with. None where nothing says so any more: those that are known
    /// stay until they are gone.
    fn beyond_admission(&self, subject: &Subject) -> Option<BTreeSet<Uid>> {
        let (_, job) = self.objects.job_of(subject)?;
        let (_, record) = self.objects.workload_of(subject)?;
        let admission = record.status.admission.as_ref()?;
        if job.hold != Hold::Suspend || record.is_finished() {
            return None;
        }
        let pods = self.objects.pods_of(subject).into_iter();
        let released: Vec<&PodRecord> = pods
            .map(|(_, pod)| pod)
            .filter(|pod| pod.is_released())
            .collect();
        let has_finished = job.finished().is_some();
        let sets = admission.pod_set_assignments.iter();
        let beyond = sets.flat_map(|set| {
            let count = u32::try_from(set.count).unwrap_or_default();
            let left = count.saturating_sub(record.reclaimed(&set.name));
            // Nobody evicts a job that has finished and whose pods are made again.
            let count = if has_finished { left } else { count };
            let of_set = released.iter().copied();
            let of_set = of_set.filter(|pod| pod.pod_set.as_deref() == Some(&*set.name));
            self.beyond(self.counted(of_set, left), count, left)
        });
        Some(beyond.collect())
    }

    /// These pods of a pod set, without as many that will be gone in a moment as places are `left`: those that don't count
    /// yet, and were deleted last.
    fn counted<'a>(
        &self,
        pods: impl Iterator<Item = &'a PodRecord>,
        left: u32,
    ) -> Vec<&'a PodRecord> {
        let (mut soon_gone, mut counted): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.is_soon_gone);
        soon_gone.sort_unstable_by_key(|pod| {
            let is_known = self.replaced_pods.contains(&pod.uid);
            (is_known, Reverse(pod.deleted_at), pod.uid.clone())
        });
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        counted.extend(soon_gone.into_iter().skip(left));
        counted
    }

    /// Those of these pods of a pod set that are more than its `count`; and those that terminate and are more than what
    /// is `left` of it, as the others have succeeded.
    fn beyond(&self, mut pods: Vec<&PodRecord>, count: u32, left: u32) -> Vec<Uid> {
        let more_than = |max| {
            pods.len()
                .saturating_sub(usize::try_from(max).unwrap_or(usize::MAX))
        };
        let (beyond_all, beyond_left) = (more_than(count), more_than(left));
        let terminating = pods.iter().filter(|pod| pod.deleting).count();
        let beyond = beyond_all.max(beyond_left.min(terminating));
        if beyond == 0 {
            return Vec::new();
        }
        // Those that terminate, and are known, go first: a pod is not told twice. Then those that Sluice released: the
        // controller of the job makes none that wait. Then the newest.
        pods.sort_unstable_by_key(|pod| {
            let is_known = self.replaced_pods.contains(&pod.uid);
            let age = Reverse(pod.created);
            (
                !pod.deleting,
                !is_known,
                pod.admitted.is_none(),
                age,
                pod.uid.clone(),
            )
        });
        pods.truncate(beyond);
        pods.into_iter().map(|pod| pod.uid.clone()).collect()
    }
}

/// What is told of a pod that runs beyond the admission of its job.
pub(super) fn note_beyond(is_terminating: bool, share: &PodAdmission) -> Note {
    let queue = &share.cluster_queue;
    if is_terminating {
        let text = format!(
            "The pod is terminating and its replacement already runs: both count in ClusterQueue {queue:?} until it is gone"
        );
        return Note::warning(event::REPLACED, text);
    }
    let text = format!(
        "Runs beyond the pods that its job was admitted with: it counts by itself in ClusterQueue {queue:?}, and is deleted when its quota is reclaimed"
    );
    Note::warning(event::NOT_ADMITTED, text)
}

/// What is told of a pod that runs though its job has finished, and has given its quota back.
pub(super) fn note_after_end(share: &PodAdmission) -> Note {
    let queue = &share.cluster_queue;
    let text = format!(
        "Runs though its job has finished and its quota was freed: it counts by itself in ClusterQueue {queue:?}, and is deleted when its quota is reclaimed"
    );
    Note::warning(event::NOT_ADMITTED, text)
}
