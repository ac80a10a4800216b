//! Admission without a webhook: a validating and a mutating policy for each managed kind, for pods and Workloads.
//!
//! Must not know Sluice's own account beyond its name. Uses `cel`, `conditions` and files of `manifests`.

mod both_variants;
mod enforced;
mod enforced_dry_run;
mod gate_applies;
mod gate_marks;
mod gate_owners;
mod gate_pods;
mod gate_reads;
mod generate;
mod hold;
mod jobs;
mod marking;
mod pods;
pub(crate) mod policy;
mod suspending;
mod workloads;

pub use crate::manifests::cel::required::problems as unknown_to_policies;
pub use crate::manifests::held::HeldKind;
pub use both_variants::yaml as both_variants_yaml;
pub use generate::{mutating, validating, yaml};
pub use policy::{Mutating, Validating};
