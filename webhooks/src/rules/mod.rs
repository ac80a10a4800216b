//! The rules, as pure functions of an admission review: who may create and edit what, and what is changed.
//!
//! Must not know HTTP, the API server or what was asked before. What gate annotations may say is in `sluice_kinds`,
//! shared with the controller. Uses `admission`.

pub(crate) mod advice;
pub(crate) mod aliases;
pub(crate) mod applies;
pub(crate) mod author;
pub(crate) mod enforcement;
pub(crate) mod hold;
pub(crate) mod jobs;
pub(crate) mod lifting;
pub(crate) mod own;
mod patched;
pub(crate) mod pods;
pub(crate) mod queue_label;
mod reapplied;
pub mod review;
pub(crate) mod top;
pub(crate) mod unsuspend;
