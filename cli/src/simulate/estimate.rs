//! When pending jobs will start: the jobs of a cluster, tree by tree, are handed to what plays them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use sluice_engine::{Event, Settings, Time};
use sluice_estimates::estimate as plays;
pub use sluice_estimates::estimate::{Estimate, PLAYS};
use sluice_estimates::play::Start;
use sluice_estimates::standing::{StandingJob, Tree};

pub use self::answer::{Answer, NoEstimate, range, reason};
use super::explained_job::message;
use super::jobs::InputJob;
use super::problem::Failure;
use super::quotas::{Quotas, settings};
use super::reading::{self, Given, Input, Options, Seen};
use super::span::Moment;
use crate::rules::queue_names::QueueNames;

mod answer;

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
        asked: &[usize],
        goes_on: &mut impl FnMut(u32) -> bool,
    ) -> Result<Vec<Answer>, NoEstimate> {
        let Input {
            quotas, durations, ..
        } = self.input;
        let now = self.input.now.unwrap_or_default();
        let is_of_tree = |job: &InputJob| tree_of(job, quotas).as_deref() == tree;
        let all = self.input.jobs.all().iter().enumerate();
        let of_tree = all.filter(|(_, job)| is_of_tree(job));
        let (numbers, input): (Vec<usize>, Vec<&InputJob>) = of_tree.unzip();
        let targets = asked.iter().map(|job| numbers.binary_search(job).ok());
        let targets: Option<Vec<usize>> = targets.collect();
        let targets = targets.ok_or(NoEstimate::NotQueued)?;
        let standing = |job: &&InputJob| standing(job, quotas, now);
        let jobs: Vec<StandingJob> = input.iter().map(standing).collect();
        let finished = self.input.finished.iter();
        let finished: Vec<&InputJob> = finished.filter(|job| is_of_tree(job)).collect();
        let finished: Vec<StandingJob> = finished.iter().map(standing).collect();
        let setup: Vec<Event> = quotas.events().collect();
        let tree = Tree {
            now,
            settings: &self.settings,
            setup: &setup,
            jobs: &jobs,
            finished: &finished,
            known_since: None,
            durations,
            default: self.duration,
        };
        let told = |why| told(why, &input);
        let answers = tree.estimates(&targets, goes_on).map_err(told)?;
        let answers = answers.into_iter().map(|answer| answer.map_err(told));
        Ok(answers.collect())
    }
}

/// What a job shares quota with, by name; none if it is in no ClusterQueue.
fn tree_of(job: &InputJob, quotas: &Quotas) -> Option<String> {
    let queue = job.cluster_queue(quotas)?;
    Some(quotas.root_of(queue).map_or_else(
        || format!("ClusterQueue {queue}"),
        |root| format!("cohort {root}"),
    ))
}

/// A job as it stands, or as it is to come.
fn standing(job: &InputJob, quotas: &Quotas, now: Time) -> StandingJob {
    let seen = job.seen.as_ref();
    StandingJob {
        id: seen.map(|seen| seen.id.clone()),
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        pod_sets: job.pod_sets.clone(),
        priority: job.priority.value(quotas),
        created: match job.arrival {
            Some(Moment::At(millis)) => Time::from_millis(millis),
            Some(Moment::After(after)) => now.after(after),
            None => now,
        },
        said: job.duration,
        start: seen.map_or(Start::Pending, |seen| seen.start.clone()),
    }
}

/// Why there is no estimate, with the names of the jobs that were played.
fn told(why: plays::NoEstimate, jobs: &[&InputJob]) -> NoEstimate {
    match why {
        plays::NoEstimate::NoDurations(unknown) => NoEstimate::NoDurations {
            jobs: unknown.len(),
            // By name: jobs of one moment come in no order that anybody would know again.
            first: (unknown.iter())
                .filter_map(|job| Some(&*jobs.get(*job)?.name))
                .min()
                .unwrap_or_default()
                .to_owned(),
        },
        plays::NoEstimate::Inadmissible(explanation) => {
            NoEstimate::Inadmissible(message(&explanation, &|job| Some(&*jobs.get(job)?.name)))
        }
        plays::NoEstimate::NotQueued => NoEstimate::NotQueued,
        plays::NoEstimate::TooManyJobs(jobs) => NoEstimate::TooManyJobs(jobs),
        plays::NoEstimate::TooSlow(plays) => NoEstimate::TooSlow(plays),
    }
}
