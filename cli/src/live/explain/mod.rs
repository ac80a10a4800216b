//! `kubectl sluice explain`: one job, pod group or pod, and why it waits: what it asks for, its place, who is ahead, and
//! what its conditions say; from visibility.sluice.dev, what it lacks and who has that; and when it will start.
//!
//! Must not know how Sluice decides.

mod answer;
mod events;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use sluice_crds::{ClusterQueue, Quantity, Workload};
use sluice_kinds::gates;

use self::answer::Answer;
use self::events::last_event;
pub use self::events::{events_about, told_at};
use super::hold_evict::{is_of, kind_of};
use super::jobs::{Job, State, group_of};
use super::list::Objects;
use super::list::estimate_starts;
use super::listed::{self, Unseen};
use super::outcome::{EXIT_CODES, Ended, LiveError, object_name, shown};
use super::queues::{Node, trees};
use crate::cluster::age::age;
use crate::cluster::{Cluster, Connection, Format, Namespaces, Served, Tell, Told, answer};
use crate::simulate::{Estimate, parse_span};
use crate::table::{NONE, columns, fields};

/// How many of those ahead are named.
const NAMED_MAX: usize = 5;

/// Explain why a job waits, or how it stands.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Explain {
    /// The job: job/train; podgroup/NAME; or pod/NAME for a pod that is admitted by itself, or with its group.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// Output format: json or yaml.
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    /// For the estimate of the start: how long a job runs like which none has finished in the cluster.
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    duration: Option<Duration>,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    connection: Connection,
}

/// A job, explained.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explained {
    /// The job.
    pub job: Job,
    /// The ClusterQueue of its LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_queue: Option<String>,
    /// What it asks for in all.
    pub requests: BTreeMap<String, Quantity>,
    /// The pending jobs of its LocalQueue that come before it.
    pub ahead: Vec<String>,
    /// What its conditions, or the last event about it, say.
    pub told: Vec<(String, String)>,
    /// How its ClusterQueue stands, if the caller may see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Node>,
    /// What visibility.sluice.dev says, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Value>,
    /// When it will start, if it waits and that can be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Estimate>,
    /// Why that can't be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<String>,
}

impl Explain {
    /// Explains it.
    ///
    /// # Errors
    /// Wrong usage, or the cluster does not answer.
    pub async fn run(&self, tell: &mut Tell<'_>) -> Result<Ended, LiveError> {
        let (word, name) = object_name(&self.object, "job/train")?;
        if self.namespaces.all_namespaces {
            return Err(LiveError::OneNamespace);
        }
        let cluster = Cluster::connect(&self.connection).await?;
        let namespace = cluster.namespace(&self.namespaces)?.unwrap_or_default();
        let kind = kind_of(&cluster, word).await?;
        let objects = Objects::list(&cluster.client, Some(&namespace), tell).await?;
        let group = group_of_member(&objects, &kind, name);
        let (of_kind, called) = match &group {
            Some(group) => ("PodGroup", group.as_str()),
            None => (kind.as_str(), name),
        };
        let found = explained(&cluster.client, &objects, of_kind, called, tell).await?;
        let Some(mut explained) = found else {
            return self
                .without_job(&cluster, &namespace, (word, &kind, name), group, tell)
                .await;
        };
        let job = &mut explained.job;
        let jobs = std::slice::from_mut(job);
        estimate_starts(&cluster.client, jobs, self.duration, tell).await;
        (explained.start, explained.no_estimate) = (job.start.take(), job.no_estimate.take());
        let text = shown(self.output, &explained, |_| {
            text(&explained, Timestamp::now())
        })?;
        tell(Told::Result(text))?;
        Ok(Ended::Done)
    }

    /// An object that is not queued: why not, by its gates.
    async fn without_job(
        &self,
        cluster: &Cluster,
        namespace: &str,
        (word, kind, name): (&str, &str, &str),
        group: Option<String>,
        tell: &mut Tell<'_>,
    ) -> Result<Ended, LiveError> {
        if kind != "PodGroup" {
            let resource = Served::ask(&cluster.client).await?.named(word)?;
            let objects = resource.objects(&cluster.client, Some(namespace));
            let object = answer("read the object", objects.get_metadata(name)).await?;
            let annotations = object.annotations();
            let held: Vec<String> = match gates::read(annotations) {
                gates::GateState::Held(held) => held.iter().map(ToString::to_string).collect(),
                gates::GateState::None | gates::GateState::Invalid(_) => Vec::new(),
            };
            if !held.is_empty() {
                let text = format!(
                    "{kind} {name:?} is held by gates, and not queued: {}\n",
                    held.join(", ")
                );
                tell(Told::Result(text))?;
                return Ok(Ended::Done);
            }
        }
        let whom = group.map_or_else(
            || "it".to_owned(),
            |group| format!("its pod group {group:?}"),
        );
        let text = format!(
            "{kind} {name:?} is not queued: Sluice has no Workload for {whom} in namespace {namespace}"
        );
        tell(Told::Error(text))?;
        Ok(Ended::NotDone)
    }
}

/// The group that a pod of this name is admitted with, if it is.
fn group_of_member(objects: &Objects, kind: &str, name: &str) -> Option<String> {
    let mut pods = objects.pods.iter();
    let pod = pods.find(|pod| kind == "Pod" && pod.name_any() == name)?;
    group_of(pod)
}

/// The job of this kind and name, explained by the objects of its namespace; none if it is not queued.
///
/// # Errors
/// What is not known can't be told.
pub async fn explained(
    client: &Client,
    objects: &Objects,
    kind: &str,
    name: &str,
    tell: &mut Tell<'_>,
) -> Result<Option<Explained>, LiveError> {
    let jobs = objects.jobs();
    let Some(job) = jobs.iter().find(|job| job.kind == kind && job.name == name) else {
        return Ok(None);
    };
    let mut workloads = objects.workloads.iter();
    let workload = workloads.find(|workload| is_of(workload, kind, name));
    let mut queues = objects.queues.iter();
    let cluster_queue = queues.find(|queue| queue.name_any() == job.queue);
    let cluster_queue = cluster_queue.map(|queue| queue.spec.cluster_queue.clone());
    let queue = match &cluster_queue {
        Some(name) => queue(client, name).await,
        None => None,
    };
    let told = match workload {
        Some(workload) => conditions(workload),
        None => last_event(client, &job.namespace, name).await,
    };
    let explanation = match explanation(client, job).await {
        Ok(explanation) => explanation,
        Err(why) => {
            let text =
                format!("what it lacks and who is ahead in its ClusterQueue is not known: {why}");
            tell(Told::Note(text))?;
            None
        }
    };
    Ok(Some(Explained {
        start: None,
        no_estimate: None,
        explanation,
        requests: workload.map(requests).unwrap_or_default(),
        ahead: ahead(&jobs, job),
        job: job.clone(),
        cluster_queue,
        told,
        queue,
    }))
}

/// How a ClusterQueue stands; none if the caller may not see it.
async fn queue(client: &Client, name: &str) -> Option<Node> {
    let api: Api<ClusterQueue> = Api::all(client.clone());
    let queue = answer("read the ClusterQueue", api.get(name)).await.ok()?;
    let nodes = trees(&[queue], &[]);
    let node = nodes.into_iter().find(|node| node.kind == "ClusterQueue")?;
    Some(Node { depth: 0, ..node })
}

/// What visibility.sluice.dev says about a job. Of one that gates hold there is no more to say.
async fn explanation(client: &Client, job: &Job) -> Result<Option<Value>, Unseen> {
    let (resource, name) = match (&job.workload, job.kind.as_str()) {
        (Some(workload), _) => ("workloads", workload),
        (None, "Pod") => ("pods", &job.name),
        (None, _) => return Ok(None),
    };
    let path = format!("namespaces/{}/{resource}/{name}/explanation", job.namespace);
    listed::visible(client, &path).await.map(Some)
}

/// Those that come before a pending job in its LocalQueue.
fn ahead(jobs: &[Job], job: &Job) -> Vec<String> {
    let before = jobs.iter().filter(|other| {
        job.place.is_some()
            && other.queue == job.queue
            && other.place < job.place
            && other.state == State::Pending
    });
    before
        .map(|other| format!("{}/{}", other.kind, other.name))
        .collect()
}

/// What a Workload asks for in all.
pub fn requests(workload: &Workload) -> BTreeMap<String, Quantity> {
    let mut sums: BTreeMap<String, i128> = BTreeMap::new();
    for set in &workload.spec.pod_sets {
        for (resource, quantity) in &set.requests {
            let each = quantity.nanos().unwrap_or_default();
            let sum = sums.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(each.saturating_mul(i128::from(set.count)));
        }
    }
    let sums = sums.into_iter();
    sums.map(|(resource, nanos)| {
        let quantity = Quantity::of(&resource, nanos);
        (resource, quantity)
    })
    .collect()
}

fn conditions(workload: &Workload) -> Vec<(String, String)> {
    let conditions = workload.status.iter().flat_map(|status| &status.conditions);
    conditions
        .map(|condition| {
            let kind = format!(
                "{}={} ({})",
                condition.type_, condition.status, condition.reason
            );
            (kind, condition.message.clone())
        })
        .collect()
}

/// The explanation for people.
fn text(explained: &Explained, now: Timestamp) -> String {
    let Explained { job, ahead, .. } = explained;
    let since = job.since.map(|since| format!(" for {}", age(since, now)));
    let place = match (job.place, job.pending) {
        (Some(place), Some(pending)) => format!("{place} of {pending}"),
        _ => NONE.to_owned(),
    };
    let queue = match &explained.cluster_queue {
        Some(cluster_queue) => format!("{} (ClusterQueue {cluster_queue})", job.queue),
        None => job.queue.clone(),
    };
    let requests = explained.requests.iter();
    let requests: Vec<String> = requests
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    let mut named: Vec<String> = ahead.iter().take(NAMED_MAX).cloned().collect();
    let more = ahead.len().saturating_sub(NAMED_MAX);
    if 0 < more {
        named.push(format!("and {more} more"));
    }
    let or_none = |text: String| {
        if text.is_empty() {
            NONE.to_owned()
        } else {
            text
        }
    };
    let answer = explained.explanation.as_ref();
    let answer = answer.and_then(|answer| Answer::deserialize(answer).ok());
    let mut known = vec![
        ("Job", format!("{}/{}", job.kind, job.name)),
        ("Queue", queue),
        (
            "State",
            format!("{:?}{}", job.state, since.unwrap_or_default()),
        ),
        ("Priority", job.priority.to_string()),
        ("Place", place),
    ];
    if answer.is_none() {
        known.push(("Ahead", or_none(named.join(", "))));
    }
    known.push(("Requests", or_none(requests.join(", "))));
    if let Some(answer) = &answer {
        known.extend(answer.fields(!explained.told.is_empty()));
    }
    if let Some(start) = &explained.start {
        known.push(("Start", start.range()));
        known.push(("Estimated", start.reason()));
    }
    if let Some(why) = &explained.no_estimate {
        known.push(("Start", format!("can't be estimated: {why}")));
    }
    let mut text = fields(&known, 0);
    if let Some(table) = answer.and_then(|answer| answer.table()) {
        text.extend(["\n", &table]);
    }
    if job.state == State::Gated && !job.message.is_empty() {
        text.extend(["\n", &job.message, "\n"]);
    }
    if !explained.told.is_empty() {
        let rows: Vec<Vec<String>> = explained
            .told
            .iter()
            .map(|(kind, message)| vec![kind.clone(), message.clone()])
            .collect();
        text.push('\n');
        text.push_str(&columns(&["CONDITION", "MESSAGE"], &rows, 0));
    }
    if let Some(node) = &explained.queue {
        text.push('\n');
        text.push_str(&super::status::tree(std::slice::from_ref(node), true));
    }
    text
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn job(name: &str, place: usize) -> Job {
        Job {
            namespace: "blue".to_owned(),
            kind: "Job".to_owned(),
            name: name.to_owned(),
            workload: Some(format!("{name}-1")),
            queue: "main".to_owned(),
            state: State::Pending,
            priority: 10,
            place: Some(place),
            pending: Some(8),
            ahead: None,
            since: "2026-03-01T11:00:00Z".parse().ok(),
            reason: "WaitingForQuota".to_owned(),
            message: String::new(),
            start: None,
            no_estimate: None,
            order: (0, String::new()),
        }
    }

    #[test]
    fn a_pending_job_is_explained() {
        let all: Vec<Job> = (1..=8)
            .map(|place| job(&format!("job-{place}"), place))
            .collect();
        let last = all.last().unwrap();
        let amount = |amount: &str| Quantity(amount.to_owned());
        let explained = Explained {
            job: last.clone(),
            cluster_queue: Some("team-a".to_owned()),
            requests: [
                ("cpu".to_owned(), amount("2")),
                ("memory".to_owned(), amount("4Gi")),
            ]
            .into(),
            ahead: ahead(&all, last),
            told: vec![(
                "QuotaReserved=False (WaitingForQuota)".to_owned(),
                "2 more cpu is needed".to_owned(),
            )],
            queue: None,
            explanation: None,
            start: None,
            no_estimate: Some("there is no cluster".to_owned()),
        };
        let now = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_snapshot!(text(&explained, now), @r"
    Job:       Job/job-8
    Queue:     main (ClusterQueue team-a)
    State:     Pending for 60m
    Priority:  10
    Place:     8 of 8
    Ahead:     Job/job-1, Job/job-2, Job/job-3, Job/job-4, Job/job-5, and 2 more
    Requests:  cpu 2, memory 4Gi
    Start:     can't be estimated: there is no cluster

    CONDITION                               MESSAGE
    QuotaReserved=False (WaitingForQuota)   2 more cpu is needed
    ");
    }
}
