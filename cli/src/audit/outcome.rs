//! Why the command can't be run.

use std::io;

use thiserror::Error;

use crate::cluster::ClusterError;

/// Why the command could not be run.
#[derive(Debug, Error)]
pub enum AuditError {
    /// The cluster does not answer what is asked for.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The file with the configuration can't be used.
    #[error("--config {file}: {problems}")]
    Configuration {
        /// The file.
        file: String,
        /// All that is wrong with it.
        problems: String,
    },
    /// The result can't be printed in the form that was asked for.
    #[error("can't print the result: {0}")]
    Unprintable(String),
    /// There is no runtime to ask the cluster with.
    #[error("can't start: {0}")]
    NoRuntime(#[source] io::Error),
}
