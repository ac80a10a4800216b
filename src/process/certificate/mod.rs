//! The webhook's certificate, from the Secret to the server and into the CA bundles of those who ask it. When one is to
//! be renewed is told in `webhooks/src/certificates/renewal.rs`.
//!
//! Must not know what the webhooks are asked about.

mod api_service;
mod keeper;
mod store;
mod trust;

pub use keeper::CertificateKeeper;
