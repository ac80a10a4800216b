//! What waits: how many workloads, and what they ask for together. The same for ClusterQueues and
//! LocalQueues; in which order they wait is `pending.rs`.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::names::ResourceName;
use crate::shape::Shape;

/// How many workloads wait, and what they ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    workloads: usize,
    /// Only what is above zero.
    requests: BTreeMap<ResourceName, Amount>,
}

impl Demand {
    /// One more workload waits.
    pub(crate) fn add(&mut self, shape: &Shape) {
        self.workloads = self.workloads.saturating_add(1);
        for (resource, amount) in &shape.requests {
            self.raise(resource, *amount);
        }
    }

    /// One workload less waits.
    pub(crate) fn remove(&mut self, shape: &Shape) {
        self.workloads = self.workloads.saturating_sub(1);
        for (resource, amount) in &shape.requests {
            self.lower(resource, *amount);
        }
    }

    /// All that waits there waits here too.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.workloads = self.workloads.saturating_add(other.workloads);
        for (resource, amount) in &other.requests {
            self.raise(resource, *amount);
        }
    }

    /// All that waits there no longer waits here.
    pub(crate) fn remove_all(&mut self, other: &Self) {
        self.workloads = self.workloads.saturating_sub(other.workloads);
        for (resource, amount) in &other.requests {
            self.lower(resource, *amount);
        }
    }

    pub(crate) fn workloads(&self) -> usize {
        self.workloads
    }

    pub(crate) fn requests(&self) -> &BTreeMap<ResourceName, Amount> {
        &self.requests
    }

    fn raise(&mut self, resource: &ResourceName, amount: Amount) {
        if let Some(sum) = self.requests.get_mut(resource) {
            *sum = sum.plus(amount);
        } else {
            self.requests.insert(resource.clone(), amount);
        }
    }

    fn lower(&mut self, resource: &ResourceName, amount: Amount) {
        if let Some(sum) = self.requests.get_mut(resource) {
            *sum = sum.minus(amount);
            if *sum <= Amount::ZERO {
                self.requests.remove(resource);
            }
        }
    }
}
