//! What an object keeps of its gates in annotations: which were lifted, which have expired, and what they are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use sluice_crds::{AFTER_ANNOTATION, GATE_FAILURES_ANNOTATION, NOT_BEFORE_ANNOTATION};
use sluice_kinds::gates::{GATE_ANNOTATIONS, GateRecord};

/// What an object keeps of its gates. Most objects keep nothing, and cost nothing then.
#[derive(Debug, Clone, Default)]
pub struct KeptGates(Option<Box<Kept>>);

/// What an object keeps.
#[derive(Debug, Clone)]
struct Kept {
    record: GateRecord,
    /// The gate annotations as they are written; and of an object that has some those that may name a time or
    /// another object, and why it was given some.
    annotations: BTreeMap<String, String>,
    /// Whether it has more annotations than are kept.
    is_cut: bool,
}

/// Longest annotation that may name a time or an object, in bytes: the longest KIND.GROUP/NAME has 571.
const NAMING_BYTES_MAX: usize = 576;
/// How much of such annotations is kept of an object, in bytes.
const KEPT_BYTES_MAX: usize = 4096;
/// The annotations that name a time or an object if a Gate names no other. They are kept first.
const USUAL: [&str; 2] = [NOT_BEFORE_ANNOTATION, AFTER_ANNOTATION];

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
        let kept = of_gates.iter().map(|(k, v)| ((*k).clone(), (*v).clone()));
        let mut kept: BTreeMap<String, String> = kept.collect();
        if !kept.is_empty() {
            let failures = annotations.get_key_value(GATE_FAILURES_ANNOTATION);
            kept.extend(failures.map(|(k, v)| (k.clone(), v.clone())));
        }
        let is_cut = !kept.is_empty() && keep_naming(annotations, &mut kept);
        let annotations = kept;
        let is_empty = record == NOTHING && annotations.is_empty();
        Self((!is_empty).then(|| {
            Box::new(Kept {
                record,
                annotations,
                is_cut,
            })
        }))
    }

    /// Which gates the object was given because it could not be found out whether they apply, and why.
    pub fn failures(&self) -> Option<&str> {
        let failures = self.annotations().get(GATE_FAILURES_ANNOTATION);
        failures.map(String::as_str)
    }

    /// What is told if `key`, which a Gate names, is missing as the object has more annotations than are kept.
    pub fn unread(&self, key: &str) -> Option<String> {
        let is_unread = self.0.as_ref().is_some_and(|kept| kept.is_cut)
            && !self.annotations().contains_key(key);
        is_unread.then(|| {
            format!(
                "annotation {key} is missing, or can't be read as the object has too many annotations: of such values {KEPT_BYTES_MAX} bytes are read, of the shortest ones"
            )
        })
    }

    /// The gate annotations as they are written, and those that may name a time or another object.
    pub fn annotations(&self) -> &BTreeMap<String, String> {
        self.0.as_ref().map_or(&NO_GATES, |kept| &kept.annotations)
    }
}

/// Keeps what may name a time or another object: the usual annotations first, then short ones whose values have the form
/// of such a name. One that is too long is cut, and names nothing then. Says whether it left any out.
fn keep_naming(
    annotations: &BTreeMap<String, String>,
    kept: &mut BTreeMap<String, String>,
) -> bool {
    let usual = USUAL.into_iter();
    let usual = usual.filter_map(|key| annotations.get_key_value(key));
    let others = annotations.iter();
    let mut others: Vec<_> = others
        .filter(|(_, value)| value.len() <= NAMING_BYTES_MAX)
        .collect();
    // Times are short: they are not to be pushed out. Nor is any name by what other tools write.
    others.sort_by_key(|(_, value)| (!may_name(value), value.len()));
    let mut left = KEPT_BYTES_MAX;
    let mut is_cut = false;
    for (key, value) in usual.chain(others) {
        if kept.contains_key(key) {
            continue;
        }
        let end = value.floor_char_boundary(NAMING_BYTES_MAX);
        let value = value.get(..end).unwrap_or_default();
        match left.checked_sub(key.len().saturating_add(value.len())) {
            Some(rest) => {
                kept.insert(key.clone(), value.to_owned());
                left = rest;
            }
            None => is_cut = true,
        }
    }
    is_cut
}

/// Whether `value` has the form of a time, or of `NAME` or `KIND.GROUP/NAME`.
fn may_name(value: &str) -> bool {
    let is_time = value.starts_with(|first: char| first.is_ascii_digit()) && value.contains(':');
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let (kind, name) = value.split_once('/').unwrap_or(("", value));
    is_time || !name.is_empty() && kind.chars().chain(name.chars()).all(of_name)
}

impl Deref for KeptGates {
    type Target = GateRecord;

    fn deref(&self) -> &GateRecord {
        self.0.as_ref().map_or(&NOTHING, |kept| &kept.record)
    }
}

#[cfg(test)]
mod tests {
    use sluice_kinds::gates::ADMISSION_GATED_BY;

    use super::*;

    fn kept(more: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
        let gates = (ADMISSION_GATED_BY.to_owned(), "acme.io/a".to_owned());
        let annotations = more.into_iter().chain([gates]).collect();
        KeptGates::read(&annotations).annotations().clone()
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_usual_annotations_are() {
        let many = (0..200).map(|n| (format!("a/{n}"), "x".repeat(NAMING_BYTES_MAX)));
        let long = (AFTER_ANNOTATION.to_owned(), "a".repeat(10_000));
        let time = ("z".to_owned(), "2026-12-01T08:00:00Z".to_owned());
        let kept = kept(many.chain([long, time, ("b".to_owned(), "y".repeat(10_000))]));
        assert!(kept.contains_key("z"));
        let bytes: usize = kept
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        assert!(bytes < KEPT_BYTES_MAX + 100, "{bytes}");
        assert_eq!(kept[AFTER_ANNOTATION].len(), NAMING_BYTES_MAX);
        assert!(!kept.contains_key("b"));
        assert_eq!(kept[ADMISSION_GATED_BY], "acme.io/a");
    }

    #[test]
    fn what_other_tools_write_pushes_out_no_name() {
        let notes = (0..400).map(|n| (format!("tool.io/{n}"), format!("note {n}")));
        let named = (
            "acme.io/input".to_owned(),
            "Job.batch/".to_owned() + &"a".repeat(63),
        );
        let time = ("acme.io/time".to_owned(), "2026-12-01T08:00:00Z".to_owned());
        let kept = kept(notes.chain([named, time]));
        assert!(kept.contains_key("acme.io/input") && kept.contains_key("acme.io/time"));
    }

    #[test]
    fn what_is_not_kept_is_told() {
        let read = |count: usize| {
            let names = (0..count).map(|n| (format!("tool.io/{n}"), "a".to_owned()));
            let gates = (ADMISSION_GATED_BY.to_owned(), "acme.io/a".to_owned());
            let named = ("z".to_owned(), "Job/prepare".to_owned());
            KeptGates::read(&names.chain([gates, named]).collect())
        };
        assert_eq!(read(10).unread("z"), None);
        assert_eq!(read(10).unread("y"), None);
        assert!(read(1000).unread("z").is_some());
        assert_eq!(read(1000).unread("tool.io/0"), None);
    }

    #[test]
    fn an_object_without_gates_keeps_nothing() {
        let named = (AFTER_ANNOTATION.to_owned(), "prepare".to_owned());
        let kept = KeptGates::read(&BTreeMap::from([named]));
        assert!(kept.annotations().is_empty());
    }
}
