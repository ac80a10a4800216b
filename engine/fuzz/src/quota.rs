//! Who may use how much, worked out anew from what was told: whatever a decision has raised must be
//! within what it may be.

use std::collections::BTreeMap;

use sluice_engine::{
    Admission, Amount, ClusterQueue, ClusterQueueName, Cohort, CohortName, Event, FlavorName,
    Quota, ResourceGroup, ResourceName,
};

type Cell = (FlavorName, ResourceName);

/// What is charged to each queue.
#[derive(Default)]
pub struct Charges(BTreeMap<(ClusterQueueName, Cell), i128>);

/// Queues and cohorts as they were told.
#[derive(Default)]
pub struct Quotas {
    queues: BTreeMap<ClusterQueueName, ClusterQueue>,
    cohorts: BTreeMap<CohortName, Cohort>,
}

/// What a node of the tree has of a cell, and uses of it.
struct Share {
    quota: Quota,
    subtree: i128,
    usage: i128,
}

impl Charges {
    pub fn of<'a>(admissions: impl Iterator<Item = &'a Admission>) -> Self {
        let mut charges = Self::default();
        for admission in admissions {
            for pod_set in &*admission.pod_sets {
                for (resource, amount) in &pod_set.usage {
                    if let Some(flavor) = pod_set.flavors.get(resource) {
                        let cell = (flavor.clone(), resource.clone());
                        let key = (admission.queue.clone(), cell);
                        *charges.0.entry(key).or_default() += clamped(*amount);
                    }
                }
            }
        }
        charges
    }
}

fn clamped(amount: Amount) -> i128 {
    amount.clamp(Amount::ZERO, Amount::LIMIT).get()
}

/// The first group that covers a resource counts, and a flavor's first mention there.
fn quota(groups: &[ResourceGroup], (flavor, resource): &Cell) -> Quota {
    let group = (groups.iter()).find(|group| group.covered_resources.contains(resource));
    let flavors = group.into_iter().flat_map(|group| &group.flavors);
    let mut quotas = flavors
        .filter(|quotas| quotas.name == *flavor)
        .filter_map(|quotas| quotas.resources.get(resource));
    quotas.next().copied().unwrap_or_default()
}

impl Share {
    /// What isn't lent.
    fn guaranteed(&self) -> i128 {
        let limit = self.quota.lending_limit.map(clamped);
        limit.map_or(0, |limit| (self.subtree - limit).max(0))
    }
}

impl Quotas {
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::UpsertClusterQueue(queue) => {
                self.queues.insert(queue.name.clone(), queue.clone());
            }
            Event::RemoveClusterQueue(name) => {
                self.queues.remove(name);
            }
            Event::UpsertCohort(cohort) => {
                self.cohorts.insert(cohort.name.clone(), cohort.clone());
            }
            Event::RemoveCohort(name) => {
                self.cohorts.remove(name);
            }
            _ => {}
        }
    }

    /// Everything that is used more after than before is within what it may be.
    pub fn check(&self, before: &Charges, after: &Charges) {
        let raised = after
            .0
            .iter()
            .filter(|(key, amount)| before.0.get(key) < Some(amount));
        for ((name, cell), amount) in raised {
            let queue = &self.queues[name];
            let share = |charges: &Charges| Share {
                quota: quota(&queue.resource_groups, cell),
                subtree: clamped(quota(&queue.resource_groups, cell).nominal),
                usage: charges
                    .0
                    .get(&(name.clone(), cell.clone()))
                    .copied()
                    .unwrap_or(0),
            };
            let (mut was, mut is) = (share(before), share(after));
            let mut above = queue.cohort.clone();
            let mut levels = 0;
            loop {
                let within = match (&above, is.quota.borrowing_limit) {
                    (None, _) => Some(is.subtree),
                    (Some(_), limit) => limit.map(|limit| is.subtree + clamped(limit)),
                };
                assert!(
                    is.usage <= was.usage || within.is_none_or(|within| is.usage <= within),
                    "{name} got {amount} of {cell:?}: {levels} levels up {} are used, of {within:?}",
                    is.usage
                );
                let Some(cohort) = above else { break };
                assert!(levels <= self.cohorts.len(), "{name} admits in a cycle");
                levels += 1;
                was = self.cohort(&cohort, cell, before);
                is = self.cohort(&cohort, cell, after);
                above = self
                    .cohorts
                    .get(&cohort)
                    .and_then(|cohort| cohort.parent.clone());
            }
        }
    }

    /// A cohort with all that is below it.
    fn cohort(&self, name: &CohortName, cell: &Cell, charges: &Charges) -> Share {
        let groups = self
            .cohorts
            .get(name)
            .map(|cohort| cohort.resource_groups.as_slice());
        let quota_here = quota(groups.unwrap_or_default(), cell);
        let mut share = Share {
            quota: quota_here,
            subtree: clamped(quota_here.nominal),
            usage: 0,
        };
        let below = (self.cohorts.values())
            .filter(|cohort| cohort.parent.as_ref() == Some(name))
            .map(|cohort| self.cohort(&cohort.name, cell, charges));
        let queues = (self.queues.values())
            .filter(|queue| queue.cohort.as_ref() == Some(name))
            .map(|queue| {
                let quota = quota(&queue.resource_groups, cell);
                let key = (queue.name.clone(), cell.clone());
                Share {
                    quota,
                    subtree: clamped(quota.nominal),
                    usage: charges.0.get(&key).copied().unwrap_or(0),
                }
            });
        for child in below.chain(queues) {
            share.subtree += child.subtree - child.guaranteed();
            share.usage += (child.usage - child.guaranteed()).max(0);
        }
        share
    }
}
