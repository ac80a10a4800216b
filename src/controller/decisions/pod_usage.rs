//! Whose quota a pod uses that runs: that of the job or group that it is admitted with, that of a job that has
//! gone and left it behind, or quota of its own. Everybody asks here, so that each such pod with Sluice's label
//! has usage, and once. How much that is lies in `engine_sync.rs`; pods without the label are found by
//! `src/pods_without_managed_label.rs`, which gives it to them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_crds::PodSetAssignment;
use sluice_crds::reasons::event;
use sluice_engine::LocalQueueKey;
use sluice_kinds::hold::Hold;
use sluice_kinds::pod::{PodAdmission, PodMode};
use sluice_kinds::view::LabelledQueue;

use crate::cache::pods::{QuotaOf, Root};
use crate::cache::{PodKey, PodRecord, Subject, Uid, WATCH_LAG};
use crate::controller::Controller;
use crate::controller::decisions::detached_pods::DetachedPods;
use crate::controller::decisions::replaced_pods::{note_after_end, note_beyond};
use crate::plan::Note;
use crate::plan::pod::pod_set_of;
use crate::plan::workload::covers_pod;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// Most pods with usage of their own that are looked at again in a second: somebody may make thousands.
const LOOKS_MAX: usize = 200;

/// Pods with usage of their own though they were not admitted by themselves.
#[derive(Debug, Default)]
pub struct OwnUsage {
    /// What those use that have left their job, until it is recorded on them.
    left: HashMap<Uid, Left>,
    /// Since when.
    known: HashMap<Uid, Moment>,
    /// Those that are still to be looked at in this round.
    due: Vec<Uid>,
    /// Pods that have left their job and keep their place there.
    detached: DetachedPods,
}

/// A pod's share in what the job was admitted with that it has left.
#[derive(Debug)]
struct Left {
    job: Subject,
    share: PodAdmission,
}

impl OwnUsage {
    /// Notes whether a pod has usage of its own that was not admitted by itself.
    fn note(&mut self, pod: &Uid, has_own: bool, now: Moment) {
        if !has_own {
            self.known.remove(pod);
        } else if !self.known.contains_key(pod) {
            self.known.insert(pod.clone(), now);
        }
    }

    /// Whether a pod has had usage of its own for so long that it has to be recorded. The garbage collector takes its
    /// owner away as soon as the job is deleted, and the watch of jobs may tell of that later than the watch of pods:
    /// until then the pod seems to have left a job that goes on.
    fn is_lasting(&self, pod: &Uid, now: Moment) -> bool {
        let since = self.known.get(pod);
        since.is_some_and(|since| WATCH_LAG <= now.since(*since))
    }

    /// Takes out those that are to be looked at next, so many at a time.
    fn take_due(&mut self, max: usize) -> Vec<Uid> {
        if self.due.is_empty() {
            self.due = self.known.keys().cloned().collect();
            self.due.sort_unstable();
        }
        self.due.split_off(self.due.len().saturating_sub(max))
    }
}

impl Controller {
    /// Whose quota a pod uses.
    pub(in crate::controller) fn quota_of(&self, key: &PodKey, pod: &PodRecord) -> QuotaOf {
        if pod.mode == PodMode::Single {
            // Its gate and its record say whether it has usage.
            return QuotaOf::Own;
        }
        if !pod.is_released() {
            return QuotaOf::Nobody;
        }
        let above = self.belongs_to(pod, &key.namespace);
        if self.replaced_pods.contains(&pod.uid) {
            return QuotaOf::Own;
        }
        let holder = above.filter(|above| self.holds_quota(above));
        let holder = holder.or_else(|| self.released_with(key, pod));
        let holder = holder.map(|holder| (holder, false));
        if let Some((holder, is_beyond)) = holder.or_else(|| self.left_by(key, pod)) {
            let is_guest = self.has_share_beside(pod, &holder) && !self.has_place(&holder, pod);
            return if is_beyond || is_guest {
                QuotaOf::Own
            } else {
                QuotaOf::With(holder)
            };
        }
        let is_unknown = pod.mode == PodMode::Child
            && matches!(self.root_of(pod, &key.namespace), Root::Unknown(_));
        if is_unknown && !self.own_usage.left.contains_key(&pod.uid) {
            return QuotaOf::Unknown;
        }
        let own = self.own_admission(key, pod);
        own.map_or(QuotaOf::Nobody, |_| QuotaOf::Own)
    }

    /// What a pod uses whose job or group holds no quota, if it is in a queue.
    pub(in crate::controller) fn own_admission(
        &self,
        key: &PodKey,
        pod: &PodRecord,
    ) -> Option<PodAdmission> {
        if let Some(share) = self.replaced_pods.share(&pod.uid) {
            return Some(share.clone());
        }
        // It ran before it came to what it belongs to now, which may have ended long ago.
        if let Some(left) = self.own_usage.left.get(&pod.uid) {
            return Some(left.share.clone());
        }
        let above = self.belongs_to(pod, &key.namespace);
        let job = above.as_ref().and_then(|above| self.objects.job_of(above));
        let job = job.map(|(_, job)| job);
        let has_finished = job.is_some_and(|job| job.finished().is_some());
        // It gives its quota back while such pods end. What runs on, or is made again, uses its node until it is gone.
        if has_finished && pod.is_soon_gone && !self.has_own_usage(&pod.uid) {
            return None;
        }
        if let Some(Ok(recorded)) = &pod.admitted {
            return Some(recorded.clone());
        }
        let of_queue = |queue: &LabelledQueue| {
            let LabelledQueue::Named(queue) = queue else {
                return None;
            };
            let queue = LocalQueueKey::new(key.namespace.clone(), queue.as_str());
            let (cluster_queue, flavors) = self.cluster.first_choice(&queue)?;
            let quota = self.engine.queue_quota(&cluster_queue.into());
            let cohort = quota.and_then(|quota| quota.cohort);
            let cohort = cohort.map(|cohort| cohort.to_string());
            Some(self.admission_now(cluster_queue, cohort, flavors.clone()))
        };
        match job {
            Some(job) if has_finished => (above.and_then(|above| self.last_share(pod, &above)))
                .or_else(|| of_queue(&job.queue)),
            // Its pods wait behind gates, which this one has not.
            Some(job) if job.hold == Hold::Pods => of_queue(&job.queue),
            Some(_) | None => (self.named_admission(key, pod)).or_else(|| of_queue(&pod.queue)),
        }
    }

    /// For a pod without an owner, or that a job has left behind: its share in the admission of a job that its labels name;
    /// else of any job of its namespace that has this pod set.
    fn named_admission(&self, key: &PodKey, pod: &PodRecord) -> Option<PodAdmission> {
        let is_of_another = pod.owner.is_some() && self.left_by(key, pod).is_none();
        if is_of_another || pod.mode != PodMode::Child {
            return None;
        }
        let is_of_namespace = |job: &Subject| {
            let workload = self.objects.workload_of(job);
            workload.is_some_and(|(at, _)| at.namespace == key.namespace)
        };
        let named = pod.named_uids.iter().cloned().map(Subject::Job);
        let named = named.filter(is_of_namespace);
        let mut shares = named.filter_map(|job| self.share(pod, &job));
        shares.next().or_else(|| {
            let set = pod.pod_set.as_deref()?;
            // By name: the same one the next time too.
            let mut admitted = self.objects.admitted_with_set(&key.namespace, set);
            admitted.find_map(|(_, record)| self.share(pod, &record.owner.as_ref()?.subject))
        })
    }

    /// The share of a pod in what a job or group was admitted with.
    pub(super) fn share(&self, pod: &PodRecord, subject: &Subject) -> Option<PodAdmission> {
        let (_, record) = self.objects.workload_of(subject)?;
        let share = || self.last_share(pod, subject);
        (!record.is_finished()).then(share)?
    }

    /// The same, also after the job has given its quota back.
    fn last_share(&self, pod: &PodRecord, subject: &Subject) -> Option<PodAdmission> {
        let (_, record) = self.objects.workload_of(subject)?;
        let admission = record.status.admission.as_ref()?;
        let set = pod_set_of(pod, subject);
        let mut assignments = admission.pod_set_assignments.iter();
        let is_of_set = |a: &&PodSetAssignment| set.as_deref().is_none_or(|set| a.name == set);
        let assignment = assignments.find(is_of_set)?;
        let flavors = assignment.flavors.clone();
        let cohort = admission.cohort_name.clone();
        Some(self.admission_now(&admission.cluster_queue, cohort, flavors))
    }

    fn admission_now(
        &self,
        cluster_queue: &str,
        cohort: Option<String>,
        flavors: BTreeMap<String, String>,
    ) -> PodAdmission {
        PodAdmission {
            cluster_queue: cluster_queue.to_owned(),
            cohort,
            flavors,
            at: Time(self.now.wall),
            term: None,
            priority: None,
            job: None,
            group: None,
        }
    }

    /// Whether a pod belongs to a job that has finished.
    pub(super) fn is_of_finished(&self, key: &PodKey, pod: &PodRecord) -> bool {
        let job = self.job_of_pod(pod, &key.namespace);
        pod.mode == PodMode::Child && job.is_some_and(|job| job.finished().is_some())
    }

    /// Whether a pod has a share that it took along from another job than this one, or was given alone.
    fn has_share_beside(&self, pod: &PodRecord, holder: &Subject) -> bool {
        let recorded = pod.admitted.as_ref();
        let recorded = recorded.and_then(|record| record.as_ref().ok());
        let is_of_holder = |job: &Option<String>| {
            let job = job.as_deref().map(|uid| Subject::Job(uid.into()));
            job.as_ref() == Some(holder)
        };
        let left = self.own_usage.left.get(&pod.uid);
        recorded.is_some_and(|recorded| !is_of_holder(&recorded.job))
            || left.is_some_and(|left| left.job != *holder)
    }

    /// Whether a job or group was admitted with such a pod, and has a place for it: those that have always been its own
    /// come first, then the oldest. Who may edit pods and jobs can have any pod belong to any job: by its labels, by a
    /// selector, as a member of a group.
    fn has_place(&self, holder: &Subject, pod: &PodRecord) -> bool {
        let workload = self.objects.workload_of(holder);
        let (Some((_, record)), Some(set), Ok(asks)) =
            (workload, pod_set_of(pod, holder), pod.asks.as_ref())
        else {
            return false;
        };
        if !covers_pod(record, &set, asks) {
            return false;
        }
        let admission = record.status.admission.iter();
        let mut assignments = admission.flat_map(|admission| &admission.pod_set_assignments);
        let count = assignments.find(|assignment| *assignment.name == *set);
        let count = count.map_or(0, |assignment| {
            usize::try_from(assignment.count).unwrap_or(0)
        });
        let reclaimed = usize::try_from(record.reclaimed(&set)).unwrap_or(usize::MAX);
        let own = self.objects.pods_of(holder).into_iter();
        let all = own.chain(self.orphaned_pods(holder));
        let before = all.filter(|(_, other)| {
            let is_before = || {
                !self.has_share_beside(other, holder)
                    || (other.created, &other.uid) < (pod.created, &pod.uid)
            };
            other.uid != pod.uid
                && self.may_run(other)
                && pod_set_of(other, holder).as_ref() == Some(&set)
                && is_before()
        });
        before.count() < count.saturating_sub(reclaimed)
    }

    /// Notes that a pod whose usage counted in the job `subject` now names another owner. It keeps its share until that
    /// is recorded on it.
    pub(in crate::controller) fn note_left(&mut self, uid: &Uid, subject: &Subject) {
        let Some((key, pod)) = self.objects.pods.of(uid) else {
            return;
        };
        let is_same = self.quota_of(key, pod) == QuotaOf::With(subject.clone());
        if is_same || !pod.is_released() || pod.admitted.is_some() {
            return;
        }
        // It still counts as one that the job has left behind.
        let mut left_behind = self.orphaned_pods(subject).into_iter();
        if left_behind.any(|(_, other)| other.uid == pod.uid) {
            return;
        }
        if let Some(share) = self.share(pod, subject) {
            let job = subject.clone();
            self.own_usage.left.insert(uid.clone(), Left { job, share });
        }
    }

    /// The pods that were released with a job behind gates, and do not belong to it any more: they keep their places.
    pub(in crate::controller) fn detached_pods(
        &self,
        subject: &Subject,
    ) -> impl Iterator<Item = (&PodKey, &PodRecord)> {
        let detached = self.own_usage.detached.of(subject);
        detached.filter_map(|pod| self.objects.pods.of(pod))
    }

    /// The job behind gates with which a pod was released, if that is not the one that it belongs to.
    fn released_with(&self, key: &PodKey, pod: &PodRecord) -> Option<Subject> {
        let recorded = pod.admitted.as_ref()?.as_ref().ok()?;
        let job = Subject::Job(recorded.job.as_deref()?.into());
        let (at, _) = self.objects.job_of(&job)?;
        (at.namespace == key.namespace && self.holds_quota(&job)).then_some(job)
    }

    /// Notes whose quota a pod uses, where that is told by other means than by whom it belongs to.
    pub(in crate::controller) fn note_quota_of(
        &mut self,
        uid: &Uid,
        quota_of: &QuotaOf,
        has_own: bool,
    ) {
        self.own_usage.note(uid, has_own, self.now.moment);
        let known = self.objects.pods.of(uid);
        let above = known.and_then(|(key, pod)| self.belongs_to(pod, &key.namespace));
        let job = match quota_of {
            QuotaOf::With(job)
                if Some(job) != above.as_ref()
                    && known.is_some_and(|(key, pod)| {
                        self.released_with(key, pod).as_ref() == Some(job)
                    }) =>
            {
                Some(job.clone())
            }
            QuotaOf::With(_) | QuotaOf::Nobody | QuotaOf::Own | QuotaOf::Unknown => None,
        };
        if self.own_usage.detached.job_of(uid) == job.as_ref() {
            return;
        }
        let before = self.own_usage.detached.set(uid, job.clone());
        self.look_at_places(before.into_iter().chain(job));
    }

    /// Forgets a pod that is gone.
    pub(in crate::controller) fn forget_usage(&mut self, uid: &Uid) {
        self.own_usage.left.remove(uid);
        self.own_usage.known.remove(uid);
        self.replaced_pods.forget(uid);
        self.expected.forget(&Subject::Pod(uid.clone()));
        let before = self.own_usage.detached.set(uid, None);
        self.look_at_places(before.into_iter());
    }

    /// Whether a pod has usage of its own though it was not admitted by itself.
    pub(in crate::controller) fn has_own_usage(&self, pod: &Uid) -> bool {
        self.own_usage.known.contains_key(pod)
    }

    /// Looks again at jobs of which a place was taken, or is free again.
    fn look_at_places(&mut self, jobs: impl Iterator<Item = Subject>) {
        for job in jobs {
            self.agenda.sync(job.clone());
            self.agenda.plan(job);
        }
    }

    /// Once a second: what has usage of its own is looked at again, as what is above it may hold quota by now, and
    /// as it has to be recorded after a while.
    pub(in crate::controller) fn look_after_own_usage(&mut self) {
        for uid in self.own_usage.take_due(LOOKS_MAX) {
            self.sync_pod(&uid);
            let pod = self.objects.pods.of(&uid);
            if pod.is_some_and(|(_, pod)| pod.recorded_admission().is_none()) {
                self.agenda.plan(Subject::Pod(uid));
            }
        }
    }

    /// The record that a pod with usage of its own has yet to get, and what is told of that.
    pub(in crate::controller) fn own_record(
        &self,
        key: &PodKey,
        pod: &PodRecord,
    ) -> Option<(PodAdmission, Note)> {
        let is_missing = pod.mode != PodMode::Single && pod.recorded_admission().is_none();
        if !is_missing || self.quota_of(key, pod) != QuotaOf::Own {
            return None;
        }
        if !self.own_usage.is_lasting(&pod.uid, self.now.moment) {
            return None;
        }
        let record = self.own_admission(key, pod)?;
        let has_left = self.own_usage.left.contains_key(&pod.uid);
        let note = match &pod.queue {
            _ if !has_left && self.is_of_finished(key, pod) => note_after_end(&record),
            _ if self.replaced_pods.contains(&pod.uid) => note_beyond(pod.deleting, &record),
            _ if has_left || pod.owner.is_none() && pod.pod_set.is_some() => Note::warning(
                event::DETACHED,
                format!(
                    "The pod no longer belongs to the job it was admitted with: until it ends, its usage counts in ClusterQueue {:?} in addition to the job's",
                    record.cluster_queue
                ),
            ),
            LabelledQueue::Named(queue) => Note::warning(
                event::NOT_ADMITTED,
                format!(
                    "The pod runs without being admitted (it names LocalQueue {queue:?}, and no owner of it is admitted): its usage counts from now on"
                ),
            ),
            LabelledQueue::None | LabelledQueue::Invalid(_) => Note::warning(
                event::NOT_ADMITTED,
                format!(
                    "The pod runs without being admitted (no owner of it is admitted): its usage counts in ClusterQueue {:?} from now on",
                    record.cluster_queue
                ),
            ),
        };
        Some((record, note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_their_turn() {
        let mut own = OwnUsage::default();
        assert!(own.take_due(2).is_empty());
        let start = Moment::now();
        for pod in ["a", "b", "c", "d", "e"] {
            own.note(&pod.into(), true, start);
        }
        let mut seen: Vec<Uid> = (0..3).flat_map(|_| own.take_due(2)).collect();
        seen.sort_unstable();
        assert_eq!(seen.concat(), "abcde");
        own.note(&"a".into(), false, start);
        assert_eq!(own.take_due(9).len(), 4);
    }

    #[test]
    fn usage_of_its_own_is_recorded_after_a_while() {
        let mut own = OwnUsage::default();
        let (pod, start) = (Uid::from("a"), Moment::now());
        own.note(&pod, true, start);
        assert!(!own.is_lasting(&pod, start));
        let later = start.after(WATCH_LAG);
        own.note(&pod, true, later);
        assert!(own.is_lasting(&pod, later));
        own.note(&pod, false, later);
        own.note(&pod, true, later);
        assert!(!own.is_lasting(&pod, later));
    }
}
