//! The server: connections and their limits, request bodies, and the HTTP paths.
//!
//! Must not know any rule. Uses `rules` and `admission`.

pub(crate) mod allowed_clients;
mod body;
mod connection;
pub(crate) mod handler;
mod idle;
pub(crate) mod listener;
pub(crate) mod tls;
pub(crate) mod tls_options;
mod unserved;
