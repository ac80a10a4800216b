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
//! [`Policy`] alone; that of a JobKind also on what [`Schemas`] says, and that of an edit that lifts a gate on
//! what [`Access`] says, both of which the caller looks up. What gate annotations may say lives in `sluice-kinds`,
//! shared with the controller; all other rules in `rules`.
//!
//! The caller holds the two things that change: an `Arc<ArcSwap<Policy>>` and a [`CertificateSlot`].
//! It swaps in a new policy or certificate; connections and requests under way are not disturbed.
//!
//! | folder | what lives there |
//! |---|---|
//! | `admission` | the question, the answer, and the policy that the answer depends on |
//! | `rules` | the rules, as pure functions |
//! | `server` | the TLS server and its limits |
//! | `certificates` | certificates of Sluice's own making |
//! | `manifests` | webhook configurations, admission policies, the jail |
//!
//! A folder uses only folders above it in this table.
#![deny(missing_docs)]

mod admission;
pub mod certificates;
pub mod crypto;
pub mod invariants;
pub mod manifests;
mod rules;
mod server;
#[cfg(test)]
mod tests;

pub use admission::access::{Access, Permission, Right, Unanswered};
pub use admission::observer::{Answered, Observer, Report, ReviewOutcome, Webhook};
pub use admission::policy::Policy;
pub use admission::queue_states::{
    ClusterQueueState, GroupLimits, LocalQueueState, QueueStates, QuotaLimits, Uncovered,
};
pub use admission::request::{GroupVersionKind, Malformed, Operation, Request, UserInfo};
pub use admission::schemas::{Published, Schemas};
pub use admission::surroundings::Surroundings;
pub use admission::verdict::Verdict;
pub use rules::review;
pub use server::allowed_clients::{AllowedClients, AllowedClientsError};
pub use server::handler::{Outside, router};
pub use server::listener::Server;
pub use server::tls::CertificateSlot;
pub use server::tls_options::{TlsMinVersion, TlsOptions, TlsOptionsError};
