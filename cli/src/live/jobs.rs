//! Jobs, pod groups and pods as they stand in their queues. Pure: from Workloads, LocalQueues and pods.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;
use sluice_crds::conditions::{find, find_true};
use sluice_crds::{
    ConditionType, GROUP, LocalQueue, POD_GROUP_LABEL, POD_PREFIX, Workload, not_queued,
};
use sluice_kinds::metadata::group_version;
use sluice_kinds::pod::{PodMode, PodPhase, PodView};
use sluice_kinds::view::LabelledQueue;

use crate::cluster::POD_GROUP;
use crate::rules::name_of_kind;
use crate::rules::queue_names::{QueueNames, has_unknown_queue};
use crate::simulate::{Estimate, engine_id};

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// A gate holds it before its queue.
    Gated,
    /// Its user has suspended it.
    OnHold,
    /// It waits in its queue.
    Pending,
    /// It holds quota and may run.
    Admitted,
    /// It is to stop, and holds its quota until it has.
    Evicted,
    /// Its Workload is deactivated, or it is being deleted.
    Inactive,
    /// It has ended.
    Finished,
}

/// A job, a pod group, or a pod that is admitted by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its namespace.
    pub namespace: String,
    /// The API group of its kind; empty for a pod and for a group of pods.
    pub group: String,
    /// Its kind; `PodGroup` for a group of pods.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its Workload, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Its LocalQueue.
    pub queue: String,
    /// How it stands.
    pub state: State,
    /// Its priority.
    pub priority: i32,
    /// Its place among the pending jobs of its LocalQueue, from 1 on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<usize>,
    /// How many jobs are pending in its LocalQueue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<usize>,
    /// How many of its ClusterQueue come before it, those of other namespaces included, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<usize>,
    /// Since when it stands so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// When it will start, if that was asked for and can be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Estimate>,
    /// Why that can't be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<String>,
    /// By what it is ordered among those of equal priority: its time, and what the controller calls it.
    #[serde(skip)]
    pub order: (i64, String),
}

/// These jobs of Workloads and pods and the objects that gates hold, in the order of their queues.
pub fn jobs(mut jobs: Vec<Job>, queues: &[LocalQueue]) -> Vec<Job> {
    // The pods and Workloads of gated objects are listed themselves.
    let name = |job: &Job| [&job.namespace, &job.group, &job.kind, &job.name].map(Clone::clone);
    let listed: BTreeSet<[String; 4]> = jobs.iter().map(name).collect();
    let gated = queues.iter().flat_map(gated);
    jobs.extend(gated.filter(|job| !listed.contains(&name(job))));
    give_places(&mut jobs);
    sort(&mut jobs);
    jobs
}

/// Brings jobs into the order of their queues, by their places as far as they have any.
pub fn sort(jobs: &mut [Job]) {
    jobs.sort_by(|a, b| {
        let key = |job: &Job| (job.namespace.clone(), job.queue.clone(), job.state);
        let in_queue = |job: &Job| {
            let place = job.place.unwrap_or(usize::MAX);
            (place, -i64::from(job.priority), job.order.clone())
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| in_queue(a).cmp(&in_queue(b)))
    });
}

/// A job, a pod group or a pod, as who asks calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Called<'a> {
    /// The API group of its kind, as several may have a kind of one name; none for any.
    pub group: Option<&'a str>,
    /// Its kind; `PodGroup` for a group of pods.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Called<'_> {
    /// Whether a Workload stands for it.
    pub fn is_of(&self, workload: &Workload) -> bool {
        let (group, kind, name) = owner(workload);
        self.is(&group, &kind, &name)
    }

    /// Whether it is this job.
    pub fn is_job(&self, job: &Job) -> bool {
        self.is(&job.group, &job.kind, &job.name)
    }

    fn is(&self, group: &str, kind: &str, name: &str) -> bool {
        self.kind == kind && self.name == name && self.group.is_none_or(|own| own == group)
    }
}

/// Kinds that several API groups have by one name: only these are called by their groups as well.
#[derive(Debug, Default)]
pub struct KindNames(BTreeSet<String>);

impl KindNames {
    /// Among these kinds, each with its API group before it.
    pub fn of<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut groups: BTreeMap<&str, &str> = BTreeMap::new();
        let kinds = kinds.into_iter();
        let shared = kinds.filter(|&(group, kind)| *groups.entry(kind).or_insert(group) != group);
        Self(shared.map(|(_, kind)| kind.to_owned()).collect())
    }

    /// What a kind is called: `Job`, or `Job.batch` beside another one.
    pub fn name(&self, group: &str, kind: &str) -> String {
        if self.0.contains(kind) {
            name_of_kind(group, kind)
        } else {
            kind.to_owned()
        }
    }
}

/// The API group, the kind and the name of what is meant by these: of a Workload, as `kubectl get workloads.sluice.dev` shows it, of
/// the job that it stands for.
pub fn meant<'a>(
    jobs: impl IntoIterator<Item = &'a Job>,
    (group, kind): (&str, &str),
    name: &str,
) -> (String, String, String) {
    let is_workload = group == GROUP && kind == Workload::kind(&());
    let mut jobs = jobs.into_iter().filter(|_| is_workload);
    match jobs.find(|job| job.workload.as_deref() == Some(name)) {
        Some(job) => (job.group.clone(), job.kind.clone(), job.name.clone()),
        None => (group.to_owned(), kind.to_owned(), name.to_owned()),
    }
}

fn controller(workload: &Workload) -> Option<&OwnerReference> {
    let mut references = workload.metadata.owner_references.iter().flatten();
    references.find(|owner| owner.controller == Some(true))
}

/// What a Workload is ordered by among those of its priority and its second, as the controller orders them.
fn id(workload: &Workload) -> String {
    let namespace = workload.namespace().unwrap_or_default();
    let group = workload.labels().get(POD_GROUP_LABEL);
    engine_id(
        controller(workload).map(|owner| owner.uid.as_str()),
        group.map(|group| (namespace.as_str(), group.as_str())),
        &workload.uid().unwrap_or_default(),
    )
}

/// The API group, the kind and the name of what a Workload stands for.
fn owner(workload: &Workload) -> (String, String, String) {
    match (controller(workload), workload.labels().get(POD_GROUP_LABEL)) {
        (Some(owner), _) => {
            let (group, _) = group_version(&owner.api_version);
            (group.to_owned(), owner.kind.clone(), owner.name.clone())
        }
        (None, Some(group)) => (String::new(), POD_GROUP.to_owned(), group.clone()),
        (None, None) => {
            let kind = Workload::kind(&()).into_owned();
            (GROUP.to_owned(), kind, workload.name_any())
        }
    }
}

/// The job that a Workload stands for.
pub fn of_workload(workload: &Workload) -> Job {
    let status = workload.status.as_ref();
    let holds = status.is_some_and(|status| status.admission.is_some());
    let conditions = status.map(|status| status.conditions.as_slice());
    let conditions = conditions.unwrap_or_default();
    let told = if let Some(told) = find_true(conditions, ConditionType::Finished) {
        (State::Finished, Some(told))
    } else if let Some(told) = find_true(conditions, ConditionType::Evicted).filter(|_| holds) {
        (State::Evicted, Some(told))
    } else if holds {
        (State::Admitted, find(conditions, ConditionType::Admitted))
    } else if workload.spec.active {
        // As visibility.sluice.dev calls it.
        let told = find(conditions, ConditionType::QuotaReserved);
        let state = match told.map(|told| told.reason.as_str()) {
            Some(not_queued::SCHEDULING_GATED) => State::Gated,
            Some(not_queued::ON_HOLD) => State::OnHold,
            Some(not_queued::DELETED) => State::Inactive,
            _ => State::Pending,
        };
        (state, told)
    } else {
        let told = find(conditions, ConditionType::QuotaReserved);
        (State::Inactive, told)
    };
    let (state, told) = told;
    let (group, kind, name) = owner(workload);
    let created = workload.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let recorded = workload.spec.job_creation_timestamp.as_ref().map(|at| at.0);
    let order = recorded.or(created).map_or(i64::MAX, Timestamp::as_second);
    let since = match state {
        State::Gated => recorded.or(created),
        // As visibility.sluice.dev tells: it may be told much later why it waits.
        State::OnHold | State::Pending | State::Inactive => {
            let evicted = find(conditions, ConditionType::Evicted);
            created.max(evicted.map(|told| told.last_transition_time.0))
        }
        State::Admitted | State::Evicted | State::Finished => {
            told.map(|told| told.last_transition_time.0).or(created)
        }
    };
    Job {
        namespace: workload.namespace().unwrap_or_default(),
        group,
        kind,
        name,
        workload: Some(workload.name_any()),
        queue: workload.spec.queue_name.clone(),
        state,
        priority: workload.spec.priority,
        place: None,
        pending: None,
        ahead: None,
        since,
        reason: told.map_or_else(String::new, |told| told.reason.clone()),
        message: told.map_or_else(String::new, |told| told.message.clone()),
        start: None,
        no_estimate: None,
        order: (order, id(workload)),
    }
}

/// The name of the group that a pod is admitted with, if it is a member of one.
pub fn group_of(pod: &Pod, names: &QueueNames) -> Option<String> {
    match read(pod, names)?.1.mode {
        PodMode::Group(Ok(group)) => Some(group.name.to_string()),
        PodMode::Group(Err(_)) | PodMode::Single | PodMode::Child => None,
    }
}

/// Whether a pod is queued that no Workload stands for, also if it names its queue by an alias that is not known here.
pub fn is_admitted_alone(pod: &Pod, names: &QueueNames) -> bool {
    read(pod, names).is_some_and(|(json, view)| {
        let is_queued = of_pod(pod, &view).is_some_and(|job| job.state != State::Finished);
        is_queued || has_unknown_queue(&json, &view)
    })
}

/// What a pod says, as the controller reads it, with the object.
pub fn read(pod: &Pod, names: &QueueNames) -> Option<(Value, PodView)> {
    let json: Value = serde_json::to_value(pod).ok()?;
    let view = names.read(&json);
    Some((json, view))
}

/// A pod that is admitted by itself.
pub fn of_pod(pod: &Pod, view: &PodView) -> Option<Job> {
    let (PodMode::Single, LabelledQueue::Named(queue)) = (&view.mode, &view.queue) else {
        return None;
    };
    let created = pod.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let admitted = view.admitted.as_ref().and_then(|found| found.as_ref().ok());
    // What its priority was when it was admitted. Of one that waits visibility.sluice.dev says what counts: its class, or
    // the default of its ClusterQueue, which the caller may not be allowed to see.
    let kept = admitted.filter(|_| view.queue_gate.is_none());
    let kept = kept.and_then(|admitted| admitted.priority);
    let (state, reason) = match view.phase {
        PodPhase::Succeeded => (State::Finished, "Succeeded"),
        PodPhase::Failed => (State::Finished, "Failed"),
        PodPhase::Live if pod.metadata.deletion_timestamp.is_some() => (State::Evicted, "Deleted"),
        PodPhase::Live if view.queue_gate.is_none() => (State::Admitted, "Admitted"),
        PodPhase::Live if view.other_gates.is_empty() => (State::Pending, ""),
        PodPhase::Live => (State::Gated, not_queued::SCHEDULING_GATED),
    };
    let gates: Vec<&str> = view.other_gates.iter().map(|gate| &**gate).collect();
    Some(Job {
        namespace: pod.namespace().unwrap_or_default(),
        group: String::new(),
        kind: "Pod".to_owned(),
        name: pod.name_any(),
        workload: None,
        queue: queue.clone(),
        state,
        priority: kept.or(view.priority).unwrap_or_default(),
        place: None,
        pending: None,
        ahead: None,
        since: admitted.map(|admitted| admitted.at.0).or(created),
        reason: reason.to_owned(),
        message: match state {
            State::Gated => format!("Held by scheduling gates: {}", gates.join(", ")),
            _ => String::new(),
        },
        start: None,
        no_estimate: None,
        order: (
            created.map_or(i64::MAX, Timestamp::as_second),
            format!("{POD_PREFIX}{}", pod.uid().unwrap_or_default()),
        ),
    })
}

impl Job {
    /// What the controller calls it, if it is queued: several kinds may have one name.
    pub fn id(&self) -> &str {
        &self.order.1
    }

    /// Whether it has a place in its queue. One whose priority class is not allowed is pending, but not for quota.
    pub fn is_queued(&self) -> bool {
        self.state == State::Pending && !not_queued::ALL.contains(&self.reason.as_str())
    }

    /// A job that gates hold before its queue.
    pub fn gated(
        (group, kind): (&str, &str),
        (namespace, name): (Option<&str>, Option<&str>),
        queue: &str,
        since: Option<Timestamp>,
        gates: &[String],
    ) -> Self {
        let name = name.unwrap_or_default();
        Self {
            namespace: namespace.unwrap_or_default().to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            workload: None,
            queue: queue.to_owned(),
            state: State::Gated,
            priority: 0,
            place: None,
            pending: None,
            ahead: None,
            since,
            reason: "Gated".to_owned(),
            message: format!("Held by gates: {}", gates.join(", ")),
            start: None,
            no_estimate: None,
            order: (
                since.map_or(i64::MAX, Timestamp::as_second),
                name.to_owned(),
            ),
        }
    }
}

/// The objects that gates hold longest of a LocalQueue.
fn gated(queue: &LocalQueue) -> impl Iterator<Item = Job> {
    let held = queue.status.iter().flat_map(|status| &status.oldest_gated);
    held.map(|held| {
        let (kind, group) = held.kind.split_once('.').unwrap_or((&held.kind, ""));
        Job::gated(
            (group, kind),
            (queue.namespace().as_deref(), Some(&held.name)),
            &queue.name_any(),
            Some(held.since.0),
            &held.gates,
        )
    })
}

/// Gives each pending job its place: the highest priority first, then the oldest.
fn give_places(jobs: &mut [Job]) {
    let mut queues: BTreeMap<(String, String), Vec<&mut Job>> = BTreeMap::new();
    for job in jobs.iter_mut().filter(|job| job.is_queued()) {
        let queue = (job.namespace.clone(), job.queue.clone());
        queues.entry(queue).or_default().push(job);
    }
    for pending in queues.values_mut() {
        pending.sort_by_key(|job| (-i64::from(job.priority), job.order.clone()));
        let count = pending.len();
        for (job, place) in pending.iter_mut().zip(1..) {
            (job.place, job.pending) = (Some(place), Some(count));
        }
    }
}
