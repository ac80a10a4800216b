//! When a pending job will start: the jobs of its cohort tree are played from now on, again and again, with durations drawn
//! from those that were seen, and with jobs that come as they came. Pure, and the same for the same input: chance comes from a fixed seed, and the caller says when the
//! time is up.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use sluice_engine::{Explanation, Settings, Time};

use self::chance::Chance;
use self::chosen::{Chosen, tree_of};
use super::durations::Source;
use super::explained_job::message;
use super::play::{Fate, Job, Play, Restart, Rules, play};
use super::problem::Failure;
use super::quotas::settings;
use super::reading::{self, Given, Input, Options, Seen};
use super::units::{Seconds, time};

mod arrivals;
mod chance;
mod chosen;

/// How often it is played, unless the time is up before.
pub const PLAYS: u32 = 100;
/// The parts of all plays, in hundredths, that stand for 10 and 90 of 100 jobs: what happens differs more than plays do, as
/// nobody knows what is not seen.
const EARLY: usize = 5;
const LATE: usize = 95;
/// Fewer plays say nothing about the rare cases.
const PLAYS_MIN: u32 = 20;
/// Jobs of one cohort tree that are played. More would take minutes.
const JOBS_MAX: usize = 20_000;
/// How long the pods of a preempted job take to stop.
const EVICTION: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The jobs and queues of a cluster as they stand.
    pub input: &'a Input,
    /// How long a job runs like which none has finished.
    pub duration: Option<Duration>,
    /// What the engine is told once.
    pub settings: Settings,
}

/// When a job will start.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// From now on: of 100 jobs estimated so, 10 start no later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p10_seconds: Option<Seconds>,
    /// Half of them. None: the job does not start in so many plays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<Seconds>,
    /// 90 of 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_seconds: Option<Seconds>,
    /// How often it was played.
    pub plays: u32,
    /// How many jobs were played: those of its cohort tree.
    pub jobs: usize,
    /// Whether more jobs come in the plays, as they came in the cluster lately.
    pub more_come: bool,
    /// How long they run, and of how many that is known so.
    pub durations: Vec<Known>,
}

/// How it is known how long jobs run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// By what.
    pub source: Source,
    /// Of how many jobs.
    pub jobs: usize,
}

/// The estimate for a job, or why there is none.
pub type Answer = Result<Estimate, NoEstimate>;

/// Why there is no estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoEstimate {
    /// It is not known how long jobs run.
    NoDurations {
        /// How many jobs.
        jobs: usize,
        /// The first of them.
        first: String,
    },
    /// It can't be admitted as things are.
    Inadmissible(String),
    /// It is not queued.
    NotQueued,
    /// The queues and jobs can't be read.
    Unreadable(String),
    /// There are too many jobs.
    TooManyJobs(usize),
    /// The time was up.
    TooSlow(u32),
}

impl fmt::Display for NoEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDurations { jobs, first } => write!(
                f,
                "how long {jobs} of the jobs run is not known ({first} is the first): no job has finished in the cluster, and --duration is not set"
            ),
            Self::Inadmissible(why) | Self::Unreadable(why) => f.write_str(why),
            Self::NotQueued => f.write_str("it is not queued"),
            Self::TooManyJobs(jobs) => write!(
                f,
                "its cohort has {jobs} jobs, which is more than the {JOBS_MAX} that are played"
            ),
            Self::TooSlow(plays) => write!(
                f,
                "only {plays} plays were done in time, and {PLAYS_MIN} are needed"
            ),
        }
    }
}

impl Estimate {
    /// When it will start, in words.
    pub fn range(&self) -> String {
        match (self.p10_seconds, self.p90_seconds) {
            (Some(from), Some(until)) if from == until => match from {
                Seconds(..1000) => "at once".to_owned(),
                from => format!("in {}", time(from)),
            },
            (Some(from), Some(until)) => format!("in {} to {}", time(from), time(until)),
            (Some(from), None) => format!("in {} at the earliest", time(from)),
            (None, _) => "not while jobs were played".to_owned(),
        }
    }

    /// What that follows from, in words.
    pub fn reason(&self) -> String {
        let Self { plays, jobs, .. } = self;
        let jobs = match jobs {
            1 => "this one job".to_owned(),
            jobs => format!("the {jobs} jobs of its cohort"),
        };
        let known = self.durations.iter();
        let known: Vec<String> = match &*self.durations {
            [Known { source, .. }] => vec![source.to_string()],
            _ => known
                .map(|known| format!("{} {}", known.jobs, known.source))
                .collect(),
        };
        format!(
            "8 of 10 jobs start in such a range; from {plays} plays of {jobs}{}, which run {}",
            if self.more_come {
                " and of more that come as they came"
            } else {
                ""
            },
            known.join(", ")
        )
    }
}

/// The estimates for jobs, each by its kind and its name with its namespace, in the cluster that was `seen`.
///
/// # Errors
/// Why none can be known.
pub fn of_seen(
    seen: Seen,
    asked: &[(&str, &str)],
    duration: Option<Duration>,
    goes_on: impl FnMut(u32) -> bool,
) -> Result<Vec<Answer>, NoEstimate> {
    let given = Given {
        seen: Some(seen),
        ..Given::default()
    };
    let input = match reading::read(&given, &Options::default()) {
        Ok(input) => input,
        Err(Failure::Problems(problems)) => {
            let lines: Vec<String> = problems.lines().collect();
            return Err(NoEstimate::Unreadable(lines.join("; ")));
        }
        Err(_) => return Err(NoEstimate::Unreadable("it can't be read".to_owned())),
    };
    let jobs = input.jobs.all().iter().enumerate();
    let numbers: HashMap<(&str, &str), usize> = jobs
        .map(|(number, job)| ((&*job.kind, &*job.name), number))
        .collect();
    let question = Question {
        input: &input,
        duration,
        settings: settings(input.has_fair_sharing),
    };
    let numbers: Vec<Option<usize>> = asked.iter().map(|job| numbers.get(job).copied()).collect();
    let queued: Vec<usize> = numbers.iter().copied().flatten().collect();
    let mut answers = question.answers(&queued, goes_on);
    let answer = |number: Option<usize>| {
        let answer = number.and_then(|number| answers.remove(&number));
        answer.unwrap_or(Err(NoEstimate::NotQueued))
    };
    Ok(numbers.into_iter().map(answer).collect())
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
        let chosen = Chosen::of(self, tree, jobs, now)?;
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
