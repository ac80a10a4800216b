//! The data that a cycle works on.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::api::event::Decision;
use crate::api::names::WorkloadId;
use crate::api::preemption::Preemption;
use crate::api::queues::ClusterQueue;
use crate::api::settings::Settings;
use crate::api::time::Time;
use crate::cohort::reopening::ClassRef;
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::cycle::fit_or_preempt::{Assigner, AssignmentResult};
use crate::cycle::progress::CycleProgress;
use crate::flavor::options::{FlavorOptions, Slots, flavor_options};
use crate::preemption::snapshot::PreemptionSnapshot;
use crate::queue::admission_order::AdmissionOrder;
use crate::queue::cluster_queue::{ClusterQueueState, ClusterQueueStates};
use crate::queue::equivalence_class::Class;
use crate::queue::local_queue::LocalQueues;
use crate::quota::config::Config;
use crate::quota::view::NodeId;
use crate::quota::violations::Violations;
use crate::state::nominations::Nominations;
use crate::state::nominations::PreemptsFor;
use crate::workload::info::Workloads;
use crate::workload::queue_order::QueueOrder;
use crate::workload::shape::Shape;

/// One cycle over a cohort tree.
pub(crate) struct Cycle<'a> {
    pub(crate) config: &'a Config,
    pub(crate) settings: &'a Settings,
    pub(crate) cluster_queues: &'a mut ClusterQueueStates,
    pub(crate) local_queues: &'a mut LocalQueues,
    pub(crate) workloads: &'a mut Workloads,
    pub(crate) timers: &'a mut BTreeSet<(Time, WorkloadId)>,
    /// States that must not occur.
    pub(crate) violations: &'a mut Violations,
    pub(crate) nominations: &'a mut Nominations,
    /// Nominated workloads of which a target has stopped since the last decision.
    pub(crate) ready: &'a BTreeSet<WorkloadId>,
    pub(crate) now: Time,
    pub(crate) tree: &'a mut CohortTree,
    pub(crate) decisions: &'a mut Vec<Decision>,
    pub(crate) progress: CycleProgress,
}

/// Every head is of a queue of the tree, and a queue of the tree has a state.
pub(super) const QUEUE_IN_TREE: &str = "the queue of a head is in the tree, and has a state";

impl Cycle<'_> {
    /// Counts a violation if an invariant is not met. Panics in builds with debug assertions.
    pub(super) fn check(&mut self, is_met: bool, invariant: &str) {
        self.violations.check(is_met, invariant);
    }

    pub(super) fn cluster_queue(&self, queue: NodeId) -> Option<&ClusterQueueState> {
        self.cluster_queues
            .at(self.tree.queues.at(queue)?.cluster_queue)
    }

    pub(super) fn cluster_queue_mut(&mut self, queue: NodeId) -> Option<&mut ClusterQueueState> {
        let cluster_queue = self.tree.queues.at(queue)?.cluster_queue;
        self.cluster_queues.at_mut(cluster_queue)
    }

    /// The order of the workloads of a queue.
    pub(super) fn admission_order<'b>(&'b self, node: &'b QueueNode) -> AdmissionOrder<'b> {
        let cells = &self.config.flavor_resources;
        node.admission_order(self.local_queues, cells)
    }

    /// The policy of a queue; none where the queue is not in the tree, so that it preempts nothing.
    pub(super) fn policy(&self, queue: NodeId) -> Preemption {
        let node = self.tree.queues.at(queue);
        node.map(|node| node.config.preemption).unwrap_or_default()
    }

    pub(super) fn class_mut(&mut self, class: &ClassRef) -> Option<&mut Class> {
        self.cluster_queue_mut(class.node)?
            .pending
            .class_mut(&class.id)
    }

    /// The flavor options of a class.
    pub(super) fn options(
        &mut self,
        ClassRef { node: queue, id }: &ClassRef,
    ) -> Option<(Arc<FlavorOptions>, Arc<Shape>)> {
        let CohortTree {
            queues,
            options_cache,
            ..
        } = &mut *self.tree;
        let node = queues.at(*queue)?;
        let class = self
            .cluster_queues
            .at_mut(node.cluster_queue)?
            .pending
            .class_mut(id)?;
        let options = class.options.get_or_insert_with(|| {
            let pod = self.settings.pod.clamped();
            let work_out = || flavor_options(self.config, &node.config, &class.shape, pod);
            options_cache.get(node.layout, class.shape.id, work_out)
        });
        Some((Arc::clone(options), Arc::clone(&class.shape)))
    }

    /// Works out what can be assigned to a workload, if anything.
    pub(super) fn assign<'a>(
        &mut self,
        class: &ClassRef,
        slots: &'a Slots,
        shape: &Shape,
        order: &QueueOrder,
        policy: Preemption,
    ) -> Option<AssignmentResult<'a>> {
        let (mut assigner, config) = self.assigner(class, order, policy)?;
        assigner.assign(slots, config, shape)
    }

    /// The same for a workload that has preempted others, for so many of its pods.
    pub(super) fn assign_to_nominee<'a>(
        &mut self,
        class: &ClassRef,
        slots: &'a Slots,
        shape: &Shape,
        order: &QueueOrder,
        preempted_for: PreemptsFor,
    ) -> Option<AssignmentResult<'a>> {
        let policy = self.policy(class.node);
        let (mut assigner, config) = self.assigner(class, order, policy)?;
        assigner.is_nominated = true;
        match preempted_for {
            PreemptsFor::All => assigner.assign(slots, config, shape),
            PreemptsFor::Fewest => assigner.assign_fewest(slots, config, shape),
        }
    }

    /// The same for as many of its pods as it need not borrow for.
    pub(super) fn assign_without_borrowing<'a>(
        &mut self,
        class: &ClassRef,
        slots: &'a Slots,
        shape: &Shape,
        order: &QueueOrder,
    ) -> Option<AssignmentResult<'a>> {
        let policy = self.policy(class.node);
        let (assigner, config) = self.assigner(class, order, policy)?;
        assigner.assign_without_borrowing(slots, config, shape)
    }

    fn assigner<'b>(
        &'b mut self,
        ClassRef { node: queue, id }: &'b ClassRef,
        order: &'b QueueOrder,
        policy: Preemption,
    ) -> Option<(Assigner<'b>, &'b ClusterQueue)> {
        let CohortTree {
            quota,
            queues,
            preemption_round,
            ..
        } = &mut *self.tree;
        let Some(node) = queues.at(*queue) else {
            self.violations.check(false, QUEUE_IN_TREE);
            return None;
        };
        let assigner = Assigner {
            quota,
            snapshot: PreemptionSnapshot {
                queues,
                cluster_queues: self.cluster_queues,
                workloads: self.workloads,
                settings: self.settings,
                round: preemption_round,
            },
            cluster_queue: node.cluster_queue,
            node: node.id,
            policy,
            order,
            local_queue: id.local_queue.as_deref(),
            is_nominated: false,
        };
        Some((assigner, &node.config))
    }
}
