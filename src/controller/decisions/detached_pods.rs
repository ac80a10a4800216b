//! Pods that were released with a job behind gates and do not belong to it any more: they keep their places there until
//! they are gone. Which pods these are is decided in `pod_usage.rs`.

use std::collections::BTreeSet;

use crate::cache::{Subject, Uid};
use crate::process::hashing::{HashMap, remove_from};

/// The pods that keep a place of a job that they have left.
#[derive(Debug, Default)]
pub struct DetachedPods {
    jobs: HashMap<Uid, Subject>,
    by_job: HashMap<Subject, BTreeSet<Uid>>,
}

impl DetachedPods {
    /// The job of which a pod keeps a place.
    pub fn job_of(&self, pod: &Uid) -> Option<&Subject> {
        self.jobs.get(pod)
    }

    /// The pods that keep a place of a job.
    pub fn of(&self, job: &Subject) -> impl Iterator<Item = &Uid> {
        self.by_job.get(job).into_iter().flatten()
    }

    /// Notes of which job a pod keeps a place, if of any. Returns of which one it did before.
    pub fn set(&mut self, pod: &Uid, job: Option<Subject>) -> Option<Subject> {
        let before = self.jobs.remove(pod);
        if let Some(before) = &before {
            remove_from(&mut self.by_job, before, pod);
        }
        if let Some(job) = job {
            let pods = self.by_job.entry(job.clone()).or_default();
            pods.insert(pod.clone());
            self.jobs.insert(pod.clone(), job);
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_one_place() {
        let [one, other] = ["one", "other"].map(|uid| Subject::Job(uid.into()));
        let (mut pods, pod) = (DetachedPods::default(), Uid::from("pod"));
        assert_eq!(pods.set(&pod, Some(one.clone())), None);
        assert_eq!(pods.set(&pod, Some(other.clone())), Some(one.clone()));
        assert_eq!(pods.of(&one).count(), 0);
        assert_eq!(pods.of(&other).collect::<Vec<_>>(), [&pod]);
        assert_eq!(pods.set(&pod, None), Some(other));
        assert!(pods.jobs.is_empty() && pods.by_job.is_empty());
    }
}
