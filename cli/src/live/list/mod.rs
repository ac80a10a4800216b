//! `kubectl sluice list`: the jobs of all kinds, in the order of their queues.
//!
//! Must not know how Sluice decides.

mod objects;
mod places;
pub mod requests;
mod start_answers;
mod starts;

pub use self::objects::{Keep, KeepOf, Listed, Objects};
pub use self::places::{all_pending, tell_places, total_pending};
pub use self::starts::{estimate_starts, estimate_starts_beside};

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::jobs::{Job, KindNames, State};
use super::outcome::{EXIT_CODES, Ended, LiveError};
use super::view::{Look, View};
use crate::cluster::age::age;
use crate::cluster::{Tell, Told};
use crate::rules::queue_names::QueueAliases;
use crate::simulate::{Assumed, parse_span, range_of};
use crate::table::{NONE, columns, or_none};

const DETAILS: &str = "\
Lists the jobs of all kinds, pod groups, and pods that are admitted by themselves. PLACE is the place among the \
pending jobs of the LocalQueue: the highest priority first, then the oldest. AHEAD is how many of the whole ClusterQueue come \
before it, if visibility.sluice.dev tells. START, with --start, is when the job will start, as simulated with \
durations like those of finished jobs: 8 of 10 jobs start within such a range. Of gated objects the ten oldest of each \
LocalQueue are listed. Where kinds of several API groups have one name, KIND says the group: Job.batch.";

/// List jobs with their state, their place in their queue, and why they wait.
#[derive(Debug, Args)]
#[command(long_about = DETAILS, after_help = EXIT_CODES)]
pub struct List {
    /// Only jobs of this LocalQueue.
    #[arg(short, long, value_name = "NAME")]
    queue: Option<String>,
    /// Finished jobs too.
    #[arg(short, long)]
    finished: bool,
    /// Estimate when each pending job will start, which may take a minute.
    #[arg(long, conflicts_with = "watch")]
    start: bool,
    /// The run time to assume for a job if no similar job has finished.
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "start")]
    duration: Option<Duration>,
    #[command(flatten)]
    aliases: QueueAliases,
    #[command(flatten)]
    view: View,
}

impl List {
    /// Lists them.
    ///
    /// # Errors
    /// The cluster does not answer, or the result can't be written.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let look = async |client: &Client, namespace: Option<&str>, note: &mut Tell<'_>| {
            let names = self.aliases.names();
            let keep = |_: &Job| Keep::Job;
            let objects = Objects::list(client, namespace, names.clone(), &keep, note).await?;
            let mut jobs = objects.into_jobs();
            jobs.retain(|job| {
                let is_shown = self.finished || job.state != State::Finished;
                is_shown && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            });
            let told = tell_places(client, &mut jobs, usize::MAX)
                .await
                .unwrap_or_else(|why| {
                    Some(format!(
                        "places are counted among the jobs listed here: {why}"
                    ))
                });
            if let Some(text) = told {
                note(Told::Note(text))?;
            }
            if self.start {
                let assumed = Assumed {
                    duration: self.duration,
                    names,
                };
                estimate_starts(client, &mut jobs, &assumed, note).await?;
                tell_unknown(&jobs, note)?;
            }
            Look::of(self.view.output, &jobs, |is_wide| {
                table(&jobs, namespace.is_none(), is_wide, Timestamp::now())
            })
        };
        self.view.show(tell, look).await
    }
}

/// Says why starts can't be estimated, each reason once.
fn tell_unknown(jobs: &[Job], note: &mut Tell<'_>) -> Result<(), LiveError> {
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    let pending = jobs.iter().filter(|job| job.state == State::Pending);
    for why in pending.filter_map(|job| job.no_estimate.as_deref()) {
        *unknown.entry(why).or_default() += 1;
    }
    for (why, count) in unknown {
        let jobs = if count == 1 { "job" } else { "jobs" };
        note(Told::Note(format!(
            "the start of {count} {jobs} can't be estimated: {why}"
        )))?;
    }
    Ok(())
}

/// What is printed in place of an empty table. Only events tell of a job that can't be queued.
pub const NO_JOBS: &str = "No jobs found. What can't be queued is not listed: kubectl sluice explain KIND/NAME says why\n";

/// The jobs as a table.
pub fn table(jobs: &[Job], has_namespaces: bool, is_wide: bool, now: Timestamp) -> String {
    if jobs.is_empty() {
        return NO_JOBS.to_owned();
    }
    let mut headers = vec!["KIND", "NAME", "QUEUE", "STATE", "PLACE", "SINCE", "REASON"];
    if has_namespaces {
        headers.insert(0, "NAMESPACE");
    }
    if is_wide {
        headers.extend(["PRIORITY", "MESSAGE"]);
    }
    let has_ahead = jobs.iter().any(|job| job.ahead.is_some());
    if has_ahead && let Some(place) = headers.iter().position(|header| *header == "PLACE") {
        headers.insert(place.saturating_add(1), "AHEAD");
    }
    let has_starts = (jobs.iter()).any(|job| job.start.is_some() || job.no_estimate.is_some());
    if has_starts && let Some(since) = headers.iter().position(|header| *header == "SINCE") {
        headers.insert(since, "START");
    }
    let kinds = KindNames::of(jobs.iter().map(|job| (&*job.group, &*job.kind)));
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|job| {
            let place = match (job.place, job.pending) {
                (Some(place), Some(pending)) => format!("{place}/{pending}"),
                _ => NONE.to_owned(),
            };
            let since = job.since.map(|since| age(since, now));
            let mut row = vec![
                kinds.name(&job.group, &job.kind),
                job.name.clone(),
                job.queue.clone(),
                format!("{:?}", job.state),
                place,
            ];
            if has_ahead {
                let ahead = job.ahead.map(|ahead| ahead.to_string());
                row.push(ahead.unwrap_or_else(|| NONE.to_owned()));
            }
            if has_starts {
                row.push(start(job));
            }
            row.extend([
                since.unwrap_or_else(|| NONE.to_owned()),
                or_none(job.reason.as_str()),
            ]);
            if has_namespaces {
                row.insert(0, job.namespace.clone());
            }
            if is_wide {
                row.extend([job.priority.to_string(), or_none(job.message.as_str())]);
            }
            row
        })
        .collect();
    columns(&headers, &rows, 0)
}

/// When a job will start, in words.
fn start(job: &Job) -> String {
    match (&job.start, &job.no_estimate) {
        (Some(start), _) => range_of(start),
        (None, Some(_)) => "unknown".to_owned(),
        (None, None) => NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::tests::{refusing, with_a_pod_of_kueue};
    use crate::rules::queue_names::QueueNames;

    #[tokio::test]
    async fn pods_that_are_queued_by_an_alias_are_listed_or_told_of() {
        let client = with_a_pod_of_kueue();
        let listed = async |names| {
            let mut notes = Vec::new();
            let mut tell = |told| {
                if let Told::Note(text) = told {
                    notes.push(text);
                }
                Ok(())
            };
            let keep = |_: &Job| Keep::Job;
            let objects = Objects::list(&client, Some("blue"), names, &keep, &mut tell).await;
            let jobs = objects.unwrap().jobs();
            let jobs: Vec<_> = jobs.into_iter().map(|job| (job.name, job.queue)).collect();
            (jobs, notes)
        };
        let left_out = "left out: 1 pod that Sluice manages is queued by no known label or gate; if Sluice's \
                        configuration has aliases, name them with --alias-presets, --queue-label-aliases and \
                        --queue-gate-aliases";
        let unknown = listed(QueueNames::default()).await;
        assert_eq!(unknown, (vec![], vec![left_out.to_owned()]));
        let known = listed(QueueAliases::of_kueue().names()).await;
        assert_eq!(
            known,
            (vec![("web-1".to_owned(), "main".to_owned())], vec![])
        );
    }

    #[tokio::test]
    async fn who_may_not_list_pods_sees_the_other_jobs() {
        let client = refusing("/api/v1/namespaces/blue/pods");
        let mut notes = Vec::new();
        let mut tell = |told| {
            if let Told::Note(text) = told {
                notes.push(text);
            }
            Ok(())
        };
        let (names, keep) = (QueueNames::default(), |_: &Job| Keep::Job);
        let objects = Objects::list(&client, Some("blue"), names, &keep, &mut tell).await;
        assert!(objects.unwrap().jobs().is_empty());
        assert_eq!(
            notes,
            ["left out: pods that are admitted by themselves: not for you"]
        );
        let client = refusing("/apis/sluice.dev/v1alpha1/namespaces/blue/workloads");
        let refused = Objects::list(
            &client,
            Some("blue"),
            QueueNames::default(),
            &keep,
            &mut |_| Ok(()),
        )
        .await;
        assert_eq!(
            refused.err().map(|error| error.to_string()).as_deref(),
            Some("not for you")
        );
    }
}
