//! Quota that is held and can't be used: since when, and for how long a job that can't be released keeps it
//! (`ClusterQueue.spec.reservation`). That the time is up is decided by the engine (`engine/src/state/evictions.rs`).
//! How long who gave quota back backs off is in `requeue_backoff.rs`.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::{ConditionType, Reservation};
use sluice_engine::Time;

use crate::cache::{PodRecord, WATCH_LAG, WorkloadRecord};

/// How long a job that can't be released keeps its quota where its ClusterQueue says nothing.
const BLOCKED_DEFAULT: Duration = Duration::from_mins(1);
/// A release that has not been refused for so long is not tried any more: refused ones are tried again
/// after 36 s at most.
pub const REFUSAL_NEWS: Duration = Duration::from_secs(45);

/// How long the release of an admitted job may be refused.
pub fn release_timeout(reservation: Option<&Reservation>) -> Duration {
    reservation.map_or(BLOCKED_DEFAULT, timeout)
}

/// How long quota may be unused once all pods have had nodes; none: for ever.
pub fn recovery_timeout(reservation: &Reservation) -> Option<Duration> {
    let seconds = reservation.recovery_timeout_seconds?;
    Some(Duration::from_secs(
        u64::try_from(seconds).unwrap_or(0).max(1),
    ))
}

/// Since when an admitted Workload holds quota that its pods don't use: one of them has waited for a node
/// since then, or, where pods should be, there have been none at all (`empty_since`).
pub fn unused_since<'a>(
    record: &WorkloadRecord,
    pods: impl Iterator<Item = &'a PodRecord>,
    empty_since: Option<Timestamp>,
) -> Option<Timestamp> {
    let admitted = record.true_since(ConditionType::Admitted)?;
    let waiting = pods.filter_map(pod_unused_since).chain(empty_since).min()?;
    Some(waiting.max(admitted))
}

/// Whether as many pods of an admitted Workload have, or had until they ended, nodes as it was admitted with.
pub fn all_have_nodes<'a>(
    record: &WorkloadRecord,
    pods: impl Iterator<Item = &'a PodRecord>,
) -> bool {
    let assignments = record.status.admission.iter();
    let assignments = assignments.flat_map(|admission| &admission.pod_set_assignments);
    let wanted = assignments.map(|set| {
        let count = u32::try_from(set.count).unwrap_or_default();
        count.saturating_sub(record.reclaimed(&set.name))
    });
    let wanted = wanted.fold(0, u32::saturating_add);
    let with_node = pods.filter(|pod| pod.is_released() && pod.is_bound).count();
    0 < wanted && usize::try_from(wanted).is_ok_and(|wanted| wanted <= with_node)
}

/// Whether what is unused since then is so only since a time at which the Workload would have been evicted if its
/// pods had had no nodes before.
pub fn is_later(unused_since: Timestamp, admitted: Timestamp, reservation: &Reservation) -> bool {
    let for_long = SignedDuration::try_from(timeout(reservation)).unwrap_or(SignedDuration::MAX);
    for_long < unused_since.duration_since(admitted)
}

/// Since when a pod that does not wait for quota has waited for a node, if it does. Of a job that waits suspended the pods
/// are made when it is admitted: those with gates of others use its quota no more than those without a node.
pub fn pod_unused_since(pod: &PodRecord) -> Option<Timestamp> {
    let waits = pod.is_live() && pod.queue_gate.is_none() && !pod.is_bound && !pod.deleting;
    waits.then(|| pod_usage_since(pod))?
}

/// Since when a pod holds quota that was released by itself: what was never gated does since it was made.
pub fn pod_usage_since(pod: &PodRecord) -> Option<Timestamp> {
    let admitted = pod.recorded_admission();
    let recorded = admitted.map(|admitted| admitted.at.0).or(pod.created);
    recorded.map(|at| pod.times.since(at))
}

/// Since when an admitted Workload holds quota.
pub fn usage_since(record: &WorkloadRecord) -> Option<Timestamp> {
    record.true_since(ConditionType::QuotaReserved)
}

/// For so long pods may run that no watch has shown, because of an admission or a deletion at `since`: the job and its
/// Workload may go at once. None once all are known.
pub fn unseen_pods_for(since: Time, now: Time) -> Option<Duration> {
    let left = WATCH_LAG.checked_sub(now.since(since))?;
    (!left.is_zero()).then_some(left)
}

fn timeout(reservation: &Reservation) -> Duration {
    Duration::from_secs(
        u64::try_from(reservation.timeout_seconds)
            .unwrap_or(0)
            .max(1),
    )
}

#[cfg(test)]
mod tests;
