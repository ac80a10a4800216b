//! Admission: verdicts as pure functions of the request, one handler, the TLS server that gives
//! them, and the manifests that send requests here.
//!
//! ```text
//! API server ──TLS──▶ server ──▶ handler ──▶ Request ──▶ review::{validate, mutate} ──▶ Verdict
//!                       │                                    ▲
//!               CertificateSlot                     Policy (swapped whole)
//! ```
//!
//! Nothing here calls the API or keeps state about objects: a verdict depends on the request and the
//! [`Policy`] alone; that of a JobKind also on what [`Schemas`] says, which the caller looks up. The rules themselves live in `sluice-kinds`, shared with the controller.
//!
//! The caller holds the two things that change: an `Arc<ArcSwap<Policy>>` and a [`CertificateSlot`].
//! It swaps in a new policy or certificate; connections and requests under way are not disturbed.
#![deny(missing_docs)]

mod allowed_clients;
mod body;
pub mod certificates;
mod connection;
mod growth;
mod handler;
mod jobs;
mod makers;
pub mod manifests;
mod own;
mod pods;
mod policy;
mod probation;
mod queue_label;
mod request;
pub mod review;
mod schemas;
mod server;
mod tls;
mod unsuspend;
mod verdict;

#[cfg(test)]
mod tests;

pub use allowed_clients::{AllowedClients, AllowedClientsError};
pub use handler::router;
pub use policy::Policy;
pub use request::{GroupVersionKind, Malformed, Operation, Request};
pub use schemas::{Published, Schemas};
pub use server::Server;
pub use tls::CertificateSlot;
pub use verdict::Verdict;
