//! The JobKinds that jobs are read by: those among the input, and the shipped ones for all other kinds.

use sluice_kinds::QueueGates;

use super::problem::Problems;
use super::settings::{Place, Role};
use crate::input::{self, Document, InputError};
use crate::rules::shipped::SHIPPED;
use crate::rules::{self, Rules};
use crate::schemas::Schemas;

/// The JobKinds among `documents`, and the shipped ones for kinds that those are not for.
///
/// # Errors
/// A shipped JobKind can't be parsed.
pub fn read(
    documents: &[Document],
    problems: &mut Problems,
) -> Result<Vec<Rules>, Vec<InputError>> {
    let mut shipped = Vec::new();
    for (name, text) in SHIPPED {
        shipped.extend(input::objects_in(name, text)?);
    }
    let schemas = Schemas::new(&[], &[])?;
    let queue_gates = QueueGates::new([]);
    let given: Vec<_> = documents
        .iter()
        .filter(|document| Role::of(document) == Role::JobKind)
        .cloned()
        .collect();
    let mut all = rules::read(&given, &schemas, &queue_gates);
    for (rules, document) in all.iter().zip(&given) {
        for problem in &rules.problems {
            problems.add_text(&Place(document), problem);
        }
    }
    let others: Vec<_> = rules::read(&shipped, &schemas, &queue_gates)
        .into_iter()
        .filter(|shipped| {
            !all.iter()
                .any(|given| given.reads(&shipped.group, &shipped.kind))
        })
        .collect();
    all.extend(others);
    Ok(all)
}
