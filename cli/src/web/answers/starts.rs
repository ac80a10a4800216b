//! When pending jobs will start. That takes seconds, so it is worked out only where the page asks for it: one estimate at a
//! time, beside the answers to other questions.

use std::time::Instant;

use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::job::called;
use super::viewer::{Answer, Viewer};
use super::waiting::{QueueName, names};
use crate::live::jobs::{Job, State};
use crate::live::list::{Keep, estimate_starts_beside};
use crate::simulate::{range_of, reason_of};
use crate::web::problem::{Problem, Problems, Reason};

/// When jobs will start.
#[derive(Debug, Serialize)]
pub struct Starts {
    starts: Vec<Start>,
}

/// When a job will start, or why that can't be known.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    namespace: String,
    group: String,
    kind: String,
    name: String,
    /// A range, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    /// What that follows from; without a range, why there is none.
    because: String,
}

impl Start {
    fn of(job: Job) -> Option<Self> {
        let (range, because) = match (job.start, job.no_estimate) {
            (Some(start), _) => (Some(range_of(&start)), reason_of(&start)),
            (None, Some(why)) => (None, why),
            (None, None) => return None,
        };
        Some(Self {
            namespace: job.namespace,
            group: job.group,
            kind: job.kind,
            name: job.name,
            range,
            because,
        })
    }
}

impl Viewer {
    /// When the jobs will start that wait in a queue and that the caller may list.
    ///
    /// # Errors
    /// The API server does not answer, or another estimate is under way.
    pub async fn starts(&self, queue: QueueName) -> Result<Answer<Starts>, Problem> {
        let under_way = self.under_way()?;
        let mut problems = Problems::default();
        let namespace = match &queue {
            QueueName::Cluster(_) => None,
            QueueName::Local(namespace, _) => Some(namespace.as_str()),
        };
        let queues = self.local_queues(namespace, &mut problems).await?;
        let own = names(queues.iter().filter(|local| queue.is(local)));
        let keep = |job: &Job| {
            if job.state == State::Pending && own.has(job) {
                Keep::Job
            } else {
                Keep::Nothing
            }
        };
        let objects = self
            .objects(namespace, queues, &keep, &mut problems)
            .await?;
        let mut pending = objects.into_jobs();
        pending.retain(|job| keep(job) == Keep::Job);
        self.estimated(pending, under_way, problems).await
    }

    /// When a job will start.
    ///
    /// # Errors
    /// The API server does not answer, or another estimate is under way.
    pub async fn start(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Answer<Starts>, Problem> {
        let under_way = self.under_way()?;
        let mut problems = Problems::default();
        let queues = self.local_queues(Some(namespace), &mut problems).await?;
        let called = called(kind, name);
        let keep = |job: &Job| {
            if called.is_job(job) {
                Keep::Job
            } else {
                Keep::Nothing
            }
        };
        let objects = self.objects(Some(namespace), queues, &keep, &mut problems);
        let mut job = objects.await?.into_jobs();
        job.retain(|job| called.is_job(job));
        job.truncate(1);
        self.estimated(job, under_way, problems).await
    }

    /// The right to make the one estimate. Who has to wait costs the cluster nothing.
    fn under_way(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let under_way = self.turns.take(&self.party, Instant::now());
        under_way.ok_or_else(|| unestimated(Reason::Busy, "another estimate is under way"))
    }

    async fn estimated(
        &self,
        jobs: Vec<Job>,
        under_way: OwnedSemaphorePermit,
        mut problems: Problems,
    ) -> Result<Answer<Starts>, Problem> {
        let estimated = estimate_starts_beside(
            &self.client,
            jobs,
            self.assumed.clone(),
            under_way,
            self.seen_bytes_max,
            &mut problems.tell(),
        )
        .await;
        let (jobs, notes) =
            estimated.map_err(|ended| unestimated(Reason::Unanswered, &ended.to_string()))?;
        for note in notes {
            problems.note(note);
        }
        let starts = jobs.into_iter().filter_map(Start::of).collect();
        Ok(Answer::new(Starts { starts }, problems))
    }
}

fn unestimated(reason: Reason, why: &str) -> Problem {
    Problem {
        what: "the estimate".to_owned(),
        reason,
        message: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;

    use super::*;
    use crate::simulate::Assumed;

    /// The page asks again of itself where nothing but another estimate is in the way.
    #[tokio::test]
    async fn another_estimate_under_way_is_a_reason_of_its_own() {
        let refusing = tower::service_fn(async |_: Request<Body>| {
            let refused = Response::builder().status(403);
            Ok::<_, Infallible>(refused.body(Body::empty()).unwrap())
        });
        let client = Client::new(refusing, "default");
        let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
        let other = viewer.under_way().unwrap();
        let told = viewer.start("blue", "Job", "train").await.unwrap_err();
        assert_eq!((told.reason, told.status().as_u16()), (Reason::Busy, 503));
        let queue = QueueName::Cluster("team-a".to_owned());
        let told = viewer.starts(queue).await.unwrap_err();
        assert_eq!(told.reason, Reason::Busy);
        drop(other);
        assert!(viewer.start("blue", "Job", "train").await.is_ok());
    }
}
