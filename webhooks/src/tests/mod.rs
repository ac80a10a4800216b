//! The tests, by subject, and what they share: a policy with the shipped JobKinds of batch Job and of
//! Deployment, a JobSet-like third kind, and requests about them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::needless_pass_by_value
)]

mod advice;
mod enforcement;
mod gates;
mod jobs;
mod manifests;
mod own;
mod pods;
mod schemas;
mod server;
mod unheld;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use sluice_crds::{ChildKind, JobKind, RefuseRule, RefuseScope};
use sluice_kinds::view::QueueLabels;
use sluice_kinds::{CompiledKind, QueueGates};

use crate::{Policy, Request, Surroundings, Verdict};

pub(crate) const SLUICE: &str = "system:serviceaccount:sluice-system:sluice";
pub(crate) const USER: &str = "ann";
pub(crate) const JOB_CONTROLLER: &str = "system:serviceaccount:kube-system:job-controller";
pub(crate) const JOBSET_CONTROLLER: &str =
    "system:serviceaccount:jobset-system:jobset-controller-manager";
/// An account that whoever may create pods in the namespace of the tests can use.
pub(crate) const TENANT_ACCOUNT: &str = "system:serviceaccount:n:jobset-controller-manager";
pub(crate) const ALIAS: &str = "kueue.x-k8s.io/queue-name";
pub(crate) const QUEUE: &str = "sluice.dev/queue-name";
pub(crate) const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
pub(crate) const GATES: &str = "kueue.x-k8s.io/admission-gated-by";

pub(crate) const GATE: &str = "sluice.dev/queue-allocation-gate";
pub(crate) const GATE_ALIAS: &str = "scheduling.volcano.sh/queue-allocation-gate";

const JOB_KIND: &str = include_str!("../../../config/jobkinds/job.yaml");
const DEPLOYMENT_KIND: &str = include_str!("../../../config/jobkinds/deployment.yaml");

pub(crate) fn mk_job_kind(group: &str, kind: &str) -> JobKind {
    let mut job_kind: JobKind = serde_saphyr::from_str(JOB_KIND).unwrap();
    job_kind.spec.group = group.to_owned();
    job_kind.spec.kind = kind.to_owned();
    job_kind
}

pub(crate) fn mk_policy() -> Policy {
    static KINDS: LazyLock<[Arc<CompiledKind>; 3]> = LazyLock::new(|| {
        let mut job_set = mk_job_kind("jobset.x-k8s.io", "JobSet");
        job_set.spec.children = vec![ChildKind {
            group: "batch".to_owned(),
            kind: "Job".to_owned(),
            made_by: vec![JOBSET_CONTROLLER.to_owned()],
            ..ChildKind::default()
        }];
        [
            mk_job_kind("batch", "Job"),
            job_set,
            serde_saphyr::from_str(DEPLOYMENT_KIND).unwrap(),
        ]
        .map(|kind| {
            let compiled = CompiledKind::compile(&kind).unwrap();
            Arc::new(compiled.with_queue_gates(mk_queue_gates()))
        })
    });
    Policy::new(
        KINDS.iter().cloned(),
        QueueLabels::new([ALIAS.to_owned()]),
        SLUICE,
    )
    .with_queue_gates(mk_queue_gates())
    .with_applied([], Arc::new(surroundings()))
}

/// The namespace of the tests, without labels.
fn surroundings() -> Surroundings {
    Surroundings {
        namespaces: [("n".to_owned(), Arc::default())].into(),
        ..Surroundings::default()
    }
}

fn mk_queue_gates() -> QueueGates {
    QueueGates::new([GATE_ALIAS.to_owned()])
}

/// A Deployment with these labels and annotations, 2 pods of 1 cpu.
pub(crate) fn mk_deployment(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> Value {
    let mut deployment = mk_job(labels, annotations, false);
    deployment["apiVersion"] = json!("apps/v1");
    deployment["kind"] = json!("Deployment");
    let template = deployment["spec"]["template"].take();
    deployment["spec"] = json!({"replicas": 2, "template": template});
    deployment
}

/// A pod with these labels, annotations and scheduling gates.
pub(crate) fn mk_pod(
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
    gates: &[&str],
) -> Value {
    let mut pod = mk_job(labels, annotations, false);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["spec"] = pod["spec"]["template"]["spec"].take();
    if !gates.is_empty() {
        pod["spec"]["schedulingGates"] = gates.iter().map(|name| json!({"name": name})).collect();
    }
    pod
}

/// `object` with a controller.
pub(crate) fn owned(mut object: Value, api_version: &str, kind: &str) -> Value {
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind,
        "name": "o", "uid": "u0", "controller": true}]);
    object
}

/// A Job with these labels, annotations and suspend field, 2 pods of 1 cpu.
pub(crate) fn mk_job(
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
    suspend: bool,
) -> Value {
    let map = |pairs: &[(&str, &str)]| -> Value {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), json!(v)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j", "namespace": "n", "uid": "u1",
            "labels": map(labels), "annotations": map(annotations),
        },
        "spec": {
            "suspend": suspend, "parallelism": 2, "completions": 2,
            "template": {"spec": {"containers": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        },
    })
}

/// `object` with the field at `pointer` set.
pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
    object
}

/// The body of a review; `old` makes it an update.
pub(crate) fn mk_review(user: &str, old: Option<&Value>, new: &Value) -> Value {
    let api_version = new["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "r1",
            "kind": {"group": group, "version": version, "kind": new["kind"]},
            "resource": {"group": group, "version": version, "resource": "things"},
            "name": "j",
            "namespace": "n",
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": new,
            "oldObject": old,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

pub(crate) fn mk_request(user: &str, old: Option<&Value>, new: &Value) -> Request {
    Request::parse(mk_review(user, old, new).to_string().as_bytes()).unwrap()
}

pub(crate) fn validate(user: &str, old: Option<&Value>, new: &Value) -> Verdict {
    crate::review::validate(&mk_request(user, old, new), &mk_policy())
}

/// What is said of an object as the API server shows it: with what holds it in it, unless that is refused already.
pub(crate) fn validate_held(
    user: &str,
    old: Option<&Value>,
    new: &Value,
    policy: &Policy,
) -> Verdict {
    let mut held = new.clone();
    let verdict = crate::review::mutate(&mk_request(user, old, new), policy);
    if verdict.is_allowed() {
        json_patch::patch(&mut held, &verdict.patch).unwrap();
    }
    crate::review::validate(&mk_request(user, old, &held), policy)
}

/// The object as it is stored, and what its author is told.
pub(crate) fn created_by(user: &str, object: &Value, policy: &Policy) -> (Value, Verdict) {
    let verdict = crate::review::mutate(&mk_request(user, None, object), policy);
    let mut stored = object.clone();
    if verdict.is_allowed() {
        json_patch::patch(&mut stored, &verdict.patch).unwrap();
        let again = crate::review::mutate(&mk_request(user, None, &stored), policy);
        assert_eq!(again.patch, [], "{stored}");
        let validated = crate::review::validate(&mk_request(user, None, &stored), policy);
        assert_eq!(validated.problems, [], "{stored}");
    }
    (stored, verdict)
}
