//! The match conditions, evaluated: which requests reach the webhook at all.

use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, Program};
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::RELEASED_ANNOTATION;

use crate::manifests::{Options, mutating, validating};
use crate::tests::*;

/// Whether the webhook `index` of `configuration` is asked about this request.
pub(crate) fn is_asked(
    configuration: &Value,
    index: usize,
    user: &str,
    old: Option<&Value>,
    new: &Value,
) -> bool {
    matches(configuration, index, &mk_review(user, old, new))
}

/// As in the strings library of CEL, which API servers have.
fn split(This(text): This<Arc<String>>, by: Arc<String>) -> cel::Value {
    let parts: Vec<_> = text.split(by.as_str()).map(str::to_owned).collect();
    parts.into()
}

/// Whether the webhook `index` of `configuration` is asked this.
pub(crate) fn matches(configuration: &Value, index: usize, review: &Value) -> bool {
    let mut context = Context::default();
    context.add_function("split", split).unwrap();
    context
        .add_variable("request", review["request"].clone())
        .unwrap();
    context
        .add_variable("object", review["request"]["object"].clone())
        .unwrap();
    context
        .add_variable("oldObject", review["request"]["oldObject"].clone())
        .unwrap();
    configuration["webhooks"][index]["matchConditions"]
        .as_array()
        .unwrap()
        .iter()
        .all(|condition| {
            let program = Program::compile(condition["expression"].as_str().unwrap()).unwrap();
            program.execute(&context).unwrap() == cel::Value::Bool(true)
        })
}

fn judged(user: &str, old: Option<&Value>, new: &Value) -> bool {
    is_asked(
        &serde_json::to_value(validating(&Options::default())).unwrap(),
        0,
        user,
        old,
        new,
    )
}

fn held(new: &Value) -> bool {
    is_asked(
        &serde_json::to_value(mutating(&Options::default())).unwrap(),
        0,
        USER,
        None,
        new,
    )
}

fn bare() -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}})
}

/// An object whose pods have this annotation.
fn of_pods(object: Value, key: &str) -> Value {
    let metadata = json!({"annotations": {key: "acme.io/foo"}});
    with(object, "/spec/template/metadata", metadata)
}

fn queued() -> Value {
    mk_job(&[(QUEUE, "a")], &[], true)
}

fn gated() -> Value {
    mk_job(&[], &[(GATED, "acme.io/foo")], true)
}

#[rstest]
#[case::bare(bare(), false)]
#[case::plain(mk_job(&[], &[], false), false)]
#[case::other_labels(mk_job(&[("a", "b")], &[("c", "d")], false), false)]
#[case::queued(queued(), true)]
#[case::gated(gated(), true)]
#[case::gated_by_list(mk_job(&[], &[(GATES, "")], false), true)]
fn creation(#[case] object: Value, #[case] expected: bool) {
    assert_eq!(held(&object), expected);
    assert_eq!(judged(USER, None, &object), expected);
    assert!(!judged(SLUICE, None, &object));
}

/// Nothing holds it, but its author is told.
#[rstest]
#[case::gated(of_pods(mk_job(&[], &[], false), GATED), true)]
#[case::gated_by_list(of_pods(mk_job(&[], &[], false), GATES), true)]
#[case::of_a_deployment(of_pods(mk_deployment(&[], &[]), GATED), true)]
#[case::made_by_a_controller(owned(of_pods(mk_job(&[], &[], false), GATED), "batch/v1", "CronJob"), false)]
#[case::another_annotation(of_pods(mk_job(&[], &[], false), "a"), false)]
#[case::null(with(mk_job(&[], &[], false), "/spec/template/metadata", json!({"annotations": null})), false)]
fn a_template_that_names_a_gate_is_judged_alone(#[case] object: Value, #[case] expected: bool) {
    let review = |old: Option<&Value>| {
        let mut review = mk_review(USER, old, &object);
        let resource = object["kind"].as_str().unwrap().to_lowercase() + "s";
        review["request"]["resource"]["resource"] = json!(resource);
        review
    };
    let asks = |configuration: &Value, old| matches(configuration, 0, &review(old));
    let validating = serde_json::to_value(validating(&Options::default())).unwrap();
    assert_eq!(asks(&validating, None), expected);
    assert!(!asks(&validating, Some(&object)), "it was there before");
    let mutating = serde_json::to_value(mutating(&Options::default())).unwrap();
    assert!(!asks(&mutating, None));
}

#[rstest]
#[case::plain_job_edited(mk_job(&[], &[], false), mk_job(&[], &[], true), false)]
#[case::bare_job_edited(bare(), mk_job(&[], &[], true), false)]
#[case::unchanged(queued(), queued(), false)]
#[case::status(queued(), with(queued(), "/status", json!({"active": 1})), false)]
#[case::finalizers(queued(), with(queued(), "/metadata/finalizers", json!([])), false)]
#[case::other_label(queued(), mk_job(&[(QUEUE, "a"), ("x", "y")], &[], true), false)]
#[case::gets_an_owner(queued(), owned(queued(), "jobset.x-k8s.io/v1alpha2", "JobSet"), true)]
#[case::loses_its_owner(owned(queued(), "jobset.x-k8s.io/v1alpha2", "JobSet"), queued(), false)]
#[case::spec(queued(), with(queued(), "/spec/suspend", json!(false)), true)]
#[case::queue_changed(queued(), mk_job(&[(QUEUE, "b")], &[], true), true)]
#[case::queue_emptied(queued(), mk_job(&[(QUEUE, "")], &[], true), true)]
#[case::queue_removed(queued(), mk_job(&[], &[], true), true)]
#[case::queue_removed_with_all_labels(queued(), bare(), true)]
#[case::queue_added(bare(), queued(), true)]
#[case::gate_added(mk_job(&[], &[], true), gated(), true)]
#[case::empty_gate_added(mk_job(&[], &[], true), mk_job(&[], &[(GATED, "")], true), true)]
#[case::gate_removed(gated(), mk_job(&[], &[], true), true)]
#[case::gate_changed(gated(), mk_job(&[], &[(GATED, "acme.io/bar")], true), true)]
#[case::released(queued(), mk_job(&[], &[(RELEASED_ANNOTATION, "u1")], false), true)]
#[case::gated_spec(gated(), with(gated(), "/spec/parallelism", json!(7)), true)]
fn update(#[case] old: Value, #[case] new: Value, #[case] expected: bool) {
    assert_eq!(judged(USER, Some(&old), &new), expected);
    assert!(!judged(SLUICE, Some(&old), &new));
    let deleted = with(
        new,
        "/metadata/deletionTimestamp",
        json!("2026-01-01T00:00:00Z"),
    );
    // What it tells of its gates and its release stays meanwhile.
    let told = |object: &Value| {
        let annotations = &object["metadata"]["annotations"];
        [GATED, RELEASED_ANNOTATION].map(|key| annotations[key].clone())
    };
    let is_judged = told(&old) != told(&deleted);
    assert_eq!(judged(USER, Some(&old), &deleted), is_judged);
}

#[rstest]
#[case::unchanged(queued(), queued(), false)]
#[case::other_label(queued(), mk_job(&[(QUEUE, "a"), ("x", "y")], &[], true), false)]
#[case::spec(queued(), with(queued(), "/spec/replicas", json!(3)), true)]
#[case::queue_added(mk_job(&[], &[], true), queued(), true)]
#[case::queue_removed(queued(), mk_job(&[], &[], true), false)]
#[case::plain(mk_job(&[], &[], true), mk_job(&[], &[], false), false)]
#[case::mode(queued(), mk_job(&[(QUEUE, "a")], &[("sluice.dev/admission", "Whole")], true), true)]
fn update_of_what_templates_hold(#[case] old: Value, #[case] new: Value, #[case] expected: bool) {
    let configuration = serde_json::to_value(mutating(&Options::default())).unwrap();
    assert_eq!(
        is_asked(&configuration, 0, USER, Some(&old), &new),
        expected
    );
}

#[test]
fn own_objects_only_when_the_spec_is_new() {
    let configuration = serde_json::to_value(validating(&Options::default())).unwrap();
    let asked = |old: Option<&Value>, new: &Value| is_asked(&configuration, 1, USER, old, new);
    let queue = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue",
        "metadata": {"name": "q"}, "spec": {"stopPolicy": "None"}});
    assert!(asked(None, &queue));
    assert!(!asked(
        Some(&queue),
        &with(queue.clone(), "/metadata/labels", json!({"a": "b"}))
    ));
    assert!(asked(
        Some(&queue),
        &with(queue.clone(), "/spec/stopPolicy", json!("Hold"))
    ));
}
