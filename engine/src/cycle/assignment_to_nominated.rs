//! What is assigned to a workload once others were preempted for it, and which targets it needs for that.

use crate::api::queues::ClusterQueue;
use crate::api::quota::Borrowing;
use crate::cycle::fit_or_preempt::{Assigner, AssignmentResult};
use crate::flavor::flavor_assigner::max_borrowing_distance;
use crate::flavor::options::Slots;
use crate::flavor::ways::is_available_now;
use crate::preemption::fill_back::{fill_back, restore_all};
use crate::quota::view::View;

impl Assigner<'_> {
    /// What is assigned to a nominated workload. Others were preempted for it already: nobody is once more.
    pub(super) fn fit_nominated<'a>(
        &self,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
    ) -> Option<AssignmentResult<'a>> {
        let found = self.fit_in_any_way(slots, config, counts)?;
        let own = self.nominal_for_nominated(&found, slots, config, counts);
        own.or(Some(found))
    }

    /// What is assigned to a nominated workload that would borrow though nominal quota suffices: that was taken back for it,
    /// and whoever had borrowed it would return at once.
    fn nominal_for_nominated<'a>(
        &self,
        result: &AssignmentResult<'_>,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
    ) -> Option<AssignmentResult<'a>> {
        let may_take_back = self.policy.may_reclaim_in_cohort() && slots.have_other_ways();
        let distance = max_borrowing_distance(self.quota, self.node, result.requested());
        if !may_take_back || distance == 0 {
            return None;
        }
        let (node, borrowing) = (self.node, Borrowing::Forbidden);
        let counts = counts.to_vec();
        let own = slots.assign_in_any_way(self.quota, node, borrowing, config.fungibility, counts);
        self.without_preemption(own.ok()?, borrowing).ok()
    }

    /// Spares the targets that it will not need. Once it is nominated its flavors are assigned anew, with all that the
    /// targets free. For what it is then assigned some may be unneeded, or all.
    pub(super) fn spare_unneeded<'a>(
        &mut self,
        result: AssignmentResult<'a>,
        slots: &'a Slots,
        config: &ClusterQueue,
        counts: &[u32],
    ) -> AssignmentResult<'a> {
        let AssignmentResult::Preempts {
            mut requested,
            mut targets,
            preempts_for,
        } = result
        else {
            return result;
        };
        loop {
            for target in &targets {
                target.remove_usage(self.quota);
                target.stop(self.quota);
            }
            let anew = self.fit_nominated(slots, config, counts);
            for target in &targets {
                target.undo_stop(self.quota);
            }
            let Some(anew) = anew.filter(|anew| *anew.requested() != requested) else {
                let at_once = self.fit_nominated(slots, config, counts);
                restore_all(self.quota, &targets);
                if let Some(AssignmentResult::FitsNow(found)) = at_once
                    && is_available_now(self.quota, (self.node, slots.borrowing), &found.requested)
                {
                    return AssignmentResult::FitsNow(found);
                }
                return AssignmentResult::Preempts {
                    requested,
                    targets,
                    preempts_for,
                };
            };
            requested.clone_from(anew.requested());
            let (node, borrowing) = (self.node, slots.borrowing);
            fill_back(self.quota, &mut targets, |quota, _, _| {
                quota.are_all_available(View::Planned, node, &requested, borrowing)
            });
            if targets.is_empty() {
                let unaided = self.fit_nominated(slots, config, counts);
                return unaided.unwrap_or(AssignmentResult::WaitsForEvicted { requested });
            }
        }
    }
}
