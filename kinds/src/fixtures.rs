//! What the tests of this crate share: the shipped JobKinds of batch/v1 Job and apps/v1 Deployment with one
//! object of each, and pods.
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are handed over"
)]

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_crds::{JobKind, POD_GROUP_LABEL};

use crate::gates::QueueGates;
use crate::read::pod::PodView;
use crate::read::view::QueueLabels;

/// Another name of the queue gate.
pub(crate) const ALIAS: &str = "scheduling.volcano.sh/queue-allocation-gate";
/// The label that names a queue.
pub(crate) const QUEUE: &str = "sluice.dev/queue-name";
/// The annotation that names one gate.
pub(crate) const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
/// The annotation that says how many pods a group has.
pub(crate) const POD_GROUP_TOTAL: &str = "sluice.dev/pod-group-total-count";

/// The JobKind in `config/jobkinds/job.yaml`.
pub(crate) fn job_kind() -> JobKind {
    serde_saphyr::from_str(include_str!("../../config/jobkinds/job.yaml")).unwrap()
}

/// A Job with parallelism 2.
pub(crate) fn batch_job() -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "n", "uid": "u1", "annotations": {}},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        },
    })
}

/// The JobKind in `config/jobkinds/deployment.yaml`.
pub(crate) fn deployment_kind() -> JobKind {
    serde_saphyr::from_str(include_str!("../../config/jobkinds/deployment.yaml")).unwrap()
}

/// A Deployment of 3 pods.
pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "n", "uid": "u1"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {
                "metadata": {"labels": {"app": "d"}},
                "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    })
}

/// The names of the queue gate, with the alias.
pub(crate) fn queue_gates() -> QueueGates {
    QueueGates::new([ALIAS.to_owned()])
}

/// A pod of 1 cpu with these labels and annotations.
pub(crate) fn mk_pod(labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

/// `pod` with this controller.
pub(crate) fn owned(mut pod: Value, api_version: &str, kind: &str) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": api_version, "kind": kind, "name": "o", "uid": "u0", "controller": true}]);
    pod
}

/// `pod` behind these scheduling gates.
pub(crate) fn gated(mut pod: Value, names: &[&str]) -> Value {
    pod["spec"]["schedulingGates"] = names.iter().map(|name| json!({"name": name})).collect();
    pod
}

/// What is seen of `pod`.
pub(crate) fn view(pod: &Value) -> PodView {
    PodView::read(pod, &QueueLabels::default(), &queue_gates())
}

/// The names as texts.
pub(crate) fn gate_names(gates: &[Arc<str>]) -> Vec<&str> {
    gates.iter().map(|name| &**name).collect()
}

pub(crate) fn group(name: &str, total: Option<&str>, retriable: Option<&str>) -> Value {
    let mut annotations = json!({});
    if let Some(total) = total {
        annotations[POD_GROUP_TOTAL] = json!(total);
    }
    if let Some(retriable) = retriable {
        annotations["sluice.dev/retriable-in-group"] = json!(retriable);
    }
    mk_pod(json!({POD_GROUP_LABEL: name}), annotations)
}
