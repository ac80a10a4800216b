//! Namespaces where objects need a queue. What their policies say is in `manifests/enforced.rs`.

pub(super) mod jobs;
mod makers;
mod status;
