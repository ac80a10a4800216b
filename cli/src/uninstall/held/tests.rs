//! Which objects are started and which stay, case by case.

use sluice_crds::QUEUE_GATE;

use super::*;

fn job_kind() -> CompiledKind {
    let text = include_str!("../../../../config/jobkinds/job.yaml");
    let kind: sluice_crds::JobKind = serde_saphyr::from_str(text).unwrap();
    CompiledKind::compile(&kind).unwrap()
}

fn job(suspend: bool, labels: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "uid": "u1", "resourceVersion": "7", "labels": labels, "annotations": annotations},
        "spec": {"suspend": suspend, "template": {"spec": {"containers": []}}},
    })
}

#[test]
fn what_sluice_suspended_is_started_and_nothing_else() {
    let start = || {
        Todo::Start(json!({
            "metadata": {"uid": "u1", "resourceVersion": "7", "annotations": {"sluice.dev/held": "false"}},
            "spec": {"suspend": false},
        }))
    };
    let gates =
        |gates: &[&str]| Todo::Leave(Why::Gates(gates.iter().map(|&g| g.to_owned()).collect()));
    let queued = || json!({"sluice.dev/queue-name": "q"});
    let held_by = |gates: &str| json!({"kueue.x-k8s.io/admission-gated-by": gates});
    for (name, object, expected) in [
        (
            "waits for quota",
            job(true, &queued(), &json!({"sluice.dev/held": "true"})),
            start(),
        ),
        (
            "was created suspended, to be queued",
            job(true, &queued(), &json!({})),
            start(),
        ),
        (
            "runs",
            job(false, &queued(), &json!({"sluice.dev/held": "false"})),
            Todo::Nothing,
        ),
        (
            "is none of Sluice's",
            job(true, &json!({}), &json!({})),
            Todo::Nothing,
        ),
        (
            "its owner suspended it",
            job(true, &queued(), &json!({"sluice.dev/held": "false"})),
            Todo::Leave(Why::ByUser),
        ),
        (
            "has a gate",
            job(
                true,
                &queued(),
                &json!({"sluice.dev/held": "true", "kueue.x-k8s.io/scheduling-gated-by": "a.io/x"}),
            ),
            gates(&["a.io/x"]),
        ),
        (
            "has gates and no queue",
            job(
                true,
                &json!({}),
                &json!({"kueue.x-k8s.io/admission-gated-by": "a.io/x,b.io/y"}),
            ),
            gates(&["a.io/x", "b.io/y"]),
        ),
        (
            "is required to name a queue, and held by a gate",
            job(
                true,
                &json!({}),
                &held_by("a.io/x,sluice.dev/queue-required"),
            ),
            gates(&["a.io/x"]),
        ),
        (
            "is only required to name a queue",
            job(true, &json!({}), &held_by("sluice.dev/queue-required")),
            Todo::Start(json!({
                "metadata": {"uid": "u1", "resourceVersion": "7", "annotations": {
                    "sluice.dev/held": "false",
                    "kueue.x-k8s.io/admission-gated-by": null,
                }},
                "spec": {"suspend": false},
            })),
        ),
        (
            "has an annotation that names no gate",
            job(true, &json!({}), &held_by("nonsense")),
            Todo::Leave(Why::BadGates),
        ),
    ] {
        assert_eq!(
            todo(&job_kind(), &object, &Queued::default()),
            expected,
            "{name}"
        );
    }
    let waiting = job(true, &queued(), &json!({"sluice.dev/held": "true"}));
    let workload = |active: Value| json!({"metadata": {"ownerReferences": [{"uid": "u1"}]}, "spec": {"active": active}});
    let inactive = Queued::by(&[workload(json!(false))]);
    assert_eq!(
        todo(&job_kind(), &waiting, &inactive),
        Todo::Leave(Why::Inactive)
    );
    // Queued by a label that is an alias.
    let aliased = job(true, &json!({"kueue.x-k8s.io/queue-name": "q"}), &json!({}));
    let active = Queued::by(&[workload(Value::Null)]);
    assert_eq!(todo(&job_kind(), &aliased, &active), start());
}

/// No object owns the Workload of a group: the group is in its label, and in those of its pods.
#[test]
fn what_a_gate_has_deactivated_stays_though_the_gate_is_gone() {
    let annotations = json!({"sluice.dev/held": "true", "sluice.dev/deactivated-by": "a.io/x"});
    for labels in [json!({"sluice.dev/queue-name": "q"}), json!({})] {
        let object = job(true, &labels, &annotations);
        let stays = Todo::Leave(Why::Deactivated("a.io/x".to_owned()));
        assert_eq!(todo(&job_kind(), &object, &Queued::default()), stays);
    }
}

#[test]
fn groups_that_were_taken_out_of_their_queues_are_known_by_their_pods() {
    let workload = |group: &str, active: bool| {
        json!({
            "metadata": {"namespace": "n", "name": format!("{group}-pod-group"),
                         "labels": {"sluice.dev/pod-group-name": group}},
            "spec": {"active": active},
        })
    };
    let queued = Queued::by(&[workload("red-0", false), workload("blue-0", true)]);
    let bare = |group: &str| {
        json!({
            "metadata": {"namespace": "n", "labels": {"sluice.dev/pod-group-name": group},
                         "annotations": {"sluice.dev/pod-group-total-count": "2"}},
            "spec": {"schedulingGates": [{"name": QUEUE_GATE}], "containers": []},
        })
    };
    // Its controller makes it by groups, and it asks for quota by this name of the queue gate.
    let made = |gate: &str, color: &str| {
        json!({
            "metadata": {
                "namespace": "n",
                "labels": {"a.io/color": color, "a.io/index": "0"},
                "annotations": {
                    gate: "true",
                    "sluice.dev/pod-group-labels": "a.io/color,a.io/index",
                    "sluice.dev/pod-group-total-from": "a.io/size",
                    "a.io/size": "2",
                },
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u",
                                     "controller": true}],
            },
            "spec": {"schedulingGates": [{"name": gate}], "containers": []},
        })
    };
    let mut elsewhere = bare("red-0");
    elsewhere["metadata"]["namespace"] = json!("m");
    for (name, pod, expected) in [
        ("bare", bare("red-0"), true),
        ("bare, of an active group", bare("blue-0"), false),
        ("bare, in another namespace", elsewhere, false),
        ("made by groups", made(QUEUE_GATE, "red"), true),
        (
            "made by groups, with an alias",
            made("b.io/gate", "red"),
            true,
        ),
        (
            "made by groups, of an active one",
            made(QUEUE_GATE, "blue"),
            false,
        ),
        (
            "of no group",
            json!({"metadata": {"namespace": "n"}, "spec": {}}),
            false,
        ),
    ] {
        assert_eq!(queued.is_group_inactive(&pod), expected, "{name}");
    }
}

#[test]
fn finished_objects_are_passed_over() {
    let mut finished = job(false, &json!({}), &json!({}));
    assert!(!is_finished(&job_kind(), &finished));
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert!(is_finished(&job_kind(), &finished));
}

#[test]
fn what_waits_for_something_else_than_quota_is_told() {
    let workload = |uid: &str, reason: &str, message: &str| {
        json!({"metadata": {"ownerReferences": [{"uid": uid}]}, "status": {"conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message},
        ]}})
    };
    let missing = "LocalQueue \"n/q\" doesn't exist";
    let queued = Queued::by(&[
        workload("u1", "Misconfigured", missing),
        workload("u2", "WaitingForQuota", "needs cpu 2"),
    ]);
    let of = |uid: &str, gates: Value| {
        queued.awaited(&json!({"metadata": {"uid": uid, "annotations": gates}}))
    };
    assert_eq!(
        of("u1", json!({})),
        format!("it could not be admitted: {missing}")
    );
    assert_eq!(of("u2", json!({})), "it was waiting for quota");
    assert_eq!(of("u3", json!({})), "it was not queued yet");
    let required = json!({"kueue.x-k8s.io/admission-gated-by": "sluice.dev/queue-required"});
    assert_eq!(
        of("u3", required),
        "its namespace requires a queue, and it names none"
    );
}

#[test]
fn gates_of_a_pod_are_told_apart() {
    let required = "sluice.dev/queue-required";
    let gates = ["a.io/x", QUEUE_GATE, required, "lifted.io/y", "held.io/z"];
    let gates = gates.map(|gate| json!({"name": gate}));
    let pod = json!({
        "metadata": {"annotations": {
            "sluice.dev/propagated-gates": format!("lifted.io/y,held.io/z,{required}"),
        }},
        "spec": {"schedulingGates": gates},
    });
    let held = StillHeld::By(BTreeSet::from(["held.io/z".to_owned()]));
    let gates = pod_gates(&pod, &held);
    assert_eq!(gates.ours, [QUEUE_GATE, required, "lifted.io/y"]);
    assert_eq!(gates.others, ["a.io/x", "held.io/z"]);
    assert!(depends_on_owner(&pod));
    let unlisted = json!({"spec": {"schedulingGates": [{"name": "a.io/x"}]}});
    assert!(!depends_on_owner(&unlisted));
    assert!(pod_gates(&json!({"spec": {}}), &held).ours.is_empty());
}
