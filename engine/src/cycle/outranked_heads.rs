//! Heads whose exact rank is worse than their estimate, so that another one may come first; and when their rank is
//! worked out again. How heads compare is `head_ordering.rs`.

use std::collections::BTreeSet;

use crate::api::queues::AdmissionScope;
use crate::cohort::reopening::ClassRef;
use crate::cycle::context::{Cycle, QUEUE_IN_TREE};
use crate::cycle::head_ordering::{BorrowingPath, Head, HeadRank};
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};

impl Cycle<'_> {
    /// Whether a head with an estimated rank comes after another head, now that its exact rank is known.
    pub(super) fn is_outranked_by_another(
        &mut self,
        class: &ClassRef,
        rank: &HeadRank,
        found: &HeadRank,
    ) -> bool {
        let BorrowingPath::Fair(path) = &found.path else {
            let next = self.progress.ranked.first_key_value();
            return rank < found && next.is_some_and(|(next, _)| next < found);
        };
        let head = Head {
            class: class.clone(),
            order: found.order.queue_order.clone(),
        };
        let (quota, fair_ordering) = (&self.tree.quota, &mut self.progress.fair_ordering);
        fair_ordering.insert(quota, class.node, head, (path.clone(), found.order.clone()));
        let comes_first = fair_ordering.comes_first(quota, class.node, (path, &found.order));
        if comes_first {
            fair_ordering.remove(quota, class.node);
        }
        !comes_first
    }

    /// The usage or the reservations of a queue have changed.
    pub(super) fn note_usage_of(&mut self, queue: NodeId) {
        self.progress
            .fair_ordering
            .note_usage_of(&self.tree.quota, queue);
    }

    /// Puts a head back with its exact rank. `usage` is what it requests, if only unused quota decides what
    /// it gets.
    pub(super) fn insert_behind(
        &mut self,
        class: ClassRef,
        rank: HeadRank,
        usage: Option<RequestedUsage>,
    ) {
        let queue = class.node;
        // If it does not fit any more when its turn comes, another class of its queue may have a better
        // rank.
        let (Some(queue_heads), Some(node)) =
            (self.progress.heads.get(&queue), self.tree.queues.at(queue))
        else {
            self.check(false, QUEUE_IN_TREE);
            return;
        };
        let has_others = queue_heads.eligible.len() > 1 || queue_heads.scan_from.is_some();
        let is_by_usage = node.config.admission_scope == AdmissionScope::ByUsage;
        let (quota, above_quota) = (&self.tree.quota, queue_heads.above_quota);
        let best = || BorrowingPath::of(self.settings, quota, queue, above_quota);
        let could_be_better = is_by_usage || best() < rank.path;
        if could_be_better && (has_others || usage.is_none()) {
            self.progress.may_improve.insert(queue, usage);
        }
        if matches!(rank.path, BorrowingPath::Fair(_)) {
            // The fair ordering contains it already.
            return self.set_head_rank(queue, &rank);
        }
        let order = rank.order.queue_order.clone();
        self.insert_head(Head { class, order }, rank);
    }

    /// Takes the queues whose rank may have improved.
    pub(super) fn take_improved(&mut self) -> BTreeSet<NodeId> {
        let quota = &self.tree.quota;
        let has_improved = |queue: &NodeId, usage: &mut Option<RequestedUsage>| {
            let usage = usage.as_ref();
            !usage.is_some_and(|usage| quota.all_fit(View::Planned, *queue, usage))
        };
        let improved = self.progress.may_improve.extract_if(.., has_improved);
        improved.map(|(queue, _)| queue).collect()
    }
}
