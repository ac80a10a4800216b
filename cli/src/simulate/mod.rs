//! `kubectl sluice simulate`: from the command line to what it says. No clock is asked, and no cluster: what is seen
//! in one is handed in.
//!
//! | file | what it holds |
//! |---|---|
//! | `figures`, `basis` | what follows from a play, as data, and what it follows from |
//! | `explained_job` | single jobs, explained at the end |
//! | `compare` | two plays beside each other |
//! | `estimate` | when pending jobs will start, as the crate `sluice-estimates` says |
//! | `what_if` | what would become of a new job |
//! | `print`, `chart` | both as text and as a picture |
//! | `quotas`, `jobs` | the queues, and the jobs |
//! | `reading` | how all of that is read |
//! | `span`, `units`, `problem` | how time and amounts are written; what is wrong with the input |
//!
//! Must not know clusters or clocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use sluice_engine::{Settings, Time};
use sluice_kinds::Problem;

use self::basis::Basis;
pub use self::estimate::{
    Assumed, Estimate, PLAYS, of_seen as estimate, range as range_of, reason as reason_of,
};
use self::explained_job::ExplainedJob;
use self::figures::Figures;
use self::jobs::{Jobs, to_play};
pub use self::print::what_if as what_if_text;
pub use self::problem::Failure;
use self::problem::Problems;
use self::quotas::Quotas;
pub use self::quotas::settings;
use self::reading::Input;
pub use self::reading::{Given, Options, Seen, engine_id, is_without_namespace, job_of};
pub use self::span::parse as parse_span;
pub use self::what_if::{Outcome as WhatIfOutcome, Terms, WhatIf};
use crate::cluster::Connection;
use crate::input::{self, Document};
use crate::rules::queue_names::QueueAliases;
use sluice_estimates::play::{Restart, Rules, play};

mod basis;
mod chart;
mod compare;
mod estimate;
mod explained_job;
mod figures;
mod jobs;
mod print;
mod problem;
mod quotas;
mod reading;
mod span;
#[cfg(test)]
mod tests;
mod units;
mod what_if;

const DETAILS: &str = "\
Plays jobs through queues in virtual time, with the engine that admits jobs in a cluster. It prints how long \
the jobs waited and how much quota was used: to see the effect of a quota change before it is made.

Queues (ResourceFlavor, ClusterQueue, Cohort, LocalQueue, WorkloadPriorityClass, PriorityClass, Namespace) \
and jobs are read from files. A job is an object that a JobKind reads (a shipped JobKind, or one among \
the files), a Workload from a cluster, or a line of a trace. An admitted job is released, runs for its \
duration, and ends. The annotation sluice.dev/simulate-duration is how long a job runs. The annotation \
sluice.dev/simulate-arrival is when it is created; without it the creationTimestamp counts.

Examples:
  # Play jobs in queues
  kubectl sluice simulate -f queues.yaml -f jobs/ --duration 10m

  # Play a trace, and draw the usage
  kubectl sluice simulate -f queues.yaml --trace jobs.csv --svg usage.svg

  # Play the jobs of a cluster from now on, and again with another quota
  kubectl sluice simulate --from-cluster --compare more-quota.yaml

  # Explain why a job is pending after an hour and a half
  kubectl sluice simulate -f queues.yaml -f jobs/ --explain team-a/train --at 1h30m";

const EXIT_CODES: &str = "\
Exit codes:
  0  the jobs were played
  1  an object in the files is invalid, or there is nothing to play
  2  wrong usage, a file that can't be read or written, or a cluster that does not answer or refuses";

/// Play jobs through queues in virtual time, and see how long they wait.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Simulate {
    /// Files or directories with queues, jobs and JobKinds; - for the standard input.
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_delimiter = ',',
        required_unless_present = "from_cluster"
    )]
    filename: Vec<PathBuf>,
    /// Play the queues and jobs of a cluster from now on, with those of -f besides: admitted jobs run on, pending
    /// ones have their place. How long they run is seen from jobs that have finished.
    #[arg(long)]
    from_cluster: bool,
    #[command(flatten)]
    connection: Connection,
    /// Also read the subdirectories of directories.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Traces: CSV files with the columns arrival and queue, optionally name, duration, namespace,
    /// priority, priorityClass, count and minCount, and one column for each resource.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    trace: Vec<PathBuf>,
    /// Play the same jobs a second time, with these queues applied over the queues of -f, and compare.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    compare: Vec<PathBuf>,
    /// The run time to assume for a job without a duration; with --from-cluster, if no similar job has finished.
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    duration: Option<Duration>,
    /// The time between the arrivals of jobs that have no arrival of their own.
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "0s")]
    arrival_interval: Duration,
    /// How long the pods of an evicted job take to stop.
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "30s")]
    eviction_time: Duration,
    /// An evicted job continues where it was stopped, instead of starting over.
    #[arg(long)]
    checkpoint: bool,
    /// End this long after the beginning, instead of when nothing more happens.
    #[arg(long, value_name = "TIME", value_parser = span::parse)]
    until: Option<Duration>,
    /// Instead of figures, explain this job (its name, or namespace/name) at the end, or at the time of
    /// --at: why it is pending, which quota is missing, which jobs come first, and why other jobs are
    /// not preempted.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["compare", "svg"])]
    explain: Option<String>,
    /// With --explain: this long after the beginning.
    #[arg(long, value_name = "TIME", value_parser = span::parse, requires = "explain", conflicts_with = "until")]
    at: Option<Duration>,
    /// Share by dominant resource share, as with fair sharing in Sluice's configuration.
    #[arg(long)]
    fair_sharing: bool,
    /// The half-life of past usage, in ClusterQueues that admit by usage.
    #[arg(long, value_name = "TIME", value_parser = span::parse, default_value = "7d")]
    usage_half_life: Duration,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// Draw usage and pending jobs over time, as an SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Skip objects whose kind has no JobKind.
    #[arg(long)]
    ignore_other_kinds: bool,
    #[command(flatten)]
    aliases: QueueAliases,
}

/// A form for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Outcome {
    /// One play.
    One(Box<Figures>),
    /// Two plays of the same jobs.
    Two(Box<compare::Comparison>),
    /// One job, explained.
    Job(Box<ExplainedJob>),
}

impl Simulate {
    /// The cluster that is to be played, if one is.
    pub fn cluster(&self) -> Option<&Connection> {
        self.from_cluster.then_some(&self.connection)
    }

    /// Whether it is to read files too.
    pub fn has_files(&self) -> bool {
        !self.filename.is_empty()
    }

    /// Plays what was `seen` in a cluster and what is in files, and says what came of it: what to print, and notes
    /// beside it.
    ///
    /// # Errors
    /// All that is wrong with the input.
    pub fn run(&self, seen: Option<Seen>) -> Result<(String, Vec<String>), Failure> {
        let input = self.read(seen)?;
        let outcome = match (&self.explain, &input.other) {
            (Some(name), _) => {
                let job = find(name, &input.jobs).map_err(Failure::NotOneJob)?;
                let explained_job =
                    self.play(&input, &input.quotas, |basis| ExplainedJob::of(basis, job));
                let explained_job =
                    explained_job.ok_or_else(|| Failure::NotOneJob(no_job(name)))?;
                Outcome::Job(Box::new(explained_job))
            }
            (None, None) => Outcome::One(Box::new(self.play(&input, &input.quotas, Figures::of))),
            (None, Some(other)) => {
                let before = self.play(&input, &input.quotas, Figures::of);
                let after = self.play(&input, other, Figures::of);
                Outcome::Two(Box::new(compare::Comparison::of(before, after)))
            }
        };
        if let Some(path) = &self.svg {
            Self::draw(path, &outcome)?;
        }
        let text = match (self.output, &outcome) {
            (None, Outcome::One(figures)) => Ok(print::one(figures)),
            (None, Outcome::Two(both)) => Ok(print::two(both)),
            (None, Outcome::Job(job)) => Ok(print::explained(job)),
            (Some(Format::Json), _) => serde_json::to_string_pretty(&outcome)
                .map(|text| text + "\n")
                .map_err(|error| error.to_string()),
            (Some(Format::Yaml), _) => {
                serde_saphyr::to_string(&outcome).map_err(|error| error.to_string())
            }
        };
        Ok((text.map_err(Failure::Unwritable)?, input.notes))
    }

    /// Plays the jobs in `quotas`. What is to be known of it is found out by `ask`.
    fn play<T>(&self, input: &Input, quotas: &Quotas, ask: impl FnOnce(Basis<'_>) -> T) -> T {
        let Input { jobs, now, .. } = input;
        let to_play = to_play(jobs.all(), quotas, self.arrival_interval, *now);
        let restart = if self.checkpoint {
            Restart::WhereItWas
        } else {
            Restart::FromStart
        };
        let begin = to_play.iter().map(|job| job.arrival).min();
        let until = self.until.or(self.at);
        let rules = Rules {
            settings: Settings {
                usage_half_life: self.usage_half_life,
                ..settings(self.fair_sharing || input.has_fair_sharing)
            },
            eviction: self.eviction_time,
            restart,
            until: until.map(|until| begin.unwrap_or_default().after(until)),
            until_admitted: Vec::new(),
        };
        let play = play(quotas.events(), &to_play, &rules);
        ask(Basis {
            input: jobs.all(),
            jobs: &to_play,
            quotas,
            restart,
            play: &play,
        })
    }

    fn draw(path: &Path, outcome: &Outcome) -> Result<(), Failure> {
        let drawn = match outcome {
            Outcome::One(figures) => chart::draw(&[("", figures)]),
            Outcome::Two(both) => chart::draw(&[("before", &both.before), ("after", &both.after)]),
            Outcome::Job(_) => return Ok(()),
        };
        fs::write(path, drawn)
            .map_err(|error| Failure::Unwritable(format!("{}: {error}", path.display())))
    }

    /// Reads all that is given.
    fn read(&self, seen: Option<Seen>) -> Result<Input, Failure> {
        let mut errors = Vec::new();
        let mut documents = |paths: &[PathBuf]| {
            input::objects(paths, self.recursive).unwrap_or_else(|found| {
                errors.extend(found);
                Vec::<Document>::new()
            })
        };
        let (files, compared) = (documents(&self.filename), documents(&self.compare));
        let mut traces = Vec::new();
        for path in &self.trace {
            match input::text(path) {
                Ok(trace) => traces.push(trace),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(Failure::Unreadable(errors));
        }
        let given = Given {
            seen,
            files,
            compared: (!self.compare.is_empty()).then_some(compared),
            traces,
        };
        let options = Options {
            duration: self.duration,
            names: self.aliases.names(),
            ignores_other_kinds: self.ignore_other_kinds,
            creates: false,
        };
        let mut input = reading::read(&given, &options)?;
        let mut problems = Problems::default();
        if input.quotas.queues.is_empty() {
            problems.add_text(
                &"the input",
                "there is no ClusterQueue: at least one is required",
            );
        }
        if input.jobs.all().is_empty() {
            let none = "there is no job: at least one is required";
            problems.add_text(&"the input", none);
            if let Some(passed_over) = &input.passed_over {
                problems.add_text(&"the input", passed_over);
            }
        }
        if let Some(now) = input.now {
            self.estimate_durations(now, &mut input, &mut problems);
        }
        if problems.is_empty() {
            Ok(input)
        } else {
            Err(Failure::Problems(problems))
        }
    }

    /// Has the jobs of a cluster take what is likely, and notes how that is known.
    fn estimate_durations(&self, now: Time, input: &mut Input, problems: &mut Problems) {
        let estimated = (input.jobs).estimate_durations(&input.durations, self.duration, now);
        match estimated {
            Ok(known) => {
                let known = known
                    .iter()
                    .map(|(source, jobs)| format!("{jobs} {source}"));
                let known: Vec<String> = known.collect();
                let text = format!("durations: {}", known.join(", "));
                input.notes.push(text);
            }
            Err(unknown) => {
                let first = unknown.first().map_or("", |name| name);
                let text = format!(
                    "how long {} jobs run is not known ({first} is the first): no job has finished in the cluster; set --duration",
                    unknown.len()
                );
                problems.add_text(&"the cluster", &text);
            }
        }
    }
}

/// The job called `name`, with its namespace or, if that leaves no doubt, without.
fn find(name: &str, jobs: &Jobs) -> Result<usize, Problem> {
    let is_called = |known: &str| {
        let bare = known.split_once('/').map_or(known, |(_, bare)| bare);
        known == name || bare == name
    };
    let all = jobs.all().iter().enumerate();
    let mut found = all.filter(|(_, job)| is_called(&job.name));
    match (found.next(), found.next()) {
        (Some((index, _)), None) => Ok(index),
        (Some((_, one)), Some((_, other))) => {
            let rule = format!(
                "is more than one job ({}, {}, ...): must be the namespace and name of one",
                one.name, other.name
            );
            Err(Problem::invalid("--explain", name, rule))
        }
        (None, _) => Err(no_job(name)),
    }
}

fn no_job(name: &str) -> Problem {
    let rule = "must be the name, or namespace/name, of a job in the input";
    Problem::invalid("--explain", name, rule)
}
