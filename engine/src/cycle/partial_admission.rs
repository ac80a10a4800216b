//! Partial admission: with how many pods a workload is admitted that does not get all. When it is tried is
//! `fit_or_preempt.rs`.

use crate::api::workload::PodSet;
use crate::flavor::flavor_assigner::Assignment;
use crate::flavor::options::fewest_pods;
use crate::workload::shape::Shape;

/// The assignment with the most pods of those that are found for some numbers of pods, by bisection, where at least
/// `less` pods are left out. Between the minimum and all pods, all pod sets are reduced evenly. None if nothing is
/// found for the minimum.
pub(super) fn largest_assignment<'a>(
    shape: &Shape,
    less: u64,
    assignment: impl Fn(Vec<u32>) -> Option<Assignment<'a>>,
) -> Option<Assignment<'a>> {
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
    let (mut low, mut high) = (less, most);
    while low < high {
        let middle = low.midpoint(high);
        match assignment(counts(middle)) {
            Some(found) => (best, high) = (found, middle),
            None => low = middle + 1,
        }
    }
    Some(best)
}
