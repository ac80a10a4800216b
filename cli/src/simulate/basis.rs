//! What figures are worked out from, and whose they are.

use serde::Serialize;

use super::jobs::InputJob;
use super::quotas::Quotas;
use sluice_estimates::play::{Job, Play, Restart};

/// Whose quota.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "of", content = "name")]
pub enum Owner {
    /// Everyone's.
    All,
    /// That of a cohort and all below it.
    Cohort(String),
    /// That of a ClusterQueue.
    ClusterQueue(String),
}

/// What was played, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    /// The jobs as the input has them.
    pub input: &'a [InputJob],
    /// The jobs as they were played.
    pub jobs: &'a [Job],
    /// The queues.
    pub quotas: &'a Quotas,
    /// What evicted jobs had done counted, or not.
    pub restart: Restart,
    /// What happened.
    pub play: &'a Play,
}
