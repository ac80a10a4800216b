//! Reads any Job-like object: its gates, pod sets, requests, whether it is suspended and finished;
//! and says which patch holds it or releases it. Pure: object in, view or patch out. No client, no
//! clock, no decisions about quota.
//!
//! | folder | what lives there |
//! |---|---|
//! | `field` | paths, locations, metadata, name formats, problems |
//! | `gates` | gate annotations and scheduling gates |
//! | `read` | what is read of objects, pods, templates and marks |
//! | `expression` | CEL expressions over the fields of an object |
//! | `pod_sets` | the rules of a JobKind about pod sets |
//! | `jobkind` | a compiled JobKind; how its objects are held |
//! | `patch` | the patches that hold and release; what nobody but Sluice writes |
//!
//! A folder uses only folders above it in this table.
#![deny(missing_docs)]

mod expression;
mod field;
#[cfg(test)]
mod fixtures;
pub mod gates;
mod jobkind;
pub mod patch;
mod pod_sets;
mod read;

pub use expression::condition::Condition;
pub use expression::error::EvaluationError;
pub use expression::types::Type;
pub use field::location::Location;
pub use field::problem::Problem;
pub use field::{metadata, names, path, problem};
pub use gates::QueueGates;
pub use jobkind::groups::label_keys;
pub use jobkind::hold::Hold;
pub use jobkind::kind::CompiledKind;
pub use jobkind::{hold, manageable_groups, schema};
pub use patch::marks;
pub use pod_sets::metadata::PodMetadata;
pub use read::place::Place;
pub use read::pod::PodView;
pub use read::suspension::{HeldMark, Suspension};
pub use read::{
    aliases, claims, devices, pod, pod_hold, priority_classes, requests, stored, suspension,
    template, view,
};
