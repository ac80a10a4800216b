//! What the commands share: forms of output, how a command ends, why it can't be run, and how a gate is named.

use std::io;

use sluice_kinds::Problem;
use sluice_kinds::gates::Gate;
use thiserror::Error;

use crate::cluster::{ClusterError, UnknownResource};

pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the API server refuses, there is no such object, or it does not have the gate
  2  wrong usage, or the cluster does not answer what is asked for";

/// How a command ended that could be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All was done.
    Done,
    /// A gate was not lifted, or the API server refused to tell of gates.
    NotDone,
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
    #[error("no kind could be listed that gates may hold: you need the right to list one of {0}")]
    NothingListed(String),
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

/// The gate that an argument names: itself, or its Gate.
pub(super) fn gate(argument: &str) -> Result<Gate, GatesError> {
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
