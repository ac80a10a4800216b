//! The turns of the life of a job that waits suspended.

use super::*;

#[test]
fn each_turn_of_a_jobs_life() {
    let gate = json!({GATE: "acme.io/budget"});
    let held = json!({"sluice.dev/held": "true"});
    let gated = |suspended| mk_job(json!({QUEUED: "main"}), gate.clone(), suspended);
    let ungoverned = |annotations, suspended| mk_job(json!({}), annotations, suspended);
    let done = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let criteria_met = json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]});
    let deleted = |job| {
        let at = json!("2026-01-01T00:00:00Z");
        with(job, "/metadata/deletionTimestamp", at)
    };
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
    let gave_back = |count: i32| {
        let reclaimable = json!([{"name": "main", "count": count}]);
        with(admitted(), "/status/reclaimablePods", reclaimable)
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
            "it left its queue and ended before either was seen",
            with(ungoverned(json!({}), false), "/status", done.clone()),
            pending(),
            "delete workload []",
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
            "gated without a queue, and suspended by its user",
            ungoverned(gate.clone(), true),
            None,
            "nothing [\"Gated\"]",
        ),
        (
            "gated without a queue and running",
            ungoverned(gate.clone(), false),
            None,
            "suspend [\"Gated\"]",
        ),
        (
            "held, its gate is gone, no queue",
            ungoverned(held.clone(), true),
            None,
            "release [\"Started\"]",
        ),
        (
            "started by its user as it left the queue",
            ungoverned(held.clone(), false),
            None,
            "release []",
        ),
        (
            "suspended by its user after it ran, no queue",
            ungoverned(json!({"sluice.dev/held": "false"}), true),
            None,
            "nothing []",
        ),
        (
            "held, nothing holds it, and not what its JobKind says",
            with(
                ungoverned(held.clone(), true),
                "/spec/template/spec/containers/0/resources",
                json!({"requests": {"cpu": "much"}}),
            ),
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
            ungoverned(held.clone(), true),
            pending(),
            "delete workload []",
        ),
        (
            "its queue label is gone, and its user created it suspended",
            ungoverned(json!({}), true),
            pending(),
            "delete workload [\"LeftSuspended\"]",
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
            "suspended and grown back after it gave quota back",
            queued(true),
            Some(gave_back(1)),
            "evict [\"Evicted\"]",
        ),
        (
            "suspended and started again after a pod has ended for good",
            {
                let job = with(queued(true), "/spec/completions", json!(2));
                with(job, "/status/succeeded", json!(1))
            },
            Some(gave_back(1)),
            "release []",
        ),
        (
            "gated after it was released",
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
            "evicted, and in no queue any more: it is not queued again",
            mk_job(json!({}), json!({}), true),
            Some(evicting()),
            "requeue []",
        ),
        (
            "finished",
            with(queued(false), "/status", done.clone()),
            Some(admitted()),
            "finish [\"Finished\"]",
        ),
        (
            "finished without ever being queued",
            with(queued(false), "/status", done.clone()),
            None,
            "nothing []",
        ),
        ("being deleted", deleted(queued(true)), None, "nothing []"),
        (
            "being deleted, and started by hand",
            deleted(queued(false)),
            pending(),
            "suspend [\"Stopped\"]",
        ),
        (
            "being deleted, and started past its gate",
            deleted(gated(false)),
            None,
            "suspend [\"Stopped\"]",
        ),
        (
            "being deleted, and taken out of its queue and started",
            deleted(ungoverned(held.clone(), false)),
            None,
            "suspend [\"Stopped\"]",
        ),
        (
            "the same, and the mark is gone too",
            deleted(ungoverned(json!({}), false)),
            pending(),
            "suspend [\"Stopped\"]",
        ),
        (
            "being deleted, started by hand, and not what its JobKind says",
            deleted(with(queued(false), "/status/conditions", json!("none"))),
            pending(),
            "suspend [\"Stopped\"]",
        ),
        (
            "being deleted, and never held",
            deleted(ungoverned(json!({}), false)),
            None,
            "nothing []",
        ),
        (
            "being deleted after its pods",
            with(
                deleted(queued(false)),
                "/metadata/finalizers",
                json!(["foregroundDeletion"]),
            ),
            None,
            "nothing []",
        ),
        (
            "being deleted, admitted, and without pods",
            deleted(placed(queued(false))),
            Some(admitted()),
            "evict [\"Evicted\"]",
        ),
        (
            "being deleted, and evicted",
            deleted(placed(queued(false))),
            Some(evicting()),
            "suspend []",
        ),
        (
            "being deleted, evicted and suspended: its controller does nothing more",
            deleted(with(placed(queued(true)), "/status", json!({"active": 1}))),
            Some(evicting()),
            "requeue [\"Deleted\"]",
        ),
        (
            "being deleted, and finished",
            deleted(with(queued(false), "/status", done.clone())),
            Some(admitted()),
            "finish []",
        ),
        (
            "evicted, and its end can't be written",
            with(queued(true), "/status", criteria_met.clone()),
            Some(evicting()),
            "requeue [\"Requeued\"]",
        ),
        (
            "its end can't be written: it asks for nothing any more",
            with(queued(true), "/status", criteria_met),
            pending(),
            "update workload []",
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
            "it had ended, is suspended now, and is still placed",
            placed(queued(true)),
            Some(finished()),
            "restore []",
        ),
        (
            "it had ended, is suspended and placed, and its pods still run",
            with(placed(queued(true)), "/status/active", json!(1)),
            Some(finished()),
            "nothing []",
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

/// Its JobKind was edited meanwhile.
#[test]
fn an_admitted_job_goes_on_whatever_its_pod_sets_are_called_by_now() {
    let mut renamed: JobKind =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    renamed.spec.pod_sets[0].name = "pods".to_owned();
    let renamed = CompiledKind::compile(&renamed).unwrap();
    let placed = |suspended| {
        let placed = json!({"disk": "ssd", "spot": "true"});
        let template = "/spec/template/spec/nodeSelector";
        with(queued(suspended), template, placed)
    };
    let larger = with(placed(false), "/spec/parallelism", json!(3));
    for (job, workload, expected) in [
        (placed(false), admitted(), "nothing []"),
        (larger, admitted(), "evict [\"Evicted\"]"),
        (queued(true), admitted(), "release []"),
        (placed(true), evicting(), "restore []"),
        (queued(true), mk_workload(json!({})), "update workload []"),
    ] {
        let case = Case {
            job,
            workload: Some(workload),
        };
        let planned = planned_of_kind(&renamed, &case, 0);
        assert_eq!(in_words(&planned), expected, "{}", case.job["spec"]);
    }
}

/// The controllers of some kinds leave the pods of a group running that is not there any more.
#[test]
fn a_running_job_whose_user_renames_a_pod_set_is_evicted() {
    let of_rule = |rule: Value| {
        let mut kind: JobKind =
            serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
        kind.spec.pod_sets = vec![serde_json::from_value(rule).unwrap()];
        CompiledKind::compile(&kind).unwrap()
    };
    let named = json!({"name": "w", "forEach": ".spec.groups", "nameFrom": ".name", "template": ".template",
        "count": "2"});
    let keyed =
        json!({"name": "w", "forEach": ".spec.groups", "template": ".template", "count": "2"});
    let optional = json!({"name": "other", "whenAbsent": "Skip", "template": ".spec.groups.other.template",
        "count": "2"});
    let placed = with(
        queued(false),
        "/spec/template/spec/nodeSelector",
        json!({"disk": "ssd", "spot": "true"}),
    );
    let template = &placed["spec"]["template"];
    let list = |name: &str| json!([{"name": name, "template": template}]);
    let map = |name: &str| json!({name: {"template": template}});
    for (rule, groups, expected) in [
        (&named, list("main"), "nothing []"),
        (&named, list("other"), "evict [\"Evicted\"]"),
        (&keyed, map("main"), "nothing []"),
        (&keyed, map("other"), "evict [\"Evicted\"]"),
        (&optional, map("other"), "evict [\"Evicted\"]"),
    ] {
        let case = Case {
            job: with(placed.clone(), "/spec/groups", groups),
            workload: Some(admitted()),
        };
        let planned = planned_of_kind(&of_rule(rule.clone()), &case, 0);
        assert_eq!(in_words(&planned), expected, "{}", case.job["spec"]);
    }
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
            JobPatch::Json(patch) | JobPatch::JsonOfStatus(patch) => {
                json_patch::patch(&mut case.job, patch).unwrap();
            }
            JobPatch::Merge(patch) => json_patch::merge(&mut case.job, patch),
        }
        let after = planned(&case);
        assert_ne!(in_words(&after), in_words(&before));
    }
}
