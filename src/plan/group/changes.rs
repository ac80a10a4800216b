//! What the pods of an admitted group say by now, where it differs from what the group was admitted with: pods that a
//! controller has made again may ask for something else, be more or fewer, and name another queue; and the priority
//! class of pods may be another one. The writes that follow are in `plan/group.rs`.

use std::collections::BTreeMap;

use sluice_crds::WorkloadSpec;
use sluice_kinds::pod::{PodGroup, PodPhase};
use sluice_kinds::view::LabelledQueue;

use super::members::{asks_for, counted, role_of};
use crate::cache::{PodKey, PodRecord, WorkloadRecord};
use crate::plan::evictions::cause::Cause;
use crate::plan::workload::priority::{NoPriority, Priority};

/// What follows from what the pods say by now.
pub(super) enum GroupChange {
    /// The group is evicted, and queued as its pods are now.
    Evict(Cause),
    /// Its Workload has this spec, with another priority.
    Priority(WorkloadSpec),
}

/// What the pods of an admitted group say otherwise than it was admitted with, if they do. So many of them may run.
pub(super) fn change(
    pods: &[(&PodKey, &PodRecord)],
    live_pods: usize,
    record: &WorkloadRecord,
    priority: &dyn Fn(&PodRecord) -> Result<Priority, NoPriority>,
) -> Option<GroupChange> {
    let said = pods.first().and_then(|(_, first)| first.group())?;
    if live_pods == 0 && asks_otherwise(pods, record, said) {
        return Some(GroupChange::Evict(Cause::pods_changed()));
    }
    if record.unreadable.is_some() {
        return None;
    }
    let staying = staying(pods);
    let oldest = *staying.first()?;
    if record.is_made_again {
        // Before all of them are there, what the others will say is not known.
        let total = usize::try_from(oldest.group()?.total).unwrap_or(usize::MAX);
        let complete = staying.get(..total)?;
        // A pod that somebody else has put among them must not stop the others.
        if complete.iter().any(|pod| pod.owner.is_none()) {
            return None;
        }
        if is_another(record, complete) {
            return Some(GroupChange::Evict(Cause::pods_changed()));
        }
        let queue = &record.spec.queue_name;
        if complete.iter().all(|pod| names_other(pod, queue)) {
            return Some(GroupChange::Evict(Cause::pods_in_other_queue(queue)));
        }
    }
    of_other_class(record, oldest, priority).map(GroupChange::Priority)
}

/// The pods that make up the group from now on, the oldest first. As it is queued by its oldest pods, it would be again.
fn staying<'a>(pods: &[(&PodKey, &'a PodRecord)]) -> Vec<&'a PodRecord> {
    let pods = pods.iter().map(|(_, pod)| *pod);
    let staying = pods.filter(|pod| !pod.deleting && pod.phase != PodPhase::Failed);
    staying.collect()
}

/// Whether the pods of an admitted group of which none runs were all made again and ask for something else than it was
/// admitted with: none of them could be released.
fn asks_otherwise(
    pods: &[(&PodKey, &PodRecord)],
    record: &WorkloadRecord,
    group: &PodGroup,
) -> bool {
    let total = usize::try_from(group.total).unwrap_or(usize::MAX);
    let counted = counted(pods, total);
    let all_wait = counted
        .iter()
        .all(|(_, pod)| pod.queue_gate.is_some() && !pod.deleting);
    counted.len() == total && all_wait && !asks_for(pods, total, record)
}

/// Whether these pods, which are all of the group, are not those that it was admitted with: more or fewer, or some wait
/// in whose role there is no place. They would wait for ever, and what runs is of no use without them. A pod that runs and
/// has no such role was never held by Sluice: it counts by itself.
fn is_another(record: &WorkloadRecord, complete: &[&PodRecord]) -> bool {
    let sets = &record.spec.pod_sets;
    let admitted = sets.iter().map(|set| (set.name.as_str(), set.count));
    let admitted: BTreeMap<&str, usize> = admitted
        .map(|(name, count)| (name, usize::try_from(count).unwrap_or_default()))
        .collect();
    if admitted.values().sum::<usize>() != complete.len() {
        return true;
    }
    let mut roles: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for pod in complete {
        let (count, waits) = roles.entry(role_of(pod)).or_default();
        *count = count.saturating_add(1);
        *waits |= pod.waits_for_quota_alone();
    }
    let places = |role: &str| admitted.get(role).copied().unwrap_or_default();
    let mut roles = roles.iter();
    roles.any(|(role, (count, waits))| *waits && places(role) < *count)
}

/// Whether a pod names a queue, and not this one. One that names none any more would never be admitted again.
fn names_other(pod: &PodRecord, queue: &str) -> bool {
    matches!(&pod.queue, LabelledQueue::Named(named) if named != queue)
}

/// The spec of its Workload, if its oldest pod has the label of another priority class than the group was admitted with. A
/// class that has another value by now counts from the next admission on.
fn of_other_class(
    record: &WorkloadRecord,
    oldest: &PodRecord,
    priority: &dyn Fn(&PodRecord) -> Result<Priority, NoPriority>,
) -> Option<WorkloadSpec> {
    oldest.priority_class_label.as_ref()?;
    let Priority { value, class } = priority(oldest).ok()?;
    let is_other = class != record.spec.priority_class_ref;
    is_other.then(|| WorkloadSpec {
        priority: value,
        priority_class_ref: class,
        ..record.spec.clone()
    })
}
