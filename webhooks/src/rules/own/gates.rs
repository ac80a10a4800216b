//! A Gate must be named for a gate, and its schedule must be one that opens. What a schedule means lies in
//! `sluice-gates`.

use sluice_crds::Gate;
use sluice_gates::CompiledGate;
use sluice_kinds::problem::Problem;

/// What is wrong with `gate`.
pub(crate) fn check(gate: &Gate) -> Vec<Problem> {
    let name = gate.metadata.name.as_deref().unwrap_or_default();
    CompiledGate::compile(name, &gate.spec)
        .err()
        .unwrap_or_default()
}
