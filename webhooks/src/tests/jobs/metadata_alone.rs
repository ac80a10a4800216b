//! Objects of which only the metadata of their pods is known (Workflow): the pods are queued by themselves, as that
//! metadata asks for it.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_kinds::CompiledKind;
use sluice_kinds::view::QueueLabels;

use crate::tests::{GATE, QUEUE, SLUICE, USER, created_by, mk_request, surroundings};
use crate::{Policy, review};

const KIND: &str = include_str!("../../../../config/jobkinds/workflow.yaml");
const MUST_ASK: &str = "spec.podMetadata.annotations[sluice.dev/queue-allocation-gate]: Required value: must be \"true\": the pods of this object wait in a queue";
const STARTED: &str =
    "spec.suspend: Forbidden: Sluice starts the job once it is admitted through LocalQueue \"q\"";
const LATE: &str = "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation";

fn mk_policy() -> Policy {
    let kind = CompiledKind::compile(&serde_saphyr::from_str(KIND).unwrap()).unwrap();
    Policy::new([Arc::new(kind)], QueueLabels::default(), SLUICE)
        .with_applied([], Arc::new(surroundings()))
}

fn mk_workflow(labels: Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow",
        "metadata": {"name": "j", "namespace": "n", "uid": "u1", "labels": labels},
        "spec": {"entrypoint": "main"},
    })
}

/// What is told of an edit, and what comes of it.
fn edit(old: &Value, patch: &Value) -> (String, Value) {
    let mut new = old.clone();
    json_patch::merge(&mut new, patch);
    let verdict = review::validate(&mk_request(USER, Some(old), &new), &mk_policy());
    (verdict.message(), new)
}

/// The same edits as in `tests/it/protection/policies_kinds.rs`.
#[test]
fn what_its_pods_wait_by_can_not_be_taken_away() {
    let (queued, _) = created_by(USER, &mk_workflow(json!({QUEUE: "q"})), &mk_policy());
    assert_eq!(queued["spec"]["podMetadata"]["annotations"][GATE], "true");
    let unasked = json!({"annotations": {GATE: null}, "labels": {QUEUE: null}});
    let told = edit(
        &queued,
        &json!({"spec": {"suspend": true, "podMetadata": unasked}}),
    )
    .0;
    assert_eq!(told, MUST_ASK);
    let (told, paused) = edit(&queued, &json!({"spec": {"suspend": true}}));
    assert_eq!(told, "");
    let told = edit(&paused, &json!({"spec": {"podMetadata": unasked}})).0;
    assert_eq!(told, MUST_ASK);
    let told = edit(
        &paused,
        &json!({"spec": {"suspend": false, "podMetadata": unasked}}),
    )
    .0;
    assert!(
        told.starts_with(MUST_ASK) && told.contains(STARTED),
        "{told}"
    );
    assert_eq!(edit(&paused, &json!({"spec": {"suspend": false}})).0, "");

    // As it may have been stored while nobody was asked.
    let mut open = paused;
    open["spec"]["podMetadata"] = Value::Null;
    let told = edit(&open, &json!({"spec": {"suspend": false}})).0;
    assert!(told.starts_with(STARTED), "{told}");
    assert_eq!(edit(&open, &json!({"spec": {"entrypoint": "b"}})).0, "");
}

#[test]
fn it_joins_no_queue_later() {
    for metadata in [Value::Null, json!({"annotations": {GATE: "true"}})] {
        let mut unqueued = mk_workflow(json!({}));
        unqueued["spec"]["podMetadata"] = metadata;
        let told = edit(&unqueued, &json!({"metadata": {"labels": {QUEUE: "q"}}})).0;
        assert!(told.starts_with(LATE), "{told}");
    }
}
