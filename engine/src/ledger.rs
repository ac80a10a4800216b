//! What is charged to one queue: sums by flavor and resource, and how many workloads. The same for
//! ClusterQueues and LocalQueues; who may charge what is decided elsewhere.

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::model::Admission;
use crate::status::ByFlavor;
use crate::tree::FlavorResource;

/// What one admission charges.
pub(crate) type Charge = BTreeMap<FlavorResource, Amount>;

/// What an admission charges. Amounts are clamped one by one, so that an absurd one that got
/// stored can be taken back exactly as it was added.
pub(crate) fn charge_of(admission: &Admission) -> Charge {
    let mut charge = Charge::new();
    for pod_set in &admission.pod_sets {
        for (resource, amount) in &pod_set.usage {
            if let Some(flavor) = pod_set.flavors.get(resource) {
                let sum = charge
                    .entry((flavor.clone(), resource.clone()))
                    .or_default();
                *sum = sum.plus(amount.clamped());
            }
        }
    }
    charge
}

/// Sums of what is charged to a queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Only what is above zero.
    usage: BTreeMap<FlavorResource, Amount>,
    reserving: usize,
    admitted: usize,
}

impl Ledger {
    pub(crate) fn add(&mut self, charge: &Charge, admitted: bool) {
        for (cell, amount) in charge {
            if *amount > Amount::ZERO {
                let sum = self.usage.entry(cell.clone()).or_default();
                *sum = sum.plus(*amount);
            }
        }
        self.reserving = self.reserving.saturating_add(1);
        self.admitted = self.admitted.saturating_add(usize::from(admitted));
    }

    pub(crate) fn remove(&mut self, charge: &Charge, admitted: bool) {
        for (cell, amount) in charge {
            if let Some(sum) = self.usage.get_mut(cell) {
                *sum = sum.minus(*amount);
                if *sum <= Amount::ZERO {
                    self.usage.remove(cell);
                }
            }
        }
        self.reserving = self.reserving.saturating_sub(1);
        self.admitted = self.admitted.saturating_sub(usize::from(admitted));
    }

    pub(crate) fn usage(&self) -> &BTreeMap<FlavorResource, Amount> {
        &self.usage
    }

    pub(crate) fn reserving(&self) -> usize {
        self.reserving
    }

    pub(crate) fn admitted(&self) -> usize {
        self.admitted
    }

    pub(crate) fn usage_by_flavor(&self) -> ByFlavor<Amount> {
        let mut usage = ByFlavor::new();
        for ((flavor, resource), amount) in &self.usage {
            usage
                .entry(flavor.clone())
                .or_default()
                .insert(resource.clone(), *amount);
        }
        usage
    }
}
