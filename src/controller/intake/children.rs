//! Objects whose pods are those of a child: what they ask for is read in the child, which their own
//! controller makes, and written there too. That child is never suspended or released by Sluice.

use std::sync::Arc;

use sluice_kinds::view::PodSetView;
use sluice_kinds::{CompiledKind, Problem};

use crate::cache::children::Child;
use crate::cache::{JobKey, JobRecord, Subject, Uid};
use crate::controller::Controller;

impl Controller {
    /// Whether the pods of the object's owner are those of the object, by what it says of itself.
    pub(in crate::controller) fn shows_pods_of_owner(&self, key: &JobKey, job: &JobRecord) -> bool {
        let maker = self.maker(key, job);
        maker.is_some_and(|maker| maker.has_pods_of_children())
    }

    /// The JobKind of the object's owner, by what it says of itself, if that kind makes objects like it.
    pub(in crate::controller) fn maker(
        &self,
        key: &JobKey,
        job: &JobRecord,
    ) -> Option<Arc<CompiledKind>> {
        let owner = job.owner.as_ref().and_then(|owner| self.declared(owner))?;
        let own = self.kinds.compiled(&key.kind)?;
        owner.makes(&own.group, &own.kind).then_some(owner)
    }

    /// Decides what objects without queue and gates are that came before everything was listed.
    pub(in crate::controller) fn decide_unmarked(&mut self) {
        for (key, record) in self.objects.children.unmarked() {
            self.sort_in(&key, record);
        }
    }

    /// Takes in an object that is not managed by itself.
    pub(in crate::controller) fn child_seen(&mut self, key: &JobKey, child: Child) {
        let known = self.objects.children.get(key);
        let known = known.filter(|known| known.uid == child.uid);
        let known = known.and_then(|known| known.record.as_ref());
        if let (Some(known), Some(record)) = (known, &child.record)
            && record.revision < known.revision
        {
            return;
        }
        let owner = child.owner.as_ref().map(|owner| owner.uid.clone());
        let records = known.zip(child.record.as_ref());
        let unseen_of = owner.clone().filter(|owner| {
            // An object in another namespace may say what it likes of its owner.
            let known_owner = self.objects.job_key(owner);
            let is_owned = known_owner.is_some_and(|owner| owner.namespace == key.namespace);
            let subject = Subject::Job(owner.clone());
            is_owned
                && records
                    .is_some_and(|(known, seen)| self.child_stops_unnoticed(&subject, known, seen))
        });
        self.objects.children.put(key.clone(), child);
        if let Some(owner) = unseen_of {
            self.expect_pods(owner);
        }
        self.child_changed(&key.namespace, owner);
    }

    /// Forgets that an object is not managed by itself.
    pub(in crate::controller) fn forget_child(&mut self, key: &JobKey) {
        self.excess_children.forget(key);
        if let Some(child) = self.objects.children.remove(key) {
            self.child_changed(&key.namespace, child.owner.map(|owner| owner.uid.clone()));
            let subject = Subject::Job(child.uid);
            if !self.objects.is_known(&subject) {
                self.recorder.forget(&subject);
            }
        }
    }

    /// Reads the pod sets of an object anew whose child has changed.
    pub(in crate::controller) fn child_changed(&mut self, namespace: &str, owner: Option<Uid>) {
        let key = owner.and_then(|uid| self.objects.job_key(&uid).cloned());
        // An object in another namespace may say what it likes of its owner.
        let key = key.filter(|key| *key.namespace == *namespace);
        let Some(key) = key else {
            return;
        };
        let kind = self.kinds.compiled(&key.kind);
        let record = self.objects.job(&key);
        let record = record.filter(|_| kind.is_some_and(|kind| kind.has_pods_of_children()));
        if let Some(record) = record.cloned() {
            self.job_seen(&key, record);
        }
    }

    /// Reads the pod sets of an object that has none of its own, in its child.
    pub(in crate::controller) fn fill_from_child(&self, key: &JobKey, record: &mut JobRecord) {
        let kind = self.kinds.compiled(&key.kind);
        if !kind.is_some_and(|kind| kind.has_pods_of_children()) {
            return;
        }
        let Ok(reading) = &mut record.reading else {
            return;
        };
        let mut children = self.children_with_pods(key, &record.uid);
        let first = children.next().map(|(_, child, _)| &child.reading);
        let others = children.next().map(|(place, ..)| place.name.clone());
        match (first, others) {
            (Some(_), Some(other)) => reading.pod_sets = Err(vec![many_children(&other)]),
            (Some(Ok(child)), None) => {
                // How many pods a child has its owner's controller says, which would set it right again.
                let pod_sets = child.pod_sets.clone();
                reading.pod_sets =
                    pod_sets.map(|sets| sets.iter().cloned().map(PodSetView::as_a_whole).collect());
                reading.ready.clone_from(&child.ready);
            }
            (Some(Err(problems)), None) => reading.pod_sets = Err(problems.clone()),
            (None, _) => reading.pod_sets = Err(vec![no_child()]),
        }
    }

    /// The child that has the pods of an object: where it is, what is known of it, how it is read. None
    /// if there are many: one of them may not be its controller's work.
    pub(in crate::controller) fn child_with_pods(
        &self,
        key: &JobKey,
        uid: &Uid,
    ) -> Option<(&JobKey, &JobRecord, Arc<CompiledKind>)> {
        let mut children = self.children_with_pods(key, uid);
        let only = children.next();
        only.filter(|_| children.next().is_none())
    }

    fn children_with_pods<'a>(
        &'a self,
        key: &JobKey,
        uid: &Uid,
    ) -> impl Iterator<Item = (&'a JobKey, &'a JobRecord, Arc<CompiledKind>)> {
        let owner = self.kinds.compiled(&key.kind);
        let namespace = key.namespace.clone();
        let children = self.objects.children.of_owner(uid);
        children.filter_map(move |(place, child)| {
            let kind = self.kinds.compiled(&place.kind)?;
            let record = child.record.as_deref()?;
            let counts = place.namespace == namespace
                && owner.as_ref()?.makes(&kind.group, &kind.kind)
                && self.kinds.has_listed(&place.kind)
                && !record.deleting;
            counts.then_some((place, record, kind))
        })
    }
}

fn many_children(other: &str) -> Problem {
    Problem::forbidden(
        "metadata.ownerReferences",
        format!(
            "several objects say that they have the pods of this object, {other:?} among them: delete the objects that its controller did not create"
        ),
    )
}

fn no_child() -> Problem {
    Problem::required(
        "spec",
        "its pod templates are in an object that its controller creates, and which does not exist",
    )
}
