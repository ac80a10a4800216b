//! The shipped JobKinds of batch/v1 Job and apps/v1 Deployment, and one object of each, for the tests of this crate.

use serde_json::{Value, json};
use sluice_crds::JobKind;

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
