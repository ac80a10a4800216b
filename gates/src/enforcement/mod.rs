//! What becomes of an object that names no queue, by the namespace that it is created in.
//!
//! Must not know how objects are read or held. Uses `applies_to`.

pub(crate) mod exception;
pub(crate) mod managed;
#[cfg(test)]
mod tests;
pub(crate) mod unlabelled;
