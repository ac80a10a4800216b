//! What the controller is asked, and what it answers. It takes what is asked for in small parts, between two cycles.

use std::time::Duration;

use sluice_engine::NodeName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::cohorts::taken::TakenTree;
use super::estimated::taken::{StandingWorkload, TakenJobs};
use super::explained::findings::{Findings, WorkloadRef};
use super::pending::queue_ref::{QueueRef, Taken};
use super::problem::Problem;

/// Questions that may wait for the controller.
pub const ASKED_MAX: usize = 16;
/// Each of those who ask for readers asks the controller no more often than this.
pub(super) const ASK_EVERY: Duration = Duration::from_millis(5);
/// Longest time that the controller may take, and that a reader waits.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// A question, and where the answer goes: none if there is nothing of that name.
#[derive(Debug)]
pub enum Asked {
    /// Who waits in a ClusterQueue: the one that is named, or that of the LocalQueue.
    Pending {
        /// Which queue.
        place: QueueRef,
        /// Who waits.
        reply: oneshot::Sender<Option<Taken>>,
    },
    /// How a workload stands.
    Workload {
        /// Which one.
        named: WorkloadRef,
        /// What was found.
        reply: oneshot::Sender<Option<Box<Findings>>>,
    },
    /// How the tree of cohorts stands that a node is in.
    Tree {
        /// Which node.
        of: NodeName,
        /// What was found.
        reply: oneshot::Sender<Option<TakenTree>>,
    },
    /// How far a workload has come, and with whom it shares quota.
    Standing {
        /// Which one.
        named: WorkloadRef,
        /// What was found.
        reply: oneshot::Sender<Option<Box<StandingWorkload>>>,
    },
    /// The jobs and queues of the tree of cohorts that a node is in.
    Jobs {
        /// Which node.
        of: NodeName,
        /// What was found.
        reply: oneshot::Sender<Option<Box<TakenJobs>>>,
    },
}

impl Asked {
    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Pending { reply, .. } => reply.is_closed(),
            Self::Workload { reply, .. } => reply.is_closed(),
            Self::Tree { reply, .. } => reply.is_closed(),
            Self::Standing { reply, .. } => reply.is_closed(),
            Self::Jobs { reply, .. } => reply.is_closed(),
        }
    }
}

/// Asks the controller.
#[derive(Debug, Clone)]
pub struct Asker(mpsc::Sender<Asked>);

impl Asker {
    /// Asks over `asks`.
    pub fn new(asks: mpsc::Sender<Asked>) -> Self {
        Self(asks)
    }

    /// What the controller answers to a question with this reply.
    ///
    /// # Errors
    /// Too many ask, or it does not answer in time.
    pub(super) async fn ask<T>(
        &self,
        asked: impl FnOnce(oneshot::Sender<T>) -> Asked,
    ) -> Result<T, Problem> {
        sleep(ASK_EVERY).await;
        let (reply, answer) = oneshot::channel();
        let sent = self.0.try_send(asked(reply));
        sent.map_err(|_| Problem::Busy)?;
        let answer = timeout(DEADLINE, answer).await;
        answer.ok().and_then(Result::ok).ok_or(Problem::Busy)
    }
}
