//! When pending jobs will start, as visibility.sluice.dev says: `docs/visibility.md`. It knows the jobs of all namespaces, which
//! a caller may not see.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use sluice_estimates::durations::Source;
use sluice_estimates::estimate::{Estimate, Known};
use sluice_estimates::seconds::Seconds;

use super::super::jobs::Job;
use super::super::listed::{Unseen, visible_within};

/// How long one answer may take: estimates of other trees of cohorts may come before.
const ANSWER_DEADLINE: Duration = Duration::from_secs(12);
/// It is not worth to ask for less.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);

/// When a job will start, or why there is no estimate.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StartEstimate {
    taken: Option<Timestamp>,
    answered: Option<Timestamp>,
    earliest: Option<Timestamp>,
    median: Option<Timestamp>,
    latest: Option<Timestamp>,
    simulations: Option<u32>,
    jobs: usize,
    more_jobs_come: bool,
    durations: Vec<DurationSource>,
    reason: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct DurationSource {
    source: Source,
    jobs: usize,
}

/// What is said about a job.
#[derive(Debug, Clone, PartialEq)]
enum Said {
    Estimate(Estimate),
    /// There is no estimate, and can't be one.
    None(String),
    /// There is no estimate, but there may be one where more is known, or more time is taken.
    NotThere(String),
}

impl StartEstimate {
    fn said(self) -> Option<Said> {
        // Leaders of before don't say when they answered.
        let answered = self.answered.or(self.taken);
        if let (Some(plays), Some(answered)) = (self.simulations, answered) {
            // An estimate may be half a minute old: what was to come may be over.
            let after = |at: Timestamp| {
                let millis = at.duration_since(answered).as_millis();
                Seconds(millis.max(0).try_into().unwrap_or(i64::MAX))
            };
            let known = self.durations.into_iter();
            let known = known.map(|DurationSource { source, jobs }| Known { source, jobs });
            return Some(Said::Estimate(Estimate {
                earliest_seconds: self.earliest.map(after),
                median_seconds: self.median.map(after),
                latest_seconds: self.latest.map(after),
                plays,
                jobs: self.jobs,
                more_come: self.more_jobs_come,
                durations: known.collect(),
            }));
        }
        let message = self.message?;
        Some(match self.reason?.as_str() {
            "NoFinishedJobs" | "TooManyJobs" | "TooSlow" => Said::NotThere(message),
            _ => Said::None(message),
        })
    }
}

/// What was found out by asking.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Whether there is no more to find out.
    pub(super) is_all: bool,
    /// Why some jobs are not told of.
    pub(super) unseen: Option<String>,
}

/// Asks about each of these jobs for as long as there is time, and notes what is said.
pub(super) async fn ask(client: &Client, jobs: Vec<&mut Job>, within: Duration) -> Told {
    let begun = Instant::now();
    let mut told = Told {
        is_all: true,
        unseen: None,
    };
    for job in jobs {
        let left = within.saturating_sub(begun.elapsed());
        if left < ANSWER_TIME_MIN {
            told.is_all = false;
            let why = "visibility.sluice.dev does not answer in time";
            told.unseen = Some(why.to_owned());
            break;
        }
        match about(client, job, left.min(ANSWER_DEADLINE)).await {
            Ok(Said::Estimate(estimate)) => job.start = Some(estimate),
            Ok(Said::None(why)) => job.no_estimate = Some(why),
            Ok(Said::NotThere(why)) => {
                told.is_all = false;
                job.no_estimate = Some(why);
            }
            Err(why) => {
                told.is_all = false;
                told.unseen = Some(why.to_string());
                // Others may be known. An API that is not there, refuses or does not answer is not asked about them.
                if !matches!(why, Unseen::NotFound(_)) {
                    break;
                }
            }
        }
    }
    told
}

async fn about(client: &Client, job: &Job, within: Duration) -> Result<Said, Unseen> {
    let (resource, name) = match &job.workload {
        Some(workload) => ("workloads", workload),
        None => ("pods", &job.name),
    };
    let path = format!("namespaces/{}/{resource}/{name}/estimate", job.namespace);
    let answer: StartEstimate = visible_within(within, client, &path).await?;
    let nothing = || Unseen::NoAnswer("visibility.sluice.dev says nothing of it".to_owned());
    answer.said().ok_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::{Value, json};

    use super::*;
    use crate::simulate::{range_of, reason_of};

    fn said(answer: Value) -> String {
        let answer: StartEstimate = serde_json::from_value(answer).unwrap();
        match answer.said() {
            Some(Said::Estimate(estimate)) => {
                format!("{}: {}", range_of(&estimate), reason_of(&estimate))
            }
            Some(Said::None(why)) => format!("none: {why}"),
            Some(Said::NotThere(why)) => format!("not there: {why}"),
            None => "nothing".to_owned(),
        }
    }

    #[test]
    fn an_answer_is_told_as_an_estimate_of_the_plugin_is() {
        let estimate = json!({
            "taken": "2026-03-01T09:30:00Z", "earliest": "2026-03-01T09:40:00Z", "median": "2026-03-01T10:00:00Z",
            "latest": "2026-03-01T11:30:00Z", "percent": 80, "simulations": 100, "jobs": 34, "moreJobsCome": true,
            "finishedJobs": 210,
            "durations": [{"source": "SameRequests", "jobs": 30}, {"source": "SameKind", "jobs": 4}],
        });
        let mut late = estimate.clone();
        late["latest"] = Value::Null;
        let mut again = estimate.clone();
        again["answered"] = json!("2026-03-01T09:39:55Z");
        let mut over = estimate.clone();
        over["answered"] = json!("2026-03-01T10:05:00Z");
        let none = |reason: &str, message: &str| json!({"taken": "2026-03-01T09:30:00Z", "finishedJobs": 0, "reason": reason, "message": message});
        let all = [
            said(estimate),
            said(late),
            said(again),
            said(over),
            said(none("Inadmissible", "the flavor has a taint")),
            said(none(
                "NoFinishedJobs",
                "how long 2 of the jobs run is not known",
            )),
            said(none("SomethingNew", "who knows")),
            said(json!({})),
        ];
        assert_snapshot!(all.join("\n"), @r"
        in 10m to 2h: 8 of 10 jobs start within such a range (100 simulations of the 34 jobs in its cohort and of new jobs arriving as before; durations: 30 from finished jobs of the same LocalQueue, kind and requests, 4 from finished jobs of the same kind)
        in 10m at the earliest: 8 of 10 jobs start within such a range (100 simulations of the 34 jobs in its cohort and of new jobs arriving as before; durations: 30 from finished jobs of the same LocalQueue, kind and requests, 4 from finished jobs of the same kind)
        in 5s to 1h50m: 8 of 10 jobs start within such a range (100 simulations of the 34 jobs in its cohort and of new jobs arriving as before; durations: 30 from finished jobs of the same LocalQueue, kind and requests, 4 from finished jobs of the same kind)
        in 0s to 1h25m: 8 of 10 jobs start within such a range (100 simulations of the 34 jobs in its cohort and of new jobs arriving as before; durations: 30 from finished jobs of the same LocalQueue, kind and requests, 4 from finished jobs of the same kind)
        none: the flavor has a taint
        not there: how long 2 of the jobs run is not known
        none: who knows
        nothing
        ");
    }
}
