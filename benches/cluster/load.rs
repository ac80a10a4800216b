//! The load: 30 queues in 5 cohorts, and Jobs of three sizes. What happens to them is not here.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::shared;

/// Queues, each a ClusterQueue and a LocalQueue of the same name.
const QUEUES: usize = 30;
/// Cohorts, each of as many queues.
const COHORTS: usize = 5;
/// CPUs of one queue.
const NOMINAL_CPUS: u32 = 20;
/// CPUs that it may borrow.
const BORROWING_CPUS: u32 = 100;
/// CPUs of one queue when quota holds nobody up.
const PLENTY_CPUS: u32 = 1_000_000;
/// Jobs of one queue that are created one after the other: seven small ones, two medium, one large.
const BLOCK: usize = 10;
/// Jobs created at the same time.
const CREATING: usize = 16;

/// How much quota there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quota {
    /// What jobs have to wait for.
    Scarce,
    /// More than all jobs ask for together.
    Plenty,
}

/// A size of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Size {
    Small,
    Medium,
    Large,
}

impl Size {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// The size of the job of this number.
    fn of(index: usize) -> Self {
        match index % BLOCK {
            0..7 => Self::Small,
            7 | 8 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// The size of the job of this name.
    pub(crate) fn of_job(name: &str) -> Option<Self> {
        let (size, _) = name.split_once('-')?;
        Self::ALL.into_iter().find(|known| known.name() == size)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }

    pub(crate) fn cpus(self) -> u32 {
        match self {
            Self::Small => 1,
            Self::Medium => 5,
            Self::Large => 20,
        }
    }

    fn priority(self) -> u32 {
        match self {
            Self::Small => 50,
            Self::Medium => 100,
            Self::Large => 200,
        }
    }

    /// How long it runs.
    pub(crate) fn runs(self) -> Duration {
        match self {
            Self::Small => Duration::from_millis(200),
            Self::Medium => Duration::from_millis(500),
            Self::Large => Duration::from_secs(1),
        }
    }
}

/// All CPUs of the scarce quota.
pub(crate) fn quota_cpus() -> f64 {
    f64::from(NOMINAL_CPUS) * shared::ratio(QUEUES, 1)
}

/// The shortest time in which the scarce quota lets so many jobs through, were all of it in use all
/// the time, in seconds.
pub(crate) fn quota_seconds(jobs: usize) -> f64 {
    let asked = (0..jobs).map(Size::of);
    let asked = asked.map(|size| f64::from(size.cpus()) * size.runs().as_secs_f64());
    asked.sum::<f64>() / quota_cpus()
}

/// The queues and priorities.
pub(crate) fn queues(quota: Quota) -> String {
    let nominal = match quota {
        Quota::Scarce => NOMINAL_CPUS,
        Quota::Plenty => PLENTY_CPUS,
    };
    let mut manifests = shared::flavor();
    for number in 0..QUEUES {
        let name = queue(number);
        let spec = json!({
            "cohortName": format!("cohort-{}", number % COHORTS),
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "bench", "resources": [
                {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": BORROWING_CPUS}]}]}],
        });
        manifests.push_str(&shared::cluster_queue(&name, &spec));
    }
    for size in Size::ALL {
        let (name, value) = (size.name(), size.priority());
        let _ = write!(
            manifests,
            "
---
apiVersion: sluice.dev/v1alpha1
kind: WorkloadPriorityClass
metadata: {{name: {name}}}
value: {value}"
        );
    }
    manifests
}

/// Creates the Jobs, suspended, as fast as the API server takes them, and shows each to `created`.
pub(crate) async fn create(
    client: &Client,
    jobs: usize,
    created: impl Fn(Job) -> Result<()>,
) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client.clone());
    let created = &created;
    stream::iter(0..jobs)
        .map(Ok)
        .try_for_each_concurrent(CREATING, |index| {
            let api = api.clone();
            async move {
                let answer = api.create(&PostParams::default(), &job(index)?).await;
                created(answer.context("create a job")?)
            }
        })
        .await
}

fn job(index: usize) -> Result<Job> {
    let size = Size::of(index);
    let container = json!({
        "name": "main", "image": "none",
        "resources": {"requests": {"cpu": size.cpus().to_string()}},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("{}-{index}", size.name()),
            "labels": {
                "sluice.dev/queue-name": queue(index / BLOCK % QUEUES),
                "sluice.dev/priority-class": size.name(),
            },
        },
        "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [container]}}},
    });
    Ok(serde_json::from_value(job)?)
}

/// The name of a queue; all are of one length.
fn queue(number: usize) -> String {
    format!("queue-{number:02}")
}
