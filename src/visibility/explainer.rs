//! Explains one workload or tree of cohorts at a time to whoever asks: the controller says what it finds, the list of its
//! queue says the place of a workload, and what has to end is worked out where that holds nobody up.

use std::time::Duration;

use sluice_engine::NodeName;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::caller::Caller;
use super::cohorts::quota_tree::QuotaTree;
use super::cohorts::taken::not_found;
use super::explained::explanation::WorkloadExplanation;
use super::explained::findings::{State, WorkloadRef};
use super::fair_semaphore::Turns;
use super::pending::queue_ref::QueueRef;
use super::problem::Problem;
use super::question::Asked;
use super::views::ViewCache;
use crate::process::clock;

/// The controller is asked no more often than this, for whatever workloads.
const ASK_EVERY: Duration = Duration::from_millis(5);
/// Longest time that a reader waits for its turn, and that the controller may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// Readers that may wait for their turn.
const READERS_MAX: usize = 64;

/// Where readers ask how a workload or a tree of cohorts stands.
#[derive(Debug, Clone)]
pub struct Explainer {
    asks: mpsc::Sender<Asked>,
    view_cache: ViewCache,
    turns: Turns,
}

impl Explainer {
    /// Asks over `asks`, and takes places from the lists of `view_cache`.
    pub fn new(asks: mpsc::Sender<Asked>, view_cache: ViewCache) -> Self {
        Self {
            asks,
            view_cache,
            turns: Turns::new(READERS_MAX),
        }
    }

    /// Explains a workload.
    ///
    /// # Errors
    /// There is no such workload, or it can't be told in time.
    pub async fn explain(
        &self,
        caller: &Caller,
        named: WorkloadRef,
    ) -> Result<WorkloadExplanation, Problem> {
        let turn = self.turns.turn(caller, DEADLINE).await?;
        let not_found = named.not_found();
        let (reply, found) = oneshot::channel();
        let asked = Asked::Workload { named, reply };
        let findings = self.ask(asked, found).await?.ok_or(not_found)?;
        let at = clock::wall();
        let stated = &findings.stated;
        let place = stated.local_queue.clone().map(QueueRef::LocalQueue);
        let view = match place.filter(|_| stated.state == State::Pending) {
            Some(place) => match self.view_cache.view(place).await {
                Ok(view) => Some(view),
                // What else is known is told without its place.
                Err(Problem::NotFound { .. } | Problem::TooMany { .. }) => None,
                Err(problem) => return Err(problem),
            },
            None => None,
        };
        let explained = tokio::task::spawn_blocking(move || {
            // Whoever hangs up frees the turn no sooner than the work is done.
            let _turn = turn;
            WorkloadExplanation::new(*findings, view.as_deref(), at)
        });
        explained.await.map_err(|_| Problem::Busy)
    }

    /// How the tree of cohorts stands that a node is in.
    ///
    /// # Errors
    /// There is no such node, or it can't be told in time.
    pub async fn tree(&self, caller: &Caller, of: NodeName) -> Result<QuotaTree, Problem> {
        let turn = self.turns.turn(caller, DEADLINE).await?;
        let not_found = not_found(&of);
        let (reply, found) = oneshot::channel();
        let tree = self.ask(Asked::Tree { of, reply }, found).await?;
        let (tree, at) = (tree.ok_or(not_found)?, clock::wall());
        let tree = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            QuotaTree::new(tree, at)
        });
        tree.await.map_err(|_| Problem::Busy)
    }

    async fn ask<T>(&self, asked: Asked, found: oneshot::Receiver<T>) -> Result<T, Problem> {
        sleep(ASK_EVERY).await;
        self.asks.try_send(asked).map_err(|_| Problem::Busy)?;
        let found = timeout(DEADLINE, found).await;
        found.ok().and_then(Result::ok).ok_or(Problem::Busy)
    }
}
