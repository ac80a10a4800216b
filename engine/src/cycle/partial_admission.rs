//! Partial admission: with how many pods a workload is admitted that does not fit as a whole. It never preempts, and
//! never waits for evicted workloads: that is for the fewest pods only.
//!
//! When it is tried is `fit_or_preempt.rs`.

use crate::api::flavor::FlavorFungibility;
use crate::api::workload::PodSet;
use crate::flavor::flavor_assigner::Assignment;
use crate::flavor::options::{Slots, fewest_pods};
use crate::quota::quota_tree::QuotaTree;
use crate::quota::view::NodeId;
use crate::workload::shape::Shape;

/// The assignment with the most pods that fits, found by bisection. Between the minimum and all pods, all
/// pod sets are reduced evenly. None if not even the minimum fits.
pub(super) fn largest_partial_assignment<'a>(
    slots: &'a Slots,
    quota: &QuotaTree,
    node: NodeId,
    fungibility: FlavorFungibility,
    shape: &Shape,
) -> Option<Assignment<'a>> {
    let assignment = |counts| {
        let assignment = slots.assign_in_any_way(quota, node, fungibility, counts);
        assignment
            .ok()
            .filter(|assignment| assignment.waits_at.is_none())
    };
    let spare = |pod_set: &PodSet| u64::from(pod_set.count.saturating_sub(fewest_pods(pod_set)));
    let most = shape
        .pod_sets
        .iter()
        .map(spare)
        .fold(0, u64::saturating_add);
    let counts = |less: u64| -> Vec<u32> {
        let count = |pod_set| {
            let product = u128::from(spare(pod_set)) * u128::from(less);
            let cut = product.checked_div(u128::from(most)).unwrap_or_default();
            let cut = u32::try_from(cut).unwrap_or(u32::MAX);
            pod_set.count.saturating_sub(cut)
        };
        shape.pod_sets.iter().map(count).collect()
    };
    let mut best = assignment(counts(most))?;
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low.midpoint(high);
        match assignment(counts(middle)) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle + 1,
        }
    }
    Some(best)
}
