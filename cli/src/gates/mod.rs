//! `kubectl sluice gates`: what gates hold, and how they are lifted, on a cluster and with the caller's rights.
//! Connection and deadlines are those of `cluster`.
//!
//! | file | what it holds |
//! |---|---|
//! | `list`, `show`, `lift` | one command each: what it asks, and in which order |
//! | `outcome` | what the commands share: how each ends, and why it can't be run |
//! | `lift_patch` | an object with gates: the patch that lifts one of them, and what is left |
//! | `opening` | what the spec of a Gate says, in words |
//! | `text` | what is printed |
//!
//! Must not decide whether a gate is open.

use clap::Subcommand;

pub use self::outcome::{Ended, GatesError};
use crate::cluster::{Tell, run};

mod lift;
mod lift_patch;
mod list;
mod opening;
mod outcome;
mod show;
mod text;

/// List gates, show one, and lift gates.
#[derive(Debug, Subcommand)]
pub enum Gates {
    List(list::List),
    Show(show::Show),
    Lift(lift::Lift),
}

impl Gates {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer what is asked for.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
        let command = async {
            match self {
                Self::List(command) => command.run(tell).await,
                Self::Show(command) => command.run(tell).await,
                Self::Lift(command) => command.run(tell).await,
            }
        };
        run(command).map_err(GatesError::NoRuntime)?
    }
}
