//! What is seen to in a cluster that does not answer all that it is asked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use kube::client::Body;
use serde_json::json;

use super::*;
use crate::cluster::DryRun;
use crate::rules::shipped::SHIPPED;
use crate::uninstall::outcome::Line;

/// An API server that answers so, by method and path: code and body.
fn server(answer: impl Fn(&str, &str) -> (u16, Value) + Send + 'static) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (code, body) = answer(request.method().as_str(), request.uri().path());
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap()) }
    });
    Client::new(service, "default")
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    (code, status)
}

/// What an API server says that serves these kinds: group, version, kind and plural.
fn discovery(path: &str, kinds: &[(&str, &str, &str, &str)]) -> Option<(u16, Value)> {
    let is_core = match path {
        "/api" => true,
        "/apis" => false,
        _ => return None,
    };
    let kinds = kinds
        .iter()
        .filter(|(group, ..)| group.is_empty() == is_core);
    let groups = kinds.map(|(group, version, kind, plural)| {
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [
            {"resource": plural, "scope": "Namespaced", "responseKind": {"kind": kind}},
        ]}]})
    });
    Some((200, json!({"items": groups.collect::<Vec<_>>()})))
}

fn items(items: &[Value]) -> (u16, Value) {
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
    (200, list)
}

/// What is told when everything is to be started, and whether all of it worked.
async fn told_by(client: &Client) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    let mut tell = |line| {
        lines.push(match line {
            Line::Done(text) => format!("done: {text}"),
            Line::Left(text) => format!("left: {text}"),
            Line::Failed(text) => format!("error: {text}"),
        });
        Ok(())
    };
    let mut report = UninstallReport {
        tell: &mut tell,
        dry_run: DryRun::No,
        is_well: true,
    };
    let served = Served::ask(client).await.unwrap();
    let road = Road::Start {
        dry_run: DryRun::No,
    };
    all(client, &served, road, &mut report).await.unwrap();
    let is_well = report.is_well;
    (lines, is_well)
}

const JOB: (&str, &str, &str, &str) = ("batch", "v1", "Job", "jobs");
const JOB_SET: (&str, &str, &str, &str) = ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");
const POD: (&str, &str, &str, &str) = ("", "v1", "Pod", "pods");
const WORKLOAD: (&str, &str, &str, &str) = ("sluice.dev", "v1alpha1", "Workload", "workloads");
const SET: (&str, &str, &str, &str) = ("apps", "v1", "StatefulSet", "statefulsets");

fn pod(name: &str, metadata: &Value, gates: &[&str]) -> Value {
    let gates: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"schedulingGates": gates, "containers": []},
    });
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["namespace"] = json!("n");
    pod["metadata"]["uid"] = json!(format!("uid-{name}"));
    pod
}

fn owned(kind: &str, api_version: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// The API server lists it in its discovery, and answers a list of it as it answers any path that it does not serve.
#[tokio::test]
async fn a_kind_whose_crd_has_just_been_deleted_has_no_objects() {
    let gone = tower::service_fn(async |request: http::Request<Body>| {
        let answer = http::Response::builder();
        let body = match discovery(request.uri().path(), &[WORKLOAD]) {
            Some((_, served)) => {
                return Ok(answer
                    .body(Body::from(served.to_string().into_bytes()))
                    .unwrap());
            }
            None => Body::from(b"404 page not found\n".to_vec()),
        };
        Ok::<_, Infallible>(answer.status(404).body(body).unwrap())
    });
    let client = Client::new(gone, "default");
    let served = Served::ask(&client).await.unwrap();
    let resource = served.named("workload").unwrap();
    assert!(list(&client, &resource, None).await.unwrap().is_empty());
}

#[test]
fn all_shipped_kinds_are_known_without_a_cluster() {
    assert_eq!(shipped().len(), SHIPPED.len());
}

/// As where the operator is gone that converts them.
#[tokio::test]
async fn a_kind_that_can_not_be_listed_keeps_no_other_from_being_started() {
    let set = json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "n", "uid": "u1", "resourceVersion": "7",
            "labels": {"sluice.dev/queue-name": "q"}},
        "spec": {"suspend": true, "replicatedJobs": []},
    });
    let client = server(move |method, path| {
        if let Some(served) = discovery(path, &[JOB, JOB_SET, POD]) {
            return served;
        }
        match (method, path) {
            ("GET", "/apis/batch/v1/jobs") => status(500, "InternalError", "conversion failed"),
            ("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets") => items(std::slice::from_ref(&set)),
            ("PATCH", _) => (200, set.clone()),
            _ => items(&[]),
        }
    });
    let (told, is_well) = told_by(&client).await;
    let expected = [
        "error: can't list job.batch, so what waits of it stays: conversion failed",
        "done: jobset.jobset.x-k8s.io/set in n started",
    ];
    assert_eq!(told, expected);
    assert!(!is_well);
}

#[tokio::test]
async fn a_pod_whose_owner_can_not_be_read_keeps_no_other_behind_its_gate() {
    let job = owned("Job", "batch/v1", "broken", "u9");
    let annotations = json!({"sluice.dev/propagated-gates": "a.io/x"});
    let of_job = |name: &str| {
        let metadata = json!({"annotations": annotations, "ownerReferences": job});
        pod(
            name,
            &metadata,
            &["sluice.dev/queue-allocation-gate", "a.io/x"],
        )
    };
    let bare = pod("bare", &json!({}), &["sluice.dev/queue-allocation-gate"]);
    let pods = [of_job("first"), of_job("second"), bare];
    let client = server(move |method, path| {
        if let Some(served) = discovery(path, &[JOB, POD]) {
            return served;
        }
        match (method, path) {
            ("GET", "/apis/batch/v1/namespaces/n/jobs/broken") => {
                status(500, "InternalError", "conversion failed")
            }
            ("GET", "/api/v1/pods") => items(&pods),
            ("PATCH", "/api/v1/namespaces/n/pods/bare") => (200, pods[2].clone()),
            ("GET", _) => items(&[]),
            _ => status(400, "BadRequest", "nobody may write this"),
        }
    });
    let (told, is_well) = told_by(&client).await;
    let expected = [
        "error: pod/first in n stays behind its gates, as its owner can't be read: conversion failed",
        "error: pod/second in n stays behind its gates, as its owner can't be read: conversion failed",
        "done: pod/bare in n: gate taken off",
    ];
    assert_eq!(told, expected);
    assert!(!is_well);
}

/// The template of what makes them keeps its gate, too: it would make them anew without.
#[tokio::test]
async fn pods_whose_group_was_taken_out_of_its_queue_stay() {
    let gate = "sluice.dev/queue-allocation-gate";
    let workload = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {"name": "red-pod-group", "namespace": "n", "labels": {"sluice.dev/pod-group-name": "red"}},
        "spec": {"active": false},
    });
    let asks = json!({
        (gate): "true", "sluice.dev/pod-group-labels": "a.io/color",
        "sluice.dev/pod-group-total-from": "a.io/size", "a.io/size": "1",
    });
    let of_set = |name: &str, color: &str| {
        let owner = owned("StatefulSet", "apps/v1", "set", "u1");
        let labels = json!({"a.io/color": color});
        pod(
            name,
            &json!({"labels": labels, "annotations": asks, "ownerReferences": owner}),
            &[gate],
        )
    };
    let pods = [of_set("red", "red"), of_set("blue", "blue")];
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "set", "namespace": "n", "uid": "u1", "resourceVersion": "7"},
        "spec": {"replicas": 2, "template": {
            "metadata": {"annotations": asks},
            "spec": {"schedulingGates": [{"name": gate}], "containers": []},
        }},
    });
    let client = server(move |method, path| {
        if let Some(served) = discovery(path, &[SET, WORKLOAD, POD]) {
            return served;
        }
        match (method, path) {
            ("GET", "/apis/sluice.dev/v1alpha1/workloads") => {
                items(std::slice::from_ref(&workload))
            }
            ("GET", "/apis/apps/v1/statefulsets") => items(std::slice::from_ref(&set)),
            ("GET", "/apis/apps/v1/namespaces/n/statefulsets/set") => (200, set.clone()),
            ("GET", "/api/v1/pods") => items(&pods),
            ("PATCH", "/api/v1/namespaces/n/pods/blue") => (200, pods[1].clone()),
            _ => status(400, "BadRequest", "nobody may write this"),
        }
    });
    let (told, is_well) = told_by(&client).await;
    let expected = [
        "left: statefulset.apps/set in n: Sluice's gate is in its pod template, so pods that are still to come wait: \
         a group of its pods was taken out of its queue",
        "left: pod/red in n stays behind the gate sluice.dev/queue-allocation-gate: it was taken out of its queue",
        "done: pod/blue in n: gate taken off",
    ];
    assert_eq!(told, expected);
    assert!(is_well);
}

/// A Job whose pods wait behind gates of others is not suspended, and its pods are there.
#[tokio::test]
async fn pods_whose_owner_was_taken_out_of_its_queue_stay() {
    let gate = "sluice.dev/queue-allocation-gate";
    let workload = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {"name": "job-1", "namespace": "n", "ownerReferences": owned("Job", "batch/v1", "job", "u1")},
        "spec": {"active": false},
    });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "job", "namespace": "n", "uid": "u1", "resourceVersion": "7"},
        "spec": {"suspend": false, "template": {"spec": {"schedulingGates": [{"name": gate}], "containers": []}}},
    });
    let owner = owned("Job", "batch/v1", "job", "u1");
    let pods = [
        pod("of-job", &json!({"ownerReferences": owner}), &[gate]),
        pod("bare", &json!({}), &[gate]),
    ];
    let client = server(move |method, path| {
        if let Some(served) = discovery(path, &[JOB, WORKLOAD, POD]) {
            return served;
        }
        match (method, path) {
            ("GET", "/apis/sluice.dev/v1alpha1/workloads") => {
                items(std::slice::from_ref(&workload))
            }
            ("GET", "/apis/batch/v1/jobs") => items(std::slice::from_ref(&job)),
            ("GET", "/apis/batch/v1/namespaces/n/jobs/job") => (200, job.clone()),
            ("GET", "/api/v1/pods") => items(&pods),
            ("PATCH", "/api/v1/namespaces/n/pods/bare") => (200, pods[1].clone()),
            _ => status(400, "BadRequest", "nobody may write this"),
        }
    });
    let (told, is_well) = told_by(&client).await;
    let expected = [
        "left: job.batch/job in n: Sluice's gate is in its pod template, so pods that are still to come wait: it was \
         taken out of its queue",
        "left: pod/of-job in n stays behind the gate sluice.dev/queue-allocation-gate: it was taken out of its queue",
        "done: pod/bare in n: gate taken off",
    ];
    assert_eq!(told, expected);
    assert!(is_well);
}

/// The controller of a StatefulSet makes its pods again when the gate is out of the template; until it does so for the last,
/// a new one may have the gate, too.
#[tokio::test]
async fn a_pod_that_was_made_again_is_looked_at_again() {
    let gate = "sluice.dev/queue-allocation-gate";
    let gated = |name: &str| pod(name, &json!({}), &[gate]);
    let names = ["free", "gated", "gone", "unsettled"];
    let pods = names.map(gated);
    let made_again = move |name: &str, uid: &str, gates: &[&str]| {
        let mut pod = pod(name, &json!({}), gates);
        pod["metadata"]["uid"] = json!(uid);
        pod
    };
    let another = |name: &str| {
        let message = format!(
            "Pod \"{name}\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
        );
        let (code, mut status) = status(422, "Invalid", &message);
        status["details"] = json!({"name": name, "kind": "Pod", "causes": [
            {"reason": "FieldValueInvalid", "message": "field is immutable", "field": "metadata.uid"}]});
        (code, status)
    };
    let patched = AtomicUsize::new(0);
    let client = server(move |method, path| {
        if let Some(served) = discovery(path, &[POD]) {
            return served;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        match (method, name) {
            ("GET", "pods") => items(&pods),
            ("GET", "free") => (200, made_again("free", "u2", &[])),
            ("GET", "gated" | "unsettled") => (200, made_again(name, "u2", &[gate])),
            ("GET", "gone") => status(404, "NotFound", "pods \"gone\" not found"),
            // The second one that is sent names the pod that is there.
            ("PATCH", "gated") if patched.fetch_add(1, Ordering::Relaxed) == 1 => {
                (200, made_again("gated", "u2", &[]))
            }
            ("PATCH", _) => another(name),
            _ => status(400, "BadRequest", "nobody may ask this"),
        }
    });
    let (told, is_well) = told_by(&client).await;
    let expected = [
        "done: pod/gated in n: gate taken off",
        "error: pod/unsettled in n: Pod \"unsettled\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable",
    ];
    assert_eq!(told, expected);
    assert!(!is_well);
}
