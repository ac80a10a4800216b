//! When a pending job will start: the jobs of its cohort tree are played from now on, again and again, with durations drawn
//! from those that were seen, and with jobs that come as they came. Pure, and the same for the same input: chance comes from a fixed seed, and the caller says when the
//! time is up.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use sluice_engine::{Explanation, Settings, Time};

use self::arrivals::Arrivals;
use self::chance::Chance;
use super::durations::{Likely, Source};
use super::explained_job::message;
use super::jobs::{InputJob, to_play};
use super::play::{Fate, Job, Play, Restart, Rules, play};
use super::problem::Failure;
use super::quotas::settings;
use super::reading::{self, Given, Input, Options, Seen};
use super::units::{Seconds, time};

mod arrivals;
mod chance;

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
    /// The number of the job.
    pub job: usize,
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

/// The estimate for the job of a kind with a name, with its namespace, in the cluster that was `seen`.
///
/// # Errors
/// Why it can't be known.
pub fn of_seen(
    seen: Seen,
    (kind, name): (&str, &str),
    duration: Option<Duration>,
    goes_on: impl FnMut(u32) -> bool,
) -> Result<Estimate, NoEstimate> {
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
    let mut jobs = input.jobs.all().iter();
    let job = jobs.position(|job| &*job.kind == kind && &*job.name == name);
    let question = Question {
        input: &input,
        job: job.ok_or(NoEstimate::NotQueued)?,
        duration,
        settings: settings(input.has_fair_sharing),
    };
    question.answer(goes_on)
}

impl Question<'_> {
    /// The estimate, by as many plays as `goes_on` lets be, which is asked before each with how many were played.
    ///
    /// # Errors
    /// Why it can't be known.
    pub fn answer(&self, mut goes_on: impl FnMut(u32) -> bool) -> Result<Estimate, NoEstimate> {
        let now = self.input.now.unwrap_or_default();
        let chosen = self.of_same_tree(now)?;
        self.look(&chosen, now)?;
        let mut starts: Vec<Option<i64>> = Vec::new();
        let mut chance = Chance::new(0);
        let mut plays = 0;
        while plays < PLAYS && goes_on(plays) {
            let jobs = chosen.drawn(&mut chance);
            let play = self.play(&jobs, None, vec![chosen.target]);
            let run = play.runs.iter().find(|run| run.job == chosen.target);
            starts.push(run.map(|run| run.from.as_millis().saturating_sub(now.as_millis())));
            plays += 1;
        }
        if plays < PLAYS_MIN {
            return Err(NoEstimate::TooSlow(plays));
        }
        // What never starts comes last.
        starts.sort_by_key(|start| (start.is_none(), *start));
        let within = |percent: usize| {
            let rank = (starts.len() * percent).div_ceil(100).max(1);
            starts.get(rank - 1).copied().flatten().map(Seconds)
        };
        let mut durations: BTreeMap<Source, usize> = BTreeMap::new();
        for (source, _) in &chosen.likely {
            *durations.entry(*source).or_default() += 1;
        }
        Ok(Estimate {
            p10_seconds: within(EARLY),
            p50_seconds: within(50),
            p90_seconds: within(LATE),
            plays,
            jobs: chosen.jobs.len(),
            more_come: chosen.arrivals.is_some(),
            durations: durations
                .into_iter()
                .map(|(source, jobs)| Known { source, jobs })
                .collect(),
        })
    }

    /// Looks at the job once everything is decided that can be now.
    fn look(&self, chosen: &Chosen<'_>, now: Time) -> Result<(), NoEstimate> {
        let lasts = |job: &Job| Job {
            duration: Duration::MAX,
            ..job.clone()
        };
        let jobs: Vec<Job> = chosen.jobs.iter().map(lasts).collect();
        let play = self.play(&jobs, Some(now), Vec::new());
        if play.fates.get(chosen.target) != Some(&Fate::Waiting) {
            return Ok(());
        }
        let explanation = play.explain(chosen.target);
        let reason = explanation.as_ref().and_then(Explanation::pending_reason);
        match (explanation, reason) {
            (Some(explanation), Some(reason)) if reason.is_inadmissible() => {
                let why = message(&explanation, &chosen.input);
                Err(NoEstimate::Inadmissible(why))
            }
            (Some(_), _) => Ok(()),
            (None, _) => Err(NoEstimate::NotQueued),
        }
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

    /// The jobs that the job in question shares quota with.
    fn of_same_tree(&self, now: Time) -> Result<Chosen<'_>, NoEstimate> {
        let Input {
            jobs,
            finished,
            quotas,
            durations,
            ..
        } = self.input;
        let tree = |job: &InputJob| {
            let queue = job.cluster_queue(quotas)?;
            Some(quotas.root_of(queue).map_or_else(
                || format!("ClusterQueue {queue}"),
                |root| format!("cohort {root}"),
            ))
        };
        let asked = jobs.all().get(self.job).ok_or(NoEstimate::NotQueued)?;
        let own = tree(asked);
        let all = jobs.all().iter().enumerate();
        let of_tree = all.filter(|(index, job)| *index == self.job || tree(job) == own);
        let mut chosen = Chosen::default();
        let mut unknown: Vec<&InputJob> = Vec::new();
        for (index, job) in of_tree {
            if index == self.job {
                chosen.target = chosen.input.len();
            }
            match durations.likely(job.asked(now), self.duration) {
                Some(likely) => chosen.likely.push(likely),
                // How long the one in question runs has no bearing on when it starts.
                None if index == self.job => {
                    chosen
                        .likely
                        .push((Source::Any, Likely::Known(Duration::ZERO)));
                }
                None => unknown.push(job),
            }
            chosen.input.push(job.clone());
        }
        if let Some(first) = unknown.first() {
            return Err(NoEstimate::NoDurations {
                jobs: unknown.len(),
                first: first.name.to_string(),
            });
        }
        if JOBS_MAX < chosen.input.len() {
            return Err(NoEstimate::TooManyJobs(chosen.input.len()));
        }
        chosen.jobs = to_play(&chosen.input, quotas, Duration::ZERO, Some(now));
        let ended = finished.iter().filter(|job| tree(job) == own);
        let known: Vec<&InputJob> = chosen.input.iter().chain(ended).collect();
        chosen.arrivals = Arrivals::of(&known, now);
        // Whatever comes is like one of these, but new.
        let known: Vec<InputJob> = known
            .into_iter()
            .map(|job| InputJob {
                seen: None,
                ..job.clone()
            })
            .collect();
        chosen.alike = known
            .iter()
            .zip(to_play(&known, quotas, Duration::ZERO, Some(now)))
            .map(|(job, played)| {
                let likely = durations.likely(job.asked(now), self.duration);
                (played, likely.map(|(_, likely)| likely))
            })
            .collect();
        Ok(chosen)
    }
}

/// The jobs that are played.
#[derive(Debug, Default)]
struct Chosen<'a> {
    input: Vec<InputJob>,
    jobs: Vec<Job>,
    likely: Vec<(Source, Likely<'a>)>,
    target: usize,
    /// When jobs came that were seen.
    arrivals: Option<Arrivals>,
    /// These jobs as they would come anew, and how long they would run.
    alike: Vec<(Job, Option<Likely<'a>>)>,
}

impl Chosen<'_> {
    /// The jobs, each with a duration that is as likely as any other, and jobs that may come.
    fn drawn(&self, chance: &mut Chance) -> Vec<Job> {
        let mut drawn = Vec::with_capacity(self.jobs.len());
        for (job, (_, likely)) in self.jobs.iter().zip(&self.likely) {
            drawn.push(Job {
                duration: likely.within(chance.thousandths()),
                ..job.clone()
            });
        }
        let coming = self.arrivals.as_ref().map(|seen| seen.coming(chance));
        for (index, at) in coming.into_iter().flatten() {
            if let Some((job, Some(likely))) = self.alike.get(index) {
                drawn.push(Job {
                    arrival: at,
                    created: at.as_millis(),
                    duration: likely.within(chance.thousandths()),
                    ..job.clone()
                });
            }
        }
        drawn
    }
}
