//! The rules for gates that are lifted: who may lift those that have a Gate, and what is kept of it. What gate annotations may say is in `sluice_kinds`.
//!
//! Must not know kinds by name, nor how it is found out who may do what. Uses files of `rules`, but not `jobs`,
//! `pods` and `own`.

pub(crate) mod forget;
pub(crate) mod lift;
pub(crate) mod marks;
