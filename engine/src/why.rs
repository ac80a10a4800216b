//! Finds out why a workload waits. The words for it are `explain.rs`. Nothing here changes state.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::cells::CellId;
use crate::engine::{Engine, Record, State};
use crate::explain::{Explanation, FlavorMiss, MissReason, Shortage};
use crate::flavors::{self, Choice, Fit, Obstacle, Place, Plan, Slots, least};
use crate::forest::{NodeName, QueueNode, Tree};
use crate::model::{AdmissionMode, FlavorQuotas, QueueingStrategy, StopPolicy};
use crate::names::{QueueName, WorkloadId};
use crate::pending::{ClassId, OrderKey, PendingQueue};
use crate::shape::Shape;
use crate::tree::View;

/// A shape in a queue, and everything that is needed to judge it.
struct Case<'a> {
    engine: &'a Engine,
    tree: &'a Tree,
    node: &'a QueueNode,
    shape: &'a Shape,
}

impl Engine {
    /// How a workload stands, and what keeps it from being admitted; none if it isn't known. Ask
    /// after [`Engine::decide`]: before, the answer may be that nothing is known against it.
    pub fn explain(&self, id: &WorkloadId) -> Option<Explanation> {
        let record = self.workloads.get(id)?;
        let queue = || {
            record
                .state
                .admission()
                .map(|admission| admission.queue.clone())
        };
        match &record.state {
            State::Pending => Some(self.explain_pending(id, record)),
            State::Inactive => Some(Explanation::Inactive),
            State::Finished => Some(Explanation::Finished),
            State::Evicting(..) => Some(Explanation::Evicting { queue: queue()? }),
            State::Assumed(_) | State::Admitted(..) => {
                Some(Explanation::Admitted { queue: queue()? })
            }
        }
    }

    pub(crate) fn tree_of_queue(&self, queue: &QueueName) -> Option<Cow<'_, Tree>> {
        self.tree_of(&NodeName::Queue(queue.clone()))
    }

    /// The tree of a node, built for the occasion if a change has just uprooted it.
    pub(crate) fn tree_of(&self, node: &NodeName) -> Option<Cow<'_, Tree>> {
        self.forest.tree_of(node, &self.config, &self.accounts)
    }

    fn explain_pending(&self, id: &WorkloadId, record: &Record) -> Explanation {
        let key = || record.queue.clone();
        if let Some(problem) = &record.shape.problem {
            return Explanation::Uncountable(problem.clone());
        }
        let local = self
            .locals
            .get(&record.queue)
            .and_then(|local| local.object.as_ref());
        let Some(local) = local else {
            return Explanation::LocalQueueNotFound(key());
        };
        if local.stop != StopPolicy::None {
            return Explanation::LocalQueueStopped(key());
        }
        let queue = local.cluster_queue.clone();
        let Some(tree) = self.tree_of_queue(&queue) else {
            return Explanation::ClusterQueueNotFound {
                local_queue: key(),
                queue,
            };
        };
        if !local.namespace_selected {
            return Explanation::NamespaceNotSelected {
                local_queue: key(),
                queue,
            };
        }
        if let Some(reason) = tree.queue_inactive(&queue).cloned() {
            return Explanation::ClusterQueueInactive { queue, reason };
        }
        let Some(node) = tree.queues.get(&queue) else {
            return Explanation::ClusterQueueNotFound {
                local_queue: key(),
                queue,
            };
        };
        if let Some(until) = record.not_before.filter(|until| self.now < *until) {
            return Explanation::BackingOff { queue, until };
        }
        let account = self.accounts.get(&queue);
        if let Some(max) = node.config.max_pending
            && account.is_some_and(|account| account.pending.is_outside(&record.order(id)))
        {
            return Explanation::QueueFull { queue, max };
        }
        if tree.claimants.contains(id) {
            return Explanation::WaitsForRoom { queue };
        }
        Case {
            engine: self,
            tree: &tree,
            node,
            shape: &record.shape,
        }
        .explain(id)
    }
}

impl Case<'_> {
    fn explain(&self, id: &WorkloadId) -> Explanation {
        let queue = self.node.config.name.clone();
        let plan = flavors::plan(
            &self.engine.config,
            &self.node.config,
            self.shape,
            self.engine.shapes.pod(),
        );
        let slots = match plan {
            Plan::Slots(slots) => slots,
            Plan::Hopeless(Obstacle::NoQuota(resource)) => {
                return Explanation::NoQuota { queue, resource };
            }
            Plan::Hopeless(Obstacle::NoFlavor(place)) => return self.does_not_fit(None, place),
        };
        // What can never fit is said before what doesn't fit now, wherever the search got stuck.
        let places = || slots.iter().map(|slot| slot.place);
        if let Some(place) = places().find(|place| self.never_fits(&slots, *place)) {
            return self.does_not_fit(Some(&slots), place);
        }
        let account = self.engine.accounts.get(&queue);
        if self.node.config.strategy == QueueingStrategy::StrictFifo
            && let Some(head) = account.and_then(|account| self.head(&account.pending))
            && head.id() != id
        {
            return Explanation::BehindHead {
                queue,
                head: head.id().clone(),
            };
        }
        let counts = self.shape.pod_sets.iter().map(least).collect();
        let fungibility = self.node.config.fungibility;
        match slots.fit(&mut &self.tree.quota, self.node.id, fungibility, counts) {
            Ok(Fit {
                waits_at: Some(place),
                ..
            }) => self.does_not_fit(Some(&slots), place),
            Ok(_) if !self.tree.claimants.is_empty() => Explanation::RoomKept { queue },
            Ok(_) => Explanation::Queued { queue },
            Err(stuck) => self.does_not_fit(Some(&slots), stuck),
        }
    }

    /// The first in the order of the queue.
    fn head<'b>(&self, pending: &'b PendingQueue) -> Option<&'b OrderKey> {
        let used = |id: &ClassId| {
            let local = id
                .local
                .as_ref()
                .and_then(|key| self.engine.locals.get(key));
            let cells = &self.engine.config.cells;
            local.map(|local| local.standing(self.tree, self.node.id, cells))
        };
        match self.node.config.admission_mode {
            AdmissionMode::ByOrder => pending.head().map(|(head, _)| head),
            AdmissionMode::ByUsage => {
                let first = pending.heads().min_by_key(|(head, id)| (used(id), *head));
                first.map(|(head, _)| head)
            }
        }
    }

    fn never_fits(&self, slots: &Slots, place: Place) -> bool {
        let misses = self.misses(Some(slots), place);
        let group = self.node.config.resource_groups.get(place.group);
        group.is_some_and(|group| misses.len() == group.flavors.len())
            && !misses
                .iter()
                .any(|miss| matches!(miss.reason, MissReason::NotFreeNow(_)))
    }

    fn does_not_fit(&self, slots: Option<&Slots>, place: Place) -> Explanation {
        let several = self.shape.pod_sets.len() > 1;
        let pod_set = self.shape.pod_sets.get(place.pod_set).filter(|_| several);
        Explanation::DoesNotFit {
            queue: self.node.config.name.clone(),
            pod_set: pod_set.map(|pod_set| pod_set.name.clone()),
            flavors: self.misses(slots, place),
        }
    }

    /// What speaks against each flavor for one pod set and resource group. Of earlier pod sets only
    /// what they take in any case counts, so that the text doesn't depend on what is used. Against
    /// a flavor that nothing is wanted of, nothing speaks.
    fn misses(&self, slots: Option<&Slots>, place: Place) -> Vec<FlavorMiss> {
        let config = &self.node.config;
        let pod = self.engine.shapes.pod();
        let group = config.resource_groups.get(place.group);
        let pod_set = self.shape.pod_sets.get(place.pod_set);
        let (Some(group), Some(pod_set)) = (group, pod_set) else {
            return Vec::new();
        };
        let groups = flavors::by_group(config, pod_set, pod).unwrap_or_default();
        let requests = groups.get(&place.group).cloned().unwrap_or_default();
        let forced = slots
            .map(|slots| slots.forced_before(place, self.shape))
            .unwrap_or_default();
        let miss = |flavor: &FlavorQuotas| {
            let config = &self.engine.config;
            let reason = match flavors::choice(config, group, flavor, pod_set, &requests) {
                Ok(choice) => self.shortage(&choice, least(pod_set), &forced)?,
                Err(reason) => reason,
            };
            Some(FlavorMiss {
                flavor: flavor.name.clone(),
                reason,
            })
        };
        group.flavors.iter().filter_map(miss).collect()
    }

    /// The resource that a flavor is short of: one that there will never be enough of, else the
    /// first that doesn't fit now, else (what other pod sets happen to take is in the way) the
    /// first.
    fn shortage(
        &self,
        choice: &Choice,
        count: u32,
        forced: &BTreeMap<CellId, Amount>,
    ) -> Option<MissReason> {
        let (tree, node) = (&self.tree.quota, self.node.id);
        let mut first = None;
        let mut short = None;
        for (resource, cell, each) in &choice.charges {
            let amount = flavors::total(*each, count);
            if amount == Amount::ZERO {
                continue;
            }
            let request = amount.plus(forced.get(cell).copied().unwrap_or_default());
            let (nominal, potential) = (tree.nominal(node, *cell), tree.potential(node, *cell));
            let may_borrow = potential.minus(nominal).at_least_zero();
            let shortage = Shortage {
                resource: resource.clone(),
                request,
                nominal,
                may_borrow,
            };
            if request > potential {
                return Some(MissReason::TooLarge(shortage));
            }
            if short.is_none() && !tree.fits(View::Now, node, *cell, request) {
                short = Some(shortage);
            } else if first.is_none() {
                first = Some(shortage);
            }
        }
        short.or(first).map(MissReason::NotFreeNow)
    }
}
