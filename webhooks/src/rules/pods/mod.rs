//! The rules for pods that wait by themselves, or with their group.
//!
//! Must not know JobKinds beyond who makes what. Uses the files of `rules`, but not `jobs` and `own`.

pub(crate) mod check_create;
pub(crate) mod growth;
pub(crate) mod hold_patch;
pub(crate) mod update;
pub(crate) mod validate;
