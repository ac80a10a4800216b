//! What another plugin of the API server changes after Sluice has held an object, or could not.

use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::CompiledKind;
use sluice_kinds::view::QueueLabels;

use super::{
    ALIAS, GATED, GATES, JOBSET_CONTROLLER, QUEUE, SLUICE, USER, created_by, mk_deployment, mk_job,
    mk_pod, mk_policy, mk_request, owned, surroundings, with,
};
use crate::{Policy, review};

const WORKFLOW_KIND: &str = include_str!("../../../config/jobkinds/workflow.yaml");
const PYTORCHJOB_KIND: &str = include_str!("../../../config/jobkinds/pytorchjob.yaml");

const NOT_HELD: &str = "Forbidden: nothing holds the object, as another mutating webhook or policy changed it after Sluice; have Sluice called after that one, or write the queue label or the gate annotation into the manifest";
const AT_QUEUE: &str = "metadata.labels[sluice.dev/queue-name]: ";
const Q: &[(&str, &str)] = &[(QUEUE, "q")];
const PER_POD: &[(&str, &str)] = &[("sluice.dev/admission", "PerPod")];

fn told(user: &str, old: Option<&Value>, new: &Value) -> String {
    review::validate(&mk_request(user, old, new), &mk_policy()).message()
}

fn gated(key: &str) -> String {
    format!("metadata.annotations[{key}]: ")
}

/// The other plugin adds the label or the annotation.
#[rstest]
#[case::job(mk_job(Q, &[], false), AT_QUEUE.to_owned())]
#[case::gated_job(mk_job(&[], &[(GATED, "acme.io/a")], false), gated(GATED))]
#[case::job_with_both(mk_job(Q, &[(GATES, "acme.io/a")], false), gated(GATES))]
#[case::by_the_pod(mk_job(Q, PER_POD, true), AT_QUEUE.to_owned())]
#[case::deployment(mk_deployment(Q, &[]), AT_QUEUE.to_owned())]
#[case::gated_deployment(mk_deployment(&[], &[(GATED, "acme.io/a")]), gated(GATED))]
#[case::pod(mk_pod(Q, &[], &[]), AT_QUEUE.to_owned())]
#[case::pod_with_an_alias(mk_pod(&[(ALIAS, "q")], &[], &[]), format!("metadata.labels[{ALIAS}]: "))]
#[case::gated_pod(mk_pod(&[], &[(GATED, "acme.io/a")], &[]), gated(GATED))]
fn what_nothing_holds_is_refused(#[case] object: Value, #[case] field: String) {
    assert_eq!(told(USER, None, &object), format!("{field}{NOT_HELD}"));
    let (stored, _) = created_by(USER, &object, &mk_policy());
    assert_eq!(told(USER, None, &stored), "");
}

/// What holds it stands in an object that the manifest left out.
#[rstest]
#[case::by_the_label_of_its_pods(
    WORKFLOW_KIND,
    json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": {
        "entrypoint": "main",
        "templates": [{"name": "main", "container": {"image": "i", "resources": {"requests": {"cpu": "1"}}}}],
    }})
)]
#[case::by_its_policy(
    PYTORCHJOB_KIND,
    json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {
        "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}},
    }}})
)]
fn what_nothing_holds_is_refused_in_any_shape(#[case] kind: &str, #[case] mut object: Value) {
    let kind = CompiledKind::compile(&serde_saphyr::from_str(kind).unwrap()).unwrap();
    let policy = Policy::new([Arc::new(kind)], QueueLabels::default(), SLUICE)
        .with_applied([], Arc::new(surroundings()));
    object["metadata"] = json!({"name": "j", "namespace": "n", "labels": {QUEUE: "q"}});
    let told =
        |object: &Value| review::validate(&mk_request(USER, None, object), &policy).message();
    assert_eq!(told(&object), format!("{AT_QUEUE}{NOT_HELD}"));
    let (stored, verdict) = created_by(USER, &object, &policy);
    assert_eq!(verdict.problems, []);
    assert_eq!(told(&stored), "");
}

/// The other plugin takes something away of what holds the object.
#[rstest]
#[case::suspend(mk_job(Q, &[], false), "/spec/suspend", json!(false))]
#[case::gates(mk_deployment(Q, &[]), "/spec/template/spec/schedulingGates", json!([]))]
#[case::label(mk_deployment(Q, &[]), "/spec/template/metadata/labels", json!({}))]
fn what_is_released_on_the_way_is_refused(
    #[case] object: Value,
    #[case] pointer: &str,
    #[case] value: Value,
) {
    let (stored, _) = created_by(USER, &object, &mk_policy());
    let changed = with(stored, pointer, value);
    assert_eq!(told(USER, None, &changed), format!("{AT_QUEUE}{NOT_HELD}"));
}

#[test]
fn what_can_not_be_suspended_is_held_at_each_edit() {
    let old = mk_deployment(&[], &[]);
    let new = mk_deployment(Q, &[]);
    assert_eq!(
        told(USER, Some(&old), &new),
        format!("{AT_QUEUE}{NOT_HELD}")
    );
    // One that was never held blocks none of its other edits.
    let scaled = with(new.clone(), "/status", json!({"replicas": 2}));
    let mut review = super::mk_review(USER, Some(&new), &scaled);
    review["request"]["subResource"] = json!("status");
    let request = crate::Request::parse(review.to_string().as_bytes()).unwrap();
    assert_eq!(review::validate(&request, &mk_policy()).message(), "");
}

#[rstest]
#[case::suspended(mk_job(Q, &[], true))]
#[case::child(owned(mk_job(Q, &[], false), "jobset.x-k8s.io/v1alpha2", "JobSet"))]
#[case::neither(mk_job(&[], &[], false))]
fn others_are_taken(#[case] object: Value) {
    assert_eq!(told(JOBSET_CONTROLLER, None, &object), "");
}
