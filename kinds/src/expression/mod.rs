//! CEL expressions over the fields of an object.
//!
//! Must not know what an expression means for a job. Uses no other folder.

pub(crate) mod compiled;
pub(crate) mod condition;
pub(crate) mod error;
mod failure;
mod indexes;
mod limits;
mod nesting;
mod project;
pub(crate) mod types;
pub(crate) mod walk;
mod written;
