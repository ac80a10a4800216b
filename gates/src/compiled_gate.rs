//! A Gate that was checked and can be asked.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sluice_crds::GateSpec;
use sluice_kinds::Problem;
use sluice_kinds::gates::Gate;

use crate::after::compiled::CompiledAfter;
use crate::applies_to::compiled::CompiledAppliesTo;
use crate::schedule::compiled::CompiledSchedule;
use crate::schedule::opening::Opening;

/// What the name of a Gate gets to hear if it is that of no gate.
const NAMES_NO_GATE: &str = "must be <path>.<domain>, at most 63 characters long: the Gate of the gate acme.io/budget \
     is named budget.acme.io";

/// A Gate whose fields were checked.
///
/// ```
/// use std::collections::BTreeMap;
/// use sluice_crds::{GateSpec, NotBefore, Schedule};
/// use sluice_gates::{CompiledGate, Opening};
///
/// let not_before = Some(NotBefore::default());
/// let schedule = Some(Schedule { not_before, ..Schedule::default() });
/// let spec = GateSpec { schedule, ..GateSpec::default() };
/// let gate = CompiledGate::compile("night.acme.io", &spec).unwrap();
///
/// let annotations = BTreeMap::from([(
///     "sluice.dev/not-before".to_owned(),
///     "2026-12-01T08:00:00Z".to_owned(),
/// )]);
/// let Opening::Closed(closed) = gate.opening(&annotations, "2026-11-30T00:00:00Z".parse().unwrap()) else {
///     panic!("open too early");
/// };
/// assert_eq!(closed.until, Some("2026-12-01T08:00:00Z".parse().unwrap()));
/// assert_eq!(gate.opening(&annotations, "2026-12-01T08:00:00Z".parse().unwrap()), Opening::Open);
/// ```
#[derive(Debug, Clone)]
pub struct CompiledGate {
    gate: Gate,
    schedule: Option<CompiledSchedule>,
    after: Option<CompiledAfter>,
}

impl CompiledGate {
    /// Checks the Gate of this name.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of its fields.
    pub fn compile(name: &str, spec: &GateSpec) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let gate = Gate::of_object(name);
        if gate.is_none() {
            problems.push(Problem::invalid("metadata.name", name, NAMES_NO_GATE));
        }
        let schedule = spec.schedule.as_ref().map(CompiledSchedule::compile);
        let schedule = schedule.transpose().unwrap_or_else(|found| {
            problems.extend(found);
            None
        });
        let after = spec.after.as_ref().map(CompiledAfter::compile);
        let after = after.transpose().unwrap_or_else(|found| {
            problems.extend(found);
            None
        });
        let applies_to = spec.applies_to.as_ref().map(CompiledAppliesTo::compile);
        if let Some(Err(found)) = applies_to {
            problems.extend(found);
        }
        match gate {
            Some(gate) if problems.is_empty() => Ok(Self {
                gate,
                schedule,
                after,
            }),
            _ => Err(problems),
        }
    }

    /// The gate that the Gate is about.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// After which other object the gate is lifted, if it is.
    pub fn after(&self) -> Option<&CompiledAfter> {
        self.after.as_ref()
    }

    /// The key of the annotation by which held objects name what this gate waits for, if they do.
    pub fn annotation(&self) -> Option<&str> {
        let schedule = self.schedule.as_ref();
        let time = schedule.and_then(|schedule| schedule.annotation());
        time.or_else(|| self.after.as_ref()?.annotation())
    }

    /// Whether the gate is lifted at `now` from any object: from none if it has no schedule, or that is closed for
    /// all.
    pub fn lets_any_through(&self, now: Timestamp) -> bool {
        let schedule = self.schedule.as_ref();
        schedule.is_some_and(|schedule| schedule.lets_any_through(now))
    }

    /// Whether [`CompiledGate::opening`] is [`Opening::Open`]. Costs less, as it does not find out until when a gate
    /// is closed.
    pub fn is_open(&self, annotations: &BTreeMap<String, String>, now: Timestamp) -> bool {
        let schedule = self.schedule.as_ref();
        schedule.is_some_and(|schedule| {
            schedule.lets_any_through(now) && schedule.has_come(annotations, now)
        })
    }

    /// Whether the gate is to be lifted at `now` from an object with these annotations. The answer depends on
    /// nothing else: a clock that jumps changes it, and what was asked before does not.
    pub fn opening(&self, annotations: &BTreeMap<String, String>, now: Timestamp) -> Opening {
        match &self.schedule {
            None => Opening::NotScheduled,
            Some(schedule) => schedule.opening(annotations, now),
        }
    }
}
