//! Jobs whose pod templates bring gates of others: only pods that are there can tell that these gates are gone. Which
//! pods carry such gates is in `cache/pod.rs`.

use std::time::Duration;

use sluice_kinds::hold::Hold;

use crate::cache::{JobRecord, PodRecord, Subject};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// How long the next pod of a job is waited for. Some controllers make it only when those before it run: StatefulSets
/// with `podManagementPolicy: OrderedReady`, JobSets with `startupPolicyOrder: InOrder`.
const AWAITED_FOR: Duration = Duration::from_mins(1);

/// Which pods of a job are waited for before its gates of others count as gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToCome {
    /// None: all are there, or its controller waits for those that are.
    None,
    /// More, unless none comes for so long.
    More(Duration),
    /// The first.
    First,
}

/// When jobs are looked at again whose next pod is waited for.
#[derive(Debug, Default)]
pub struct AwaitedPods {
    until: HashMap<Subject, Moment>,
}

impl AwaitedPods {
    /// Notes that a job is looked at again at `due`, unless it is already before that. Returns whether it was noted: one
    /// wake at a time, however many pods come.
    fn note(&mut self, subject: &Subject, due: Moment, now: Moment) -> bool {
        let is_set = self.until.get(subject).is_some_and(|due| now < *due);
        if !is_set {
            self.until.insert(subject.clone(), due);
        }
        !is_set
    }

    /// Forgets a job that is gone.
    pub fn forget(&mut self, subject: &Subject) {
        self.until.remove(subject);
    }
}

impl Controller {
    /// Whether no more pods of a job are waited for whose templates bring gates of others.
    pub(in crate::controller) fn are_gated_pods_there(
        &self,
        subject: &Subject,
        job: &JobRecord,
    ) -> bool {
        self.pods_to_come(subject, job) == ToCome::None
    }

    /// Looks at a job again when its next pod has been waited for long enough.
    pub(in crate::controller) fn await_pods(&mut self, subject: &Subject) {
        let Some((_, job)) = self.objects.job_of(subject) else {
            return;
        };
        if job.hold != Hold::Pods || self.holds_quota(subject) {
            return;
        }
        let ToCome::More(left) = self.pods_to_come(subject, job) else {
            return;
        };
        let now = self.now.moment;
        if self.awaited_pods.note(subject, now.after(left), now) {
            self.wake_after(left, Wake::Plan(subject.clone()));
        }
    }

    fn pods_to_come(&self, subject: &Subject, job: &JobRecord) -> ToCome {
        let sets = job.reading.as_ref().ok();
        let Some(sets) = sets.and_then(|reading| reading.pod_sets.as_ref().ok()) else {
            return ToCome::First;
        };
        let pods = self.objects.pods_of(subject);
        let live = pods
            .iter()
            .map(|(_, pod)| *pod)
            .filter(|pod| pod.is_live() && !pod.deleting);
        let lacks_pods = sets.iter().filter(|set| set.has_external_gates).any(|set| {
            let of_set = |pod: &&PodRecord| pod.pod_set.as_deref() == Some(&*set.name);
            let there = live.clone().filter(of_set).count();
            // In place of those that have ended for good none is made any more.
            let to_come = set.count.saturating_sub(set.reclaimable);
            there < usize::try_from(to_come).unwrap_or(usize::MAX)
        });
        if !lacks_pods {
            return ToCome::None;
        }
        let Some(newest) = live.filter_map(PodRecord::exists_since).max() else {
            return ToCome::First;
        };
        let waited = self.now.wall.duration_since(newest);
        let waited = Duration::try_from(waited).unwrap_or_default();
        match AWAITED_FOR.checked_sub(waited) {
            Some(left) if !left.is_zero() => ToCome::More(left),
            Some(_) | None => ToCome::None,
        }
    }
}
