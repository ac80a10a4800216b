//! Pods of groups that are gone. Of those that had succeeded: no finalizer keeps them, and nothing takes their place, so
//! how many there were is noted here until the Workload of the group records it (`plan/group.rs`). And where none is left
//! of an admitted group: since when, and whether the object is still there that they belonged to.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_kinds::pod::PodPhase;

use crate::cache::pods::Root;
use crate::cache::{PodRecord, Subject, Uid};
use crate::controller::Controller;
use crate::plan::group::Absence;
use crate::plan::pod::pod_set_of;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// What is noted about the pods of admitted groups.
#[derive(Debug, Default)]
pub struct GoneMembers {
    /// How many pods of each group and role have succeeded and are gone.
    succeeded: HashMap<Subject, BTreeMap<String, u32>>,
    /// The object that the pods of a group belong to, where a controller makes them again.
    makers: HashMap<Subject, Uid>,
    /// Since when such a group has no pods.
    empty_since: HashMap<Subject, Moment>,
}

impl GoneMembers {
    /// How many have succeeded of each role.
    pub fn of(&self, group: &Subject) -> BTreeMap<String, u32> {
        self.succeeded.get(group).cloned().unwrap_or_default()
    }

    /// The group is another one, or gone.
    pub fn forget(&mut self, group: &Subject) {
        self.succeeded.remove(group);
        self.makers.remove(group);
        self.empty_since.remove(group);
    }
}

impl Controller {
    /// Notes whose the pods of an admitted group are that a controller makes again, and since when there are none.
    pub(in crate::controller) fn note_absence(
        &mut self,
        group: &Subject,
        namespace: &Arc<str>,
    ) -> Absence {
        let workload = self.objects.workload_of(group).map(|(_, record)| record);
        if !workload.is_some_and(|record| record.is_made_again && record.holds_quota()) {
            return Absence::default();
        }
        let pods = self.objects.pods_by_age(group).into_iter();
        let mut members = pods.filter(|(_, pod)| !self.has_own_usage(&pod.uid));
        let oldest = members.next().map(|(_, pod)| pod);
        let owner = oldest.map(|pod| (self.root_of(pod, namespace), pod.owner.clone()));
        let now = self.now.moment;
        let noted = &mut self.gone_members;
        let since = if owner.is_some() {
            noted.empty_since.remove(group);
            now
        } else {
            *noted.empty_since.entry(group.clone()).or_insert(now)
        };
        match owner {
            Some((Root::Uid(uid), _)) => {
                noted.makers.insert(group.clone(), uid);
            }
            // It has to be known before it is gone.
            Some((Root::Unknown(uid), direct)) if !noted.makers.contains_key(group) => {
                self.owners.ask(&uid, direct.as_ref(), namespace);
            }
            Some(_) | None => {}
        }
        let maker = self.gone_members.makers.get(group).cloned();
        let maker = maker.map(Subject::Job);
        Absence {
            lasted: now.since(since),
            maker_is_gone: maker.is_some_and(|maker| {
                let job = self.objects.job_of(&maker);
                job.is_none_or(|(_, job)| job.deleting)
            }),
        }
    }

    /// A pod is gone: if it was of an admitted group and had succeeded, that counts.
    pub(in crate::controller) fn note_gone_member(&mut self, pod: &PodRecord, group: &Subject) {
        let workload = self.objects.workload_of(group).map(|(_, record)| record);
        let admitted = workload.filter(|record| record.status.admission.is_some());
        let Some(record) = admitted.filter(|record| !record.is_finished()) else {
            self.gone_members.forget(group);
            return;
        };
        let Some(role) = pod_set_of(pod, group).filter(|_| pod.phase == PodPhase::Succeeded) else {
            return;
        };
        let recorded = record.reclaimed(&role);
        let roles = self
            .gone_members
            .succeeded
            .entry(group.clone())
            .or_default();
        let count = roles.entry(role.to_string()).or_default();
        *count = recorded.max(*count).saturating_add(1);
    }
}
