//! What an object keeps of its gates in annotations: which were lifted, which have expired, and what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use sluice_crds::GATE_FAILURES_ANNOTATION;
use sluice_kinds::gates::{GATE_ANNOTATIONS, GateRecord};

/// What an object keeps of its gates. Most objects keep nothing, and cost nothing then.
#[derive(Debug, Clone, Default)]
pub struct KeptGates(Option<Box<Kept>>);

/// What an object keeps.
#[derive(Debug, Clone)]
struct Kept {
    record: GateRecord,
    /// The gate annotations as they are written; and of an object that has some those that may name a time, and why it
    /// was given some.
    annotations: BTreeMap<String, String>,
}

/// Longest annotation that may name a time, in bytes, and how many of them are kept.
const TIME_BYTES_MAX: usize = 64;
const TIMES_MAX: usize = 64;

/// That of an object that keeps nothing.
static NOTHING: GateRecord = GateRecord {
    lifted: Vec::new(),
    expired: BTreeSet::new(),
    deactivated_by: None,
};
static NO_GATES: BTreeMap<String, String> = BTreeMap::new();

impl KeptGates {
    /// Reads the annotations of an object.
    pub fn read(annotations: &BTreeMap<String, String>) -> Self {
        let record = GateRecord::read(annotations);
        let gates = GATE_ANNOTATIONS.into_iter();
        let gates = gates.filter_map(|key| annotations.get_key_value(key));
        let of_gates: Vec<_> = gates.collect();
        let times = annotations.iter().filter(|_| !of_gates.is_empty());
        let times = times.filter(|(_, value)| value.len() <= TIME_BYTES_MAX);
        let failures = annotations.get_key_value(GATE_FAILURES_ANNOTATION);
        let failures = failures.filter(|_| !of_gates.is_empty());
        let kept = of_gates.iter().copied().chain(times.take(TIMES_MAX));
        let kept = kept.chain(failures);
        let annotations: BTreeMap<_, _> = kept.map(|(k, v)| (k.clone(), v.clone())).collect();
        let is_empty = record == NOTHING && annotations.is_empty();
        Self((!is_empty).then(|| {
            Box::new(Kept {
                record,
                annotations,
            })
        }))
    }

    /// Which gates the object was given because it could not be found out whether they apply, and why.
    pub fn failures(&self) -> Option<&str> {
        let failures = self.annotations().get(GATE_FAILURES_ANNOTATION);
        failures.map(String::as_str)
    }

    /// The gate annotations as they are written, and those that may name a time.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        self.0.as_ref().map_or(&NO_GATES, |kept| &kept.annotations)
    }
}

impl Deref for KeptGates {
    type Target = GateRecord;

    fn deref(&self) -> &GateRecord {
        self.0.as_ref().map_or(&NOTHING, |kept| &kept.record)
    }
}
