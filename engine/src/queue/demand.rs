//! The number of pending workloads and their total requests. ClusterQueues and LocalQueues are treated
//! alike.

use std::collections::BTreeMap;

use crate::api::amount::Amount;
use crate::api::names::ResourceName;
use crate::workload::shape::Shape;

/// The number of pending workloads and their total requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    workloads: usize,
    /// Only what is above zero.
    requests: BTreeMap<ResourceName, Amount>,
}

impl Demand {
    /// Adds a workload.
    pub(crate) fn add(&mut self, shape: &Shape) {
        self.workloads = self.workloads.saturating_add(1);
        for (resource, amount) in &shape.requests {
            self.raise(resource, *amount);
        }
    }

    /// Removes a workload. Says whether all of it was there.
    #[must_use]
    pub(crate) fn remove(&mut self, shape: &Shape) -> bool {
        self.lower(
            1,
            shape
                .requests
                .iter()
                .map(|(resource, amount)| (resource, amount)),
        )
    }

    /// Adds the whole demand of a LocalQueue.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.workloads = self.workloads.saturating_add(other.workloads);
        for (resource, amount) in &other.requests {
            self.raise(resource, *amount);
        }
    }

    /// Removes the whole demand of a LocalQueue. Says whether all of it was there.
    #[must_use]
    pub(crate) fn remove_all(&mut self, other: &Self) -> bool {
        self.lower(other.workloads, other.requests.iter())
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

    fn lower<'a>(
        &mut self,
        workloads: usize,
        requests: impl Iterator<Item = (&'a ResourceName, &'a Amount)>,
    ) -> bool {
        let mut was_there = workloads <= self.workloads;
        self.workloads = self.workloads.saturating_sub(workloads);
        for (resource, amount) in requests {
            let sum = self.requests.get_mut(resource);
            was_there &= sum.as_ref().map_or(Amount::ZERO, |sum| **sum) >= *amount;
            if let Some(sum) = sum {
                *sum = sum.minus(*amount);
                if *sum <= Amount::ZERO {
                    self.requests.remove(resource);
                }
            }
        }
        was_there
    }
}
