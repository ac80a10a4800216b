//! What the controller is asked, and what it answers. It takes what is asked for in small parts, between two cycles.

use sluice_engine::NodeName;
use tokio::sync::oneshot;

use super::cohorts::taken::TakenTree;
use super::explained::findings::{Findings, WorkloadRef};
use super::pending::queue_ref::{QueueRef, Taken};

/// Questions that may wait for the controller.
pub const ASKED_MAX: usize = 16;

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
}

impl Asked {
    /// Whether nobody waits for the answer any more.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Pending { reply, .. } => reply.is_closed(),
            Self::Workload { reply, .. } => reply.is_closed(),
            Self::Tree { reply, .. } => reply.is_closed(),
        }
    }
}
