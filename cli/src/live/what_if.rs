//! `kubectl sluice what-if`: what would become of a job, if it was created now. Nothing is created.
//!
//! How it is worked out is no matter of this file: `simulate` does that, with the engine that decides in a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::clock::EstimateClock;
use super::export::{JobKinds, export_with, pod_defaults};
use super::outcome::{Ended, LiveError, shown};
use crate::cluster::{Cluster, Connection, Format, Namespace, Tell, Told};
use crate::input::{self, Document, InputError};
use crate::rules::queue_names::QueueAliases;
use crate::simulate::{
    Failure, Given, Options, Terms, WhatIf as Answer, WhatIfOutcome, job_of, parse_span, settings,
    what_if_text,
};

const DETAILS: &str = "\
Tells what would become of a job if it was created now: whether it would be admitted, from which flavors, whom it would \
preempt, what is lacking and whom it would wait for, whether it could ever be admitted; and when it would start. It \
reads the queues and jobs of the cluster with your rights, and decides with the engine of the controller. Nothing is \
created.

It needs the right to list ClusterQueues, Cohorts, ResourceFlavors, LocalQueues, Workloads, classes of priorities, \
namespaces and JobKinds in the whole cluster.

Examples:
  # Would it be admitted?
  kubectl sluice what-if -f job.yaml

  # And with other quotas?
  kubectl sluice what-if -f job.yaml -f more-quota.yaml";

const EXIT_CODES: &str = "\
Exit codes:
  0  it would be admitted, now or later
  1  it is invalid, or would not be admitted until the job or its queue is changed
  2  wrong usage, a file that can't be read, or a cluster that does not answer or refuses";

/// Tell what would become of a job if it was created now.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct WhatIf {
    /// Files with the job or the pod, and with queues and JobKinds to be applied first; - for the standard input.
    #[arg(
        short,
        long,
        value_name = "FILE",
        value_delimiter = ',',
        required = true
    )]
    filename: Vec<PathBuf>,
    /// Also read the subdirectories of directories.
    #[arg(short = 'R', long)]
    recursive: bool,
    /// The run time to assume for a job if no similar job has finished.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    /// Share by dominant resource share. It is known by itself where a ClusterQueue has a share in its status.
    #[arg(long)]
    fair_sharing: bool,
    #[command(flatten)]
    aliases: QueueAliases,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    namespace: Namespace,
    #[command(flatten)]
    connection: Connection,
}

impl WhatIf {
    /// Tells it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let files = input::objects(&self.filename, self.recursive);
        let files = match files {
            Ok(files) => files,
            Err(errors) => return unreadable(&errors),
        };
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.one_namespace(&self.namespace)?;
        let files = in_namespace(files, &namespace);
        let mut seen = export_with(&cluster.client, JobKinds::ToReadJobs, usize::MAX, tell).await?;
        // What is not about the job may be in another namespace.
        let job = job_of(&files, &seen.documents);
        let of_job = job.and_then(namespace_of).unwrap_or(&namespace);
        seen.pod_defaults = pod_defaults(&cluster.client, of_job, tell).await?;
        let given = Given {
            seen: Some(seen),
            files,
            ..Given::default()
        };
        let terms = Terms {
            options: Options {
                duration: self.duration,
                names: self.aliases.names(),
                ignores_other_kinds: true,
                creates: true,
            },
            settings: self.fair_sharing.then(|| settings(true)),
        };
        let mut clock = EstimateClock::new();
        let asked = Answer::ask(&given, &terms, |plays| clock.goes_on(plays, tell));
        let (answer, notes) = match asked {
            Ok(answered) => answered,
            Err(failure) => return failed(failure, tell),
        };
        for note in notes {
            tell(Told::Note(note))?;
        }
        let text = shown(self.output, &answer, |_| what_if_text(&answer))?;
        tell(Told::Result(text))?;
        Ok(match answer.outcome {
            WhatIfOutcome::Inadmissible => Ended::NotDone,
            _ => Ended::Done,
        })
    }
}

fn failed(failure: Failure, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
    match failure {
        Failure::Problems(problems) => {
            for line in problems.lines() {
                tell(Told::Error(line))?;
            }
            Ok(Ended::NotDone)
        }
        Failure::Unreadable(errors) => unreadable(&errors),
        Failure::NotOneJob(problem) => {
            tell(Told::Error(problem.to_string()))?;
            Ok(Ended::NotDone)
        }
        Failure::Unwritable(error) => Err(LiveError::Unprintable(error)),
    }
}

fn unreadable(errors: &[InputError]) -> Result<Ended, LiveError> {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    Err(LiveError::Unreadable(errors.join("; ")))
}

/// The objects, those of a kind that is in namespaces in this one unless they name another. Which kinds those are is
/// known of the kinds that are not.
fn in_namespace(files: Vec<Document>, namespace: &str) -> Vec<Document> {
    let place = |mut document: Document| {
        let is_own = crate::simulate::is_without_namespace(&document);
        let metadata = document.value.get_mut("metadata");
        if let Some(Value::Object(metadata)) = metadata.filter(|_| !is_own) {
            metadata
                .entry("namespace")
                .or_insert_with(|| namespace.into());
        }
        document
    };
    files.into_iter().map(place).collect()
}

fn namespace_of(document: &Document) -> Option<&str> {
    let namespace = document.value.pointer("/metadata/namespace");
    namespace.and_then(Value::as_str)
}
