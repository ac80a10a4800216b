//! The fields of an object: paths to them, where they lie, the metadata, name formats, and the problems that
//! name a field, as in apimachinery's `field` and `validation` packages.
//!
//! Must not know what any field means. Uses no other folder; every other folder may use it.

pub(crate) mod location;
pub mod metadata;
pub mod names;
pub mod path;
pub mod problem;
