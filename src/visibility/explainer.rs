//! Explains one workload or tree of cohorts at a time to whoever asks: the controller says what it finds, the list of its
//! queue says the place of a workload, and what has to end is worked out where that holds nobody up.

use sluice_engine::NodeName;

use super::caller::Caller;
use super::cohorts::quota_tree::QuotaTree;
use super::cohorts::taken::not_found;
use super::explained::explanation::WorkloadExplanation;
use super::explained::findings::{State, WorkloadRef};
use super::fair_semaphore::Turns;
use super::pending::queue_ref::QueueRef;
use super::problem::Problem;
use super::question::{Asked, Asker, DEADLINE};
use super::views::ViewCache;
use crate::process::clock;

/// Readers that may wait for their turn.
const READERS_MAX: usize = 64;

/// Where readers ask how a workload or a tree of cohorts stands.
#[derive(Debug, Clone)]
pub struct Explainer {
    asker: Asker,
    view_cache: ViewCache,
    turns: Turns,
}

impl Explainer {
    /// Takes places from the lists of `view_cache`.
    pub fn new(asker: Asker, view_cache: ViewCache) -> Self {
        Self {
            asker,
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
        let asked = |reply| Asked::Workload { named, reply };
        let findings = self.asker.ask(asked).await?.ok_or(not_found)?;
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
        let tree = self.asker.ask(|reply| Asked::Tree { of, reply }).await?;
        let (tree, at) = (tree.ok_or(not_found)?, clock::wall());
        let tree = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            QuotaTree::new(tree, at)
        });
        tree.await.map_err(|_| Problem::Busy)
    }
}
