//! Gates that are set by policy: which Gates apply to an object (`spec.appliesTo`), what that changes in one that is
//! being created, and which edits it forbids. What a Gate says of an object is in `sluice-gates`.
//!
//! Must not know who may lift a gate, nor how objects are held. Uses files of `rules`, `jobs` and `gates`.

pub(crate) mod creation;
pub(crate) mod edit;
pub(crate) mod makers;
pub(crate) mod pod_controllers;
pub(crate) mod requested_object;
pub(crate) mod which;
