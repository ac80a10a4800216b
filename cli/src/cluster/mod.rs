//! What all commands share that ask a cluster: the connection with the caller's rights, which resource a word means,
//! and how they tell what they know. Each answer has a deadline.
//!
//! Must not know what is asked for.

pub mod age;
mod api_server;
mod configuration;
mod connection;
mod declared;
mod home;
mod kubeconfig;
mod namespace_keys;
mod output;
pub mod pages;
mod patching;
mod reader;
mod resource;
mod runtime;

pub use api_server::{ApiServer, who};
pub use configuration::{CONTROLLER_LABELS, configuration};
pub use connection::{
    Cluster, ClusterError, Connection, Namespace, NamespaceOptions, Namespaces, answer,
    answer_within,
};
pub use declared::{Declared, declared};
pub use home::{NAMESPACE, home, is_home};
pub use namespace_keys::unknown_keys;
pub use output::{Format, Tell, Told};
pub use patching::{DryRun, patch_params};
pub use reader::{is_closed, reader_gone, unless_closed};
pub use resource::{POD_GROUP, Resource, Served, UnknownResource, object_name};
pub use runtime::run;
