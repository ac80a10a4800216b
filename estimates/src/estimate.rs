//! When pending jobs will start: the jobs of their cohort tree are played from now on, again and again, with durations drawn
//! from those that were seen, and with jobs that come as they came. Pure, and the same for the same input: chance comes from
//! a fixed seed, and the caller says when the time is up.

use std::collections::HashMap;
use std::time::Duration;

use sluice_engine::Explanation;

pub use self::answer::{Answer, Estimate, JOBS_MAX, Known, NoEstimate, PERCENT, PLAYS_MIN};
use self::chance::Chance;
use self::chosen::Chosen;
use crate::play::{Fate, Job, Play, Restart, Rules, play};
use crate::standing::Tree;

mod answer;
mod arrivals;
mod chance;
mod chosen;

/// How often it is played, unless the time is up before.
pub const PLAYS: u32 = 100;
/// How long the pods of a preempted job take to stop.
const EVICTION: Duration = Duration::from_secs(30);

impl Tree<'_> {
    /// The estimates for some of its jobs, by their numbers, all by the same plays: by as many as `goes_on` lets be, which is
    /// asked before each with how many were played.
    ///
    /// # Errors
    /// Why none can be known.
    pub fn estimates(
        &self,
        asked: &[usize],
        mut goes_on: impl FnMut(u32) -> bool,
    ) -> Result<Vec<Answer>, NoEstimate> {
        let chosen = Chosen::of(self, asked)?;
        let refused = self.look(&chosen, asked);
        let mut starts: Vec<Vec<Option<i64>>> = vec![Vec::new(); asked.len()];
        let waiting = asked.iter().zip(&refused);
        let waiting = waiting.filter(|(_, refused)| refused.is_none());
        let waiting: Vec<usize> = waiting.map(|(target, _)| *target).collect();
        let mut chance = Chance::new(0);
        let mut plays = 0;
        while !waiting.is_empty() && plays < PLAYS && goes_on(plays) {
            let jobs = chosen.drawn(&mut chance);
            let play = self.play(&jobs, false, waiting.clone());
            let mut first: HashMap<usize, i64> = HashMap::new();
            for run in &play.runs {
                let from = run.from.as_millis().saturating_sub(self.now.as_millis());
                first.entry(run.job).or_insert(from);
            }
            for (target, starts) in asked.iter().zip(&mut starts) {
                starts.push(first.get(target).copied());
            }
            plays += 1;
        }
        let answers = refused.into_iter().zip(starts);
        let answers = answers.map(|(refused, starts)| match refused {
            Some(why) => Err(why),
            None if plays < PLAYS_MIN => Err(NoEstimate::TooSlow(plays)),
            None => Ok(chosen.estimate(plays, starts)),
        });
        Ok(answers.collect())
    }

    /// Why the jobs can't be estimated, each for itself: they are looked at once everything is decided that can be now.
    fn look(&self, chosen: &Chosen<'_>, asked: &[usize]) -> Vec<Option<NoEstimate>> {
        let lasts = |job: &Job| Job {
            duration: Duration::MAX,
            ..job.clone()
        };
        let jobs: Vec<Job> = chosen.jobs.iter().map(lasts).collect();
        let play = self.play(&jobs, true, Vec::new());
        let look = |target: &usize| {
            if play.fates.get(*target) != Some(&Fate::Waiting) {
                return None;
            }
            let explanation = play.explain(*target);
            let reason = explanation.as_ref().and_then(Explanation::pending_reason);
            match (explanation, reason) {
                (Some(explanation), Some(reason)) if reason.is_inadmissible() => {
                    Some(NoEstimate::Inadmissible(Box::new(explanation)))
                }
                (Some(_), _) => None,
                (None, _) => Some(NoEstimate::NotQueued),
            }
        };
        asked.iter().map(look).collect()
    }

    fn play(&self, jobs: &[Job], is_look: bool, until_admitted: Vec<usize>) -> Play {
        let rules = Rules {
            settings: self.settings.clone(),
            eviction: EVICTION,
            restart: Restart::FromStart,
            until: is_look.then_some(self.now),
            until_admitted,
        };
        play(self.setup.iter().cloned(), jobs, &rules)
    }
}
