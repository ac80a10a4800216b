//! Answers what can be asked about queues, cohorts and the state as a whole. The forms that the
//! answers take are `status.rs`. Nothing here changes state.

use crate::accounts::Account;
use crate::amount::Amount;
use crate::demand::Demand;
use crate::engine::Engine;
use crate::forest::NodeName;
use crate::ledger::Ledger;
use crate::model::StopPolicy;
use crate::names::{CohortName, LocalQueueKey, QueueName};
use crate::share::Share;
use crate::status::{
    ByFlavor, Charged, CohortStatus, InactiveReason, LocalQueueInactiveReason, LocalQueueStatus,
    QueueStatus, Snapshot, Usage,
};
use crate::tree::{self, View};

impl Engine {
    /// How a ClusterQueue stands; none if it has no object.
    pub fn queue_status(&self, name: &QueueName) -> Option<QueueStatus> {
        let config = self.config.queues.get(name)?;
        let account = self.accounts.get(name);
        let demand = account.map(|account| &account.demand);
        let ledger = account.map(|account| &account.ledger);
        let mut usage: ByFlavor<Usage> = ByFlavor::new();
        let quotas = tree::quotas(&config.resource_groups);
        for (flavor, resource) in quotas.keys() {
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), Usage::default());
        }
        let cells = &self.config.cells;
        for (cell, charged) in ledger.into_iter().flat_map(|ledger| ledger.usage(cells)) {
            let nominal = quotas
                .get(cell)
                .map(|quota| quota.nominal)
                .unwrap_or_default();
            let Charged { total, allocated } = charged;
            let (flavor, resource) = cell.clone();
            usage.entry(flavor).or_default().insert(
                resource,
                Usage {
                    total,
                    allocated,
                    borrowed: total.minus(nominal).at_least_zero(),
                },
            );
        }
        Some(QueueStatus {
            active: self.queue_active(name),
            pending: demand.map_or(0, Demand::workloads),
            pending_requests: demand.map(Demand::requests).cloned().unwrap_or_default(),
            reserving: ledger.map_or(0, Ledger::reserving),
            admitted: ledger.map_or(0, Ledger::admitted),
            usage,
            share: self.share(&NodeName::Queue(name.clone())),
        })
    }

    /// How a LocalQueue stands; none if it has no object.
    pub fn local_queue_status(&self, key: &LocalQueueKey) -> Option<LocalQueueStatus> {
        let local = self.locals.get(key)?;
        let object = local.object.as_ref()?;
        let queue = &object.cluster_queue;
        let active = if object.stop != StopPolicy::None {
            Err(LocalQueueInactiveReason::Stopped)
        } else if !self.config.queues.contains_key(queue) {
            Err(LocalQueueInactiveReason::ClusterQueueNotFound(
                queue.clone(),
            ))
        } else if !object.namespace_selected {
            Err(LocalQueueInactiveReason::NamespaceNotSelected)
        } else {
            self.queue_active(queue)
                .map_err(LocalQueueInactiveReason::ClusterQueueInactive)
        };
        Some(LocalQueueStatus {
            active,
            pending: local.demand.workloads(),
            pending_requests: local.demand.requests().clone(),
            reserving: local.ledger.reserving(),
            admitted: local.ledger.admitted(),
            usage: (local.ledger).by_flavor(&self.config.cells, |charged| charged),
            consumed: (local.consumed.clone()).filter(|_| self.by_usage.contains(queue)),
        })
    }

    /// How a cohort stands; none if nothing names it.
    pub fn cohort_status(&self, name: &CohortName) -> Option<CohortStatus> {
        let tree = self.tree_of(&NodeName::Cohort(name.clone()))?;
        let (mut quota, mut usage) = (ByFlavor::new(), ByFlavor::new());
        let node = tree.cohorts.get(name);
        for ((flavor, resource), subtree, used) in
            node.into_iter().flat_map(|node| tree.quota.amounts(*node))
        {
            quota
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), subtree);
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), used);
        }
        Some(CohortStatus {
            active: tree.inactive.clone().map_or(Ok(()), Err),
            quota,
            usage,
            share: self.share(&NodeName::Cohort(name.clone())),
        })
    }

    /// With fair sharing, the dominant share of a node.
    fn share(&self, name: &NodeName) -> Option<Share> {
        self.settings.fair_sharing.as_ref()?;
        let tree = self.tree_of(name)?;
        let node = match name {
            NodeName::Queue(queue) => tree.queues.get(queue).map(|node| node.id),
            NodeName::Cohort(cohort) => tree.cohorts.get(cohort).copied(),
        };
        Some(tree.quota.share(View::Planned, node?))
    }

    /// What is charged and what waits, in a form that can be compared.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (
            name,
            Account {
                pending, ledger, ..
            },
        ) in self.accounts.iter()
        {
            if !ledger.is_empty() {
                let usage = ledger.by_flavor(&self.config.cells, |charged| charged.total);
                snapshot.queues.insert(name.clone(), usage);
            }
            if !pending.is_empty() {
                let pending = pending.in_order().map(|key| key.id().clone());
                snapshot.pending.insert(name.clone(), pending.collect());
            }
        }
        for tree in self.forest.trees() {
            for (name, node) in tree.cohorts.clone() {
                let mut usage: ByFlavor<Amount> = ByFlavor::new();
                for ((flavor, resource), _, used) in tree.quota.amounts(node) {
                    if used > Amount::ZERO {
                        let flavor = usage.entry(flavor.clone()).or_default();
                        flavor.insert(resource.clone(), used);
                    }
                }
                if !usage.is_empty() {
                    snapshot.cohorts.insert(name, usage);
                }
            }
        }
        snapshot
    }

    fn queue_active(&self, name: &QueueName) -> Result<(), InactiveReason> {
        let tree = self.tree_of_queue(name);
        let inactive = tree.and_then(|tree| tree.queue_inactive(name).cloned());
        inactive.map_or(Ok(()), Err)
    }
}
