//! What all commands share that ask a cluster: the connection with the caller's rights, and which resource a word means.
//! Each answer has a deadline.
//!
//! Must not know what is asked for.

mod connection;
mod resource;

pub use connection::{Cluster, ClusterError, Connection, Namespaces, answer};
pub use resource::{Resource, Served, UnknownResource};
