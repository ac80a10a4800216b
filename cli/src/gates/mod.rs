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
use crate::cluster::{Tell, Told, run};

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
        done(run(command).map_err(GatesError::NoRuntime)?, tell)
    }
}

/// How a command ended. What the API server refuses, or does not have, is no wrong usage, and is not to be tried again.
///
/// # Errors
/// It could not be run, for another reason.
fn done(ended: Result<Ended, GatesError>, tell: &mut Tell<'_>) -> Result<Ended, GatesError> {
    let why = match ended {
        Err(GatesError::Cluster(error)) if error.is_no() => error.to_string(),
        // Each kind was refused, and told of.
        Err(why @ GatesError::NothingListed(_)) => why.to_string(),
        ended => return ended,
    };
    tell(Told::Error(why))?;
    Ok(Ended::NotDone)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::cluster::ClusterError;

    #[test]
    fn what_is_refused_or_not_there_is_no_wrong_usage() {
        let refused = |code: u16, reason: &str| {
            let status = Status::failure("no", reason).with_code(code);
            GatesError::Cluster(ClusterError::Refused(Box::new(status)))
        };
        for (why, told) in [
            (refused(403, "Forbidden"), Some("no")),
            (refused(404, "NotFound"), Some("no")),
            (
                GatesError::NothingListed("jobs.batch, pods".to_owned()),
                Some(
                    "no kind could be listed that gates may hold: you need the right to list one of jobs.batch, pods",
                ),
            ),
            (refused(401, "Unauthorized"), None),
            (refused(500, "InternalError"), None),
            (GatesError::NothingToLift, None),
        ] {
            let mut lines = Vec::new();
            let mut tell = |line| {
                if let Told::Error(text) = line {
                    lines.push(text);
                }
                Ok(())
            };
            let ended = done(Err(why), &mut tell).ok();
            assert_eq!(ended, told.map(|_| Ended::NotDone));
            assert_eq!(lines, Vec::from_iter(told));
        }
    }
}
