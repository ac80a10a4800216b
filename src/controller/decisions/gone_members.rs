//! Pods of groups that have succeeded and are gone. No finalizer keeps them, and nothing takes their place: how many
//! there were is noted here until the Workload of the group records it (`plan/group.rs`).

use std::collections::BTreeMap;

use sluice_kinds::pod::PodPhase;

use crate::cache::{PodRecord, Subject};
use crate::controller::Controller;
use crate::plan::pod::pod_set_of;
use crate::process::hashing::HashMap;

/// How many pods of each group and role have succeeded and are gone.
#[derive(Debug, Default)]
pub struct GoneMembers(HashMap<Subject, BTreeMap<String, u32>>);

impl GoneMembers {
    /// Of each role.
    pub fn of(&self, group: &Subject) -> BTreeMap<String, u32> {
        self.0.get(group).cloned().unwrap_or_default()
    }

    /// The group is another one, or gone.
    pub fn forget(&mut self, group: &Subject) {
        self.0.remove(group);
    }
}

impl Controller {
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
        let roles = self.gone_members.0.entry(group.clone()).or_default();
        let count = roles.entry(role.to_string()).or_default();
        *count = recorded.max(*count).saturating_add(1);
    }
}
