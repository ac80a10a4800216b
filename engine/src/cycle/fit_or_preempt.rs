//! What can be assigned to one pending workload: all of it now, all of it after others have stopped, or a
//! part of it.

use crate::api::names::LocalQueueKey;
use crate::api::preemption::Preemption;
use crate::api::queues::ClusterQueue;
use crate::api::workload::PodSet;
use crate::flavor::flavor_assigner::{
    Assignment, PreemptionOracle, SimulatedPreemption, max_borrowing_distance,
};
use crate::flavor::options::{Slots, fewest_pods, is_reducible};
use crate::preemption::preemptor::Preemptor;
use crate::preemption::search::find_targets;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::Target;
use crate::queue::cluster_queue::ClusterQueueId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{Borrowing, NodeId, View};
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

/// The result of an assignment.
pub(crate) enum AssignmentResult<'a> {
    /// It fits now.
    FitsNow(Assignment<'a>),
    /// It will fit when evicted workloads and these targets have stopped. Without targets it only waits for
    /// evicted workloads.
    FitsLater(RequestedUsage, Vec<Target>),
}

impl AssignmentResult<'_> {
    /// The usage that it requests, now or later.
    pub(crate) fn requested(&self) -> &RequestedUsage {
        match self {
            Self::FitsNow(assignment) => &assignment.requested,
            Self::FitsLater(requested, _) => requested,
        }
    }
}

/// Assigns flavors to a pending workload: with unused quota, or by preemption.
pub(crate) struct Assigner<'a> {
    pub(crate) quota: &'a mut QuotaTree,
    pub(crate) snapshot: PreemptionSnapshot<'a>,
    pub(crate) cluster_queue: ClusterQueueId,
    pub(crate) node: NodeId,
    pub(crate) policy: Preemption,
    pub(crate) order: &'a QueueOrder,
    /// In its own queue, only workloads of this LocalQueue are candidates; none means any.
    pub(crate) local_queue: Option<&'a LocalQueueKey>,
}

impl Assigner<'_> {
    /// Works out what can be assigned, if anything.
    pub(crate) fn assign<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        shape: &Shape,
    ) -> Option<AssignmentResult<'a>> {
        let all: Vec<u32> = shape.pod_sets.iter().map(|set| set.count).collect();
        if let Ok(assignment) = slots.assign(self, self.node, config.fungibility, all.clone()) {
            let assignment = match self.without_preemption(assignment, slots.borrowing) {
                Ok(result) => return Some(result),
                Err(assignment) => assignment,
            };
            if let Some(targets) = self.targets(&assignment.requested, slots.borrowing) {
                return Some(AssignmentResult::FitsLater(assignment.requested, targets));
            }
        }
        // The targets of several pod sets may not suffice together, or leave no quota to a later pod set.
        // Other flavors may still fit without preemption.
        if self.policy.is_enabled()
            && let Ok(assignment) =
                slots.assign(&mut &*self.quota, self.node, config.fungibility, all)
            && let Ok(result) = self.without_preemption(assignment, slots.borrowing)
        {
            return Some(result);
        }
        if !shape.pod_sets.iter().any(is_reducible) {
            return None;
        }
        let mut assignment = |counts| {
            let assignment = slots.assign(&mut &*self.quota, self.node, config.fungibility, counts);
            assignment
                .ok()
                .filter(|assignment| assignment.waits_at.is_none())
        };
        largest_partial_assignment(shape, &mut assignment).map(AssignmentResult::FitsNow)
    }

    /// The result without preemption; the assignment itself if it requires preemption.
    fn without_preemption<'a>(
        &self,
        assignment: Assignment<'a>,
        borrowing: Borrowing,
    ) -> Result<AssignmentResult<'a>, Assignment<'a>> {
        if assignment.waits_at.is_none() {
            return Ok(AssignmentResult::FitsNow(assignment));
        }
        if (self.quota).are_all_available(
            View::Planned,
            self.node,
            &assignment.requested,
            borrowing,
        ) {
            return Ok(AssignmentResult::FitsLater(
                assignment.requested,
                Vec::new(),
            ));
        }
        Err(assignment)
    }

    fn targets(&mut self, requested: &RequestedUsage, borrowing: Borrowing) -> Option<Vec<Target>> {
        if !self.policy.is_enabled() {
            return None;
        }
        let preemptor = Preemptor {
            cluster_queue: self.cluster_queue,
            node: self.node,
            policy: self.policy,
            order: self.order,
            local_queue: self.local_queue,
            requested,
            borrowing,
        };
        find_targets(self.snapshot, self.quota, preemptor)
    }
}

impl PreemptionOracle for Assigner<'_> {
    fn quota_tree(&self) -> &QuotaTree {
        self.quota
    }

    fn check(&mut self, is_met: bool, invariant: &str) {
        self.quota.check(is_met, invariant);
    }

    fn simulate_preemption(
        &mut self,
        requested: &RequestedUsage,
        borrowing: Borrowing,
    ) -> Option<SimulatedPreemption> {
        let targets = self.targets(requested, borrowing)?;
        for target in &targets {
            target.remove_usage(self.quota);
        }
        let distance = max_borrowing_distance(self.quota, self.node, requested);
        for target in &targets {
            target.restore_usage(self.quota);
        }
        let is_own = |target: &Target| target.candidate.common_ancestor.is_none();
        Some(SimulatedPreemption {
            distance,
            costs_own: targets.iter().any(is_own),
        })
    }
}

/// The assignment with the most pods that fits, found by bisection. Between the minimum and all pods, all
/// pod sets are reduced evenly.
fn largest_partial_assignment<'a>(
    shape: &Shape,
    assignment: &mut dyn FnMut(Vec<u32>) -> Option<Assignment<'a>>,
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
