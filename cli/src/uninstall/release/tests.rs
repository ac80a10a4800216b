//! What is seen to in a cluster that does not answer all that it is asked.

use std::convert::Infallible;

use kube::client::Body;
use serde_json::json;

use super::*;
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
    let mut report = Report {
        tell: &mut tell,
        is_dry: false,
        is_well: true,
    };
    let served = Served::ask(client).await.unwrap();
    let road = Road::Start { is_dry: false };
    all(client, &served, road, &mut report).await.unwrap();
    let is_well = report.is_well;
    (lines, is_well)
}

const JOB: (&str, &str, &str, &str) = ("batch", "v1", "Job", "jobs");
const JOB_SET: (&str, &str, &str, &str) = ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");
const POD: (&str, &str, &str, &str) = ("", "v1", "Pod", "pods");

fn pod(name: &str, metadata: Value, gates: &[&str]) -> Value {
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
        let workloads = ("sluice.dev", "v1alpha1", "Workload", "workloads");
        let body = match discovery(request.uri().path(), &[workloads]) {
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
            metadata,
            &["sluice.dev/queue-allocation-gate", "a.io/x"],
        )
    };
    let bare = pod("bare", json!({}), &["sluice.dev/queue-allocation-gate"]);
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
