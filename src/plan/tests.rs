//! Where a job stands and what is done about it: one row for each turn of its life. Here is what the tables
//! are made of; each lies in a file of its own, by what the job waits for.
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "a table of JSON reads better so"
)]

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use sluice_crds::{JobKind, QUEUE_GATE};
use sluice_kinds::CompiledKind;
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::QueueLabels;

use super::{JobPatch, JobPurpose, Plan, StatusPurpose, Write};
use crate::cache::{JobKey, JobRecord, WorkloadKey, WorkloadRecord};
use crate::plan::evictions::requeue_backoff;
use crate::plan::job::plan;
use crate::plan::progress::LivePods;
use crate::plan::situation::JobSituation;
use crate::plan::workload::priority::Priority;

mod devices;
mod excess;
mod ignored;
mod life;
mod metadata_alone;
mod never_runs;
mod partial;
mod paused;
mod pods;
mod records;
mod runtime_classes;
mod writes;

/// A job, and its Workload if it has one.
struct Case {
    job: Value,
    workload: Option<Value>,
}

const GATE: &str = "kueue.x-k8s.io/scheduling-gated-by";
const QUEUED: &str = "sluice.dev/queue-name";

fn kind() -> CompiledKind {
    let kind: JobKind =
        serde_saphyr::from_str(include_str!("../../config/jobkinds/job.yaml")).unwrap();
    CompiledKind::compile(&kind).unwrap()
}

fn mk_job(labels: Value, annotations: Value, suspended: bool) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "train", "namespace": "blue", "uid": "11111111-2222-3333", "generation": 1,
            "resourceVersion": "7", "labels": labels, "annotations": annotations,
        },
        "spec": {
            "suspend": suspended, "parallelism": 2,
            "template": {"spec": {
                "nodeSelector": {"disk": "ssd"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            }},
        },
        "status": {"conditions": [{"type": "Suspended", "status": if suspended { "True" } else { "False" }}]},
    })
}

fn queued(suspended: bool) -> Value {
    mk_job(json!({QUEUED: "main"}), json!({}), suspended)
}

/// A job whose pods are born behind the queue gate and these.
fn behind_gates(suspended: bool, gates: &[&str], annotations: Value) -> Value {
    let job = mk_job(json!({QUEUED: "main"}), annotations, suspended);
    let names = gates.iter().chain([&QUEUE_GATE]);
    let gates: Vec<Value> = names.map(|name| json!({ "name": name })).collect();
    with(job, "/spec/template/spec/schedulingGates", json!(gates))
}

fn mk_workload(status: Value) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {
            "name": "train-1111111122223333", "namespace": "blue", "uid": "w1", "resourceVersion": "9",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train",
                "uid": "11111111-2222-3333", "controller": true}],
        },
        "spec": {
            "queueName": "main", "priority": 0,
            "podSets": [{"name": "main", "count": 2, "requests": {"cpu": "1"}, "nodeSelector": {"disk": "ssd"}}],
        },
        "status": status,
    })
}

fn admission() -> Value {
    json!({"clusterQueue": "cq", "podSetAssignments": [{
        "name": "main", "count": 2, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "2"},
        "nodeSelector": {"spot": "true"},
    }]})
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn admitted() -> Value {
    mk_workload(json!({"admission": admission(), "conditions": [condition("Admitted")]}))
}

fn evicting() -> Value {
    mk_workload(json!({"admission": admission(), "conditions": [condition("Evicted")]}))
}

fn finished() -> Value {
    mk_workload(json!({"admission": admission(), "conditions": [condition("Finished")]}))
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
    object
}

fn planned(case: &Case) -> Plan {
    planned_with_pods(case, 0)
}

/// The plan while so many of its pods may run.
fn planned_with_pods(case: &Case, live_pods: usize) -> Plan {
    planned_of_kind(&kind(), case, live_pods)
}

/// The plan for a job of this kind.
fn planned_of_kind(kind: &CompiledKind, case: &Case, live_pods: usize) -> Plan {
    let job = read(kind, &case.job);
    planned_record(kind, &job, case.workload.clone(), live_pods)
}

fn read(kind: &CompiledKind, job: &Value) -> JobRecord {
    let object: DynamicObject = serde_json::from_value(job.clone()).unwrap();
    JobRecord::read(
        object,
        kind,
        &QueueLabels::default(),
        &PodDefaults::default(),
    )
}

/// The plan for a job as it was read.
fn planned_record(
    kind: &CompiledKind,
    job: &JobRecord,
    workload: Option<Value>,
    live_pods: usize,
) -> Plan {
    let workload: Option<(WorkloadKey, WorkloadRecord)> =
        workload.map(|value| WorkloadRecord::read(serde_json::from_value(value).unwrap()).unwrap());
    let key = JobKey {
        kind: "job".into(),
        namespace: "blue".into(),
        name: "train".into(),
    };
    plan(&JobSituation {
        child: None,
        key: &key,
        job,
        kind,
        workload: workload.as_ref().map(|(key, record)| (key, record)),
        placed_by: None,
        namespace_is_terminating: false,
        still_in_use: false,
        lost_pods: 0,
        shows_pods: true,
        lacks_pods: false,
        may_have_unseen_pods: false,
        live_pods,
        lasting_pods: live_pods,
        live_pods_of_set: &|_| LivePods {
            all: live_pods,
            staying: live_pods,
        },
        backoff: &|record| requeue_backoff::backoff(record, None),
        gate: &|_| None,
        priority: &|| Ok(Priority::default()),
        now: Timestamp::UNIX_EPOCH,
    })
}

/// The plan in words: the write and the reasons of the notes.
fn in_words(plan: &Plan) -> String {
    let write = match &plan.write {
        None => "nothing",
        Some(Write::CreateWorkload(_)) => "create workload",
        Some(Write::UpdateWorkloadSpec { .. }) => "update workload",
        Some(Write::DeleteWorkload { .. }) => "delete workload",
        Some(Write::SetWorkloadStatus { purpose, .. }) => match purpose {
            StatusPurpose::Admit => "admit",
            StatusPurpose::Evict => "evict",
            StatusPurpose::Requeue => "requeue",
            StatusPurpose::Finish => "finish",
            StatusPurpose::Report => "report",
            StatusPurpose::Stall => "stall",
            StatusPurpose::Explain => "explain",
            StatusPurpose::TakeBack => "take back",
        },
        Some(Write::PatchJob { purpose, .. }) => match purpose {
            JobPurpose::Suspend => "suspend",
            JobPurpose::Prepare => "prepare",
            JobPurpose::Release => "release",
            JobPurpose::Restore => "restore",
            JobPurpose::ClearStartTime => "clear start time",
            JobPurpose::KeepGates => "keep gates",
        },
        Some(Write::PatchPod { .. } | Write::DeletePod { .. }) => "a write to a pod",
    };
    let notes: Vec<_> = plan.notes.iter().map(|note| note.reason).collect();
    format!("{write} {notes:?}")
}
