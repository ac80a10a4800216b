//! Who holds what a workload lacks, as a reader of its namespace may see it: names there, and sums of all others.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use sluice_crds::Quantity;
use sluice_engine::{Amount, FlavorName, Holder, Holders, ResourceName, WorkloadId};

use super::findings::{Found, HOLDERS_MAX};
use crate::process::hashing::HashMap;
use crate::visibility::pending::summary::{Job, quantity};

/// How many are named in one list.
pub const NAMED_MAX: usize = 20;

/// A workload of the reader's namespace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Named {
    /// The name of its Workload, or of the pod that is admitted by itself.
    pub name: String,
    /// What it stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// Several workloads: the first of the reader's namespace by name.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workloads {
    /// The first 20 of the reader's namespace.
    pub items: Vec<Named>,
    /// How many are of the reader's namespace.
    pub in_namespace: usize,
    /// How many are of other namespaces.
    pub in_other_namespaces: usize,
}

/// Who holds one resource in one flavor.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// The flavor.
    flavor: String,
    /// The resource.
    resource: String,
    /// Workloads of the reader's namespace.
    in_namespace: Sum,
    /// Those of other namespaces, in the same ClusterQueue.
    in_cluster_queue: Sum,
    /// Those of other namespaces, in other ClusterQueues of the cohort.
    in_cohort: Sum,
}

/// Several workloads, and what they hold.
#[derive(Debug, Serialize, JsonSchema)]
struct Sum {
    /// How many workloads.
    count: usize,
    /// How much they hold.
    amount: Quantity,
}

/// Who holds what is lacking.
#[derive(Debug, Default)]
pub struct QuotaHolders {
    /// Who holds it, by flavor and resource.
    pub by: Vec<Holding>,
    /// Those that are stopping already.
    pub stopping: Workloads,
    /// Those that have to end as well, if that would suffice.
    pub has_to_end: Option<Workloads>,
}

#[derive(Default)]
struct Counted {
    count: usize,
    amount: i128,
}

impl QuotaHolders {
    /// What a reader of `namespace` may see. Takes a moment for each that holds anything.
    pub fn new(holders: Holders, names: &HashMap<WorkloadId, Found>, namespace: &str) -> Self {
        let mut held = Self::default();
        let mut sums: BTreeMap<(&FlavorName, &ResourceName), [Counted; 3]> = BTreeMap::new();
        for holder in holders.found() {
            let at = match holder {
                Holder { local_queue, .. } if *local_queue.namespace == *namespace => 0,
                Holder { is_own_queue, .. } if *is_own_queue => 1,
                _ => 2,
            };
            for (flavor, resource, amount) in &holder.usage {
                let sums = sums.entry((flavor, resource)).or_default();
                if let Some(sum) = sums.get_mut(at) {
                    sum.count += 1;
                    sum.amount = sum.amount.saturating_add(amount.get());
                }
            }
            if holder.is_stopping {
                held.stopping.add(holder.id(), names);
            }
        }
        let holding = |((flavor, resource), sums): ((&FlavorName, &ResourceName), _)| {
            let sum = |counted: Counted| Sum {
                count: counted.count,
                amount: quantity(resource, Amount::new(counted.amount)),
            };
            let [in_namespace, in_cluster_queue, in_cohort] = <[Counted; 3]>::map(sums, sum);
            Holding {
                flavor: flavor.to_string(),
                resource: resource.to_string(),
                in_namespace,
                in_cluster_queue,
                in_cohort,
            }
        };
        held.by = sums.into_iter().map(holding).collect();
        if holders.found().len() <= HOLDERS_MAX {
            let ended = holders.have_to_end();
            if !ended.is_empty() {
                let mut workloads = Workloads::default();
                for id in &ended {
                    workloads.add(id, names);
                }
                held.has_to_end = Some(workloads);
            }
        }
        held
    }
}

impl Workloads {
    /// Counts one, and names it if it is of the namespace.
    fn add(&mut self, id: &WorkloadId, names: &HashMap<WorkloadId, Found>) {
        let Some(found) = names.get(id) else {
            self.in_other_namespaces += 1;
            return;
        };
        self.in_namespace += 1;
        if self.items.len() < NAMED_MAX {
            self.items.push(Named::from(found));
        }
    }
}

impl From<&Found> for Named {
    fn from(found: &Found) -> Self {
        Self {
            name: found.name.to_string(),
            job: found.job.as_ref().map(Job::from),
        }
    }
}
