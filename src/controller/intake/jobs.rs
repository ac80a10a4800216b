//! Taking in what is seen of Job-like objects: which are looked after by themselves, and which go with
//! an object above them. That is decided once, and not anew because an owner goes before its children.

use std::sync::Arc;

use sluice_crds::ConditionType;
use sluice_crds::reasons::event;
use sluice_gates::GroupKind;
use sluice_kinds::hold::Hold;
use sluice_kinds::{CompiledKind, HeldMark};

use crate::cache::children::Child;
use crate::cache::pod::OwnerRef;
use crate::cache::pod::{Before, deletion_seen};
use crate::cache::{JobKey, JobRecord, Subject, Uid};
use crate::controller::Controller;
use crate::controller::gates::count_changes;
use crate::controller::wakes::Wake;
use crate::plan::Note;
use crate::plan::children::lineage::{Known, Lineage, is_pod, lineage};
use crate::plan::engine_state::time;
use crate::plan::evictions::unused_quota::unseen_pods_for;
use crate::plan::job::left_suspended;

impl Controller {
    pub(in crate::controller) fn job_applied(&mut self, key: &JobKey, mut record: JobRecord) {
        if self.objects.is_stale_job(key, &record) {
            return;
        }
        if let Some(before) = self.objects.job(key)
            && before.uid != record.uid
        {
            let replaced = before.uid.clone();
            self.job_gone(key, Some(&replaced));
        }
        let before = Before::of(self.objects.job(key).map(|known| &known.deleted_at));
        let deleted_at = record.deleted_at;
        record.deleted_at = deleted_at.map(|at| deletion_seen(at, before, self.now.wall));
        (self.objects.creation_times).see(key, &mut record, self.now.wall);
        // Whatever an edit says of what is being deleted, that it waited is remembered: Sluice itself starts nothing then.
        let known = self.objects.job(key);
        if record.deleting && known.is_some_and(JobRecord::is_marked_held) {
            record.held_mark = Some(HeldMark::Held);
        }
        self.sort_in(key, record);
    }

    /// Takes in a job, or an object that goes with one.
    pub(in crate::controller) fn sort_in(&mut self, key: &JobKey, record: JobRecord) {
        let uid = record.uid.clone();
        let subject = Subject::Job(uid.clone());
        // What of a JobKind that is deleted takes nothing from others is not looked after any more.
        if self.kinds.is_retiring(&key.kind) && !self.is_counted(&record) {
            self.forget_child(key);
            return self.leave(key, &uid);
        }
        let has_workload =
            self.objects.workload_of(&subject).is_some() || self.writes.of(&subject).is_some();
        if has_workload {
            self.forget_child(key);
            return self.job_seen(key, record);
        }
        if !record.is_managed() {
            return self.sort_in_unmarked(key, record);
        }
        let shows_pods = self.shows_pods_of_owner(key, &record);
        let child = |record: JobRecord, is_decided, waits_for| Child {
            uid: record.uid.clone(),
            owner: record.owner.clone(),
            is_marked: true,
            is_decided,
            waits_for,
            record: Some(Box::new(record)),
        };
        let was_root = self.objects.job(key).is_some();
        let was_child = self.objects.children.get(key).is_some_and(|child| {
            child.is_decided && child.uid == uid && child.owner == record.owner
        });
        match self.lineage(key, &record) {
            // Its owner has gone first: it will follow, or lose the reference.
            Lineage::Orphan if was_child => self.objects.children.stop_waiting(key),
            Lineage::Root | Lineage::Orphan => {
                self.forget_child(key);
                self.job_seen(key, record);
            }
            // What it was it stays until more is known.
            Lineage::Unknown(_) | Lineage::Unreadable(_) if was_root => self.job_seen(key, record),
            Lineage::Unknown(owner) => {
                // Before everything is listed it may only not be known yet.
                if self.phase.has_listed() {
                    self.owners.look_up(&owner, &key.namespace);
                }
                let waits_for = Some(owner.uid.clone());
                self.child_seen(key, child(record, was_child, waits_for));
            }
            // It may belong to an object that is queued, or may not: it is neither suspended nor queued
            // until that can be told.
            Lineage::Unreadable(owner) => {
                if !was_child {
                    self.tell_unreadable_owner(key, &record, &owner);
                }
                let waits_for = Some(owner.uid.clone());
                self.child_seen(key, child(record, was_child, waits_for));
            }
            Lineage::Child => {
                self.leave(key, &uid);
                if !was_child {
                    self.tell_held_child(key, &record);
                }
                self.check_excess(key, &record);
                let mut child = child(record, true, None);
                if !shows_pods {
                    child.record = None;
                }
                self.child_seen(key, child);
            }
        }
    }

    /// Takes in an object without queue and gates. The controller of a queued object may have made it: then it draws
    /// on what that one was admitted with.
    fn sort_in_unmarked(&mut self, key: &JobKey, record: JobRecord) {
        self.tell_left_suspended(key, &record);
        self.leave(key, &record.uid);
        let Some(maker) = self.maker(key, &record) else {
            return self.forget_child(key);
        };
        let shows_pods = maker.has_pods_of_children();
        // Before everything is listed, the objects above it may only not be known yet.
        let is_open = !self.phase.has_listed() || !self.kinds.has_listed(&maker.name);
        let is_child = !is_open && self.lineage(key, &record) == Lineage::Child;
        if is_child {
            self.check_excess(key, &record);
        } else {
            self.excess_children.forget(key);
        }
        let own = self.kinds.compiled(&key.kind);
        let has_children = own.is_some_and(|own| own.makes_objects());
        let is_needed = is_child && (has_children || self.excess_children.has(key));
        if !(shows_pods || is_open || is_needed) {
            return self.forget_child(key);
        }
        let child = Child {
            uid: record.uid.clone(),
            owner: record.owner.clone(),
            is_marked: false,
            is_decided: is_child,
            waits_for: None,
            record: (shows_pods || is_open).then(|| Box::new(record)),
        };
        self.child_seen(key, child);
    }

    /// Tells of a child that a webhook held, which sees no further than its owner, that it is for its
    /// owner to release it.
    fn tell_held_child(&mut self, key: &JobKey, job: &JobRecord) {
        let owner = job.owner.as_deref().filter(|o| self.declared(o).is_none());
        let is_held = job.suspended == Some(true) && !self.recorder.is_quiet();
        let object = self.reference(key, &job.uid);
        let (Some(owner), Some(object), true) = (owner, object, is_held) else {
            return;
        };
        let text = format!(
            "Not queued by itself, and left suspended: its owner, {} {:?}, belongs to a queued object and resumes it",
            owner.kind, owner.name
        );
        let note = Note::normal(event::LEFT_TO_OWNER, text);
        self.recorder.repeat(object, note);
    }

    /// Tells of an object about which nothing is done, as its owner can't be read.
    fn tell_unreadable_owner(&mut self, key: &JobKey, job: &JobRecord, owner: &OwnerRef) {
        let Some(object) = self.reference(key, &job.uid) else {
            return;
        };
        let text = format!(
            "Neither queued nor suspended: its owner, {} {:?}, can't be read, and may belong to a queued object; give Sluice the right to get it by a ClusterRole with the label sluice.dev/aggregate-to-controller: \"true\"",
            owner.kind, owner.name
        );
        // Once a minute while it is so: the event counts.
        let note = Note::warning(event::OWNER_UNREADABLE, text);
        self.recorder.repeat(object, note);
    }

    /// Tells of a job that nothing holds any more, and that its user suspended, that it stays so.
    fn tell_left_suspended(&mut self, key: &JobKey, job: &JobRecord) {
        let was_ours = self.objects.job(key).is_some_and(JobRecord::is_managed);
        let kind = self.kinds.compiled(&key.kind).filter(|_| was_ours);
        let note = kind.and_then(|kind| left_suspended(job, &kind));
        if let Some(note) = note.filter(|_| !job.deleting) {
            self.tell(key, &job.uid, note);
        }
    }

    /// Decides about jobs that waited for what an owner is.
    pub(in crate::controller) fn decide_again(&mut self, keys: Vec<JobKey>) {
        for key in keys {
            let child = self.objects.children.get(&key);
            if let Some(record) = child.and_then(|child| child.record.clone()) {
                self.sort_in(&key, *record);
            }
        }
    }

    /// What a job is to what is above it, as far as that is known.
    pub(in crate::controller) fn lineage(&self, key: &JobKey, job: &JobRecord) -> Lineage {
        let Some(kind) = self.kinds.compiled(&key.kind) else {
            return Lineage::Root;
        };
        let own = GroupKind::new(kind.group.as_str(), kind.kind.as_str());
        let makes = |owner: &OwnerRef, below: &GroupKind| {
            let declared = self.declared(owner)?;
            Some(declared.makes(&below.group, &below.kind) || is_pod(below))
        };
        lineage(own, job.owner.as_ref(), makes, |owner| {
            let Some(found) = self.known_key(&owner.uid) else {
                return self.owners.known(owner, &key.namespace);
            };
            // A reference is what its writer says: the UID alone makes no owner of a stranger.
            let is_kind = self.declared(owner).is_some_and(|d| *d.name == *found.kind);
            if found.namespace != key.namespace || *found.name != *owner.name || !is_kind {
                return Known::Gone;
            }
            match self.objects.children.get(found) {
                Some(child) => Known::There {
                    is_marked: child.is_marked,
                    owner: child.owner.clone(),
                },
                None => Known::Managed,
            }
        })
    }

    /// The JobKind of what a reference names, if there is one.
    pub(in crate::controller) fn declared(&self, owner: &OwnerRef) -> Option<Arc<CompiledKind>> {
        let (group, _) = owner.group_version();
        self.kinds.declared(group, &owner.kind)
    }

    /// Where an object of a managed kind is that is known by its UID.
    fn known_key(&self, uid: &str) -> Option<&JobKey> {
        let child = || self.objects.children.of(uid).map(|(key, _)| key);
        self.objects.job_key(uid).or_else(child)
    }

    /// An object that there is nothing to do for any more.
    pub(in crate::controller) fn leave(&mut self, key: &JobKey, uid: &Uid) {
        if self.objects.remove_job(key).is_some() {
            let subject = Subject::Job(uid.clone());
            self.agenda.unplan(&subject);
            self.sync_workload(&subject);
            self.prune(&subject);
        }
    }

    /// A job that is looked after by itself is like this.
    pub(in crate::controller) fn job_seen(&mut self, key: &JobKey, mut record: JobRecord) {
        self.fill_from_child(key, &mut record);
        self.count_devices(key, &mut record);
        let uid = record.uid.clone();
        let before = self.objects.job(key);
        record.see_labels(before);
        let older = before.filter(|known| known.revision < record.revision);
        let notes = older.map_or_else(Vec::new, |known| {
            let (gates, metrics) = (&mut self.cluster.gates, &self.metrics);
            let mut notes = count_changes(
                gates,
                metrics,
                known.into(),
                (&record).into(),
                self.now.wall,
            );
            let is_last = known.gates.is_held() && !record.gates.is_held();
            if is_last && notes.is_empty() {
                notes.push(Note::normal(
                    event::GATE_LIFTED,
                    "The last gate was removed",
                ));
            }
            notes
        });
        if let Some(resource) = self.kinds.resource(&key.kind) {
            let object = (resource.kind.as_str(), &*key.namespace, &*key.name);
            self.tell_gates(object, before.map(Into::into), &(&record).into());
        }
        let is_other_for_pods = before.is_none_or(|known| {
            known.gates != record.gates
                || known.queue != record.queue
                || known.released != record.released
        });
        let is_unsuspended = record.suspended == Some(false);
        let is_released =
            before.is_some_and(|known| known.suspended == Some(true)) && is_unsuspended;
        let tells = self.tells_of_release(key, &record);
        let told = tells || before.is_some_and(|known| self.tells_of_release(key, known));
        let subject = Subject::Job(uid.clone());
        let stops_unnoticed = !told
            && match before {
                Some(known) => self.stops_unnoticed(&subject, known, &record),
                None => self.was_just_stopped(&subject, &record),
            };
        if self.objects.put_job(key.clone(), record) {
            if tells {
                self.orphans.expect_no_pods(&uid);
            }
            if is_other_for_pods {
                let pods = self.objects.pods.children(&key.namespace, &uid);
                self.agenda.plan_all(pods.into_iter().map(Subject::Pod));
            }
            for note in notes {
                self.tell(key, &uid, note);
            }
            if is_unsuspended {
                self.writes.seen_unsuspended(&subject);
            }
            if is_released {
                self.tell_released(&subject);
            }
            if stops_unnoticed {
                self.expect_pods(uid);
            }
            self.agenda.synced(&subject);
            self.sync_workload(&subject);
            self.agenda.plan(subject);
        }
    }

    /// Whether an object is suspended that has the pods of a job, and whose status has not told yet that its controller has
    /// noticed its release. That one may be making the pods, and its status still says that it is suspended, as before.
    fn stops_unnoticed(&self, subject: &Subject, known: &JobRecord, seen: &JobRecord) -> bool {
        known.suspended != Some(true)
            && seen.suspended == Some(true)
            && self.may_have_unknown_pods(subject, known)
    }

    /// The same of the child of a job: the status of that one tells only that its controller has seen its own release.
    pub(in crate::controller) fn child_stops_unnoticed(
        &self,
        owner: &Subject,
        known: &JobRecord,
        seen: &JobRecord,
    ) -> bool {
        let tells = tells_of_its_release(known) || tells_of_its_release(seen);
        !tells && self.stops_unnoticed(owner, known, seen)
    }

    /// Whether the leader before this one may have suspended a job a moment ago, before its controller had noticed its release.
    fn was_just_stopped(&self, subject: &Subject, seen: &JobRecord) -> bool {
        let workload = self.objects.workload_of(subject).map(|(_, record)| record);
        let evicting = workload.filter(|record| record.is_evicting());
        let evicted = evicting.and_then(|record| record.true_since(ConditionType::Evicted));
        let is_recent = |at| unseen_pods_for(time(at), time(self.now.wall)).is_some();
        seen.suspended == Some(true) && evicted.is_some_and(is_recent)
    }

    /// A job that is to stop may have pods for a moment that no watch has shown.
    pub(in crate::controller) fn expect_pods(&mut self, uid: Uid) {
        let subject = Subject::Job(uid.clone());
        let wait = self.orphans.expect_pods(uid, self.now.moment);
        self.wake_after(wait, Wake::Plan(subject));
    }

    /// Whether the status of a job, or of the object that has its pods, tells that its controller runs it.
    fn tells_of_release(&self, key: &JobKey, job: &JobRecord) -> bool {
        let kind = self.kinds.compiled(&key.kind);
        if !kind.is_some_and(|kind| kind.has_pods_of_children()) {
            return tells_of_its_release(job);
        }
        let child = self.child_with_pods(key, &job.uid);
        child.is_some_and(|(_, child, _)| tells_of_its_release(child))
    }

    /// Whether a job runs by its own controller, which may have made more pods than are known. Where the garbage
    /// collector deletes the pods before the job, all of them have gone.
    fn may_have_unknown_pods(&self, subject: &Subject, job: &JobRecord) -> bool {
        let runs = job.hold == Hold::Suspend
            && !job.deletes_pods
            && job.finished().is_none()
            && (job.suspended != Some(true)
                || self.writes.may_be_unsuspended(subject, self.now.moment));
        let admission = self.engine.admission(&subject.id());
        runs && admission.is_some_and(|admission| {
            let counts = admission.pod_sets.iter();
            let pods: u64 = counts.map(|set| u64::from(set.count)).sum();
            u64::try_from(self.live_pods(subject)).is_ok_and(|known| known < pods)
        })
    }

    pub(in crate::controller) fn job_gone(&mut self, key: &JobKey, uid: Option<&str>) {
        self.excess_children.gone(key, uid);
        self.objects.creation_times.forget(key, uid);
        let child = self.objects.children.get(key);
        if child.is_some_and(|child| uid.is_none_or(|uid| *child.uid == *uid)) {
            self.forget_child(key);
        }
        let Some(known) = self.objects.job(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        let uid = known.uid.clone();
        let subject = Subject::Job(uid.clone());
        if self.may_have_unknown_pods(&subject, known) {
            self.orphans.expect_pods(uid.clone(), self.now.moment);
        }
        // While its pods run, what it holds is not free.
        self.objects
            .remember_gone(uid.clone(), key.namespace.clone());
        self.objects.remove_job(key);
        // Its Workload, if it holds quota, is deleted: until then the quota stays in use.
        self.agenda.plan(subject.clone());
        self.sync_workload(&subject);
        self.prune(&subject);
    }
}

/// Whether the status of a job tells that its controller runs it; or whether it never would.
fn tells_of_its_release(job: &JobRecord) -> bool {
    let reading = job.reading.as_ref();
    reading.is_ok_and(|reading| reading.active || !reading.refusals.is_empty())
}
