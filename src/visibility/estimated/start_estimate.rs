//! The object that is answered with to the question when a workload will start: `StartEstimate`. It has times and sums, and no
//! name of any other workload.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use sluice_engine::{Amount, ResourceName};
use sluice_estimates::estimate::{Answer, Estimate, NoEstimate, PERCENT, PLAYS_MIN};
use sluice_estimates::seconds::Seconds;

use super::taken::JOBS_MAX;
use crate::visibility::discovery::{GROUP, VERSION};
use crate::visibility::explained::findings::{State, Stated};
use crate::visibility::pending::summary::{Job, WorkloadMetadata, in_seconds};
use crate::visibility::table::{Column, Row, Tabular, text, wide};

/// When a workload will start, or why that can't be estimated.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartEstimate {
    /// StartEstimate.
    kind: &'static str,
    /// The group and version of this API.
    api_version: String,
    /// The Workload; of a pod that is admitted by itself, the pod.
    metadata: WorkloadMetadata,
    /// When the jobs stood as they were simulated. It may be half a minute ago.
    taken: Time,
    /// When this was answered, by the same clock.
    answered: Time,
    /// What it stands for: a job, a pod, or by the kind Pod and its name a group of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    /// How far it has come, as in its explanation.
    state: State,
    /// The begin of the range in which it starts. Missing if it starts in too few of the simulations.
    #[serde(skip_serializing_if = "Option::is_none")]
    earliest: Option<Time>,
    /// In half of the simulations it has started by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<Time>,
    /// The end of the range in which it starts. Missing if it starts in too few of the simulations.
    #[serde(skip_serializing_if = "Option::is_none")]
    latest: Option<Time>,
    /// Of 100 workloads estimated so, so many are to start within the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u32>,
    /// How often its cohort tree was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulations: Option<u32>,
    /// How many jobs of its cohort tree wait or hold quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs: Option<usize>,
    /// Whether more jobs come in the simulations, as they came lately.
    #[serde(skip_serializing_if = "Option::is_none")]
    more_jobs_come: Option<bool>,
    /// How many jobs that have finished in the cluster are known, by which it is known how long jobs run.
    finished_jobs: usize,
    /// By what it is known how long the jobs of the tree run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    durations: Vec<DurationSource>,
    /// Why there is no estimate: NotPending, as its state says; NotQueued; NoFinishedJobs, so it is not known how long jobs
    /// run; Inadmissible, as things are; TooManyJobs in its cohort tree; or TooSlow, so they could not be simulated in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The reason in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// By what it is known how long jobs run.
#[derive(Debug, Serialize, JsonSchema)]
struct DurationSource {
    /// SameRequests: finished jobs of the same LocalQueue, kind and requests; SameQueue: of the same LocalQueue and kind;
    /// SameKind; or Any. NeverEnds: none, as the jobs never end by themselves, as services.
    source: String,
    /// How many jobs that is so for.
    jobs: usize,
}

impl StartEstimate {
    /// The answer about a workload. `taken` is when its cohort tree stood so, `answered` is now, and `finished_jobs` is how
    /// many jobs had finished that are known.
    pub fn new(
        stated: &Stated,
        taken: Timestamp,
        answered: Timestamp,
        finished_jobs: usize,
        answer: Answer,
    ) -> Self {
        let none = Self {
            answered: in_seconds(answered),
            ..Self::nothing(stated, taken, finished_jobs)
        };
        match answer {
            Ok(estimate) => none.with(taken, estimate),
            Err(why) => {
                let (reason, message) = told(&why);
                none.because(reason, message)
            }
        }
    }

    /// The answer about a workload that is not pending.
    pub fn not_pending(stated: &Stated, at: Timestamp) -> Self {
        let message = match stated.state {
            State::Gated => "gates hold it, and may do so for ever",
            State::OnHold => "its user has suspended it",
            State::Inactive => "it is deactivated, or is being deleted",
            State::Admitted => "it is admitted",
            State::Evicted => "it is evicted, and has not stopped",
            State::Finished => "it has finished",
            State::Pending => "it is not queued",
        };
        Self::nothing(stated, at, 0).because("NotPending", message.to_owned())
    }

    fn nothing(stated: &Stated, at: Timestamp, finished_jobs: usize) -> Self {
        Self {
            kind: "StartEstimate",
            api_version: format!("{GROUP}/{VERSION}"),
            metadata: WorkloadMetadata {
                name: stated.found.name.to_string(),
                namespace: stated.namespace.to_string(),
                creation_timestamp: stated.made.map(in_seconds),
            },
            taken: in_seconds(at),
            answered: in_seconds(at),
            job: stated.found.job.as_ref().map(Job::from),
            state: stated.state,
            earliest: None,
            median: None,
            latest: None,
            percent: None,
            simulations: None,
            jobs: None,
            more_jobs_come: None,
            finished_jobs,
            durations: Vec::new(),
            reason: None,
            message: None,
        }
    }

    fn with(self, at: Timestamp, estimate: Estimate) -> Self {
        let after = |Seconds(millis): Seconds| {
            let at = at.saturating_add(SignedDuration::from_millis(millis));
            in_seconds(at.unwrap_or(Timestamp::MAX))
        };
        let sources = estimate.durations.into_iter();
        let sources = sources.map(|known| DurationSource {
            source: format!("{:?}", known.source),
            jobs: known.jobs,
        });
        Self {
            earliest: estimate.earliest_seconds.map(after),
            median: estimate.median_seconds.map(after),
            latest: estimate.latest_seconds.map(after),
            percent: Some(PERCENT),
            simulations: Some(estimate.plays),
            jobs: Some(estimate.jobs),
            more_jobs_come: Some(estimate.more_come),
            durations: sources.collect(),
            ..self
        }
    }

    fn because(self, reason: &'static str, message: String) -> Self {
        Self {
            reason: Some(reason),
            message: Some(message),
            ..self
        }
    }
}

/// Why there is no estimate, in one word and in words.
fn told(why: &NoEstimate) -> (&'static str, String) {
    match why {
        NoEstimate::NoDurations(jobs) => (
            "NoFinishedJobs",
            format!(
                "how long {} of the jobs run is not known: Sluice knows no job that has finished in the cluster",
                jobs.len()
            ),
        ),
        NoEstimate::Inadmissible(explanation) => {
            ("Inadmissible", explanation.display(&format).to_string())
        }
        NoEstimate::NotQueued => ("NotQueued", "it is not queued".to_owned()),
        NoEstimate::TooManyJobs(jobs) => (
            "TooManyJobs",
            format!(
                "its cohort has {jobs} jobs, which is more than the {JOBS_MAX} that are simulated"
            ),
        ),
        NoEstimate::TooSlow(plays) => (
            "TooSlow",
            format!("only {plays} simulations were done in time, and {PLAYS_MIN} are needed"),
        ),
    }
}

fn format(resource: &ResourceName, amount: Amount) -> String {
    sluice_translate::quantity(resource, amount).to_string()
}

impl Tabular for StartEstimate {
    const COLUMNS: &'static [Column] = &[
        text(
            "Name",
            "The Workload, or the pod that is admitted by itself.",
        ),
        text("Job", "What it stands for."),
        text("Earliest", "The begin of the range in which it starts."),
        text("Latest", "The end of the range in which it starts."),
        text("Reason", "Why there is no estimate."),
        wide("Message", "The reason in words."),
    ];

    fn rows(&self, _: Timestamp) -> Vec<Row> {
        let at = |time: &Option<Time>| json!(time);
        let cell = |time: &Option<Time>| time.as_ref().map_or(json!(""), |_| at(time));
        vec![Row {
            cells: vec![
                json!(self.metadata.name),
                Job::cell(self.job.as_ref()),
                cell(&self.earliest),
                cell(&self.latest),
                json!(self.reason.unwrap_or_default()),
                json!(self.message.as_deref().unwrap_or_default()),
            ],
            metadata: json!(self.metadata),
        }]
    }
}
