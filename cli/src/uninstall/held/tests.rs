//! Which objects are started and which stay, case by case.

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

#[test]
fn finished_objects_are_passed_over() {
    let mut finished = job(false, &json!({}), &json!({}));
    assert!(!is_finished(&job_kind(), &finished));
    finished["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert!(is_finished(&job_kind(), &finished));
}

#[test]
fn gates_of_a_pod_are_told_apart() {
    let pod = json!({"spec": {"schedulingGates": [{"name": "a.io/x"}, {"name": QUEUE_GATE}]}});
    let gates = pod_gates(&pod);
    assert_eq!(gates.ours, [QUEUE_GATE]);
    assert_eq!(gates.others, ["a.io/x"]);
    assert!(pod_gates(&json!({"spec": {}})).ours.is_empty());
    let alias = "scheduling.volcano.sh/queue-allocation-gate";
    let pod = json!({
        "metadata": {"annotations": {alias: "true", "a.io/x": "false"}},
        "spec": {"schedulingGates": [{"name": alias}, {"name": "a.io/x"}]},
    });
    let gates = pod_gates(&pod);
    assert_eq!(
        (gates.ours, gates.others),
        (vec![alias.to_owned()], vec!["a.io/x".to_owned()])
    );
}
