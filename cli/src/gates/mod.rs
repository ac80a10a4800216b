//! `kubectl sluice gates`: what gates hold, and how they are lifted, on a cluster and with the caller's rights.
//! Only this folder asks a cluster. Each answer has a deadline.
//!
//! | file | what it holds |
//! |---|---|
//! | `list`, `show`, `lift` | one command each: what it asks, and in which order |
//! | `cluster` | the connection, deadlines, and errors of the API server |
//! | `resource` | which resource `jobset.jobset.x-k8s.io` is |
//! | `target` | an object with gates: the patch that lifts one of them, and what is left |
//! | `text` | what is printed |

use std::io;

use clap::{Subcommand, ValueEnum};
use sluice_kinds::Problem;
use sluice_kinds::gates::Gate;
use thiserror::Error;

use self::cluster::ClusterError;
use self::resource::UnknownResource;

mod cluster;
mod lift;
mod list;
mod resource;
mod show;
mod target;
mod text;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  a gate was not lifted: it was refused, or the object does not have the gate
  2  wrong usage, or the cluster does not answer what is asked for";

/// List gates, show one, and lift gates.
#[derive(Debug, Subcommand)]
pub enum Gates {
    List(list::List),
    Show(show::Show),
    Lift(lift::Lift),
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// More columns.
    Wide,
}

/// What a command tells, as soon as it knows.
pub enum Told {
    /// What was asked for.
    Result(String),
    /// What the user should know besides.
    Note(String),
    /// What did not work.
    Error(String),
}

/// Takes what a command tells.
pub type Tell<'a> = dyn FnMut(Told) -> io::Result<()> + 'a;

/// How a command ended that could be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All was done.
    Done,
    /// A gate was not lifted.
    NotLifted,
}

/// Why a command could not be run.
#[derive(Debug, Error)]
pub enum GatesError {
    /// The argument names no gate.
    #[error("{0:?} names no gate: say acme.io/budget, or budget.acme.io as its Gate is named")]
    NoGate(String),
    /// The argument is a gate that breaks the rules.
    #[error("{}", sluice_kinds::problem::summarize(.0))]
    BadGate(Vec<Problem>),
    /// The argument names no object.
    #[error("{0:?} names no object: say KIND/NAME, as in job/train")]
    NoObject(String),
    /// A name that no namespace has.
    #[error("{0:?} is no name of a namespace")]
    NoNamespace(String),
    /// Neither an object nor all.
    #[error("say which object: KIND/NAME, or --all")]
    NothingToLift,
    /// All namespaces for one object.
    #[error("-A goes with --all: an object is in one namespace")]
    OneNamespace,
    /// There is no label to find objects by.
    #[error(
        "{0} has no Gate, as its path is no DNS label, and so no label by which its objects are found"
    )]
    NoLabel(Gate),
    /// Nothing could be listed.
    #[error("no kind could be listed")]
    NothingListed,
    /// No such kind.
    #[error(transparent)]
    Resource(#[from] UnknownResource),
    /// The cluster does not answer what is asked for.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An object that is not as its schema says.
    #[error("can't read {what}: {source}")]
    Unreadable {
        /// Which.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
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

impl Gates {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer what is asked for.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        // One thread: the commands mostly wait.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(GatesError::NoRuntime)?;
        let ended = runtime.block_on(async {
            match self {
                Self::List(command) => command.run(tell).await,
                Self::Show(command) => command.run(tell).await,
                Self::Lift(command) => command.run(tell).await,
            }
        });
        // A credential plugin that hangs must not keep the process.
        runtime.shutdown_background();
        ended
    }
}

/// The gate that an argument names: itself, or its Gate.
fn gate(argument: &str) -> Result<Gate, GatesError> {
    if argument.contains('/') {
        Gate::parse(argument, "GATE").map_err(GatesError::BadGate)
    } else {
        Gate::of_object(argument).ok_or_else(|| GatesError::NoGate(argument.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_named_by_itself_or_by_its_object() {
        let cases = [
            ("acme.io/budget", Ok("acme.io/budget")),
            ("budget.acme.io", Ok("acme.io/budget")),
            ("acme.io/a/b", Ok("acme.io/a/b")),
            (
                "budget",
                Err(
                    "\"budget\" names no gate: say acme.io/budget, or budget.acme.io as its Gate is named",
                ),
            ),
            (
                "acme.io/",
                Err(
                    "GATE: Invalid value: \"acme.io/\": must be a domain-prefixed path (such as \"acme.io/foo\")",
                ),
            ),
        ];
        for (argument, expected) in cases {
            let found = gate(argument).map_err(|error| error.to_string());
            let found = found.as_ref().map(Gate::as_str).map_err(String::as_str);
            assert_eq!(found, expected, "{argument}");
        }
    }
}
