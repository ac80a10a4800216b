//! Reads any Job-like object: its gates, pod sets, requests, whether it is suspended and finished;
//! and says which patch holds it or lets it go. Pure: object in, view or patch out. No client, no
//! clock, no decisions about quota.
#![deny(missing_docs)]

mod expression;
#[cfg(test)]
mod fixtures;
pub mod gates;
pub mod jobkind;
pub mod names;
pub mod patch;
pub mod path;
pub mod problem;
pub mod requests;
pub mod schema;
pub mod template;
pub mod view;

pub use jobkind::CompiledKind;
pub use problem::Problem;
