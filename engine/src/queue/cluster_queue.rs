//! What is kept of each ClusterQueue: pending workloads, usage, and workloads that can be preempted. Each
//! has a number, so that a cycle needs no names.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::names::{ClusterQueueName, LocalQueueKey, WorkloadId};
use crate::api::queues::ClusterQueue;
use crate::api::settings::Settings;
use crate::queue::demand::Demand;
use crate::queue::pending::PendingQueue;
use crate::queue::preemption_policy::PreemptionScope;
use crate::quota::usage::QueueUsage;
use crate::quota::violations::Violations;
use crate::workload::preemption_order::PreemptionOrder;

/// The state that belongs to a ClusterQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterQueueState {
    pub(crate) pending: PendingQueue,
    pub(crate) usage: QueueUsage,
    /// The pending workloads of the LocalQueues that point here, stopped ones included.
    pub(crate) demand: Demand,
    /// The workloads with usage here.
    pub(crate) with_usage: BTreeSet<WorkloadId>,
    /// Those of them that can be preempted, in the order of preemption.
    pub(crate) evictable: BTreeSet<PreemptionOrder>,
    /// Those of them that are evicted.
    pub(crate) evicting: BTreeSet<WorkloadId>,
    /// The LocalQueues that point here.
    pub(crate) local_queues: BTreeSet<LocalQueueKey>,
}

/// The number of a ClusterQueue; it is never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClusterQueueId(u64);

/// The state of all ClusterQueues.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterQueueStates {
    ids: BTreeMap<ClusterQueueName, ClusterQueueId>,
    all: BTreeMap<ClusterQueueId, ClusterQueueState>,
    next: ClusterQueueId,
    /// Violations in queues that were dropped or begun anew.
    violations: Violations,
}

impl ClusterQueueState {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.with_usage.is_empty() && self.local_queues.is_empty()
    }

    /// Which preemption its pending workloads may use at this moment.
    pub(crate) fn scope(&self, config: &ClusterQueue, settings: &Settings) -> PreemptionScope {
        PreemptionScope {
            rules: config.preemption,
            by_shares: settings.fair_sharing.is_some(),
            lowest: self.evictable.first().map(PreemptionOrder::priority),
        }
    }
}

impl ClusterQueueStates {
    /// The state of this name, created if there is none.
    pub(crate) fn open(&mut self, name: &ClusterQueueName) -> &mut ClusterQueueState {
        let id = self.id(name).unwrap_or_else(|| {
            let id = self.next;
            self.next = ClusterQueueId(id.0.saturating_add(1));
            self.ids.insert(name.clone(), id);
            id
        });
        self.all.entry(id).or_default()
    }

    /// Drops the state of this name.
    pub(crate) fn close(&mut self, name: &ClusterQueueName) {
        if let Some(state) = self.ids.remove(name).and_then(|id| self.all.remove(&id)) {
            self.violations.add(state.pending.violations());
        }
    }

    /// Drops the pending workloads of this name, for them to be queued again within this limit.
    pub(crate) fn begin_anew(&mut self, name: &ClusterQueueName, limit: Option<usize>) {
        if let Some(state) = self.id(name).and_then(|id| self.all.get_mut(&id)) {
            self.violations.add(state.pending.violations());
            state.pending = PendingQueue::default();
            state.pending.set_limit(limit);
        }
    }

    pub(crate) fn violations(&self) -> Violations {
        let mut all = self.violations;
        for state in self.all.values() {
            all.add(state.pending.violations());
        }
        all
    }

    pub(crate) fn id(&self, name: &ClusterQueueName) -> Option<ClusterQueueId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, name: &ClusterQueueName) -> Option<&ClusterQueueState> {
        self.at(self.id(name)?)
    }

    pub(crate) fn get_mut(&mut self, name: &ClusterQueueName) -> Option<&mut ClusterQueueState> {
        self.at_mut(self.id(name)?)
    }

    pub(crate) fn at(&self, id: ClusterQueueId) -> Option<&ClusterQueueState> {
        self.all.get(&id)
    }

    pub(crate) fn at_mut(&mut self, id: ClusterQueueId) -> Option<&mut ClusterQueueState> {
        self.all.get_mut(&id)
    }

    /// All states, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ClusterQueueName, &ClusterQueueState)> {
        let cluster_queue = |(name, id): (_, &ClusterQueueId)| Some((name, self.at(*id)?));
        self.ids.iter().filter_map(cluster_queue)
    }
}
