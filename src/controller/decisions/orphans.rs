//! Workloads whose job is gone. One whose pods run on keeps its quota until they are gone
//! (`kubectl delete --cascade=orphan`); then it is deleted, as is one that waits or has finished. How such
//! pods are known again, after the garbage collector has taken their owner references, is said here too.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ApiResource;
use sluice_crds::reasons::event;
use sluice_gates::GroupKind;
use sluice_kinds::pod::PodMode;

use crate::api::events::reference;
use crate::api::fair_queue::FairQueue;
use crate::cache::workload::Owner;
use crate::cache::{PodKey, PodRecord, Subject, Uid, WATCH_LAG, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::expiring::Expiring;
use crate::controller::writes::in_flight::InFlightWrite;
use crate::controller::writes::send::pods_resource;
use crate::plan::{Note, Write};
use crate::process::clock::Moment;
use crate::process::hashing::HashSet;
use crate::process::invariants::violated;

/// Most Workloads without their job that are looked at again in a second: somebody may make thousands.
const LOOKS_MAX: usize = 200;

/// Jobs that are gone while their pods may run, or that no JobKind reads.
#[derive(Debug, Default)]
pub struct Orphans {
    waiting: FairQueue<Uid>,
    known: HashSet<Uid>,
    /// Jobs that are gone, or were suspended before their controller had noticed their release, and may have pods that
    /// no watch has shown.
    unseen: Expiring<Uid, ()>,
}

impl Orphans {
    /// A job is gone or suspended that ran, and not all of its pods are known: its controller may have made them a moment
    /// ago. Returns for how long they may be unseen.
    pub fn expect_pods(&mut self, uid: Uid, now: Moment) -> Duration {
        self.unseen.keep(uid, now, WATCH_LAG, ());
        WATCH_LAG
    }

    /// The status of a suspended job shows from now on what its controller does.
    pub fn expect_no_pods(&mut self, uid: &Uid) {
        self.unseen.remove(uid);
    }

    /// Whether pods of a job that is gone or suspended may run that no watch has shown.
    pub fn may_have_unseen_pods(&self, uid: &Uid, now: Moment) -> bool {
        self.unseen.left(uid, now).is_some()
    }

    /// One more.
    pub fn insert(&mut self, namespace: Arc<str>, uid: Uid) {
        if self.known.insert(uid.clone()) {
            self.waiting.push(namespace, uid);
        }
    }

    /// Takes out those that are to be looked at next, so many at a time. Namespaces take turns, and so do the
    /// jobs of each: a tenant with thousands of orphans delays no other's. Who is still an orphan is put in again.
    fn take_due(&mut self, max: usize) -> Vec<Uid> {
        let due: Vec<Uid> = std::iter::from_fn(|| self.waiting.pop())
            .take(max)
            .collect();
        for uid in &due {
            self.known.remove(uid);
        }
        due
    }
}

impl Controller {
    /// Workloads whose job was not in a complete list are looked at again.
    pub(in crate::controller) fn workloads_without_job(&mut self) {
        let orphans: Vec<Subject> = self
            .objects
            .workloads()
            .filter_map(|(_, workload)| workload.owner.as_ref())
            .filter(|owner| self.objects.job_of(&owner.subject).is_none())
            .map(|owner| owner.subject.clone())
            .collect();
        self.agenda.plan_all(orphans);
    }

    /// Plans a Workload whose job is gone.
    pub(in crate::controller) fn plan_orphan(&mut self, uid: &Uid) {
        let subject = &Subject::Job(uid.clone());
        // Nothing is left of it.
        let Some((key, record)) = self.objects.workload_of(subject) else {
            return;
        };
        if record.deleting {
            return;
        }
        let Some(owner) = record.owner.clone() else {
            return violated("the Workload of a job names it");
        };
        let (key, record) = (key.clone(), record.clone());
        let Some(resource) = self.resource_of_gone(uid, &owner) else {
            return self.tell_undeclared(uid, &key, &record, &owner);
        };
        let has_usage = self.holds_quota(subject);
        let live = if has_usage {
            self.live_pods(subject)
        } else {
            0
        };
        if 0 < live {
            self.note_orphan(uid);
            // Those that still name the job go with it.
            let left = self.orphaned_pods(subject).len();
            if 0 < left {
                self.tell_orphan(subject, &key, &record, left);
            }
            return;
        }
        let write = Write::DeleteWorkload {
            key,
            uid: record.uid.to_string(),
            unless: Some(owner),
        };
        self.send(InFlightWrite {
            subject: subject.clone(),
            write,
            resource,
            notes: Vec::new(),
        });
    }

    /// The resource of a job, if it is certain that the job is gone and that this is Sluice's business.
    fn resource_of_gone(&self, uid: &Uid, owner: &Owner) -> Option<ApiResource> {
        // Its reference to the job was taken from it, so that any kind may be the job's.
        if owner.is_nameless() {
            return self.kinds.all_settled(self.now.moment).then(pods_resource);
        }
        // That it is gone says a complete list, or a watch that may have ended since, with its CRD.
        let listed = self.kinds.listed_resource(&owner.group_kind);
        let seen_to_go = || {
            let is_gone = self.objects.is_gone(uid);
            is_gone.then(|| self.kinds.last_resource(&owner.group_kind))
        };
        // Its CRD went while no controller ran. The write makes sure of that once more.
        let unserved = || self.kinds.unserved_resource(&owner.group_kind);
        let resource = listed
            .or_else(|| seen_to_go().flatten())
            .or_else(unserved)?;
        // Of a kind whose JobKind is deleted only what holds quota is known.
        let GroupKind { group, kind } = &owner.group_kind;
        let holds_quota = self.holds_quota(&owner.subject);
        (holds_quota || self.kinds.is_read(group, kind)).then_some(resource)
    }

    fn tell_orphan(
        &mut self,
        subject: &Subject,
        key: &WorkloadKey,
        record: &WorkloadRecord,
        live: usize,
    ) {
        let text = format!(
            "The job was deleted, and {live} of its pods still run: its quota is freed when they are gone; delete them to free it"
        );
        let note = Note::warning(event::ORPHANED, text);
        self.tell_object(workload_reference(key, record), subject, note);
    }

    /// Tells of a job with quota that no JobKind reads: its end is not seen. Nothing else says so, so it is told again
    /// before the event is forgotten.
    fn tell_undeclared(
        &mut self,
        uid: &Uid,
        key: &WorkloadKey,
        record: &WorkloadRecord,
        owner: &Owner,
    ) {
        let GroupKind { group, kind } = &owner.group_kind;
        let is_read = owner.is_nameless() || self.kinds.is_read(group, kind);
        if is_read || !record.holds_quota() {
            return;
        }
        self.note_orphan(uid);
        let text = format!(
            "No valid JobKind declares {kind} of API group {group:?}: the quota of this Workload is not freed before its job is deleted, and the job can't be evicted; create or correct the JobKind, so that the quota is freed when the job ends"
        );
        let subject = &Subject::Job(uid.clone());
        self.recorder.expire(subject, self.now);
        let note = Note::warning(event::KIND_NOT_DECLARED, text);
        self.tell_object(workload_reference(key, record), subject, note);
    }

    /// Notes a job that is gone while its pods may run.
    pub(in crate::controller) fn note_orphan(&mut self, uid: &Uid) {
        // Where nothing says its namespace any more, the engine holds its quota for a moment.
        let namespace = self.objects.namespace_of_job(uid).cloned();
        self.orphans
            .insert(namespace.unwrap_or_default(), uid.clone());
    }

    /// Once a second: Workloads whose job is gone are looked at again. Their pods name no owner, so
    /// that what happens to those says nothing of these.
    pub(in crate::controller) fn look_after_orphans(&mut self) {
        for uid in self.orphans.take_due(LOOKS_MAX) {
            let subject = Subject::Job(uid.clone());
            if self.objects.job_key(&uid).is_none() && self.holds_quota(&subject) {
                self.note_orphan(&uid);
                self.agenda.sync(subject.clone());
                self.agenda.plan(subject);
            }
        }
    }

    /// The pods of a job that is gone or going, which do not belong to it any more. A pod names the job by the UID in
    /// one of its labels, as those of a Job do. One that does not may be of any Workload in its
    /// namespace that lacks its job and has such a pod set: it counts for each of them.
    pub(in crate::controller) fn orphaned_pods(
        &self,
        subject: &Subject,
    ) -> Vec<(&PodKey, &PodRecord)> {
        let Some((uid, namespace)) = self.leaves_pods(subject) else {
            return Vec::new();
        };
        let pods = &self.objects.pods;
        let workload = self.objects.workload_of(subject);
        let sets = workload.map_or(&[][..], |(_, record)| &record.spec.pod_sets);
        let may_be = (sets.iter())
            .flat_map(|set| pods.of_set(namespace, &set.name))
            .filter(|pod| pods.of(pod).is_some_and(|(_, pod)| !self.names_job(pod)));
        let found: BTreeSet<&Uid> = pods.naming(namespace, uid).chain(may_be).collect();
        let left = found.into_iter().filter_map(|pod| pods.of(pod));
        left.filter(|(key, pod)| self.may_be_left(key, pod))
            .collect()
    }

    /// A job that is gone or going and has left a pod behind, and which holds quota; and whether the pod is beyond what
    /// that was admitted with. The oldest pods come first: anybody can make more that say the same. Those that will be gone in
    /// a moment take no place from the others, and may be as many.
    pub(in crate::controller) fn left_by(
        &self,
        key: &PodKey,
        pod: &PodRecord,
    ) -> Option<(Subject, bool)> {
        if !self.may_be_left(key, pod) {
            return None;
        }
        let namespace = &key.namespace;
        let holds = |subject: &Subject| {
            let left_in = self.leaves_pods(subject).map(|(_, namespace)| namespace);
            left_in == Some(namespace) && self.holds_quota(subject)
        };
        let mut named = pod.named_uids.iter().cloned().map(Subject::Job);
        if let Some(named) = named.find(holds) {
            let places = self.places_left(&named, pod);
            let may_be_beyond = || self.naming(namespace, &named).nth(places).is_some();
            let counts = |other: &PodRecord| is_of_set_of(other, pod) && is_before(other, pod);
            let before = || self.left_pods(self.naming(namespace, &named), counts);
            let is_beyond = may_be_beyond() && places <= before().count();
            return Some((named, is_beyond));
        }
        let set = pod.pod_set.as_deref().filter(|_| !self.names_job(pod))?;
        let admitted = self.objects.admitted_with_set(namespace, set);
        let subjects = admitted.filter_map(|(_, record)| Some(&record.owner.as_ref()?.subject));
        let holders: Vec<&Subject> = subjects.filter(|subject| holds(subject)).collect();
        let first = *holders.first()?;
        // It may be of each of them: they take such pods one after the other.
        let of_set = self.objects.pods.of_set(namespace, set);
        let is_unnamed = |other: &PodRecord| is_before(other, pod) && !self.names_job(other);
        let mut before = self.left_pods(of_set, is_unnamed).count();
        for holder in holders {
            let counts = |other: &PodRecord| is_of_set_of(other, pod) && is_like(other, pod);
            let naming = self.left_pods(self.naming(namespace, holder), counts);
            let places = self.places_left(holder, pod).saturating_sub(naming.count());
            if before < places {
                return Some((holder.clone(), false));
            }
            before = before.saturating_sub(places);
        }
        Some((first.clone(), true))
    }

    /// How many pods of the set of `pod` a job was admitted with that is gone or going, without those that still belong to
    /// it or have ended for good.
    fn places_left(&self, subject: &Subject, pod: &PodRecord) -> usize {
        let record = self.objects.workload_of(subject).map(|(_, record)| record);
        let Some((record, set)) = record.zip(pod.pod_set.as_deref()) else {
            return usize::MAX;
        };
        let admission = record.status.admission.iter();
        let mut assignments = admission.flat_map(|admission| &admission.pod_set_assignments);
        let assigned = assignments.find(|assigned| *assigned.name == *set);
        let count = assigned.map_or(0, |assigned| u32::try_from(assigned.count).unwrap_or(0));
        let left = count.saturating_sub(record.reclaimed(set));
        let own = self.objects.pods_of(subject).into_iter();
        let own = own.filter(|(_, other)| {
            other.pod_set == pod.pod_set && self.may_run(other) && !other.is_soon_gone
        });
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        left.saturating_sub(own.count())
    }

    /// The pods that name a job by its UID.
    fn naming<'a>(
        &'a self,
        namespace: &Arc<str>,
        subject: &Subject,
    ) -> impl Iterator<Item = &'a Uid> {
        let pods = &self.objects.pods;
        let naming = subject.job().map(|uid| pods.naming(namespace, uid));
        naming.into_iter().flatten()
    }

    /// Those of these pods that jobs have left behind, and of which `counts` is so.
    fn left_pods<'a>(
        &'a self,
        pods: impl Iterator<Item = &'a Uid>,
        counts: impl Fn(&PodRecord) -> bool,
    ) -> impl Iterator<Item = &'a PodRecord> {
        let pods = pods.filter_map(|uid| self.objects.pods.of(uid));
        let left = pods.filter(move |(key, pod)| {
            let has_no_place = self.replaced_pods.contains(&pod.uid);
            counts(pod) && !has_no_place && self.may_be_left(key, pod)
        });
        left.map(|(_, pod)| pod)
    }

    /// The UID and namespace of a job that is gone or going: the garbage collector takes the references
    /// before the job goes.
    fn leaves_pods<'a>(&'a self, subject: &'a Subject) -> Option<(&'a Uid, &'a Arc<str>)> {
        let uid = subject.job()?;
        let job = self.objects.job_of(subject);
        if job.is_some_and(|(_, job)| !job.deleting) {
            return None;
        }
        Some((uid, self.objects.namespace_of_job(uid)?))
    }

    /// Whether a pod may be one that a job has left behind: it runs, and what it belongs to by now holds no quota.
    fn may_be_left(&self, key: &PodKey, pod: &PodRecord) -> bool {
        let is_of_another = || {
            let above = self.belongs_to(pod, &key.namespace);
            above.is_some_and(|above| {
                let job = self.objects.job_of(&above);
                self.holds_quota(&above) || job.is_some_and(|(_, job)| job.finished().is_some())
            })
        };
        pod.mode == PodMode::Child
            && pod.is_released()
            // What it holds is said by its own record.
            && pod.admitted.is_none()
            && !is_of_another()
    }

    /// Whether the labels of a pod name a job that is queued, by its UID.
    fn names_job(&self, pod: &PodRecord) -> bool {
        pod.named_uids.iter().any(|named| self.is_queued_job(named))
    }

    /// Whether a job is known by this UID, or what was queued for one.
    fn is_queued_job(&self, uid: &Uid) -> bool {
        let subject = Subject::Job(uid.clone());
        self.objects.job_key(uid).is_some()
            || self.objects.workload_of(&subject).is_some()
            || self.engine.admission(&subject.id()).is_some()
    }
}

fn is_of_set_of(one: &PodRecord, other: &PodRecord) -> bool {
    one.pod_set == other.pod_set
}

/// Whether both will be gone in a moment, or neither.
fn is_like(one: &PodRecord, other: &PodRecord) -> bool {
    one.is_soon_gone == other.is_soon_gone
}

/// Whether a pod comes before another one like it: the older one, or of those that will be gone in a moment the one that
/// was deleted later.
fn is_before(one: &PodRecord, other: &PodRecord) -> bool {
    let order = |pod: &PodRecord| {
        let deleted_at = pod.deleted_at.filter(|_| pod.is_soon_gone);
        (Reverse(deleted_at), pod.created, pod.uid.clone())
    };
    is_like(one, other) && order(one) < order(other)
}

/// A Workload, to tell something about.
fn workload_reference(key: &WorkloadKey, record: &WorkloadRecord) -> ObjectReference {
    let api_version = format!("{}/{}", sluice_crds::GROUP, sluice_crds::VERSION);
    let kind = (api_version.as_str(), "Workload");
    reference(kind, &key.namespace, &key.name, &record.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn() {
        let mut orphans = Orphans::default();
        assert!(orphans.take_due(2).is_empty());
        for uid in ["a", "b", "c", "d", "e"] {
            orphans.insert("blue".into(), uid.into());
        }
        let mut due = |max| {
            let due = orphans.take_due(max);
            for uid in &due {
                orphans.insert("blue".into(), uid.clone());
            }
            due.concat()
        };
        assert_eq!([due(2), due(2), due(2)], ["ab", "cd", "ea"]);
        assert_eq!(due(9), "bcdea");
    }

    #[test]
    fn a_namespace_with_many_delays_no_other() {
        let mut orphans = Orphans::default();
        for number in 0..1000 {
            orphans.insert("blue".into(), format!("blue-{number}").into());
        }
        orphans.insert("green".into(), "green".into());
        orphans.insert("red".into(), "red".into());
        assert_eq!(
            orphans.take_due(4),
            ["blue-0", "green", "red", "blue-1"].map(Uid::from)
        );
        // More namespaces than turns: the next ones are first the next time.
        orphans.insert("green".into(), "green".into());
        orphans.insert("red".into(), "red".into());
        assert_eq!(orphans.take_due(2), ["blue-2", "green"].map(Uid::from));
        assert_eq!(orphans.take_due(1), ["red"].map(Uid::from));
    }
}
