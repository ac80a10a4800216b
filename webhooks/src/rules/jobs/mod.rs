//! The rules for objects of a managed kind.
//!
//! Must not know pods, nor any kind by name. Uses the files of `rules`, but not `pods` and `own`.

pub(crate) mod change;
pub(crate) mod growth;
pub(crate) mod hold_patch;
pub(crate) mod pause;
pub(crate) mod reason_to_hold;
pub(crate) mod validate;
