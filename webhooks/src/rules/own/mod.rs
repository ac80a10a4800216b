//! The rules for Sluice's own objects that a CRD schema can't express.
//!
//! Must not know jobs and pods. Uses no other file of `rules`.

pub(crate) mod gates;
pub(crate) mod job_kinds;
pub(crate) mod quotas;
pub(crate) mod reads;
pub(crate) mod validate;
