//! What the command tells, and why nothing more could be done.

use std::io;

use thiserror::Error;

use crate::cluster::{ClusterError, DryRun};

/// What is told, as soon as it is known.
pub enum Line {
    /// What was done.
    Done(String),
    /// What stays as it is, and why.
    Left(String),
    /// What did not work.
    Failed(String),
}

/// Why nothing more could be done.
#[derive(Debug, Error)]
pub enum UninstallError {
    /// The cluster does not answer what is asked for.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Sluice is not where it is said to be.
    #[error(
        "Sluice is not in the namespace {0:?} that --system-namespace names: neither a ServiceAccount nor a Deployment \
         there has the label app.kubernetes.io/name=sluice, nor has the namespace; without the flag Sluice is found by its ClusterRoleBinding, \
         or by its ServiceAccount, also if only a part of it is left. Nothing was changed"
    )]
    NotThere(String),
    /// A Sluice goes on.
    #[error(
        "Sluice still runs, as {holder:?} by the Lease {namespace}/sluice: suspend the GitOps tool, if one applies \
         Sluice, end that process, and run this again with --system-namespace {namespace}"
    )]
    StillRuns {
        /// Which process.
        holder: String,
        /// Where.
        namespace: String,
    },
    /// A line can't be written.
    #[error("the result can't be written: {0}")]
    Unwritable(#[from] io::Error),
    /// There is no runtime to ask the cluster with.
    #[error("can't start: {0}")]
    NoRuntime(#[source] io::Error),
}

/// Tells, and remembers whether anything failed.
pub struct UninstallReport<'a> {
    pub(super) tell: &'a mut dyn FnMut(Line) -> io::Result<()>,
    pub(super) dry_run: DryRun,
    pub(super) is_well: bool,
}

impl UninstallReport<'_> {
    pub(super) fn done(&mut self, text: String) -> io::Result<()> {
        let dry = match self.dry_run {
            DryRun::Yes => " (dry run)",
            DryRun::No => "",
        };
        (self.tell)(Line::Done(text + dry))
    }

    pub(super) fn left(&mut self, text: String) -> io::Result<()> {
        (self.tell)(Line::Left(text))
    }

    pub(super) fn failed(&mut self, text: String) -> io::Result<()> {
        self.is_well = false;
        (self.tell)(Line::Failed(text))
    }
}
