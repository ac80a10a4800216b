//! What an edit that lifts gates leaves on the object: who lifted them and when; and the labels that tell which gates
//! are left. Written in the same request, so that nobody sees one without the other.

use std::collections::BTreeSet;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sluice_crds::LIFTED_GATES_ANNOTATION;
use sluice_kinds::gates::labels::labels_patch;
use sluice_kinds::gates::record::{lifted_by_hand, lifted_value, times_added};
use sluice_kinds::gates::{Gate, GateRecord, Lifted};
use sluice_kinds::metadata::{annotation_text, controller};

use crate::admission::edit::Edit;
use crate::admission::request::Request;
use crate::rules::lifting::lift;

/// How far the time in a record may lie from that of the request: one review comes after the other, and each replica
/// has a clock of its own.
const TIME_APART_MAX: SignedDuration = SignedDuration::from_mins(1);

/// What is changed besides in an object that will be `edit.new`.
pub(crate) fn patch(request: &Request, edit: &Edit<'_>) -> Vec<PatchOperation> {
    let mut patch = labels_patch(edit.new);
    patch.extend(record(request, edit));
    patch
}

/// Whether what the edit does to the record of lifted gates is what [`patch`] did: that each was lifted by the author
/// of the request, now. [`patch`] leaves no time that the author has written, so that clocks differ is all that is allowed
/// for.
pub(crate) fn is_own_record(request: &Request, edit: &Edit<'_>) -> bool {
    let Some(old) = edit.old else {
        return false;
    };
    let value = |object| annotation_text(object, LIFTED_GATES_ANNOTATION).unwrap_or_default();
    let lifted = by_author(request, edit, None);
    let times = times_added(value(old), value(edit.new), lifted);
    let is_now = |at: &Timestamp| {
        let apart = request.received.map(|now| now.duration_since(*at).abs());
        apart.is_none_or(|apart| apart <= TIME_APART_MAX)
    };
    times.is_some_and(|times| times.iter().all(is_now))
}

/// The gates that were lifted from the object itself, and not from one that its record was copied from.
pub(crate) fn lifted_from(object: &Value) -> BTreeSet<Gate> {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    let record = read(object);
    let lifted = record.lifted_from(uid.unwrap_or_default());
    lifted
        .filter_map(|lifted| Gate::parse(&lifted.gate, "").ok())
        .collect()
}

/// The gates that were lifted from the object, or from one that its record was copied from.
pub(super) fn ever_lifted(object: &Value) -> BTreeSet<Gate> {
    let lifted = read(object).lifted;
    let lifted = lifted.iter();
    lifted
        .filter_map(|lifted| Gate::parse(&lifted.gate, "").ok())
        .collect()
}

/// The record of lifted gates of an object.
fn read(object: &Value) -> GateRecord {
    let record = annotation_text(object, LIFTED_GATES_ANNOTATION);
    let record = record.map(|text| (LIFTED_GATES_ANNOTATION.to_owned(), text.to_owned()));
    GateRecord::read(&record.into_iter().collect())
}

/// The operations that keep which gates the edit lifts.
fn record(request: &Request, edit: &Edit<'_>) -> Vec<PatchOperation> {
    let lifted = by_author(request, edit, request.received);
    let Some(old) = edit.old.filter(|_| !lifted.is_empty()) else {
        return Vec::new();
    };
    // Also over a record that differs by no more than the time, which may be a user's: an object may take its place by
    // it. Where this is asked twice, the last time stays.
    let value = lifted_value(&read(old).lifted, lifted);
    if annotation_text(edit.new, LIFTED_GATES_ANNOTATION) == Some(&value) {
        return Vec::new();
    }
    let at = |names: &[&str]| {
        PointerBuf::from_tokens(
            ["metadata", "annotations"]
                .into_iter()
                .chain(names.iter().copied()),
        )
    };
    let add = |path, value| PatchOperation::Add(AddOperation { path, value });
    let is_map = |object: &Value| {
        object
            .pointer("/metadata/annotations")
            .is_some_and(Value::is_object)
    };
    let map = (!is_map(edit.new)).then(|| add(at(&[]), json!({})));
    map.into_iter()
        .chain([add(at(&[LIFTED_GATES_ANNOTATION]), json!(value))])
        .collect()
}

/// The gates that the edit lifts from an object that they hold, as its author does.
fn by_author(request: &Request, edit: &Edit<'_>, at: Option<Timestamp>) -> Vec<Lifted> {
    let Some(uid) = edit
        .uid()
        .filter(|_| !(request.is_pod() && controller(edit.new).is_some()))
    else {
        return Vec::new();
    };
    let lifted = lift::lifted(edit);
    let left = sluice_kinds::gates::named(&sluice_kinds::gates::gate_annotations(edit.new));
    // Those of an object that gets another controller stay in its annotations.
    let gone: Vec<&Gate> = lifted.keys().filter(|gate| !left.contains(gate)).collect();
    lifted_by_hand(gone, &request.user_info.username, at, uid)
}
