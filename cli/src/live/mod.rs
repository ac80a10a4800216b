//! Commands that ask and steer a cluster, with the caller's rights.
//!
//! | file | what it holds |
//! |---|---|
//! | `listed` | what is listed, as types, and what visibility.sluice.dev says |
//! | `jobs`, `queues` | jobs and queues as they stand: pure, from what is listed |
//! | `list`, `status`, `top`, `explain` | one command each: what it asks, and what it prints |
//! | `what_if` | what would become of a job if it was created |
//! | `hold_evict` | hold, resume, evict, reactivate |
//! | `check`, `version` | whether Sluice is there and well |
//! | `create` | YAML of queues and flavors |
//! | `export` | queues and jobs of a cluster as documents, for the simulation |
//! | `clock` | the time that an estimate may take |
//! | `view` | the options and the loop of commands that may look again |
//! | `outcome` | how commands end, and why they can't be run |
//!
//! Must not know how Sluice decides.

mod check;
mod clock;
mod create;
pub mod explain;
mod export;
mod hold_evict;
pub mod jobs;
pub mod list;
pub mod listed;
mod outcome;
pub mod queues;
pub mod status;
#[cfg(test)]
pub mod tests;
mod top;
mod version;
mod view;
mod what_if;

use clap::Subcommand;

pub use self::export::{JobKinds, export};
pub use self::outcome::{Ended, LiveError};
use crate::cluster::{Tell, Told, run, unless_closed};

/// Commands that ask and steer a cluster.
#[derive(Debug, Subcommand)]
pub enum Live {
    Status(status::Status),
    List(list::List),
    Explain(explain::Explain),
    Top(top::Top),
    #[command(name = "what-if")]
    WhatIf(Box<what_if::WhatIf>),
    Hold(hold_evict::Hold),
    Resume(hold_evict::Resume),
    Evict(hold_evict::Evict),
    Reactivate(hold_evict::Reactivate),
    #[command(subcommand)]
    Create(create::Create),
    Check(check::Check),
    Version(version::Version),
}

impl Live {
    /// Runs the command.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer what is asked for.
    pub fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let is_view = self.is_view();
        // Only what may go on for ever ends when nobody reads it.
        let tell: &mut Tell<'_> = &mut |told| {
            let written = tell(told);
            if is_view {
                written
            } else {
                unless_closed(written)
            }
        };
        if let Self::Create(command) = self {
            return command.run(tell);
        }
        let command = async {
            match self {
                Self::Status(command) => command.run(tell).await,
                Self::List(command) => command.run(tell).await,
                Self::Explain(command) => command.run(tell).await,
                Self::Top(command) => command.run(tell).await,
                Self::WhatIf(command) => command.run(tell).await,
                Self::Hold(command) => command.run(tell).await,
                Self::Resume(command) => command.run(tell).await,
                Self::Evict(command) => command.run(tell).await,
                Self::Reactivate(command) => command.run(tell).await,
                Self::Check(command) => command.run(tell).await,
                Self::Version(command) => command.run(tell).await,
                Self::Create(command) => command.run(tell),
            }
        };
        match run(command).map_err(LiveError::NoRuntime)? {
            Err(LiveError::Cluster(error)) if error.is_no() && !self.is_what_if() => {
                tell(Told::Error(error.to_string()))?;
                Ok(Ended::NotDone)
            }
            Err(LiveError::NotQueued(why)) => {
                tell(Told::Error(why))?;
                Ok(Ended::NotDone)
            }
            ended => ended,
        }
    }

    /// Whether it shows how something stands, once or again and again.
    fn is_view(&self) -> bool {
        matches!(
            self,
            Self::Status(_) | Self::List(_) | Self::Explain(_) | Self::Top(_)
        )
    }

    /// Whether 1 is for what it found out, and 2 for a cluster that refuses as well.
    fn is_what_if(&self) -> bool {
        matches!(self, Self::WhatIf(_))
    }
}
