//! What is charged to one queue: sums by flavor and resource, and how many workloads. The same for
//! ClusterQueues and LocalQueues; who may charge what is decided elsewhere, and what of it is
//! allocated matters to nobody there.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::amount::Amount;
use crate::cells::{CellId, Cells, FlavorResource};
use crate::model::Admission;
use crate::names::ResourceName;
use crate::status::{ByFlavor, Charged};

/// What one admission charges, by cell; only what is above zero.
pub(crate) type Charge = Arc<[(CellId, Charged)]>;

/// What an admission charges. Amounts are clamped one by one, so that an absurd one that got
/// stored can be taken back exactly as it was added.
pub(crate) fn charge_of(admission: &Admission, cells: &mut Cells) -> Charge {
    let mut charge: BTreeMap<CellId, Charged> = BTreeMap::new();
    for pod_set in &*admission.pod_sets {
        for (resource, amount) in &pod_set.usage {
            let total = amount.clamped();
            if let Some(flavor) = pod_set.flavors.get(resource)
                && total > Amount::ZERO
            {
                let sum = charge.entry(cells.intern(flavor, resource)).or_default();
                *sum = sum.plus(Charged {
                    total,
                    allocated: pod_set.allocated(total),
                });
            }
        }
    }
    charge.into_iter().collect()
}

/// Sums of what is charged to a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Only what is above zero.
    usage: BTreeMap<CellId, Charged>,
    reserving: usize,
    admitted: usize,
}

impl Ledger {
    pub(crate) fn add(&mut self, charge: &Charge, admitted: bool) {
        for (cell, charged) in &**charge {
            let sum = self.usage.entry(*cell).or_default();
            *sum = sum.plus(*charged);
        }
        self.reserving = self.reserving.saturating_add(1);
        self.admitted = self.admitted.saturating_add(usize::from(admitted));
    }

    pub(crate) fn remove(&mut self, charge: &Charge, admitted: bool) {
        for (cell, charged) in &**charge {
            if let Some(sum) = self.usage.get_mut(cell) {
                *sum = sum.minus(*charged);
                if sum.total <= Amount::ZERO {
                    self.usage.remove(cell);
                }
            }
        }
        self.reserving = self.reserving.saturating_sub(1);
        self.admitted = self.admitted.saturating_sub(usize::from(admitted));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.usage.is_empty()
    }

    pub(crate) fn usage<'a>(
        &'a self,
        cells: &'a Cells,
    ) -> impl Iterator<Item = (&'a FlavorResource, Charged)> {
        let name = |(cell, sum): (&CellId, &Charged)| Some((cells.name(*cell)?, *sum));
        self.usage.iter().filter_map(name)
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = (CellId, Amount)> {
        self.usage.iter().map(|(cell, sum)| (*cell, sum.total))
    }

    /// What is charged in all flavors together.
    pub(crate) fn by_resource(&self, cells: &Cells) -> BTreeMap<ResourceName, Amount> {
        let mut sums: BTreeMap<ResourceName, Amount> = BTreeMap::new();
        for ((_, resource), charged) in self.usage(cells) {
            let sum = sums.entry(resource.clone()).or_default();
            *sum = sum.plus(charged.total);
        }
        sums
    }

    pub(crate) fn reserving(&self) -> usize {
        self.reserving
    }

    pub(crate) fn admitted(&self) -> usize {
        self.admitted
    }

    pub(crate) fn by_flavor<T>(&self, cells: &Cells, what: impl Fn(Charged) -> T) -> ByFlavor<T> {
        let mut usage = ByFlavor::new();
        for ((flavor, resource), sum) in self.usage(cells) {
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), what(sum));
        }
        usage
    }
}

impl Charged {
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
