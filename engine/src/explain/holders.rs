//! Who holds the quota that a pending workload lacks, and which of them have to end for it to fit. Gathered as few at a
//! time as the one who asks likes; what has to end is worked out without the engine.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::api::amount::Amount;
use crate::api::names::{ClusterQueueName, FlavorName, LocalQueueKey, ResourceName, WorkloadId};
use crate::api::quota::Borrowing;
use crate::quota::flavor_resources::{FlavorResource, FlavorResourceId};
use crate::quota::quota_tree::QuotaTree;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::{NodeId, View};
use crate::state::engine::Engine;
use crate::workload::preemption_order::PreemptionOrder;

/// Those who hold quota that a pending workload lacks, as far as they are gathered.
#[derive(Debug)]
pub struct Holders {
    quota: QuotaTree,
    node: NodeId,
    requested: RequestedUsage,
    borrowing: Borrowing,
    /// What is lacking, in whichever view.
    lacking: Vec<(FlavorResourceId, FlavorResource)>,
    /// The queues that are left to look at, the next one last, and the workload that was looked at last.
    queues: Vec<(ClusterQueueName, NodeId)>,
    last: Option<WorkloadId>,
    found: Vec<Holder>,
}

/// A workload that holds quota which another one lacks.
#[derive(Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its LocalQueue.
    pub local_queue: LocalQueueKey,
    /// Whether it is of the ClusterQueue of the one that lacks quota.
    pub is_own_queue: bool,
    /// Whether it is evicted, and its quota free when it has stopped.
    pub is_stopping: bool,
    /// What it uses of what is lacking.
    pub usage: Vec<(FlavorName, ResourceName, Amount)>,
    order: PreemptionOrder,
    node: NodeId,
    /// What it uses of what is requested.
    of_requested: Box<[(FlavorResourceId, Amount)]>,
}

impl Engine {
    /// Begins to gather who holds what a pending workload lacks. None where [`Engine::trials`] says nothing.
    pub fn begin_holders(&self, id: &WorkloadId) -> Option<Holders> {
        let info = self.workloads.get(id)?;
        let local_queue = self.local_queues.get(&info.local_queue)?.object.as_ref()?;
        let tree = self.tree_of_queue(&local_queue.cluster_queue)?;
        let tried = self.tried(info, &tree)?;
        let flavors = tried.flavors(self, &tried.options(self));
        let name = |cell: &FlavorResourceId| {
            let name = self.config.flavor_resources.name(*cell)?;
            Some((*cell, name.clone()))
        };
        let queues = tree.queues.iter();
        let queues: Vec<_> = queues.map(|(name, node)| (name.clone(), node.id)).collect();
        let cells = flavors.requested.keys().copied().collect();
        Some(Holders {
            node: tried.node.id,
            quota: tree.quota.of_cells(&cells),
            requested: flavors.requested,
            borrowing: tried.borrowing(),
            queues: if flavors.lacking.is_empty() {
                Vec::new()
            } else {
                queues.into_iter().rev().collect()
            },
            lacking: flavors.lacking.keys().filter_map(name).collect(),
            last: None,
            found: Vec::new(),
        })
    }

    /// Looks at so many workloads more. Returns whether that was the end.
    pub fn go_on_holders(&self, holders: &mut Holders, left: usize) -> bool {
        let mut left = left;
        while let Some((queue, node)) = holders.queues.last().cloned() {
            let after = holders.last.take();
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let state = self.cluster_queues.get(&queue).into_iter();
            let range = (after, Bound::Unbounded);
            for id in state.flat_map(|state| state.with_usage.range(range.clone())) {
                if left == 0 {
                    return false;
                }
                left = left.saturating_sub(1);
                let holder = self.holder(holders, id, node);
                holders.found.extend(holder);
                holders.last = Some(id.clone());
            }
            holders.last = None;
            holders.queues.pop();
            // A queue without workloads costs a look too.
            left = left.saturating_sub(1);
        }
        true
    }

    fn holder(&self, holders: &Holders, id: &WorkloadId, node: NodeId) -> Option<Holder> {
        let info = self.workloads.get(id)?;
        let admitted = info.state.admission_usage()?;
        let used = holders.lacking.iter().filter_map(|(cell, name)| {
            let (_, used) = admitted.usage.iter().find(|(used, _)| used == cell)?;
            Some((name.0.clone(), name.1.clone(), used.total))
        });
        let usage: Vec<_> = used.collect();
        let requested = admitted.usage.iter();
        let requested = requested.filter(|(cell, _)| holders.requested.contains_key(cell));
        (!usage.is_empty()).then(|| Holder {
            local_queue: info.local_queue.clone(),
            is_own_queue: node == holders.node,
            is_stopping: info.is_evicting(),
            usage,
            order: PreemptionOrder::new(info.priority, admitted.admission.since, id.clone()),
            node,
            of_requested: requested.map(|(cell, used)| (*cell, used.total)).collect(),
        })
    }
}

impl Holder {
    /// Which workload it is.
    pub fn id(&self) -> &WorkloadId {
        self.order.id()
    }
}

impl Holders {
    /// Those that are gathered.
    pub fn found(&self) -> &[Holder] {
        &self.found
    }

    /// The workloads whose end would let it fit once the evicted ones have stopped, whatever its preemption policy: in the
    /// order of preemption, and none in vain. Empty if that would not suffice, or none has to end.
    pub fn have_to_end(mut self) -> Vec<WorkloadId> {
        let short = self.requested.iter().filter(|(cell, amount)| {
            let wanted = (**cell, **amount);
            !(self.quota).is_available(View::Planned, self.node, wanted, self.borrowing)
        });
        let scarce: BTreeSet<FlavorResourceId> = short.map(|(cell, _)| *cell).collect();
        let uses_any = |holder: &Holder| {
            let mut cells = holder.of_requested.iter();
            cells.any(|(cell, _)| scarce.contains(cell))
        };
        let mut found = std::mem::take(&mut self.found);
        found.retain(|holder| !holder.is_stopping && uses_any(holder));
        found.sort_by(|one, other| one.order.cmp(&other.order));
        let mut ended: Vec<Holder> = Vec::new();
        for holder in found {
            if self.fits() {
                break;
            }
            if self.end(&holder) {
                ended.push(holder);
            }
        }
        if !self.fits() {
            return Vec::new();
        }
        // One may have been in the way only because of another that need not end after all.
        loop {
            let before = ended.len();
            for index in (0..ended.len()).rev() {
                let Some(holder) = ended.get(index) else {
                    continue;
                };
                self.restore(holder);
                if self.fits() {
                    ended.remove(index);
                } else if let Some(holder) = ended.get(index) {
                    remove(&mut self.quota, holder);
                }
            }
            if ended.len() == before {
                break;
            }
        }
        ended
            .into_iter()
            .map(|holder| holder.order.id().clone())
            .collect()
    }

    fn fits(&self) -> bool {
        let requested = &self.requested;
        (self.quota).are_all_available(View::Planned, self.node, requested, self.borrowing)
    }

    /// Takes the usage of a workload away, if it is there: one that was admitted after this was begun is not.
    fn end(&mut self, holder: &Holder) -> bool {
        let mut usage = holder.of_requested.iter();
        let is_there =
            usage.all(|(cell, used)| *used <= self.quota.usage(View::Planned, holder.node, *cell));
        if is_there {
            remove(&mut self.quota, holder);
        }
        is_there
    }

    fn restore(&mut self, holder: &Holder) {
        for (cell, used) in &holder.of_requested {
            (self.quota).add_usage(View::Planned, holder.node, *cell, *used);
        }
    }
}

fn remove(quota: &mut QuotaTree, holder: &Holder) {
    for (cell, used) in &holder.of_requested {
        quota.remove_usage(View::Planned, holder.node, *cell, *used);
    }
}
