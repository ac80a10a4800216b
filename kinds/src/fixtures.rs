//! The shipped JobKind of batch/v1 Job and a Job, for the tests of this crate.

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
        "metadata": {"name": "j", "namespace": "n", "uid": "u1"},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        },
    })
}
