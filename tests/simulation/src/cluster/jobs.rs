//! The Job controller: makes the pods of Jobs that are not suspended, deletes those of Jobs that are, counts
//! them, and says how a Job ends (`pkg/controller/job` of Kubernetes 1.36).

use std::sync::Arc;

use serde_json::{Value, json};
use sluice::clock;

use super::{all, controller_of, has_ended, is_deleted, phase};
use crate::api::resource::Place;
use crate::api::store::in_seconds;
use crate::api::{Author, Part, Server};

pub(super) async fn sync(server: &Arc<Server>, author: &Author) {
    let pods = all(server, "Pod");
    for (place, job) in all(server, "Job") {
        if is_deleted(&job) {
            continue;
        }
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        let own: Vec<_> = pods
            .iter()
            .filter(|(_, pod)| controller_of(pod) == Some(uid))
            .collect();
        let own: Vec<(&Place, &Value)> = own.into_iter().map(|(p, o)| (p, &**o)).collect();
        sync_one(server, author, &place, &job, &own).await;
    }
}

async fn sync_one(
    server: &Arc<Server>,
    author: &Author,
    place: &Place,
    job: &Value,
    pods: &[(&Place, &Value)],
) {
    if has_condition(job, "Complete") || has_condition(job, "Failed") {
        return;
    }
    let is_suspended = job["spec"]["suspend"] == true;
    let count = |is: &dyn Fn(&Value) -> bool| pods.iter().filter(|(_, pod)| is(pod)).count();
    let succeeded = count(&|pod| phase(pod) == "Succeeded");
    let failed = count(&|pod| phase(pod) == "Failed");
    let terminating = count(&|pod| is_deleted(pod) && !has_ended(pod));
    let active: Vec<_> = pods
        .iter()
        .filter(|(_, pod)| !is_deleted(pod) && !has_ended(pod))
        .collect();
    let ready = active
        .iter()
        .filter(|(_, pod)| phase(pod) == "Running")
        .count();
    let spec = &job["spec"];
    let completions = spec["completions"].as_u64().unwrap_or(1);
    let parallelism = spec["parallelism"].as_u64().unwrap_or(1);
    // Pods that are gone were counted before: their finalizer is taken off only then.
    let known = |field: &str| job["status"][field].as_u64().unwrap_or(0);
    let succeeded = (succeeded as u64).max(known("succeeded"));
    let failed = (failed as u64).max(known("failed"));
    let is_done = completions <= succeeded;
    let mut status = job["status"].clone();
    status["active"] = json!(active.len());
    status["ready"] = json!(ready);
    status["terminating"] = json!(terminating);
    status["succeeded"] = json!(succeeded);
    status["failed"] = json!(failed);
    if !is_suspended && status["startTime"].is_null() {
        status["startTime"] = json!(in_seconds(clock::wall()));
    }
    if is_done {
        set_condition(&mut status, "SuccessCriteriaMet", true);
        // An API server refuses the end of a Job that has no startTime (1.36.3).
        let may_end = active.is_empty() && terminating == 0 && !status["startTime"].is_null();
        if may_end {
            set_condition(&mut status, "Complete", true);
            status["completionTime"] = json!(in_seconds(clock::wall()));
        }
    }
    if is_suspended {
        for (place, _) in &active {
            drop(server.delete(author, place, &Value::Null));
        }
        if active.is_empty() && !is_done {
            set_condition(&mut status, "Suspended", true);
            status["startTime"] = Value::Null;
        }
    } else if !is_done {
        if has_condition(job, "Suspended") {
            set_condition(&mut status, "Suspended", false);
        }
        let wanted = parallelism.min(completions.saturating_sub(succeeded));
        let there = active.len() as u64 + terminating as u64 * u64::from(replaces_late(spec));
        for _ in there..wanted {
            make_pod(server, author, place, job).await;
        }
        let surplus = (active.len() as u64).saturating_sub(wanted);
        for (place, _) in active.iter().take(usize::try_from(surplus).unwrap_or(0)) {
            drop(server.delete(author, place, &Value::Null));
        }
    }
    write_status(server, author, place, job, status).await;
}

/// Whether a pod is made in the place of another only when that has ended.
fn replaces_late(spec: &Value) -> bool {
    spec["podReplacementPolicy"] == "Failed"
}

async fn make_pod(server: &Arc<Server>, author: &Author, job_place: &Place, job: &Value) {
    let metadata = &job["metadata"];
    let template = &job["spec"]["template"];
    let mut pod = json!({"metadata": template["metadata"], "spec": template["spec"]});
    let name = metadata["name"].as_str().unwrap_or_default();
    pod["metadata"]["generateName"] = json!(format!("{name}-"));
    pod["metadata"]["finalizers"] = Value::Null;
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": metadata["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let place = Place::of("Pod", &job_place.namespace, "");
    // Refused or not answered: it is tried again after the next change, or by the next look.
    drop(server.create(author, place, pod).await);
}

async fn write_status(
    server: &Arc<Server>,
    author: &Author,
    place: &Place,
    seen: &Value,
    status: Value,
) {
    if seen["status"] == status {
        return;
    }
    let uid = &seen["metadata"]["uid"];
    let revision = &seen["metadata"]["resourceVersion"];
    let change = |old: &Value| {
        let mut new = old.clone();
        new["metadata"]["uid"] = uid.clone();
        new["metadata"]["resourceVersion"] = revision.clone();
        new["status"] = status.clone();
        Ok(new)
    };
    drop(
        server
            .change(author, place, Part::Status, false, change)
            .await,
    );
}

fn has_condition(job: &Value, kind: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn set_condition(status: &mut Value, kind: &str, is_true: bool) {
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let word = if is_true { "True" } else { "False" };
    match list.iter_mut().find(|condition| condition["type"] == kind) {
        Some(known) if known["status"] == word => return,
        Some(known) => {
            known["status"] = json!(word);
            known["lastTransitionTime"] = json!(in_seconds(clock::wall()));
        }
        None => list.push(json!({
            "type": kind, "status": word, "reason": kind, "message": "",
            "lastTransitionTime": in_seconds(clock::wall()),
        })),
    }
    status["conditions"] = json!(list);
}
