//! Workloads whose job is gone. One whose pods run on keeps its quota until they are gone
//! (`kubectl delete --cascade=orphan`); then it is deleted, as is one that waits or has finished. How such
//! pods are known again, after the garbage collector has taken their owner references, is said here too.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::ApiResource;
use sluice_engine::WorkloadId;
use sluice_kinds::pod::PodMode;

use crate::cache::pods::Root;
use crate::cache::workload::{Owner, group_key};
use crate::cache::{PodKey, PodRecord, Uid, WorkloadKey, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::intake::pods::pods_resource;
use crate::controller::writes::flights::Flight;
use crate::plan::{Note, Write};

/// Most Workloads without their job that are looked at again in a second: somebody may make thousands.
const LOOKS_MAX: usize = 200;

/// Workloads whose job is gone while its pods may run, by the UID of the job.
#[derive(Debug, Default)]
pub struct Orphans {
    uids: BTreeSet<Uid>,
    /// The one that was looked at last.
    last: Option<Uid>,
}

impl Orphans {
    /// One more.
    pub fn insert(&mut self, uid: Uid) {
        self.uids.insert(uid);
    }

    fn remove(&mut self, uid: &Uid) {
        self.uids.remove(uid);
    }

    /// Those that are to be looked at next: all in turn, so many at a time.
    fn due(&mut self, max: usize) -> Vec<Uid> {
        let from = self.last.take().map_or(Unbounded, Excluded);
        let after = self.uids.range((from.clone(), Unbounded));
        let before = match &from {
            Excluded(last) => Some(self.uids.range(..=last.clone())),
            Included(_) | Unbounded => None,
        };
        let due = after.chain(before.into_iter().flatten());
        let due: Vec<Uid> = due.take(max).cloned().collect();
        self.last = due.last().cloned();
        due
    }
}

impl Controller {
    /// Plans a Workload whose job is gone.
    pub(in crate::controller) fn plan_orphan(&mut self, uid: &Uid) {
        let Some((key, record)) = self.objects.workload_of(uid) else {
            return;
        };
        let (Some(owner), false) = (record.job.clone(), record.deleting) else {
            return;
        };
        let Some(resource) = self.resource_of_gone(uid, &owner) else {
            return;
        };
        let (key, record) = (key.clone(), record.clone());
        let has_usage = self.holds_quota(uid);
        let live = if has_usage { self.live_pods(uid) } else { 0 };
        if 0 < live {
            self.orphans.insert(uid.clone());
            // Those that still name the job go with it.
            let left = self.orphaned_pods(uid).len();
            if 0 < left {
                self.tell_orphan(uid, &key, &record, left);
            }
            return;
        }
        let write = Write::DeleteWorkload {
            key,
            uid: record.uid.to_string(),
            unless: Some(owner),
        };
        self.send(Flight {
            subject: uid.clone(),
            write,
            resource,
            notes: Vec::new(),
        });
    }

    /// The resource of a job, if it is certain that the job is gone and that this is Sluice's business.
    fn resource_of_gone(&self, uid: &Uid, owner: &Owner) -> Option<ApiResource> {
        // Its reference to the job was taken from it, so that any kind may be the job's.
        if owner.is_nameless() {
            return self.kinds.all_settled().then(pods_resource);
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
        let (group, kind) = &owner.group_kind;
        (self.holds_quota(uid) || self.kinds.is_read(group, kind)).then_some(resource)
    }

    fn tell_orphan(&mut self, uid: &Uid, key: &WorkloadKey, record: &WorkloadRecord, live: usize) {
        let object = ObjectReference {
            api_version: Some(format!("{}/{}", sluice_crds::GROUP, sluice_crds::VERSION)),
            kind: Some("Workload".to_owned()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: Some(record.uid.to_string()),
            ..ObjectReference::default()
        };
        let text = format!(
            "The job was deleted, and {live} of its pods still run: its quota is freed when they are gone; delete them to free it"
        );
        self.tell_object(object, uid, Note::warning("Orphaned", text));
    }

    /// Once a second: Workloads whose job is gone are looked at again. Their pods name no owner, so
    /// that what happens to those says nothing of these.
    pub(in crate::controller) fn look_after_orphans(&mut self) {
        let due = self.orphans.due(LOOKS_MAX);
        for uid in due {
            if self.objects.job_key(&uid).is_none() && self.holds_quota(&uid) {
                self.recount.insert(uid.clone());
                self.dirty.insert(uid);
            } else {
                self.orphans.remove(&uid);
            }
        }
    }

    /// The pods of a job that is gone or going, which name no owner any more. A pod names the job by the UID in
    /// one of its labels, as those of a Job do. One that does not may be of any Workload in its
    /// namespace that lacks its job and has such a pod set: it counts for each of them.
    pub(in crate::controller) fn orphaned_pods(&self, uid: &Uid) -> Vec<(&PodKey, &PodRecord)> {
        let job = self
            .objects
            .job_key(uid)
            .and_then(|key| self.objects.job(key));
        // The garbage collector takes the references before the job goes.
        if group_key(uid).is_some() || job.is_some_and(|job| !job.deleting) {
            return Vec::new();
        }
        let Some(namespace) = self.objects.namespace_of(uid) else {
            return Vec::new();
        };
        let pods = &self.objects.pods;
        let names_another = |pod: &PodRecord| {
            let mut named = pod.named_uids.iter();
            named.any(|named| self.is_subject(named))
        };
        let workload = self.objects.workload_of(uid);
        let sets = workload.map_or(&[][..], |(_, record)| &record.spec.pod_sets);
        let may_be = (sets.iter())
            .flat_map(|set| pods.of_set(namespace, &set.name))
            .filter(|pod| pods.of(pod).is_some_and(|(_, pod)| !names_another(pod)));
        let found: BTreeSet<&Uid> = pods.naming(namespace, uid).chain(may_be).collect();
        let left = found.into_iter().filter_map(|pod| pods.of(pod));
        left.filter(|(key, pod)| {
            pod.mode == PodMode::Child
                && pod.is_released()
                // What it holds is said by its own record.
                && pod.admitted.is_none()
                && !matches!(self.root_of(pod, &key.namespace), Root::Uid(_))
        })
        .collect()
    }

    /// Whether a job is known by this UID, or what was queued for one.
    fn is_subject(&self, uid: &Uid) -> bool {
        self.objects.job_key(uid).is_some()
            || self.objects.workload_of(uid).is_some()
            || self
                .engine
                .admission(&WorkloadId::new(uid.clone()))
                .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turn() {
        let mut orphans = Orphans::default();
        assert!(orphans.due(2).is_empty());
        for uid in ["a", "b", "c", "d", "e"] {
            orphans.insert(uid.into());
        }
        let mut due = || {
            orphans
                .due(2)
                .iter()
                .map(ToString::to_string)
                .collect::<String>()
        };
        assert_eq!([due(), due(), due()], ["ab", "cd", "ea"]);
        orphans.remove(&"b".into());
        orphans.remove(&"a".into());
        let all: Vec<_> = orphans.due(9).iter().map(ToString::to_string).collect();
        assert_eq!(all, ["c", "d", "e"]);
    }
}
