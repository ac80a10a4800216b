//! Children of an object that is queued as a whole, as the Jobs of a JobSet are: they run on what that one
//! was admitted with. Says whether one may not run. Whose child an object is says `controller/intake/lineage.rs`.

use std::collections::BTreeMap;

use sluice_crds::Quantity;
use sluice_kinds::gates::GateState;
use sluice_kinds::hold::Hold;
use sluice_kinds::view::QueueName;

use super::outcome::Note;
use crate::cache::{JobRecord, WorkloadRecord};

/// Why a child may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Excess {
    /// The queued object above it holds no admission.
    NotAdmitted,
    /// It asks for more of this resource than that object was admitted with.
    MoreThanAdmitted {
        resource: String,
        asks: Quantity,
        admitted: Quantity,
    },
}

/// Why `child`, which belongs to `root`, may not run as it does, if so. `workload` is that of `root`.
///
/// What can't be suspended waits behind gates, and pods that are admitted by themselves have usage by
/// themselves.
pub fn excess(
    root: &JobRecord,
    workload: Option<&WorkloadRecord>,
    child: &JobRecord,
) -> Option<Excess> {
    let reading = child.reading.as_ref().ok()?;
    let runs = child.suspended == Some(false) && reading.finished.is_none() && !child.deleting;
    let is_judged = root.hold == Hold::Suspend && root.finished().is_none() && !root.deleting;
    if !runs || !is_judged || !is_held(root) {
        return None;
    }
    let admitted = workload.filter(|record| record.status.admission.is_some());
    let Some(record) = admitted else {
        return Some(Excess::NotAdmitted);
    };
    more_than(&amounts_of(record), child)
}

/// Whether an object may run only when it is admitted, or its gates are gone.
fn is_held(root: &JobRecord) -> bool {
    let is_gated = root.gates != GateState::None && !root.released;
    is_gated || matches!(root.queue, QueueName::Named(_))
}

/// The first resource that a child asks more of than is there. What LimitRanges add is left out: they may be
/// newer than the admission.
fn more_than(admitted: &BTreeMap<&str, i128>, child: &JobRecord) -> Option<Excess> {
    let sets = child.reading.as_ref().ok()?.pod_sets.as_ref().ok()?;
    let mut asks: BTreeMap<&str, i128> = BTreeMap::new();
    for set in sets.iter() {
        for (name, amount) in &set.declared {
            let sum = asks.entry(name).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(i128::from(set.count)));
        }
    }
    asks.into_iter().find_map(|(name, asks)| {
        let admitted = admitted.get(name).copied().unwrap_or_default();
        (admitted < asks).then(|| Excess::MoreThanAdmitted {
            resource: name.to_owned(),
            asks: Quantity::of(name, asks),
            admitted: Quantity::of(name, admitted),
        })
    })
}

/// What a Workload was queued with, all its pods together, in nano-units. What could not be counted never
/// was admitted.
fn amounts_of(record: &WorkloadRecord) -> BTreeMap<&str, i128> {
    let mut amounts: BTreeMap<&str, i128> = BTreeMap::new();
    for set in &record.spec.pod_sets {
        for (name, quantity) in &set.requests {
            let amount = quantity.nanos().unwrap_or_default();
            let sum = amounts.entry(name).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(i128::from(set.count)));
        }
    }
    amounts
}

/// What the user is told about a child that is suspended. `root` names what it belongs to.
pub fn note(excess: &Excess, root: &str) -> Note {
    match excess {
        Excess::NotAdmitted => Note::warning(
            "OwnerNotAdmitted",
            format!(
                "Suspended: {root}, to which this object belongs, is not admitted; after the admission its controller resumes this object"
            ),
        ),
        Excess::MoreThanAdmitted {
            resource,
            asks,
            admitted,
        } => Note::warning(
            "ExceedsOwner",
            format!(
                "Suspended: it requests {resource} {asks}, and {root}, to which it belongs, was admitted with {admitted}; increase the requests of that object, or create this object without the owner reference, so that it is queued by itself"
            ),
        ),
    }
}
