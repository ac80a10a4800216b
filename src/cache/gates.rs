//! The Gates. Filled from a watch; what gates hold is in `held.rs`, what they wait for in `dependencies.rs`, and what
//! follows for an object is decided in `plan/gates/action.rs`.

pub mod dependencies;
pub mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_crds::{Deadline, GateSpec, GateStatus, OnExpiry, QueuePlace};
use sluice_gates::CompiledGate;
use sluice_kinds::Problem;
use sluice_kinds::gates::Gate;

/// A Gate.
#[derive(Debug, Clone)]
pub struct GateObject {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// What it says.
    pub spec: Arc<GateSpec>,
    /// The same, checked; or what is wrong with it.
    pub compiled: Result<CompiledGate, Vec<Problem>>,
    /// The status that the API server has.
    pub status: GateStatus,
    /// From how many objects its gate was lifted.
    pub lifted: i64,
    /// For how many objects its deadline has passed.
    pub expired: i64,
}

impl GateObject {
    /// The deadline that acts. That of a Gate which is not valid tells that it has passed, and does nothing else.
    pub fn deadline(&self) -> Option<Deadline> {
        let acts =
            |deadline: &Deadline| self.compiled.is_ok() || deadline.on_expiry == OnExpiry::Notify;
        self.spec.deadline.filter(acts)
    }

    /// How many objects may have passed it at a time, if it counts them.
    pub fn limit(&self) -> Option<usize> {
        let counter = self.spec.counter.filter(|_| self.compiled.is_ok())?;
        Some(usize::try_from(counter.limit).unwrap_or_default())
    }
}

/// The Gates, by the gate that each is named for.
#[derive(Debug, Default)]
pub struct Gates {
    known: BTreeMap<Gate, GateObject>,
}

impl Gates {
    /// Takes in the Gate of `gate`; `None` if it is gone. Returns whether it says something else than before.
    pub fn set(&mut self, gate: Gate, object: Option<sluice_crds::Gate>) -> bool {
        let Some(object) = object else {
            return self.known.remove(&gate).is_some();
        };
        let status = object.status.unwrap_or_default();
        let known = self.known.get(&gate);
        let is_other = known.is_none_or(|known| *known.spec != object.spec);
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let next = GateObject {
            generation: object.metadata.generation,
            compiled: CompiledGate::compile(name, &object.spec),
            spec: Arc::new(object.spec),
            // What was counted and not written yet stays counted.
            lifted: known
                .map_or(0, |known| known.lifted)
                .max(status.lifted_total),
            expired: known
                .map_or(0, |known| known.expired)
                .max(status.expired_total),
            status,
        };
        self.known.insert(gate, next);
        is_other
    }

    /// The Gate of `gate`, if there is one.
    pub fn get(&self, gate: &Gate) -> Option<&GateObject> {
        self.known.get(gate)
    }

    /// All Gates.
    pub fn iter(&self) -> impl Iterator<Item = (&Gate, &GateObject)> {
        self.known.iter()
    }

    /// Whether a Gate says that objects take their place when it is lifted.
    pub fn any_place_is_late(&self) -> bool {
        let mut known = self.known.values();
        known.any(|gate| gate.spec.place == QueuePlace::WhenLifted)
    }

    /// A gate was lifted from an object. Returns whether it has a Gate.
    pub fn count_lifted(&mut self, gate: &Gate) -> bool {
        let known = self.known.get_mut(gate);
        known.is_some_and(|known| {
            known.lifted = known.lifted.saturating_add(1);
            true
        })
    }

    /// The deadline of a gate has passed for an object. Returns whether it has a Gate.
    pub fn count_expired(&mut self, gate: &Gate) -> bool {
        let known = self.known.get_mut(gate);
        known.is_some_and(|known| {
            known.expired = known.expired.saturating_add(1);
            true
        })
    }
}
