//! A model of the API server: objects with revisions, lists in pages, watches, conflicts, patches,
//! deletion, and admission by the webhooks of the replica that runs. It answers requests as they come over
//! HTTP, so that the clients of a replica are the real ones. That it answers like a real API server is seen
//! to by `tests/conformance.rs`; what goes wrong on the way to it is in `crate::network`.

pub mod admission;
mod answer;
mod discovery;
mod patch;
mod request;
pub mod resource;
mod rules;
mod select;
mod server;
pub mod store;
mod stream;

pub use answer::Refusal;
pub use rules::Part;
pub use server::{Author, Reply, Server};
