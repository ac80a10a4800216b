//! What is seen of jobs, pods and what owns them: it is taken into the objects, and sorted by who is queued with
//! whom. Who is admitted or evicted is not decided here: what has changed is marked, and `cycle.rs` goes on.
//! Called by `observe.rs`, by `writes` for what replies show, and by `cycle.rs`; calls `engine_sync.rs`, and tells
//! `decisions` what these wait for.
//!
//! Must not know who is admitted, nor clients.

pub(super) mod children;
pub(super) mod devices;
pub(super) mod jobs;
mod lookups;
pub(super) mod owners;
pub(super) mod pods;
pub(super) mod rereads;
mod settings;
