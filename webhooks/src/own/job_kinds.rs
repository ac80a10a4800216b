//! A JobKind must compile: its paths, its expressions, and a kind that may be managed at all.

use sluice_crds::JobKind;
use sluice_kinds::CompiledKind;
use sluice_kinds::problem::Problem;

/// What is wrong with `kind`.
pub(crate) fn check(kind: &JobKind) -> Vec<Problem> {
    CompiledKind::compile(kind).err().unwrap_or_default()
}
