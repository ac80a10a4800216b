//! What makers make, as it will be asked for: whether it is an exception. Which objects make others is in
//! `owners_without_jobkind.rs`.

use serde_json::{Value, json};

use crate::admission::policy::Policy;
use crate::admission::request::{GroupVersionKind, Operation, Request, UserInfo};
use crate::rules::author::KUBERNETES;
use crate::rules::enforcement::required;

/// The account that makes the Jobs of CronJobs.
const CRON_JOB_CONTROLLER: &str = "cronjob-controller";
/// The groups of a service account of `kube-system`.
const GROUPS: [&str; 3] = [
    "system:serviceaccounts",
    "system:serviceaccounts:kube-system",
    "system:authenticated",
];

/// Whether `object` and its pods are an exception for its author, if it is read as an object of the kind `as_kind`, which
/// has the same pods. They are not judged when they are made.
pub(super) fn is_excepted(
    as_kind: (&str, &str),
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> bool {
    let as_read = Request {
        kind: kind(as_kind),
        ..request.clone()
    };
    required::is_excepted(&as_read, object, policy)
}

/// Whether the Jobs of the CronJob `object` are exceptions when its controller makes them from `template`.
pub(super) fn are_jobs_excepted(
    template: &Value,
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> bool {
    let by_controller = Request {
        kind: kind(("batch", "Job")),
        operation: Operation::Create,
        user_info: cron_job_controller(),
        object: None,
        old_object: None,
        ..request.clone()
    };
    required::is_excepted(&by_controller, &job_of(template, object), policy)
}

/// Who makes the Jobs of CronJobs.
pub(crate) fn cron_job_controller() -> UserInfo {
    UserInfo {
        username: format!("{KUBERNETES}{CRON_JOB_CONTROLLER}"),
        groups: GROUPS.map(str::to_owned).to_vec(),
        ..UserInfo::default()
    }
}

fn kind((group, kind): (&str, &str)) -> GroupVersionKind {
    GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    }
}

/// A Job of the CronJob `object`. Its name is that of the CronJob and a number.
fn job_of(template: &Value, object: &Value) -> Value {
    let of_cron_job = |field: &str| object.pointer(&format!("/metadata/{field}"));
    let name = of_cron_job("name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let text_map = |field: &str| {
        let map = template.pointer(&format!("/metadata/{field}"));
        map.cloned().unwrap_or_else(|| json!({}))
    };
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": format!("{name}-0"),
            "namespace": of_cron_job("namespace"),
            "labels": text_map("labels"),
            "annotations": text_map("annotations"),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": name,
                "uid": of_cron_job("uid"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": template.get("spec"),
    })
}
