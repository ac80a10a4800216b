//! The usage of one queue: sums by flavor and resource, and the number of workloads. ClusterQueues and
//! LocalQueues are treated alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::amount::Amount;
use crate::api::names::ResourceName;
use crate::api::status::{ByFlavor, ResourceUsage};
use crate::api::workload::Admission;
use crate::quota::flavor_resources::{FlavorResource, FlavorResourceId, FlavorResources};

/// What a workload would use of each flavor and resource; only what is above zero.
pub(crate) type RequestedUsage = BTreeMap<FlavorResourceId, Amount>;

/// The usage of one admitted workload by flavor and resource; only what is above zero.
pub(crate) type WorkloadUsage = Arc<[(FlavorResourceId, ResourceUsage)]>;

/// The usage of an admission. Amounts are clamped one by one, so that an absurd amount that was stored is
/// removed exactly as it was added.
pub(crate) fn usage_of(admission: &Admission, cells: &mut FlavorResources) -> WorkloadUsage {
    let mut usage: BTreeMap<FlavorResourceId, ResourceUsage> = BTreeMap::new();
    for pod_set in &*admission.pod_sets {
        for (resource, amount) in &pod_set.usage {
            let total = amount.clamped();
            if let Some(flavor) = pod_set.flavors.get(resource)
                && total > Amount::ZERO
            {
                let sum = usage.entry(cells.intern(flavor, resource)).or_default();
                *sum = sum.plus(ResourceUsage {
                    total,
                    allocated: pod_set.allocated(total),
                });
            }
        }
    }
    usage.into_iter().collect()
}

/// As what a workload with usage counts in the status of its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedAs {
    /// It reserves quota, but is not admitted yet, or no longer.
    Reserving,
    /// It is admitted, and reserves quota as all others do.
    Admitted,
}

/// The total usage of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueUsage {
    /// Only what is above zero.
    usage: BTreeMap<FlavorResourceId, ResourceUsage>,
    reserving: usize,
    admitted: usize,
}

impl CountedAs {
    fn admitted(self) -> usize {
        match self {
            Self::Reserving => 0,
            Self::Admitted => 1,
        }
    }
}

impl QueueUsage {
    pub(crate) fn add(&mut self, usage: &WorkloadUsage, counted_as: CountedAs) {
        for (cell, used) in &**usage {
            let sum = self.usage.entry(*cell).or_default();
            *sum = sum.plus(*used);
        }
        self.reserving = self.reserving.saturating_add(1);
        self.admitted = self.admitted.saturating_add(counted_as.admitted());
    }

    /// The reverse of [`QueueUsage::add`]. Says whether all of it was there.
    #[must_use]
    pub(crate) fn remove(&mut self, usage: &WorkloadUsage, counted_as: CountedAs) -> bool {
        let mut was_there = self.reserving > 0 && self.admitted >= counted_as.admitted();
        for (cell, used) in &**usage {
            let sum = self.usage.get_mut(cell);
            was_there = was_there && sum.as_ref().is_some_and(|sum| used.total <= sum.total);
            if let Some(sum) = sum {
                *sum = sum.minus(*used);
                if sum.total <= Amount::ZERO {
                    self.usage.remove(cell);
                }
            }
        }
        self.reserving = self.reserving.saturating_sub(1);
        self.admitted = self.admitted.saturating_sub(counted_as.admitted());
        was_there
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.usage.is_empty()
    }

    pub(crate) fn iter<'a>(
        &'a self,
        cells: &'a FlavorResources,
    ) -> impl Iterator<Item = (&'a FlavorResource, ResourceUsage)> {
        let name =
            |(cell, sum): (&FlavorResourceId, &ResourceUsage)| Some((cells.name(*cell)?, *sum));
        self.usage.iter().filter_map(name)
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = (FlavorResourceId, Amount)> {
        self.usage.iter().map(|(cell, sum)| (*cell, sum.total))
    }

    /// The usage in all flavors together.
    pub(crate) fn by_resource(&self, cells: &FlavorResources) -> BTreeMap<ResourceName, Amount> {
        let mut sums: BTreeMap<ResourceName, Amount> = BTreeMap::new();
        for ((_, resource), used) in self.iter(cells) {
            let sum = sums.entry(resource.clone()).or_default();
            *sum = sum.plus(used.total);
        }
        sums
    }

    pub(crate) fn reserving(&self) -> usize {
        self.reserving
    }

    pub(crate) fn admitted(&self) -> usize {
        self.admitted
    }

    pub(crate) fn by_flavor<T>(
        &self,
        cells: &FlavorResources,
        what: impl Fn(ResourceUsage) -> T,
    ) -> ByFlavor<T> {
        let mut usage = ByFlavor::new();
        for ((flavor, resource), sum) in self.iter(cells) {
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), what(sum));
        }
        usage
    }
}

impl ResourceUsage {
    fn plus(self, other: Self) -> Self {
        Self {
            total: self.total.plus(other.total),
            allocated: self.allocated.plus(other.allocated),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            total: self.total.minus(other.total),
            allocated: self.allocated.minus(other.allocated),
        }
    }
}
