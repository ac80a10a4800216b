//! The JobKinds that jobs are read by: those among the input, and the shipped ones for all other kinds.

use std::collections::BTreeSet;

use sluice_kinds::QueueGates;

use super::settings::{Place, Role, text};
use crate::input::{self, Document, InputError};
use crate::rules::schemas::Schemas;
use crate::rules::shipped::SHIPPED;
use crate::rules::{self, Rules};
use crate::simulate::problem::Problems;

/// The JobKinds `given` in files; those `seen` in a cluster, if one was asked, or else the shipped ones, for kinds that
/// the others are not for.
///
/// # Errors
/// A shipped JobKind can't be parsed.
pub fn read(
    given: &[Document],
    seen: Option<&[Document]>,
    queue_gates: &QueueGates,
    problems: &mut Problems,
) -> Result<Vec<Rules>, Vec<InputError>> {
    let schemas = Schemas::new(&[], &[])?;
    let given = job_kinds(given);
    let mut all = rules::read(&given, &schemas, queue_gates);
    for (rules, document) in all.iter().zip(&given) {
        for problem in &rules.problems {
            problems.add_text(&Place(document), problem);
        }
    }
    let others = match seen {
        Some(seen) => job_kinds(seen),
        None => shipped()?,
    };
    // What is wrong with these is not for the user to mend: what they are for can't be read.
    let others: Vec<_> = rules::read(&others, &schemas, queue_gates)
        .into_iter()
        .filter(|other| {
            !all.iter()
                .any(|given| given.reads(&other.group, &other.kind))
        })
        .collect();
    all.extend(others);
    Ok(all)
}

/// The groups and kinds of objects that never end by themselves: their JobKinds have no rule for that. By the JobKinds `seen`
/// in a cluster, or the shipped ones if none were.
pub fn endless(seen: &[Document]) -> BTreeSet<(String, String)> {
    let mut all = job_kinds(seen);
    if all.is_empty() {
        all = shipped().unwrap_or_default();
    }
    let all = all.iter().map(|document| &document.value);
    let endless = all.filter(|kind| kind.pointer("/spec/finished").is_none());
    let named = |kind, field| text(kind, field).to_owned();
    endless
        .map(|kind| (named(kind, "/spec/group"), named(kind, "/spec/kind")))
        .collect()
}

fn job_kinds(documents: &[Document]) -> Vec<Document> {
    let all = documents.iter();
    all.filter(|document| Role::of(document) == Role::JobKind)
        .cloned()
        .collect()
}

fn shipped() -> Result<Vec<Document>, Vec<InputError>> {
    let mut shipped = Vec::new();
    for (name, text) in SHIPPED {
        shipped.extend(input::objects_in(name, text)?);
    }
    Ok(shipped)
}
