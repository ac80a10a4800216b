//! When a gate is lifted after another object: which object that is, what is to be true of it, and why a held object
//! still waits.
//!
//! Must not know how objects are watched, or who may lift a gate. Uses no other folder.

pub(crate) mod compiled;
pub(crate) mod dependency;
mod reference;
pub(crate) mod rule;
#[cfg(test)]
mod tests;
pub(crate) mod waiting;
