//! Namespaces where objects need a queue: what becomes of one that names none, and that an edit is no way round. Which
//! namespaces these are is in `sluice-gates`.
//!
//! Must not know how objects are held: one that is to wait gets a gate. Uses files of `rules`, `jobs` and `applies`.

pub(crate) mod creation;
pub(crate) mod made;
pub(crate) mod owners_without_jobkind;
pub(crate) mod removal;
pub(crate) mod required;
pub(crate) mod start;
