//! Where a job stands and what is done about it: one row for each turn of its life.
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

use super::job::{LivePods, Situation, plan};
use super::workload::Priority;
use super::{JobPatch, JobPurpose, Plan, StatusPurpose, Write, reservation};
use crate::world::{JobKey, JobRecord, WorkloadKey, WorkloadRecord};

mod partial;

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
    let (kind, object): (_, DynamicObject) =
        (kind(), serde_json::from_value(case.job.clone()).unwrap());
    let job = JobRecord::read(
        &object,
        &kind,
        &QueueLabels::default(),
        &PodDefaults::default(),
    );
    let workload: Option<(WorkloadKey, WorkloadRecord)> = case
        .workload
        .clone()
        .map(|value| WorkloadRecord::read(serde_json::from_value(value).unwrap()).unwrap());
    let key = JobKey {
        kind: "job".into(),
        namespace: "blue".into(),
        name: "train".into(),
    };
    plan(&Situation {
        child: None,
        key: &key,
        job: &job,
        kind: &kind,
        workload: workload.as_ref().map(|(key, record)| (key, record)),
        still_charged: false,
        live_pods,
        live_pods_of_set: &|_| LivePods {
            all: live_pods,
            staying: live_pods,
        },
        backoff: &|record| reservation::backoff(record, None),
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
            StatusPurpose::Explain => "explain",
        },
        Some(Write::PatchJob { purpose, .. }) => match purpose {
            JobPurpose::Suspend => "suspend",
            JobPurpose::Prepare => "prepare",
            JobPurpose::Release => "release",
            JobPurpose::Restore => "restore",
            JobPurpose::MarkHeld => "mark held",
        },
        Some(Write::PatchPod { .. } | Write::DeletePod { .. }) => "a write to a pod",
    };
    let notes: Vec<_> = plan.notes.iter().map(|note| note.reason).collect();
    format!("{write} {notes:?}")
}

#[test]
fn each_turn_of_a_jobs_life() {
    let gate = json!({GATE: "acme.io/budget"});
    let gated = |suspended| mk_job(json!({QUEUED: "main"}), gate.clone(), suspended);
    let ungoverned = |annotations, suspended| mk_job(json!({}), annotations, suspended);
    let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let pending = || Some(mk_workload(json!({})));
    let placed = |job| {
        with(
            job,
            "/spec/template/spec/nodeSelector",
            json!({"disk": "ssd", "spot": "true"}),
        )
    };
    let more_cpu = |job| {
        with(
            job,
            "/spec/template/spec/containers/0/resources",
            json!({"requests": {"cpu": "2"}}),
        )
    };
    let cases = [
        (
            "gated and suspended",
            gated(true),
            None,
            "nothing [\"Gated\"]",
        ),
        (
            "gated and running: no webhook saw it",
            gated(false),
            None,
            "suspend [\"Gated\"]",
        ),
        (
            "gated with a Workload: the gate came by a road without webhook",
            gated(true),
            pending(),
            "delete workload [\"Gated\"]",
        ),
        (
            "a gate that can't be read holds",
            mk_job(json!({QUEUED: "main"}), json!({GATE: "x"}), false),
            None,
            "suspend [\"InvalidGate\"]",
        ),
        (
            "gated without a queue",
            ungoverned(gate.clone(), true),
            None,
            "mark held [\"Gated\"]",
        ),
        (
            "gated without a queue and running",
            ungoverned(gate.clone(), false),
            None,
            "suspend [\"Gated\"]",
        ),
        (
            "held, its gate is gone, no queue",
            ungoverned(json!({"sluice.dev/held": "true"}), true),
            None,
            "release [\"Started\"]",
        ),
        (
            "somebody else's suspended job",
            ungoverned(json!({}), true),
            None,
            "nothing []",
        ),
        ("queued", queued(true), None, "create workload []"),
        (
            "queued and running",
            queued(false),
            None,
            "suspend [\"Stopped\"]",
        ),
        ("waiting", queued(true), pending(), "nothing []"),
        (
            "edited while it waits",
            more_cpu(queued(true)),
            pending(),
            "update workload []",
        ),
        (
            "its label names no queue",
            mk_job(json!({QUEUED: "A_B"}), json!({}), true),
            None,
            "nothing [\"InvalidQueueName\"]",
        ),
        (
            "its queue label is gone",
            ungoverned(json!({}), true),
            pending(),
            "delete workload []",
        ),
        ("admitted", queued(true), Some(admitted()), "release []"),
        (
            "admitted and running",
            placed(queued(false)),
            Some(admitted()),
            "nothing []",
        ),
        (
            "edited between admission and release",
            more_cpu(queued(true)),
            Some(admitted()),
            "evict [\"Evicted\"]",
        ),
        (
            "grown while it runs",
            with(placed(queued(false)), "/spec/parallelism", json!(3)),
            Some(admitted()),
            "evict [\"Evicted\"]",
        ),
        (
            "shrunk while it runs",
            with(placed(queued(false)), "/spec/parallelism", json!(1)),
            Some(admitted()),
            "nothing []",
        ),
        (
            "gated after it was let go",
            with(placed(queued(false)), "/metadata/annotations", gate.clone()),
            Some(admitted()),
            "nothing [\"GateIgnored\"]",
        ),
        (
            "evicted and running",
            placed(queued(false)),
            Some(evicting()),
            "suspend []",
        ),
        (
            "evicted, its pods still run",
            with(placed(queued(true)), "/status/active", json!(1)),
            Some(evicting()),
            "nothing []",
        ),
        (
            "evicted, its pods are gone",
            placed(queued(true)),
            Some(evicting()),
            "restore []",
        ),
        (
            "evicted and restored",
            queued(true),
            Some(evicting()),
            "requeue [\"Requeued\"]",
        ),
        (
            "finished",
            with(queued(false), "/status", done.clone()),
            Some(admitted()),
            "finish [\"Finished\"]",
        ),
        (
            "finished without ever being queued",
            with(queued(false), "/status", done),
            None,
            "nothing []",
        ),
        (
            "being deleted",
            with(
                queued(false),
                "/metadata/deletionTimestamp",
                json!("2026-01-01T00:00:00Z"),
            ),
            None,
            "nothing []",
        ),
        (
            "not what its JobKind says",
            with(queued(false), "/spec/suspend", json!("no")),
            None,
            "suspend [\"Unreadable\"]",
        ),
        (
            "running, and its end can't be read",
            with(queued(false), "/status/conditions", json!("none")),
            None,
            "suspend [\"Unreadable\"]",
        ),
        (
            "it had ended and runs again",
            queued(false),
            Some(finished()),
            "suspend [\"Unfinished\"]",
        ),
        (
            "it had ended and is suspended now",
            queued(true),
            Some(finished()),
            "delete workload [\"Unfinished\"]",
        ),
    ];
    for (name, job, workload, expected) in cases {
        assert_eq!(
            in_words(&planned(&Case { job, workload })),
            expected,
            "{name}"
        );
    }
}

/// A job whose pods are born behind the queue gate and these.
fn behind_gates(suspended: bool, gates: &[&str], annotations: Value) -> Value {
    let job = mk_job(json!({QUEUED: "main"}), annotations, suspended);
    let names = gates.iter().chain([&QUEUE_GATE]);
    let gates: Vec<Value> = names.map(|name| json!({ "name": name })).collect();
    with(job, "/spec/template/spec/schedulingGates", json!(gates))
}

#[test]
fn each_turn_of_the_life_of_a_job_whose_pods_wait() {
    let waits = |suspended| behind_gates(suspended, &[], json!({}));
    let gated = behind_gates(false, &[], json!({GATE: "acme.io/budget"}));
    let with_others = |suspended| behind_gates(suspended, &["acme.io/data"], json!({}));
    let own = json!({"sluice.dev/admission": "PerPod"});
    let opted_in = |annotations| {
        let job = behind_gates(false, &[], annotations);
        with(
            job,
            "/spec/template/metadata",
            json!({"annotations": {QUEUE_GATE: "true"}}),
        )
    };
    let complete = with(
        waits(false),
        "/status",
        json!({"conditions": [{"type": "Complete", "status": "True"}]}),
    );
    let cases = [
        ("new", waits(false), None, 0, "create workload []"),
        (
            "new and gated: nothing is suspended",
            gated.clone(),
            None,
            0,
            "nothing [\"Gated\"]",
        ),
        (
            "gated late",
            gated,
            Some(mk_workload(json!({}))),
            0,
            "delete workload [\"Gated\"]",
        ),
        (
            "queued",
            waits(false),
            Some(mk_workload(json!({}))),
            0,
            "nothing []",
        ),
        (
            "queued and suspended",
            waits(true),
            Some(mk_workload(json!({}))),
            0,
            "nothing []",
        ),
        (
            "queued and suspended, others gate its pods",
            with_others(true),
            Some(mk_workload(json!({}))),
            0,
            "release []",
        ),
        ("admitted", waits(false), Some(admitted()), 2, "nothing []"),
        (
            "admitted and suspended",
            waits(true),
            Some(admitted()),
            0,
            "release []",
        ),
        ("has to go", waits(false), Some(evicting()), 2, "suspend []"),
        (
            "has to go, its pods run",
            waits(true),
            Some(evicting()),
            1,
            "nothing []",
        ),
        (
            "has to go, its pods are gone",
            waits(true),
            Some(evicting()),
            0,
            "requeue [\"Requeued\"]",
        ),
        (
            "says it has ended, a pod runs",
            complete.clone(),
            Some(admitted()),
            1,
            "nothing []",
        ),
        (
            "has ended",
            complete,
            Some(admitted()),
            0,
            "finish [\"Finished\"]",
        ),
        (
            "each pod by itself",
            opted_in(own.clone()),
            None,
            0,
            "nothing []",
        ),
        (
            "each pod by itself, and gated",
            opted_in(json!({"sluice.dev/admission": "PerPod", GATE: "acme.io/budget"})),
            None,
            0,
            "nothing [\"Gated\"]",
        ),
        (
            "each pod by itself, but no webhook gated them",
            mk_job(json!({QUEUED: "main"}), own, true),
            None,
            0,
            "create workload [\"AdmittedAsAWhole\"]",
        ),
    ];
    for (name, job, workload, live_pods, expected) in cases {
        let plan = planned_with_pods(&Case { job, workload }, live_pods);
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}

#[test]
fn a_job_tells_of_pods_that_have_ended_and_may_not_bring_them_back() {
    let ended = |succeeded| {
        let job = with(queued(false), "/spec/completions", json!(2));
        with(job, "/status", json!({ "succeeded": succeeded }))
    };
    let reclaimed = || {
        let pods = json!([{"name": "main", "count": 1}]);
        Some(with(admitted(), "/status/reclaimablePods", pods))
    };
    let cases = [
        ("none", ended(0), Some(admitted()), 2, "nothing []"),
        ("one", ended(1), Some(admitted()), 1, "report []"),
        (
            "its pod still runs",
            ended(1),
            Some(admitted()),
            2,
            "nothing []",
        ),
        ("told", ended(1), reclaimed(), 1, "nothing []"),
        ("taken back", ended(0), reclaimed(), 1, "nothing []"),
        (
            "a pod came back",
            ended(0),
            reclaimed(),
            2,
            "evict [\"Evicted\"]",
        ),
    ];
    for (name, job, workload, live_pods, expected) in cases {
        let plan = planned_with_pods(&Case { job, workload }, live_pods);
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}

#[test]
fn letting_go_is_one_patch_that_fails_on_any_other_spec() {
    let case = Case {
        job: queued(true),
        workload: Some(admitted()),
    };
    let Some(Write::PatchJob {
        patch: JobPatch::Json(patch),
        ..
    }) = planned(&case).write
    else {
        panic!("no JSON patch");
    };
    assert_eq!(
        serde_json::to_value(patch).unwrap(),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "11111111-2222-3333"},
            {"op": "test", "path": "/metadata/generation", "value": 1},
            {"op": "test", "path": "/spec/suspend", "value": true},
            {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"disk": "ssd", "spot": "true"}},
            {"op": "add", "path": "/spec/template/metadata", "value": {}},
            {"op": "add", "path": "/spec/template/metadata/labels", "value": {"sluice.dev/managed": "true"}},
            {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"sluice.dev/pod-set": "main"}},
            {"op": "add", "path": "/spec/suspend", "value": false},
        ])
    );
}

#[test]
fn a_gated_job_without_a_queue_is_marked_by_the_write_that_suspends_it() {
    let case = Case {
        job: mk_job(json!({}), json!({GATE: "acme.io/x"}), false),
        workload: None,
    };
    let Some(Write::PatchJob {
        patch: JobPatch::Merge(patch),
        ..
    }) = planned(&case).write
    else {
        panic!("no merge patch");
    };
    assert_eq!(patch["spec"], json!({"suspend": true}));
    assert_eq!(
        patch["metadata"]["annotations"],
        json!({"sluice.dev/held": "true"})
    );
}

#[test]
fn a_job_planned_again_after_its_write_needs_nothing_more() {
    for mut case in [
        Case {
            job: queued(true),
            workload: Some(admitted()),
        },
        Case {
            job: queued(false),
            workload: None,
        },
        Case {
            job: queued(false),
            workload: Some(evicting()),
        },
    ] {
        let before = planned(&case);
        let Some(Write::PatchJob { patch, .. }) = &before.write else {
            panic!("no patch of the job");
        };
        match patch {
            JobPatch::Json(patch) => json_patch::patch(&mut case.job, patch).unwrap(),
            JobPatch::Merge(patch) => json_patch::merge(&mut case.job, patch),
        }
        let after = planned(&case);
        assert_ne!(in_words(&after), in_words(&before));
    }
}

#[test]
fn a_workload_that_only_looks_like_ours_stands_for_no_job() {
    let forged = with(admitted(), "/metadata/name", json!("train"));
    let (_, record) = WorkloadRecord::read(serde_json::from_value(forged).unwrap()).unwrap();
    assert_eq!(record.job, None);
}
