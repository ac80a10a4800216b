//! What makers make, as it will be asked for: whether it is an exception. Which objects make others is in `makers.rs`.

use serde_json::{Value, json};

use crate::admission::policy::Policy;
use crate::admission::request::{GroupVersionKind, Operation, Request, UserInfo};
use crate::rules::enforcement::makers::Maker;
use crate::rules::enforcement::required;
use crate::rules::makers::KUBERNETES;

/// The account that makes the Jobs of CronJobs.
const CRON_JOB_CONTROLLER: &str = "cronjob-controller";
/// The groups of a service account of `kube-system`.
const GROUPS: [&str; 3] = [
    "system:serviceaccounts",
    "system:serviceaccounts:kube-system",
    "system:authenticated",
];

/// Whether what `maker` makes for `object` is an exception. What is judged when it is made is so for its controller; of
/// the rest the author of `object` counts, who is asked about once and for all.
pub(super) fn is_excepted(
    maker: &Maker,
    request: &Request,
    object: &Value,
    policy: &Policy,
) -> bool {
    let (group, kind) = maker.read_as;
    let kind = GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
    };
    if !maker.is_judged_later {
        let as_read = Request {
            kind,
            ..request.clone()
        };
        return required::is_excepted(&as_read, object, policy);
    }
    let made_by_controller = Request {
        kind,
        operation: Operation::Create,
        user_info: UserInfo {
            username: format!("{KUBERNETES}{CRON_JOB_CONTROLLER}"),
            groups: GROUPS.map(str::to_owned).to_vec(),
            ..UserInfo::default()
        },
        object: None,
        old_object: None,
        ..request.clone()
    };
    job_of(maker, object, policy)
        .is_some_and(|job| required::is_excepted(&made_by_controller, &job, policy))
}

/// A Job of the CronJob `object`. Its name is that of the CronJob and a number.
fn job_of(maker: &Maker, object: &Value, policy: &Policy) -> Option<Value> {
    let template = maker.template_of(object, policy)?;
    let of_cron_job = |field: &str| object.pointer(&format!("/metadata/{field}"));
    let name = of_cron_job("name").and_then(Value::as_str);
    let name = name.unwrap_or_default();
    let text_map = |field: &str| {
        let map = template.pointer(&format!("/metadata/{field}"));
        map.cloned().unwrap_or_else(|| json!({}))
    };
    Some(json!({
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
    }))
}
