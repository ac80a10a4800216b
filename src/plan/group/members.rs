//! The pods that make up a group: which of them count, whether all exist and can be admitted, and what pod sets they are.
//! What follows from that is planned in `plan/group.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_kinds::pod::PodPhase;
use sluice_kinds::problem::summarize;
use sluice_kinds::view::PodSetView;

use crate::cache::{PodKey, PodRecord, WorkloadRecord};
use crate::plan::workload;

/// How many pods of a group exist, and how many it has.
pub fn present(pods: &[(&PodKey, &PodRecord)], record: &WorkloadRecord) -> (usize, usize) {
    let recorded = || {
        let counts = record.spec.pod_sets.iter().map(|set| i64::from(set.count));
        u32::try_from(counts.sum::<i64>()).unwrap_or_default()
    };
    let first = pods.first().and_then(|(_, first)| first.group());
    let total = first.map_or_else(recorded, |group| group.total);
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let present = counted(pods, total).into_iter();
    (present.filter(|(_, pod)| !pod.deleting).count(), total)
}

/// Whether the group can be admitted: it is complete, is what its Workload says, and no other gate
/// is left on any of its pods.
pub fn is_ready(pods: &[(&PodKey, &PodRecord)], record: &WorkloadRecord) -> bool {
    let Some(group) = pods.first().and_then(|(_, first)| first.group()) else {
        return false;
    };
    let total = usize::try_from(group.total).unwrap_or(usize::MAX);
    let counted = counted(pods, total);
    let is_free = counted
        .iter()
        .all(|(_, pod)| !pod.is_gated_elsewhere() && !pod.deleting);
    counted.len() == total && is_free && asks_for(pods, total, record)
}

/// The gates of others on the pods that make up the group: while there are some, it can't be admitted.
pub fn gates_left<'a>(pods: &[(&'a PodKey, &'a PodRecord)]) -> BTreeSet<&'a str> {
    let group = pods.first().and_then(|(_, first)| first.group());
    let total = group.map_or(0, |group| {
        usize::try_from(group.total).unwrap_or(usize::MAX)
    });
    let pods = counted(pods, total).into_iter().map(|(_, pod)| pod);
    let gated = pods.filter(|pod| pod.is_gated_elsewhere());
    let gates = gated.flat_map(|pod| &pod.other_gates);
    gates.map(|gate| &**gate).collect()
}

/// Whether the pods ask for just what the Workload says.
pub(super) fn asks_for(
    pods: &[(&PodKey, &PodRecord)],
    total: usize,
    record: &WorkloadRecord,
) -> bool {
    pod_sets(pods, total).is_ok_and(|sets| workload::covers(record, &sets, workload::Fit::Exact))
}

/// The pods that make up the group: the oldest that have not failed.
pub(super) fn counted<'a>(
    pods: &[(&'a PodKey, &'a PodRecord)],
    total: usize,
) -> Vec<(&'a PodKey, &'a PodRecord)> {
    pods.iter()
        .filter(|(_, pod)| pod.phase != PodPhase::Failed)
        .take(total)
        .copied()
        .collect()
}

/// The pod sets of a group: pods that ask for the same play the same role.
pub(super) fn pod_sets(
    pods: &[(&PodKey, &PodRecord)],
    total: usize,
) -> Result<Vec<PodSetView>, String> {
    let mut sets: BTreeMap<String, PodSetView> = BTreeMap::new();
    for (key, pod) in counted(pods, total) {
        let asks = pod
            .asks
            .as_ref()
            .as_ref()
            .map_err(|problems| format!("Pod {}: {}", key.name, summarize(problems)))?;
        let role = role_of(pod);
        let set = sets.entry(role.clone()).or_insert_with(|| PodSetView {
            name: role.as_str().into(),
            count: 0,
            ..asks.clone()
        });
        set.count = set.count.saturating_add(1);
    }
    Ok(sets.into_values().collect())
}

/// The name of the pod set of a pod in a group: a digest of what it asks for. A pod that was released
/// may ask for more by what its flavors put into it; it carries the name that it was released by.
pub fn role_of(pod: &PodRecord) -> String {
    match (&pod.queue_gate, &pod.pod_set, pod.asks.as_ref()) {
        (None, Some(role), _) => role.to_string(),
        (_, _, Ok(asks)) => asks.role(),
        (_, _, Err(_)) => String::new(),
    }
}
