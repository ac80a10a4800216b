//! Reads any Job-like object: its gates, pod sets, requests, whether it is suspended and finished;
//! and says which patch holds it or releases it. Pure: object in, view or patch out. No client, no
//! clock, no decisions about quota.
#![deny(missing_docs)]

pub mod claims;
pub mod devices;
mod expression;
#[cfg(test)]
mod fixtures;
pub mod gates;
mod gating;
pub mod hold;
pub mod jobkind;
mod location;
pub mod marks;
pub mod metadata;
pub mod names;
mod partial;
pub mod patch;
pub mod path;
mod place;
pub mod pod;
mod pod_group;
mod pod_patch;
mod pod_set;
mod pod_set_rule;
pub mod problem;
mod queue_gates;
pub mod requests;
pub mod schema;
pub mod suspension;
pub mod template;
pub mod view;

pub use hold::Hold;
pub use jobkind::{CompiledKind, label_keys};
pub use location::Location;
pub use place::Place;
pub use pod::{PodView, QueueGates};
pub use problem::Problem;
pub use suspension::{HeldMark, Suspension};
