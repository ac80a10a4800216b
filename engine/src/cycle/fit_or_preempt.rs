//! What can be assigned to one pending workload: all of it now, all of it after others have stopped, a part of it now
//! (`partial_admission.rs`), or else its fewest pods after others have stopped.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::flavor::FlavorFungibility;
use crate::api::names::LocalQueueKey;
use crate::api::preemption::Preemption;
use crate::api::queues::ClusterQueue;
use crate::api::quota::Borrowing;
use crate::cycle::partial_admission::largest_assignment;
use crate::flavor::flavor_assigner::{
    Assignment, PreemptionOracle, SimulatedPreemption, max_borrowing_distance,
};
use crate::flavor::fungibility::{prefers_borrowing, tries_next_flavor};
use crate::flavor::options::{Slots, fewest_pods, is_reducible};
use crate::preemption::candidates::own_candidates;
use crate::preemption::fill_back::restore_all;
use crate::preemption::preemptor::Preemptor;
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::preemption::target::Target;
use crate::preemption::target_search::find_targets;
use crate::queue::cluster_queue::ClusterQueueId;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};
use crate::state::nominations::PreemptsFor;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

/// The result of an assignment.
pub(crate) enum AssignmentResult<'a> {
    /// It fits now.
    FitsNow(Assignment<'a>),
    /// It will fit when evicted workloads have stopped.
    WaitsForEvicted { requested: RequestedUsage },
    /// It will fit when these targets have stopped, too.
    Preempts {
        requested: RequestedUsage,
        targets: Vec<Target>,
        preempts_for: PreemptsFor,
    },
}

impl AssignmentResult<'_> {
    /// The usage that it requests, now or later.
    pub(crate) fn requested(&self) -> &RequestedUsage {
        match self {
            Self::FitsNow(assignment) => &assignment.requested,
            Self::WaitsForEvicted { requested } | Self::Preempts { requested, .. } => requested,
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
    /// Whether it is nominated: others were preempted for it.
    pub(crate) is_nominated: bool,
}

impl<'s> Assigner<'s> {
    /// Works out what can be assigned, if anything.
    pub(crate) fn assign<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        shape: &Shape,
    ) -> Option<AssignmentResult<'a>> {
        let all: Vec<u32> = shape.pod_sets.iter().map(|set| set.count).collect();
        if let Some(result) = self.assign_counts(slots, config, &all, PreemptsFor::All) {
            return Some(result);
        }
        if !shape.pod_sets.iter().any(is_reducible) {
            return None;
        }
        // A part never waits for evicted workloads: that is for the fewest pods only.
        let part = largest_assignment(shape, 1, |counts| {
            let (node, borrowing) = (self.node, slots.borrowing);
            let found =
                slots.assign_in_any_way(self.quota, node, borrowing, config.fungibility, counts);
            found.ok().filter(|found| found.waits_at.is_none())
        });
        if let Some(part) = part {
            return Some(AssignmentResult::FitsNow(part));
        }
        // Not even the fewest pods fit now. Others are preempted for no more than these.
        self.assign_fewest(slots, config, shape)
    }

    /// Works out for how many pods a workload need not borrow that has preempted others for its fewest. With more it
    /// would use what the others need to return, and what they may reclaim at once.
    pub(crate) fn assign_without_borrowing<'a>(
        &self,
        slots: &'a Slots,
        config: &ClusterQueue,
        shape: &Shape,
    ) -> Option<AssignmentResult<'a>> {
        let own = largest_assignment(shape, 0, |counts| {
            let (node, borrowing) = (self.node, Borrowing::Forbidden);
            let found =
                slots.assign_in_any_way(self.quota, node, borrowing, config.fungibility, counts);
            found.ok()
        });
        self.without_preemption(own?, Borrowing::Forbidden).ok()
    }

    /// Works out what can be assigned to its fewest pods.
    pub(crate) fn assign_fewest<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        shape: &Shape,
    ) -> Option<AssignmentResult<'a>> {
        let fewest: Vec<u32> = shape.pod_sets.iter().map(fewest_pods).collect();
        self.assign_counts(slots, config, &fewest, PreemptsFor::Fewest)
    }

    /// Works out what can be assigned to so many pods of each set.
    fn assign_counts<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
        preempts_for: PreemptsFor,
    ) -> Option<AssignmentResult<'a>> {
        if self.is_nominated
            && let Some(found) = self.fit_nominated(slots, config, counts)
        {
            return Some(found);
        }
        let result = self.fit_or_preempt(slots, config, counts, preempts_for)?;
        Some(self.spare_unneeded(result, slots, config, counts))
    }

    /// The same for a workload that is not nominated, with all targets by which it then fits.
    fn fit_or_preempt<'a>(
        &mut self,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
        preempts_for: PreemptsFor,
    ) -> Option<AssignmentResult<'a>> {
        let (node, borrowing) = (self.node, slots.borrowing);
        let found = slots.assign(self, node, borrowing, config.fungibility, counts.to_vec());
        // The targets of several pod sets may not suffice together, or leave no quota to a later pod set.
        // Other flavors may still fit without preemption. So may others for the earlier pod sets.
        let other = match found {
            Err(place) if !self.policy.is_enabled() => {
                let node = (node, borrowing);
                let other = slots.assign_in_other_ways(self.quota, node, counts.to_vec(), place);
                other
                    .ok()
                    .and_then(|other| self.without_preemption(other, borrowing).ok())
            }
            Err(_) => self.fit_in_any_way(slots, config, counts),
            Ok(assignment) => {
                let assignment = match self.without_preemption(assignment, borrowing) {
                    Ok(result) => return Some(result),
                    Err(assignment) => assignment,
                };
                // What an early pod set prefers may leave a later one only what others have to be preempted for.
                let may_spare = slots.early_choice_matters && tries_next_flavor(config.fungibility);
                let other = may_spare.then(|| self.fit_in_any_way(slots, config, counts));
                if let Some(Some(found)) = &other
                    && self.is_rather_taken(found, config.fungibility)
                {
                    return other.flatten();
                }
                let result = self.with_preemption(assignment.requested, borrowing, preempts_for);
                if result.is_some() {
                    return result;
                }
                other.unwrap_or_else(|| self.fit_in_any_way(slots, config, counts))
            }
        };
        other.or_else(|| self.preempt_in_other_ways(slots, counts, preempts_for))
    }

    /// What can be assigned to so many pods without preemption, in any combination of flavors.
    pub(super) fn fit_in_any_way<'a>(
        &self,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
    ) -> Option<AssignmentResult<'a>> {
        let (node, borrowing) = (self.node, slots.borrowing);
        let found = slots.assign_in_any_way(
            self.quota,
            node,
            borrowing,
            config.fungibility,
            counts.to_vec(),
        );
        self.without_preemption(found.ok()?, borrowing).ok()
    }

    /// Whether a combination of flavors that requires no preemption is taken before the preferred one that does.
    fn is_rather_taken(
        &self,
        other: &AssignmentResult<'_>,
        fungibility: FlavorFungibility,
    ) -> bool {
        let distance = || max_borrowing_distance(self.quota, self.node, other.requested());
        prefers_borrowing(fungibility) || distance() == 0
    }

    /// Preempts others in another combination of flavors than [`Slots::assign`] prefers: its choice for one slot after
    /// the other may leave nothing to a later slot, or have to borrow, and then reclaims nothing.
    ///
    /// First nominal quota is taken back that the own queue leaves. Only where it leaves too little in each combination,
    /// own workloads that may be preempted do not count: then nominal quota is taken back from them, too, or they make
    /// enough available by themselves.
    fn preempt_in_other_ways<'a>(
        &mut self,
        slots: &'a Slots,
        counts: &[u32],
        preempts_for: PreemptsFor,
    ) -> Option<AssignmentResult<'a>> {
        if !self.policy.is_enabled() || !slots.have_other_ways() {
            return None;
        }
        let reclaims = self.policy.may_reclaim_in_cohort();
        if reclaims && let Some(found) = self.preempt_within(slots, counts, preempts_for, &[], true)
        {
            return Some(found);
        }
        let own = self.own_evictable(slots);
        if own.is_empty() {
            return None;
        }
        if reclaims
            && let Some(found) = self.preempt_within(slots, counts, preempts_for, &own, true)
        {
            return Some(found);
        }
        self.preempt_within(slots, counts, preempts_for, &own, false)
    }

    /// Preempts others in the combination of flavors that lacks least, of those that would be within nominal quota
    /// without these own workloads, or else for which enough would be available.
    fn preempt_within<'a>(
        &mut self,
        slots: &'a Slots,
        counts: &[u32],
        preempts_for: PreemptsFor,
        without: &[Target],
        is_nominal: bool,
    ) -> Option<AssignmentResult<'a>> {
        let (node, borrowing) = (self.node, slots.borrowing);
        let by_shares = self.snapshot.settings.fair_sharing.is_some();
        for own in without {
            own.remove_usage(self.quota);
        }
        let quota = &*self.quota;
        let most = |cell| {
            let available = quota.available(View::Planned, node, cell, borrowing);
            let usage = quota.usage(View::Planned, node, cell);
            let nominal = quota.nominal(node, cell).minus(usage);
            match (is_nominal, by_shares) {
                (false, _) => available,
                (true, false) => nominal,
                // By shares only what it lacks has to be.
                (true, true) => nominal.max(available),
            }
        };
        let most: BTreeMap<FlavorResourceId, Amount> =
            slots.cells().map(|cell| (cell, most(cell))).collect();
        restore_all(self.quota, without);
        let is_accepted =
            |cell, amount| most.get(&cell).is_some_and(|most: &Amount| amount <= *most);
        let (at, counts) = ((node, borrowing), counts.to_vec());
        let lacking_with = if is_nominal {
            Borrowing::Forbidden
        } else {
            borrowing
        };
        let found =
            slots.assign_least_lacking(self.quota, at, lacking_with, counts, is_accepted)?;
        match self.without_preemption(found, borrowing) {
            Ok(result) => Some(result),
            Err(found) => self.with_preemption(found.requested, borrowing, preempts_for),
        }
    }

    /// The workloads of its own queue that it may preempt, as far as they use any of its flavors.
    fn own_evictable(&mut self, slots: &Slots) -> Vec<Target> {
        let none = RequestedUsage::new();
        let preemptor = self.preemptor(&none, slots.borrowing);
        let own = own_candidates(self.snapshot, &preemptor, &slots.cells().collect());
        let target = |candidate| self.snapshot.target(self.quota, candidate);
        own.into_iter().map(target).collect()
    }

    /// The result without preemption; the assignment itself if it requires preemption.
    pub(super) fn without_preemption<'a>(
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
            return Ok(AssignmentResult::WaitsForEvicted {
                requested: assignment.requested,
            });
        }
        Err(assignment)
    }

    /// The result with preemption; none without targets.
    fn with_preemption<'a>(
        &mut self,
        requested: RequestedUsage,
        borrowing: Borrowing,
        preempts_for: PreemptsFor,
    ) -> Option<AssignmentResult<'a>> {
        let targets = self.targets(&requested, borrowing)?;
        self.check(
            !targets.is_empty(),
            "whoever fits without targets only waits for evicted workloads",
        );
        Some(AssignmentResult::Preempts {
            requested,
            targets,
            preempts_for,
        })
    }

    fn targets(&mut self, requested: &RequestedUsage, borrowing: Borrowing) -> Option<Vec<Target>> {
        if !self.policy.is_enabled() {
            return None;
        }
        let preemptor = self.preemptor(requested, borrowing);
        find_targets(self.snapshot, self.quota, preemptor)
    }

    fn preemptor<'a>(&self, requested: &'a RequestedUsage, borrowing: Borrowing) -> Preemptor<'a>
    where
        's: 'a,
    {
        Preemptor {
            cluster_queue: self.cluster_queue,
            node: self.node,
            policy: self.policy,
            order: self.order,
            local_queue: self.local_queue,
            requested,
            borrowing,
        }
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
        restore_all(self.quota, &targets);
        let is_above_nominal =
            (requested.iter()).any(|(cell, amount)| *amount > self.quota.nominal(self.node, *cell));
        let by_shares = self.snapshot.settings.fair_sharing.is_some();
        let may_borrow = self.policy.may_preempt_others_while_borrowing(by_shares);
        Some(SimulatedPreemption {
            distance,
            costs_own: targets.iter().any(Target::is_own),
            is_last_resort: is_above_nominal && !may_borrow && targets.iter().all(Target::is_own),
        })
    }
}
