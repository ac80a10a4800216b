//! The turns of a job of which only the metadata of its pods is known: they are queued by themselves, if they ask for it.

use super::*;

/// A Workflow in the queue `main`; its pods have this metadata.
fn mk_workflow(pod_metadata: Value, annotations: Value, suspended: bool) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {
            "name": "train", "namespace": "blue", "uid": "11111111-2222-3333", "resourceVersion": "7",
            "labels": {QUEUED: "main"}, "annotations": annotations,
        },
        "spec": {"suspend": suspended, "podMetadata": pod_metadata},
    })
}

fn workflow_kind() -> CompiledKind {
    let kind: JobKind =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/workflow.yaml")).unwrap();
    CompiledKind::compile(&kind).unwrap()
}

/// Whoever may edit a job can write the mark, and take away what its pods would wait for.
#[test]
fn a_mark_starts_nothing_whose_pods_would_not_wait() {
    let asks = || json!({"labels": {QUEUED: "main"}, "annotations": {QUEUE_GATE: "true"}});
    let unasked = || json!({"labels": {"sluice.dev/managed": "true"}});
    let marked = || json!({"sluice.dev/held": "true"});
    let unqueued = |job| with(job, "/metadata/labels", json!({}));
    let misnamed = |job| with(job, "/metadata/labels", json!({QUEUED: "Main_"}));
    let ended = |job| with(job, "/status", json!({"phase": "Succeeded"}));
    let cases = [
        (
            "its pods ask to wait",
            mk_workflow(asks(), marked(), true),
            "release [\"Started\"]",
        ),
        (
            "in no queue",
            unqueued(mk_workflow(unasked(), marked(), true)),
            "release [\"Started\"]",
        ),
        (
            "its pods do not ask",
            mk_workflow(unasked(), marked(), true),
            "nothing [\"NotGated\"]",
        ),
        (
            "nor has it metadata for them",
            mk_workflow(Value::Null, marked(), true),
            "nothing [\"NotGated\"]",
        ),
        (
            "its label names no queue",
            misnamed(mk_workflow(unasked(), marked(), true)),
            "nothing [\"InvalidQueueName\"]",
        ),
        (
            "it runs, and its pods do not ask",
            mk_workflow(unasked(), json!({}), false),
            "suspend [\"NotGated\"]",
        ),
        (
            "it has ended",
            ended(mk_workflow(unasked(), json!({}), false)),
            "nothing []",
        ),
        (
            "it has ended, and is marked",
            ended(mk_workflow(asks(), marked(), true)),
            "nothing []",
        ),
    ];
    for (name, job, expected) in cases {
        let workload = None;
        let plan = planned_of_kind(&workflow_kind(), &Case { job, workload }, 0);
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}

/// Of the templates of a RayCluster some may bring the queue gate and some not.
#[test]
fn a_mark_starts_nothing_of_which_some_pods_would_not_wait() {
    let kind: JobKind =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/raycluster.yaml")).unwrap();
    let kind = CompiledKind::compile(&kind).unwrap();
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
    let gated = json!({
        "metadata": {"annotations": {QUEUE_GATE: "true"}},
        "spec": {"schedulingGates": [{"name": QUEUE_GATE}], "containers": [container]},
    });
    let open = json!({"spec": {"containers": [container]}});
    for (workers, expected) in [
        (&gated, "release [\"Started\"]"),
        (&open, "nothing [\"NotGated\"]"),
    ] {
        let annotations = json!({"sluice.dev/held": "true", "sluice.dev/admission": "PerPod"});
        let mut job = mk_workflow(Value::Null, annotations, true);
        job["spec"] = json!({
            "suspend": true,
            "headGroupSpec": {"template": gated},
            "workerGroupSpecs": [{"groupName": "a", "replicas": 1, "template": workers}],
        });
        let workload = None;
        let plan = planned_of_kind(&kind, &Case { job, workload }, 0);
        assert_eq!(in_words(&plan), expected);
    }
}

/// What Sluice has written is no reason for the opposite write.
#[test]
fn what_was_suspended_stays_so() {
    let kind = workflow_kind();
    let mut job = mk_workflow(Value::Null, json!({}), false);
    let mut turns = Vec::new();
    for _ in 0..3 {
        let workload = None;
        let plan = planned_of_kind(
            &kind,
            &Case {
                job: job.clone(),
                workload,
            },
            0,
        );
        turns.push(in_words(&plan));
        let Some(Write::PatchJob {
            patch: JobPatch::Merge(patch),
            ..
        }) = plan.write
        else {
            continue;
        };
        json_patch::merge(&mut job, &patch);
    }
    let expected = [
        "suspend [\"NotGated\"]",
        "nothing [\"NotGated\"]",
        "nothing [\"NotGated\"]",
    ];
    assert_eq!(turns, expected);
}
