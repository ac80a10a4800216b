//! How the commands end, why they can't be run, and how a result is written.

use std::io;

use serde::Serialize;
use thiserror::Error;

use crate::cluster::{self, ClusterError, Format, UnknownResource};

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the API server refuses
  2  wrong usage, or the cluster does not answer what is asked for";

/// Those of commands about one object.
pub(super) const EXIT_CODES_OF_ONE: &str = "\
Exit codes:
  0  done
  1  the API server refuses, or there is no such object
  2  wrong usage, or the cluster does not answer what is asked for";

/// How a command ended that could be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All was done.
    Done,
    /// Something was refused, is not there, or is not well.
    NotDone,
}

/// Why a command could not be run.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The argument names no object.
    #[error("{0:?} names no object: say KIND/NAME, as in {1}")]
    NoObject(String, &'static str),
    /// What is to be drained is no queue.
    #[error(
        "--drain does not go with {0}: it is for clusterqueue/NAME and localqueue/NAME; hold {0} stops it if it runs"
    )]
    Drain(String),
    /// A quota that can't be read.
    #[error("--quota {0:?}: must be FLAVOR:RESOURCE=AMOUNT,... as in default:cpu=4,memory=8Gi")]
    NoQuota(String),
    /// A quota of a resource that has no such name.
    #[error(
        "--quota {0:?}: {1:?} is no name of a resource: must be a qualified name, as in cpu or example.com/gpu"
    )]
    BadResource(String, String),
    /// A quota below nothing.
    #[error("--quota {0:?}: {1:?} must be greater than or equal to 0")]
    Negative(String, String),
    /// A quota that names a resource twice.
    #[error("--quota {0:?}: {1:?} is named twice")]
    Twice(String, String),
    /// Who is asked about is not queued. It says why, as far as that is known.
    #[error("{0}")]
    NotQueued(String),
    /// Two quotas of a flavor.
    #[error("--quota: flavor {0:?} is named twice: a flavor has one list of resources")]
    TwoQuotas(String),
    /// Resource groups that share a resource.
    #[error(
        "--quota {0:?}: {1:?} is in another group: flavors that have a resource in common must have the same resources"
    )]
    TwoGroups(String, String),
    /// A label that no node has.
    #[error(
        "--node-label {0:?}: KEY must be a qualified name and VALUE a name of at most 63 characters, as in cloud.example.com/spot=true"
    )]
    BadLabel(String),
    /// A label that can't be read.
    #[error("--node-label {0:?}: must be KEY=VALUE, as in cloud.example.com/spot=true")]
    NoLabel(String),
    /// A name that no object has.
    #[error("{given} {name:?}: must be a lowercase RFC 1123 subdomain")]
    BadName {
        /// What says it: NAME, or an option.
        given: &'static str,
        /// The name.
        name: String,
    },
    /// Files can't be read.
    #[error("{0}")]
    Unreadable(String),
    /// No such kind.
    #[error(transparent)]
    Resource(#[from] UnknownResource),
    /// The cluster does not answer what is asked for.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster has more than may be read of it here.
    #[error(
        "the queues and jobs of the cluster are more than can be read here; the plugin on your own machine has no such limit"
    )]
    TooMuch,
    /// The result can't be printed in the form that was asked for.
    #[error("can't print the result: {0}")]
    Unprintable(String),
    /// The result can't be written.
    #[error("the result can't be written: {0}")]
    Unwritable(#[from] io::Error),
    /// There is no runtime to ask the cluster with.
    #[error("can't start: {0}")]
    NoRuntime(#[source] io::Error),
}

/// A result in the form that was asked for; `table` makes the one for people, wide or not.
pub(super) fn shown(
    format: Option<Format>,
    rows: &impl Serialize,
    table: impl FnOnce(bool) -> String,
) -> Result<String, LiveError> {
    match format {
        None => Ok(table(false)),
        Some(Format::Wide) => Ok(table(true)),
        Some(Format::Json) => serde_json::to_string_pretty(rows)
            .map(|text| text + "\n")
            .map_err(|error| LiveError::Unprintable(error.to_string())),
        Some(Format::Yaml) => {
            serde_saphyr::to_string(rows).map_err(|error| LiveError::Unprintable(error.to_string()))
        }
    }
}

/// The kind and the name of `KIND/NAME`.
pub(super) fn object_name<'a>(
    argument: &'a str,
    example: &'static str,
) -> Result<(&'a str, &'a str), LiveError> {
    cluster::object_name(argument).ok_or_else(|| LiveError::NoObject(argument.to_owned(), example))
}
