//! What is read of objects, pods, pod templates and marks: views, that is checked values without JSON.
//!
//! Must not know JobKinds, and writes nothing. Uses `gates` and `field`.

pub mod aliases;
pub mod claims;
pub mod devices;
pub(crate) mod place;
pub mod pod;
pub(crate) mod pod_group;
pub mod pod_hold;
pub(crate) mod pod_set;
pub mod priority_classes;
pub mod requests;
pub mod stored;
pub mod suspension;
pub mod template;
pub mod view;
