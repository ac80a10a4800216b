//! A Gate must be named for a gate, and its schedule must be one that opens. What a schedule means lies in
//! `sluice-gates`.

use sluice_crds::{AppliesTo, Gate};
use sluice_gates::{CompiledAppliesTo, CompiledGate};
use sluice_kinds::problem::{Problem, fill};

use crate::admission::policy::Policy;

/// What is told of a kind that nobody manages: its index, the kind and its API group.
const NOT_MANAGED: &str = "spec.appliesTo.kinds[{}]: no JobKind declares {} of API group {}, so its objects do not get the gate until there is one";
/// What is told of an expression over who makes the request.
const READS_AUTHOR: &str = "spec.appliesTo.when: user and groups are of whoever makes the request: for a Job of a CronJob those of the controller, not of who made the CronJob";

/// What is wrong with `gate`.
pub(crate) fn check(gate: &Gate) -> Vec<Problem> {
    let name = gate.metadata.name.as_deref().unwrap_or_default();
    CompiledGate::compile(name, &gate.spec)
        .err()
        .unwrap_or_default()
}

/// What the author of `gate` is warned of.
pub(crate) fn warnings(gate: &Gate, policy: &Policy) -> Vec<String> {
    let Some(applies_to) = &gate.spec.applies_to else {
        return Vec::new();
    };
    let mut warnings = not_managed(applies_to, policy);
    let compiled = CompiledAppliesTo::or_wider(applies_to);
    if compiled.reads_author() && compiled.may_be("batch", "Job") {
        warnings.push(READS_AUTHOR.to_owned());
    }
    warnings
}

fn not_managed(applies_to: &AppliesTo, policy: &Policy) -> Vec<String> {
    if !policy.knows_kinds() {
        return Vec::new();
    }
    let kinds = applies_to.kinds.iter().enumerate();
    let others = kinds
        .filter(|(_, applied)| !applied.is_pod() && !policy.manages(&applied.group, &applied.kind));
    let told = others.map(|(index, applied)| {
        let group = format!("{:?}", applied.group);
        fill(NOT_MANAGED, &[&index.to_string(), &applied.kind, &group])
    });
    told.collect()
}
