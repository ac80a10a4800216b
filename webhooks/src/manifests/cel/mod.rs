//! Parts of policies in CEL: what is read of objects, and what is wrong with them.
//!
//! Must not know which policy uses a part. Uses `options.rs` and `held.rs`.

pub(crate) mod applying;
pub(crate) mod gate_marks;
pub(crate) mod gates;
pub(crate) mod gating;
pub(crate) mod growth;
pub(crate) mod holding;
pub(crate) mod lifting;
pub(crate) mod marks;
pub(crate) mod metadata;
pub(crate) mod owners;
pub(crate) mod path;
pub(crate) mod queue;
pub(crate) mod refuse;
pub(crate) mod required;
pub(crate) mod suspension;
pub(crate) mod syntax;
