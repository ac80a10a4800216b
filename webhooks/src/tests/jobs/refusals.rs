//! Objects that their kind's controller would never run, those whose pods could not be created, and those that a
//! controller makes for a pod.

use rstest::rstest;
use serde_json::{Value, json};

use crate::review::mutate;
use crate::tests::*;

const REFUSED: &str = "spec.parallelism: Forbidden: must be at most 3: nobody runs more";
const GATED_ALONE: &[(&str, &str)] = &[(GATED, "acme.io/foo")];

/// A policy with a kind that runs at most three pods where it waits suspended, and never none.
fn policy() -> Policy {
    let mut kind = mk_job_kind("batch", "Job");
    let rule = |when: &str, message: &str, applies_to| RefuseRule {
        when: when.to_owned(),
        field: Some(".spec.parallelism".to_owned()),
        message: message.to_owned(),
        applies_to,
    };
    kind.spec.refuse = vec![
        rule(
            "object.spec.parallelism > 3",
            "must be at most 3: nobody runs more",
            RefuseScope::Suspended,
        ),
        rule(
            "object.spec.parallelism == 0",
            "must not be 0",
            RefuseScope::All,
        ),
    ];
    Policy::new(
        [Arc::new(CompiledKind::compile(&kind).unwrap())],
        QueueLabels::default(),
        SLUICE,
    )
    .with_applied([], Arc::new(surroundings()))
}

fn told(old: Option<&Value>, new: &Value) -> String {
    validate_held(USER, old, new, &policy()).message()
}

fn job(labels: &[(&str, &str)], annotations: &[(&str, &str)], parallelism: u32) -> Value {
    let job = mk_job(labels, annotations, true);
    let job = with(job, "/spec/completions", json!(9));
    with(job, "/spec/parallelism", json!(parallelism))
}

#[rstest]
#[case::runs(&[(QUEUE, "a")], &[], 3, "")]
#[case::queued(&[(QUEUE, "a")], &[], 4, REFUSED)]
#[case::gated(&[], GATED_ALONE, 4, REFUSED)]
#[case::neither(&[], &[], 4, "")]
#[case::by_the_pod(&[(QUEUE, "a")], &[("sluice.dev/admission", "PerPod")], 4, "")]
#[case::none_by_the_pod(
    &[(QUEUE, "a")], &[("sluice.dev/admission", "PerPod")], 0, "spec.parallelism: Forbidden: must not be 0")]
fn creation(
    #[case] labels: &[(&str, &str)],
    #[case] annotations: &[(&str, &str)],
    #[case] parallelism: u32,
    #[case] expected: &str,
) {
    assert_eq!(told(None, &job(labels, annotations, parallelism)), expected);
}

#[test]
fn an_edit_is_refused_for_what_it_brings_in_alone() {
    let queue = &[(QUEUE, "a")];
    let (good, bad) = (job(queue, &[], 3), job(queue, &[], 4));
    assert_eq!(told(Some(&good), &bad), REFUSED);
    assert_eq!(told(Some(&bad), &good), "");
    let relabelled = with(bad.clone(), "/metadata/labels/x", json!("y"));
    assert_eq!(told(Some(&bad), &relabelled), "", "it was stored before");
    let unqueued = job(&[], &[], 4);
    assert_eq!(told(Some(&unqueued), &bad), REFUSED, "it joins a queue");
}

const BOUND: &str = "spec.template.spec.nodeName: Forbidden: may not be set on a pod that waits: the pod would run at once";
const PER_POD: (&str, &str) = ("sluice.dev/admission", "PerPod");

/// `object`, whose pods name a node.
fn bound(object: Value) -> Value {
    with(object, "/spec/template/spec/nodeName", json!("n1"))
}

/// `object`, whose pods have a gate of somebody else.
fn behind_a_gate(object: Value) -> Value {
    let gates = json!([{"name": "acme.io/data"}]);
    with(object, "/spec/template/spec/schedulingGates", gates)
}

#[rstest]
#[case::deployment(bound(mk_deployment(&[(QUEUE, "a")], &[])), BOUND)]
#[case::deployment_whole(bound(mk_deployment(&[(QUEUE, "a")], &[("sluice.dev/admission", "Whole")])), BOUND)]
#[case::gated_deployment(bound(mk_deployment(&[], GATED_ALONE)), BOUND)]
#[case::plain_deployment(bound(mk_deployment(&[], &[])), "")]
#[case::no_node(with(mk_deployment(&[(QUEUE, "a")], &[]), "/spec/template/spec/nodeName", json!("")), "")]
#[case::job_by_the_pod(bound(mk_job(&[(QUEUE, "a")], &[PER_POD], false)), BOUND)]
#[case::gated_job_by_the_pod(bound(mk_job(&[], &[GATED_ALONE[0], PER_POD], false)), BOUND)]
#[case::job_behind_gates(bound(behind_a_gate(mk_job(&[(QUEUE, "a")], &[], false))), BOUND)]
// They have no pods before they are admitted, and none of these has a gate.
#[case::job(bound(mk_job(&[(QUEUE, "a")], &[], false)), "")]
#[case::gated_job(bound(mk_job(&[], GATED_ALONE, false)), "")]
fn pods_behind_gates_name_no_node(#[case] object: Value, #[case] expected: &str) {
    let mut stored = object.clone();
    let patch = mutate(&mk_request(USER, None, &object), &mk_policy()).patch;
    json_patch::patch(&mut stored, &patch).unwrap();
    assert_eq!(validate(USER, None, &stored).message(), expected);
}

#[test]
fn an_edit_gives_pods_behind_gates_no_node() {
    let queue = &[(QUEUE, "a")];
    let (queued, unqueued) = (mk_deployment(queue, &[]), mk_deployment(&[], &[]));
    let told =
        |old: &Value, new: &Value| validate_held(USER, Some(old), new, &mk_policy()).message();
    assert_eq!(told(&queued, &bound(queued.clone())), BOUND);
    let joins = told(&bound(unqueued.clone()), &bound(queued.clone()));
    assert_eq!(joins, BOUND, "it joins a queue");
    assert_eq!(told(&unqueued, &bound(unqueued.clone())), "");
    let stored = bound(queued.clone());
    let scaled = with(stored.clone(), "/spec/replicas", json!(9));
    assert_eq!(told(&stored, &scaled), "", "it was stored before");
    assert_eq!(told(&stored, &queued), "");
}

/// A part that the controller of a JobSet makes for a pod of it. (LeaderWorkerSet: a StatefulSet.)
fn part(labels: &[(&str, &str)], annotations: &[(&str, &str)], template: Value) -> Value {
    let mut part = owned(mk_job(labels, annotations, false), "v1", "Pod");
    part["spec"]["template"]["metadata"] = template["metadata"].clone();
    part["spec"]["template"]["spec"]["schedulingGates"] = template["gates"].clone();
    part
}

fn is_left_alone(object: &Value) -> bool {
    let verdict = mutate(&mk_request(USER, None, object), &mk_policy());
    verdict.patch.is_empty()
}

#[test]
fn what_is_made_for_a_pod_and_born_held_is_left_as_it_is() {
    let whole = ("sluice.dev/admission", "Whole");
    let gated = (GATED, "acme.io/foo");
    let marks = json!({"labels": {"sluice.dev/managed": "true"},
        "annotations": {"sluice.dev/pod-set": "worker", "sluice.dev/propagated-gates": "acme.io/foo"}});
    let gates = json!([{"name": GATE}, {"name": "acme.io/foo"}]);
    let born = json!({"metadata": marks, "gates": gates});
    let queue = &[(QUEUE, "a")];
    for annotations in [&[whole][..], &[whole, gated]] {
        assert!(is_left_alone(&part(queue, annotations, born.clone())));
    }
    // The leaders' own StatefulSet, which the kind's object controls. Its copied gate is told by a label.
    let label = ("gate.sluice.dev/foo.acme.io", "true");
    let of_set = part(&[queue[0], label], &[whole, gated], born.clone());
    let of_set = owned(of_set, "jobset.x-k8s.io/v1alpha2", "JobSet");
    assert!(is_left_alone(&of_set));
    assert!(is_left_alone(&part(&[], &[whole, gated], born)));

    // One that is not born behind all that holds it is held as any other.
    let without_queue_gate = json!({"metadata": marks, "gates": [{"name": "acme.io/foo"}]});
    let unlisted = json!({"metadata": {"labels": {}}, "gates": gates});
    let ungated = json!({"metadata": {}, "gates": null});
    for template in [without_queue_gate, unlisted, ungated] {
        assert!(!is_left_alone(&part(queue, &[whole, gated], template)));
    }
    // Nor is anything left alone that no kind makes.
    let mut deployment = mk_deployment(queue, &[whole]);
    deployment["spec"]["template"]["metadata"] = marks;
    deployment["spec"]["template"]["spec"]["schedulingGates"] = gates;
    assert!(!is_left_alone(&owned(deployment, "v1", "Pod")));
}

const LATE_GATE: &str = "spec.template.spec.schedulingGates: Forbidden: the gate \"acme.io/x\" may only be set at creation: it determines how the object is held";
const LATE_QUEUE: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation, when the pod templates of this object get scheduling gates; delete the object and create it again with the label";

/// Once admitted, its pods would wait for the gate of others, and hold its quota for as long.
#[rstest]
#[case::gets_the_gate(&[(QUEUE, "a")], false, &[(QUEUE, "a")], true, LATE_GATE)]
#[case::had_it(&[(QUEUE, "a")], true, &[(QUEUE, "a")], true, "")]
#[case::loses_it(&[(QUEUE, "a")], true, &[(QUEUE, "a")], false, "")]
#[case::joins_with_it(&[], true, &[(QUEUE, "a")], true, LATE_QUEUE)]
#[case::joins_without(&[], false, &[(QUEUE, "a")], false, "")]
#[case::in_no_queue(&[], false, &[], true, "")]
fn gates_of_others_in_what_waits_suspended(
    #[case] old_labels: &[(&str, &str)],
    #[case] was_gated: bool,
    #[case] labels: &[(&str, &str)],
    #[case] is_gated: bool,
    #[case] expected: &str,
) {
    let gates = "/spec/template/spec/schedulingGates";
    let job = |labels, is_gated| {
        if is_gated {
            with(job(labels, &[], 1), gates, json!([{"name": "acme.io/x"}]))
        } else {
            job(labels, &[], 1)
        }
    };
    let (old, new) = (job(old_labels, was_gated), job(labels, is_gated));
    assert_eq!(told(Some(&old), &new), expected);
}

/// Its pods would be told from those that quota was given to by nothing.
#[test]
fn what_lists_gates_joins_no_queue() {
    let list = json!({"annotations": {"sluice.dev/propagated-gates": "acme.io/x"}});
    let job = |labels: &[(&str, &str)]| {
        with(job(labels, &[], 1), "/spec/template/metadata", list.clone())
    };
    let joined = told(Some(&job(&[])), &job(&[(QUEUE, "a")]));
    assert_eq!(joined, LATE_QUEUE);
}
