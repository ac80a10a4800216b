//! The rules of a JobKind about pod sets: where an object has pod templates, and how many pods of each.
//!
//! Must not know what a template asks for, nor the rest of the JobKind. Uses `expression`, `read`, `gates`
//! and `field`.

pub(crate) mod added;
mod compile;
pub(crate) mod metadata;
pub(crate) mod partial;
pub(crate) mod rule;
pub(crate) mod template;
