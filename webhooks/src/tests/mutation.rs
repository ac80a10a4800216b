//! What is changed in an object at its creation.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::review::mutate;

fn patch_of(object: &Value) -> Value {
    let verdict = mutate(&mk_request(USER, None, object), &mk_policy());
    assert!(verdict.is_allowed());
    serde_json::to_value(verdict.patch).unwrap()
}

fn hold() -> Value {
    json!([{"op": "add", "path": "/spec/suspend", "value": true}])
}

/// A gate without a queue is marked, so that the controller starts the job when the gate goes.
fn hold_and_mark() -> Value {
    json!([
        {"op": "add", "path": "/spec/suspend", "value": true},
        {"op": "add", "path": "/metadata/annotations/sluice.dev~1held", "value": "true"},
    ])
}

#[rstest]
#[case::plain(mk_job(&[], &[], false), json!([]))]
#[case::queue(mk_job(&[(QUEUE, "a")], &[], false), hold())]
#[case::alias(mk_job(&[(ALIAS, "a")], &[], false), hold())]
#[case::gate(mk_job(&[], &[(GATED, "acme.io/foo")], false), hold_and_mark())]
#[case::gates(mk_job(&[], &[(GATES, "acme.io/foo")], false), hold_and_mark())]
#[case::queue_and_gate(mk_job(&[(QUEUE, "a")], &[(GATES, "acme.io/foo")], false), hold())]
#[case::invalid_gate(mk_job(&[], &[(GATED, "")], false), hold_and_mark())]
#[case::already_suspended(mk_job(&[(QUEUE, "a")], &[], true), json!([]))]
#[case::suspend_null(
    with(mk_job(&[(QUEUE, "a")], &[], false), "/spec/suspend", Value::Null), hold())]
fn creation(#[case] object: Value, #[case] expected: Value) {
    assert_eq!(patch_of(&object), expected);
}

#[rstest]
#[case::queued_child(mk_job(&[(QUEUE, "a")], &[], false), json!([]))]
#[case::gated_child(mk_job(&[], &[(GATED, "acme.io/foo")], false), hold_and_mark())]
fn child_of_a_managed_kind(#[case] object: Value, #[case] expected: Value) {
    let owner = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s",
        "uid": "u0", "controller": true}]);
    assert_eq!(
        patch_of(&with(object, "/metadata/ownerReferences", owner)),
        expected
    );
}

/// A replica that has not heard of the JobKind yet can't hold what it is asked about.
#[test]
fn what_can_not_be_held_is_refused() {
    let mk_sparkle = |queued: bool| {
        let labels: &[(&str, &str)] = if queued { &[(QUEUE, "a")] } else { &[] };
        with(mk_job(labels, &[], false), "/kind", json!("Sparkle"))
    };
    let (queued, plain) = (mk_sparkle(true), mk_sparkle(false));
    let refused = "metadata.labels[sluice.dev/queue-name]: Forbidden: no JobKind declares Sparkle of \
                   API group \"batch\", so Sluice can't hold it";
    let message = |old: Option<&Value>, new: &Value| {
        mutate(&mk_request(USER, old, new), &mk_policy()).message()
    };
    assert_eq!(message(None, &queued), refused);
    assert_eq!(message(Some(&plain), &queued), refused);
    assert_eq!(message(None, &plain), "");
    // It came that way, and is not held up now.
    assert_eq!(message(Some(&queued), &queued), "");
}

#[test]
fn updates_are_left_alone() {
    let job = mk_job(&[(QUEUE, "a")], &[], false);
    let update = mk_request(USER, Some(&job), &job);
    assert_eq!(mutate(&update, &mk_policy()), Verdict::allowed());
}

#[test]
fn a_patch_travels_as_base64() {
    let request = mk_request(USER, None, &mk_job(&[(QUEUE, "a")], &[], false));
    let answer = mutate(&request, &mk_policy())
        .into_answer("r1".into())
        .unwrap();
    assert_eq!(
        serde_json::to_value(answer).unwrap()["response"],
        json!({
            "uid": "r1", "allowed": true, "patchType": "JSONPatch",
            // [{"op":"add","path":"/spec/suspend","value":true}]
            "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvc3VzcGVuZCIsInZhbHVlIjp0cnVlfV0=",
        })
    );
}

proptest! {
    #[test]
    fn twice_is_once(
        queue in proptest::option::of(any::<String>()),
        gate in proptest::option::of(any::<String>()),
        suspend in prop_oneof![
            Just(Value::Null), Just(json!(true)), Just(json!(false)), Just(json!("yes"))],
        has_spec: bool,
    ) {
        let labels: Vec<_> = queue.iter().map(|q| (QUEUE, q.as_str())).collect();
        let annotations: Vec<_> = gate.iter().map(|g| (GATED, g.as_str())).collect();
        let mut job = with(mk_job(&labels, &annotations, false), "/spec/suspend", suspend);
        if !has_spec {
            job.as_object_mut().unwrap().remove("spec");
        }
        let policy = mk_policy();
        let first = mutate(&mk_request(USER, None, &job), &policy).patch;
        json_patch::patch(&mut job, &first).unwrap();
        prop_assert_eq!(mutate(&mk_request(USER, None, &job), &policy).patch, vec![]);
        if queue.is_some() || gate.is_some() {
            prop_assert_eq!(job.pointer("/spec/suspend"), Some(&json!(true)));
        }
    }
}
