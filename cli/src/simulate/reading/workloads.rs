//! Jobs from Workloads: the history of a cluster, to be played again; or the jobs of a cluster as they stand now.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sluice_crds::conditions::{find, find_true, is_true};
use sluice_crds::{
    ConditionType, POD_GROUP_LABEL, POD_GROUP_PREFIX, PODS_MADE_BY_ANNOTATION, WorkloadSpec,
    WorkloadStatus, not_queued,
};
use sluice_engine::{Admission, Borrowing, LocalQueueKey, PodSet, Time, WorkloadId};
use sluice_kinds::Problem;
use sluice_kinds::metadata::{annotation, group_version, label};
use sluice_translate as translate;

use super::annotations::{arrival, said_duration};
use super::settings::{check_version, name_of, text};
use crate::rules::strict;
use crate::simulate::jobs::{Class, InputJob, Jobs, Priority, SeenJob};
use crate::simulate::quotas::Quotas;
use crate::simulate::span::Moment;
use sluice_estimates::durations::{Durations, FOREVER, Seen};
use sluice_estimates::play::Start;

/// What a group of pods is called as a kind.
const POD_GROUP: &str = "PodGroup";

/// A Workload, as far as it can be played.
struct Read {
    spec: WorkloadSpec,
    status: WorkloadStatus,
    pod_sets: Arc<[PodSet]>,
    arrival: Option<Moment>,
    duration: Option<Duration>,
}

/// The job that a Workload records, as it was created and as long as it ran; none if it is inactive.
///
/// # Errors
/// All that is wrong with it.
pub fn history(object: &Value, jobs: &mut Jobs) -> Result<Option<InputJob>, Vec<String>> {
    let read = Read::of(object, Borrowing::Allowed)?;
    let duration = read.duration.or_else(|| ran(&read.status.conditions));
    let job = InputJob {
        duration,
        ..read.job(object, None, jobs)
    };
    Ok(read.spec.active.then_some(job))
}

/// The job that a Workload of a cluster stands for, as it stands; none if it is not queued. One that has finished was seen
/// and is no more, and `durations` take note of it. One of a group and kind that is `endless` never ends by itself.
///
/// # Errors
/// All that is wrong with it.
pub fn standing(
    object: &Value,
    quotas: &Quotas,
    jobs: &mut Jobs,
    (durations, endless): (&mut Durations, &BTreeSet<(String, String)>),
) -> Result<Option<InputJob>, Vec<String>> {
    let namespace = text(object, "/metadata/namespace");
    let Owner {
        group, kind, id, ..
    } = Owner::of(object);
    let is_endless = endless.contains(&(group, (*kind).to_owned()));
    let queue = LocalQueueKey::new(namespace, text(object, "/spec/queueName"));
    let is_bare = annotation(object, PODS_MADE_BY_ANNOTATION).is_none();
    let is_kept = &*kind == POD_GROUP && is_bare && quotas.keeps(&queue);
    let read = Read::of(object, Borrowing::allowed_if(!is_kept))?;
    let status = &read.status;
    if is_true(&status.conditions, ConditionType::Finished) {
        if let Some(millis) = ran(&status.conditions) {
            durations.note(Seen {
                queue,
                kind,
                pod_sets: read.pod_sets.clone(),
                ran: millis,
            });
        }
        return Ok(Some(read.job(object, None, jobs)));
    }
    let Some(start) = start(status, !is_kept)? else {
        return Ok(None);
    };
    if start.is_pending() && !(read.spec.active && is_queued(&status.conditions)) {
        return Ok(None);
    }
    let seen = SeenJob { id, start };
    let mut job = read.job(object, Some(seen), jobs);
    if is_endless {
        job.duration.get_or_insert(FOREVER);
    }
    Ok(Some(job))
}

impl Read {
    fn of(object: &Value, borrowing: Borrowing) -> Result<Self, Vec<String>> {
        check_version(object).map_err(|problem| vec![problem.to_string()])?;
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let (spec, unknown) = strict::<WorkloadSpec>(spec, "spec")?;
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let status = object.get("status").cloned();
        let status = status.and_then(|status| serde_json::from_value(status).ok());
        let mut problems = Vec::new();
        let mut tell = |found: Problem| problems.push(found.to_string());
        let pod_sets = translate::pod_sets(&spec, borrowing)
            .map_err(|found| found.into_iter().for_each(&mut tell))
            .unwrap_or_default();
        let recorded = spec.job_creation_timestamp.as_ref();
        let recorded = recorded.map(|at| Moment::At(at.0.as_millisecond()));
        let arrival = arrival(object).map_err(&mut tell).ok().flatten();
        let duration = said_duration(object).map_err(&mut tell).ok().flatten();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            pod_sets: pod_sets.into(),
            arrival: recorded.or(arrival),
            duration,
            status: status.unwrap_or_default(),
            spec,
        })
    }

    fn job(&self, object: &Value, seen: Option<SeenJob>, jobs: &mut Jobs) -> InputJob {
        let spec = &self.spec;
        let Owner { kind, name, .. } = Owner::of(object);
        // In a cluster people know the job, not its record.
        let name = match (&seen, name) {
            (Some(_), Some(name)) => format!("{}/{name}", text(object, "/metadata/namespace")),
            _ => name_of(object),
        };
        let class = spec.priority_class_ref.as_ref().map(|class| {
            let name = jobs.name(&class.name);
            match class.kind.as_str() {
                "WorkloadPriorityClass" => Class::Workload(name),
                _ => Class::Pod(name),
            }
        });
        let namespace = text(object, "/metadata/namespace");
        InputJob {
            name: name.into(),
            queue: LocalQueueKey::new(namespace, spec.queue_name.as_str()),
            priority: Priority {
                class,
                value: spec.priority,
            },
            arrival: self.arrival,
            duration: self.duration,
            pod_sets: self.pod_sets.clone(),
            kind,
            seen,
        }
    }
}

/// What a Workload stands for.
struct Owner {
    group: String,
    kind: Arc<str>,
    /// None of a Workload that stands for itself.
    name: Option<String>,
    /// What the controller calls it.
    id: WorkloadId,
}

impl Owner {
    fn of(object: &Value) -> Self {
        let owners = object.pointer("/metadata/ownerReferences");
        let owners = owners.and_then(Value::as_array);
        let mut owners = owners.into_iter().flatten();
        let controller = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        let group = label(object, POD_GROUP_LABEL);
        let (kind, name) = match (controller, group) {
            (Some(owner), _) => (text(owner, "/kind"), Some(text(owner, "/name"))),
            (None, Some(group)) => (POD_GROUP, Some(group)),
            (None, None) => ("Workload", None),
        };
        let id = engine_id(
            controller.map(|owner| text(owner, "/uid")),
            group.map(|group| (text(object, "/metadata/namespace"), group)),
            text(object, "/metadata/uid"),
        );
        let (group_of_owner, _) =
            group_version(controller.map_or("", |owner| text(owner, "/apiVersion")));
        Self {
            group: group_of_owner.to_owned(),
            kind: kind.into(),
            name: name.map(str::to_owned),
            id: WorkloadId::from(id),
        }
    }
}

/// What the controller calls what a Workload stands for, by which jobs of one second are ordered: the UID of its
/// controller, else its pod group by namespace and name, else its own UID.
pub fn engine_id(controller: Option<&str>, group: Option<(&str, &str)>, own: &str) -> String {
    match (controller, group) {
        (Some(uid), _) => uid.to_owned(),
        (None, Some((namespace, group))) => format!("{POD_GROUP_PREFIX}{namespace}/{group}"),
        (None, None) => own.to_owned(),
    }
}

/// How a Workload stands that has not finished.
fn start(status: &WorkloadStatus, evictable: bool) -> Result<Option<Start>, Vec<String>> {
    let conditions = &status.conditions;
    let Some(recorded) = &status.admission else {
        let state = status.requeue_state.as_ref();
        let until = state.and_then(|state| state.requeue_at.as_ref());
        return Ok(Some(match until {
            Some(until) => Start::BackingOff(time(until.0)),
            None => Start::Pending,
        }));
    };
    let ended = |pod_set: &str| {
        let mut sets = status.reclaimable_pods.iter();
        let set = sets.find(|set| set.name == pod_set);
        set.map_or(0, |set| u32::try_from(set.count).unwrap_or_default())
    };
    let bound: HashMap<String, u32> = HashMap::new();
    let counted = translate::admission(recorded, ended, &bound);
    let admission =
        counted.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let since = true_since(conditions, ConditionType::QuotaReserved)
        .or_else(|| true_since(conditions, ConditionType::Admitted));
    let admission = Admission {
        since: since.map_or(Time::default(), time),
        ..admission
    };
    let is_evicted = is_true(conditions, ConditionType::Evicted);
    let is_stalled = is_true(conditions, ConditionType::Stalled);
    if is_evicted && !is_stalled {
        return Ok(Some(Start::Evicting {
            admission,
            preemptor: status.makes_room_for.as_deref().map(WorkloadId::from),
        }));
    }
    let counts = recorded.pod_set_assignments.iter();
    let counts = counts.map(|set| u32::try_from(set.count).unwrap_or_default());
    Ok(Some(Start::Admitted {
        admission,
        pods: counts.fold(0, u32::saturating_add),
        evictable: evictable && !is_stalled,
    }))
}

/// Whether one that holds no quota is a candidate for it.
fn is_queued(conditions: &[Condition]) -> bool {
    let reserved = find(conditions, ConditionType::QuotaReserved);
    reserved.is_none_or(|told| !not_queued::ALL.contains(&told.reason.as_str()))
}

fn true_since(conditions: &[Condition], kind: ConditionType) -> Option<Timestamp> {
    find_true(conditions, kind).map(|condition| condition.last_transition_time.0)
}

fn time(at: Timestamp) -> Time {
    Time::from_millis(at.as_millisecond())
}

/// How long a job ran in the cluster that its Workload is from: since it was last admitted.
fn ran(conditions: &[Condition]) -> Option<Duration> {
    let (from, until) = (
        true_since(conditions, ConditionType::Admitted)?,
        true_since(conditions, ConditionType::Finished)?,
    );
    let millis = until.as_millisecond().checked_sub(from.as_millisecond())?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}
