//! The rules, as pure functions of an admission review: who may create and edit what, and what is changed.
//!
//! Must not know HTTP, the API server or what was asked before. Rules for gates are in `sluice_kinds`. Uses
//! `admission`.

pub(crate) mod advice;
pub(crate) mod aliases;
pub(crate) mod applies;
pub(crate) mod author;
pub(crate) mod enforcement;
pub(crate) mod gates;
pub(crate) mod growth;
pub(crate) mod jobs;
pub(crate) mod own;
mod patched;
pub(crate) mod pods;
pub(crate) mod queue_label;
mod reapplied;
pub mod review;
pub(crate) mod top;
pub(crate) mod unsuspend;
