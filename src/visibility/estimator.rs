//! Estimates when workloads will start, for whoever asks: one tree of cohorts at a time. The controller says how its jobs
//! stand; they are played where that holds nobody up. What took long to estimate is answered again for up to half a minute, and
//! after an estimate there is a pause of several times as long as it took: so readers use a small part of one processor,
//! however many they are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_engine::{NodeName, WorkloadId};
use sluice_estimates::estimate::NoEstimate;
use tokio::time::{Instant, sleep_until};

use super::caller::Caller;
use super::estimated::estimates::Estimates;
use super::estimated::start_estimate::StartEstimate;
use super::estimated::taken::StandingWorkload;
use super::explained::findings::{State, WorkloadRef};
use super::fair_semaphore::Turns;
use super::problem::Problem;
use super::question::{Asked, Asker, DEADLINE};
use crate::process::clock;

/// Readers that may wait for their turn.
const READERS_MAX: usize = 64;
/// How many times as long as it took an estimate is answered again, and how long at least and at most.
const KEPT_PER_ESTIMATE: u32 = 30;
const KEPT_MIN: Duration = Duration::from_secs(1);
const KEPT_MAX: Duration = Duration::from_secs(30);
/// Estimates that are kept.
const KEPT_LEN: usize = 64;
/// How many times as long as an estimate took the pause after it is.
const PAUSE_PER_ESTIMATE: u32 = 4;
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Longest time that a reader waits for the pause and the estimates of others.
const ESTIMATE_DEADLINE: Duration = Duration::from_secs(25);

/// Where readers ask when a workload will start.
#[derive(Debug, Clone)]
pub struct Estimator {
    asker: Asker,
    /// Turns to ask how a workload stands, which takes a moment, and turns to estimate.
    looks: Turns,
    turns: Turns,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// By the top of the tree, until when, the youngest first. Of a tree in which many wait each may be about another workload.
    trees: Vec<(NodeName, Instant, Arc<Estimates>)>,
    /// When the pause after the last estimate ends.
    pause_until: Option<Instant>,
}

impl Estimator {
    /// Nothing is estimated yet.
    pub fn new(asker: Asker) -> Self {
        Self {
            asker,
            looks: Turns::new(READERS_MAX),
            turns: Turns::new(READERS_MAX),
            kept: Arc::default(),
        }
    }

    /// Estimates when a workload will start.
    ///
    /// # Errors
    /// There is no such workload, or it can't be told in time.
    pub async fn estimate(
        &self,
        caller: &Caller,
        named: WorkloadRef,
    ) -> Result<StartEstimate, Problem> {
        let look = self.looks.turn(caller, DEADLINE).await?;
        let not_found = named.not_found();
        let asked = |reply| Asked::Standing { named, reply };
        let standing = self.asker.ask(asked).await?.ok_or(not_found)?;
        drop(look);
        let StandingWorkload { stated, root } = *standing;
        if stated.state != State::Pending {
            return Ok(StartEstimate::not_pending(&stated, clock::wall()));
        }
        let estimates = match root {
            Some(root) => self.estimates(caller, root, &stated.id).await?,
            None => None,
        };
        let Some(estimates) = estimates else {
            let (now, none) = (clock::wall(), Err(NoEstimate::NotQueued));
            return Ok(StartEstimate::new(&stated, now, now, 0, none));
        };
        let Estimates {
            taken,
            finished_jobs,
            ..
        } = *estimates;
        let answer = estimates.answer(&stated.id);
        let answered = clock::wall();
        Ok(StartEstimate::new(
            &stated,
            taken,
            answered,
            finished_jobs,
            answer,
        ))
    }

    /// The estimates for a tree, this workload among them if it is one of its jobs. None if there is no such tree.
    async fn estimates(
        &self,
        caller: &Caller,
        root: NodeName,
        whom: &WorkloadId,
    ) -> Result<Option<Arc<Estimates>>, Problem> {
        if let Some(known) = self.lock().of(&root, whom) {
            return Ok(Some(known));
        }
        let by = Instant::now() + ESTIMATE_DEADLINE;
        let turn = self.turns.turn(caller, ESTIMATE_DEADLINE).await?;
        let pause_until = {
            let mut kept = self.lock();
            // Somebody may have asked about the same tree just before.
            if let Some(known) = kept.of(&root, whom) {
                return Ok(Some(known));
            }
            kept.pause_until
        };
        if let Some(until) = pause_until {
            if by < until {
                return Err(Problem::Busy);
            }
            sleep_until(until).await;
        }
        let of = root.clone();
        let taken = self.asker.ask(|reply| Asked::Jobs { of, reply }).await?;
        let Some(taken) = taken else {
            return Ok(None);
        };
        let (at, whom, kept) = (clock::wall(), whom.clone(), self.kept.clone());
        let estimated = tokio::task::spawn_blocking(move || {
            // Whoever hangs up frees the turn no sooner than the work is done, and the next one pauses all the same.
            let _turn = turn;
            let begun = Instant::now();
            let estimates = Arc::new(Estimates::new(*taken, at, &whom));
            lock(&kept).keep(root, estimates.clone(), begun.elapsed());
            estimates
        });
        estimated.await.map(Some).map_err(|_| Problem::Busy)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    /// What is known of this workload of a tree.
    fn of(&mut self, root: &NodeName, whom: &WorkloadId) -> Option<Arc<Estimates>> {
        let now = Instant::now();
        self.trees.retain(|(_, until, _)| now < *until);
        let mut known = self.trees.iter();
        let known = known.find(|(of, _, estimates)| of == root && estimates.is_about(whom));
        known.map(|(_, _, estimates)| estimates.clone())
    }

    /// Keeps estimates that took so long.
    fn keep(&mut self, root: NodeName, estimates: Arc<Estimates>, took: Duration) {
        let now = Instant::now();
        let pause = took.saturating_mul(PAUSE_PER_ESTIMATE);
        self.pause_until = Some(now + pause.min(PAUSE_MAX));
        let kept_for = took.saturating_mul(KEPT_PER_ESTIMATE);
        let until = now + kept_for.clamp(KEPT_MIN, KEPT_MAX);
        self.trees.insert(0, (root, until, estimates));
        self.trees.truncate(KEPT_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_took_long_is_kept_for_longer_and_the_next_one_waits() {
        let mut kept = Kept::default();
        let root = |name: &str| NodeName::ClusterQueue(name.into());
        let whom = WorkloadId::from("a");
        let estimates = || Arc::new(Estimates::none(NoEstimate::TooManyJobs(1)));
        let began = Instant::now();
        kept.keep(root("quick"), estimates(), Duration::from_millis(1));
        kept.keep(root("slow"), estimates(), Duration::from_secs(2));
        assert_eq!(kept.pause_until, Some(began + Duration::from_secs(8)));
        kept.keep(root("slower"), estimates(), Duration::from_secs(9));
        assert_eq!(kept.pause_until, Some(began + PAUSE_MAX));
        for (after, quick, slow) in [(0, true, true), (2, false, true), (31, false, false)] {
            let passed = Duration::from_secs(after);
            tokio::time::advance(passed.saturating_sub(began.elapsed())).await;
            let known = |name: &str, kept: &mut Kept| kept.of(&root(name), &whom).is_some();
            let found = (known("quick", &mut kept), known("slow", &mut kept));
            assert_eq!(found, (quick, slow), "{after} s");
        }
    }
}
