//! The patch that puts gates into the annotations of an object that is being created. What makes it wait then is
//! patched afterwards, as if it had named them itself.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation, RemoveOperation};
use serde_json::Value;
use sluice_crds::GATE_FAILURES_ANNOTATION;

use crate::field::metadata::annotation;
use crate::field::problem::Problem;
use crate::gates::{self, ADMISSION_GATED_BY, Gate};
use crate::patch::gating::add_metadata;
use crate::read::place::Place;

/// Longest value of [`GATE_FAILURES_ANNOTATION`], in bytes.
const FAILURES_BYTES_MAX: usize = 1024;

/// The patch that adds `more` gates, which `object` does not name, and says what could not be found out about them;
/// nothing if `failures` is empty, whatever the author of the object says.
///
/// # Errors
/// The list of gates gets too long.
pub fn gate_object_patch<'a>(
    object: &Value,
    more: impl IntoIterator<Item = &'a Gate>,
    failures: &str,
) -> Result<Patch, Problem> {
    let mut more = more.into_iter().peekable();
    let mut annotations = BTreeMap::new();
    let mut operations = Vec::new();
    if more.peek().is_some() {
        let value = gates::with(&gates::gate_annotations(object), more)?;
        annotations.insert(ADMISSION_GATED_BY.to_owned(), value);
    }
    if !failures.is_empty() {
        let end = failures.floor_char_boundary(FAILURES_BYTES_MAX);
        let text = failures.get(..end).unwrap_or_default().to_owned();
        annotations.insert(GATE_FAILURES_ANNOTATION.to_owned(), text);
    } else if annotation(object, GATE_FAILURES_ANNOTATION).is_some() {
        operations.push(PatchOperation::Remove(RemoveOperation {
            path: Place::pod().metadata(&["annotations", GATE_FAILURES_ANNOTATION]),
        }));
    }
    operations.extend(add_metadata(
        object,
        &Place::pod(),
        &BTreeMap::new(),
        &annotations,
    ));
    Ok(Patch(operations))
}
