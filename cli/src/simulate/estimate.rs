//! When pending jobs will start: the jobs of their cohort tree are played from now on, again and again, with durations drawn
//! from those that were seen, and with jobs that come as they came. Pure, and the same for the same input: chance comes from
//! a fixed seed, and the caller says when the time is up.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sluice_engine::{Explanation, Settings, Time};

#[cfg(test)]
pub use self::answer::Known;
use self::answer::PLAYS_MIN;
pub use self::answer::{Answer, Estimate, NoEstimate};
use self::chance::Chance;
use self::chosen::{Chosen, tree_of};
use super::explained_job::message;
use super::play::{Fate, Job, Play, Restart, Rules, play};
use super::problem::Failure;
use super::quotas::settings;
use super::reading::{self, Given, Input, Options, Seen};
use crate::rules::queue_names::QueueNames;

mod answer;
mod arrivals;
mod chance;
mod chosen;

/// How often it is played, unless the time is up before.
pub const PLAYS: u32 = 100;
/// How long the pods of a preempted job take to stop.
const EVICTION: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The jobs and queues of a cluster as they stand.
    pub input: &'a Input,
    /// The run time to assume for a job if no similar job has finished.
    pub duration: Option<Duration>,
    /// What the engine is told once.
    pub settings: Settings,
}

/// What the caller says of a cluster that the cluster does not.
#[derive(Debug, Clone, Default)]
pub struct Assumed {
    /// The run time to assume for a job if no similar job has finished.
    pub duration: Option<Duration>,
    /// The names by which objects ask for a queue.
    pub names: QueueNames,
}

/// The estimates for jobs, each by what the controller calls it (several kinds may have one name), in the cluster that was
/// `seen`; and what is to be known besides: what of the cluster was left out.
///
/// # Errors
/// Why none can be known.
pub fn of_seen(
    seen: Seen,
    asked: &[&str],
    assumed: &Assumed,
    goes_on: impl FnMut(u32) -> bool,
) -> Result<(Vec<Answer>, Vec<String>), NoEstimate> {
    let given = Given {
        seen: Some(seen),
        ..Given::default()
    };
    let options = Options {
        names: assumed.names.clone(),
        ..Options::default()
    };
    let input = match reading::read(&given, &options) {
        Ok(input) => input,
        Err(Failure::Problems(problems)) => {
            let lines: Vec<String> = problems.lines().collect();
            return Err(NoEstimate::Unreadable(lines.join("; ")));
        }
        Err(_) => return Err(NoEstimate::Unreadable("it can't be read".to_owned())),
    };
    let jobs = input.jobs.all().iter().enumerate();
    let numbers: HashMap<&str, usize> = jobs
        .filter_map(|(number, job)| Some((job.seen.as_ref()?.id.as_str(), number)))
        .collect();
    let question = Question {
        input: &input,
        duration: assumed.duration,
        settings: settings(input.has_fair_sharing),
    };
    let numbers: Vec<Option<usize>> = asked.iter().map(|id| numbers.get(id).copied()).collect();
    let queued: Vec<usize> = numbers.iter().copied().flatten().collect();
    let mut answers = question.answers(&queued, goes_on);
    // It may be one of those that were left out.
    let unknown = if input.notes.is_empty() {
        NoEstimate::NotQueued
    } else {
        NoEstimate::LeftOut
    };
    let answer = |number: Option<usize>| match number {
        Some(number) => answers
            .remove(&number)
            .unwrap_or(Err(NoEstimate::NotQueued)),
        None => Err(unknown.clone()),
    };
    let answers = numbers.into_iter().map(answer).collect();
    Ok((answers, input.notes))
}

impl Question<'_> {
    /// The estimate for the job of this number, by as many plays as `goes_on` lets be, which is asked before each with how
    /// many were played.
    ///
    /// # Errors
    /// Why it can't be known.
    pub fn answer(&self, job: usize, goes_on: impl FnMut(u32) -> bool) -> Answer {
        let mut answers = self.answers(&[job], goes_on);
        answers.remove(&job).unwrap_or(Err(NoEstimate::NotQueued))
    }

    /// The estimates for the jobs of these numbers. Those of one cohort tree are estimated by the same plays.
    pub fn answers(
        &self,
        jobs: &[usize],
        mut goes_on: impl FnMut(u32) -> bool,
    ) -> BTreeMap<usize, Answer> {
        let mut trees: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
        for number in jobs {
            let job = self.input.jobs.all().get(*number);
            let tree = job.and_then(|job| tree_of(job, &self.input.quotas));
            trees.entry(tree).or_default().push(*number);
        }
        let mut answers = BTreeMap::new();
        for (tree, jobs) in trees {
            match self.answers_of_tree(tree.as_deref(), &jobs, &mut goes_on) {
                Ok(found) => answers.extend(jobs.into_iter().zip(found)),
                Err(why) => answers.extend(jobs.into_iter().map(|job| (job, Err(why.clone())))),
            }
        }
        answers
    }

    fn answers_of_tree(
        &self,
        tree: Option<&str>,
        jobs: &[usize],
        goes_on: &mut impl FnMut(u32) -> bool,
    ) -> Result<Vec<Answer>, NoEstimate> {
        let now = self.input.now.unwrap_or_default();
        let chosen = Chosen::of(self.input, tree, jobs, (self.duration, now))?;
        let refused = self.look(&chosen, now);
        let mut starts: Vec<Vec<Option<i64>>> = vec![Vec::new(); jobs.len()];
        let waiting = chosen.targets.iter().zip(&refused);
        let waiting = waiting.filter(|(_, refused)| refused.is_none());
        let waiting: Vec<usize> = waiting.map(|(target, _)| *target).collect();
        let mut chance = Chance::new(0);
        let mut plays = 0;
        while !waiting.is_empty() && plays < PLAYS && goes_on(plays) {
            let jobs = chosen.drawn(&mut chance);
            let play = self.play(&jobs, None, waiting.clone());
            let mut first: HashMap<usize, i64> = HashMap::new();
            for run in &play.runs {
                let from = run.from.as_millis().saturating_sub(now.as_millis());
                first.entry(run.job).or_insert(from);
            }
            for (target, starts) in chosen.targets.iter().zip(&mut starts) {
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
    fn look(&self, chosen: &Chosen<'_>, now: Time) -> Vec<Option<NoEstimate>> {
        let lasts = |job: &Job| Job {
            duration: Duration::MAX,
            ..job.clone()
        };
        let jobs: Vec<Job> = chosen.jobs.iter().map(lasts).collect();
        let play = self.play(&jobs, Some(now), Vec::new());
        let look = |target: &usize| {
            if play.fates.get(*target) != Some(&Fate::Waiting) {
                return None;
            }
            let explanation = play.explain(*target);
            let reason = explanation.as_ref().and_then(Explanation::pending_reason);
            match (explanation, reason) {
                (Some(explanation), Some(reason)) if reason.is_inadmissible() => {
                    let why = message(&explanation, &chosen.input);
                    Some(NoEstimate::Inadmissible(why))
                }
                (Some(_), _) => None,
                (None, _) => Some(NoEstimate::NotQueued),
            }
        };
        chosen.targets.iter().map(look).collect()
    }

    fn play(&self, jobs: &[Job], until: Option<Time>, until_admitted: Vec<usize>) -> Play {
        let rules = Rules {
            settings: self.settings.clone(),
            eviction: EVICTION,
            restart: Restart::FromStart,
            until,
            until_admitted,
        };
        play(self.input.quotas.events(), jobs, &rules)
    }
}
