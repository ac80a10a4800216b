//! The turns of the life of a job whose pods wait behind gates, and what it tells of pods that have ended.

use sluice_crds::{HELD_ANNOTATION, PROPAGATED_GATES_ANNOTATION};

use super::*;

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
    let own_gated = || json!({"sluice.dev/admission": "PerPod", GATE: "acme.io/budget"});
    let own_held = || json!({"sluice.dev/admission": "PerPod", HELD_ANNOTATION: "true"});
    let brings_gate = |annotations| {
        let job = behind_gates(false, &["acme.io/budget"], annotations);
        let template = json!({"annotations": {
            QUEUE_GATE: "true", PROPAGATED_GATES_ANNOTATION: "acme.io/budget",
        }});
        with(job, "/spec/template/metadata", template)
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
        ("evicted", waits(false), Some(evicting()), 2, "suspend []"),
        (
            "evicted, its pods run",
            waits(true),
            Some(evicting()),
            1,
            "nothing []",
        ),
        (
            "evicted, its pods are gone",
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
            brings_gate(own_gated()),
            None,
            0,
            "nothing [\"Gated\"]",
        ),
        (
            "each pod by itself, but no webhook gave them its gate",
            opted_in(own_gated()),
            None,
            0,
            "suspend [\"Gated\"]",
        ),
        (
            "suspended as its pods lack its gate, which is lifted",
            with(opted_in(own_held()), "/spec/suspend", json!(true)),
            None,
            0,
            "release [\"Started\"]",
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
        let labels = json!({"sluice.dev/managed": "true"});
        let job = with(
            queued(false),
            "/spec/template/metadata",
            json!({"labels": labels}),
        );
        let job = with(job, "/spec/completions", json!(2));
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
