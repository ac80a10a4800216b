//! Who waits, as the caller sees it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::simulate::Assumed;

/// What a tenant is answered: his two jobs, his LocalQueue and his pods, and nothing of ClusterQueues.
fn tenant(path: &str) -> (u16, Value) {
    let workload = |name: &str, priority: i32| {
        json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Workload", "metadata": {"name": name, "namespace": "blue"},
            "spec": {"queueName": "main", "priority": priority, "podSets": [], "active": true}})
    };
    let queue = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "LocalQueue",
        "metadata": {"name": "main", "namespace": "blue"}, "spec": {"clusterQueue": "team-a"}});
    let list = |items: Value| (200, json!({"metadata": {}, "items": items}));
    match path {
        "/apis/sluice.dev/v1alpha1/namespaces/blue/workloads" => {
            list(json!([workload("low", 0), workload("high", 5)]))
        }
        "/apis/sluice.dev/v1alpha1/namespaces/blue/localqueues" => list(json!([queue])),
        "/api/v1/namespaces/blue/pods" => list(json!([])),
        _ => (
            403,
            json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "not for you"}),
        ),
    }
}

/// Jobs of other tenants may be ahead of those that a tenant sees in a ClusterQueue. His LocalQueue is all his.
#[tokio::test]
async fn who_does_not_see_all_that_wait_is_told_no_places() {
    let answering = tower::service_fn(async |request: Request<Body>| {
        let (code, body) = tenant(request.uri().path());
        let body = Body::from(body.to_string().into_bytes());
        Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
    });
    let client = Client::new(answering, "default");
    let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
    let told = async |queue| {
        let answer = viewer.waiting(queue).await.unwrap();
        let answer = serde_json::to_value(&answer).unwrap();
        let pending = answer["pending"].as_array().unwrap().iter();
        let pending = pending.map(|one| (one["name"].clone(), one.get("place").cloned()));
        (answer.get("total").cloned(), pending.collect::<Vec<_>>())
    };
    let cluster = QueueName::Cluster("team-a".to_owned());
    let places = vec![(json!("high"), None), (json!("low"), None)];
    assert_eq!(told(cluster).await, (None, places));
    let local = QueueName::Local("blue".to_owned(), "main".to_owned());
    let places = vec![
        (json!("high"), Some(json!(1))),
        (json!("low"), Some(json!(2))),
    ];
    assert_eq!(told(local).await, (Some(json!(2)), places));
}

/// The page asks about it every few seconds, and the leader answers one such question at a time.
#[tokio::test]
async fn of_one_queue_no_other_is_asked_about() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let answering = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let queue = |name: &str, cohort: &str| {
            json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue",
                "metadata": {"name": name}, "spec": {"cohortName": cohort}})
        };
        let queues = ["a", "b", "c"].map(|name| queue(name, name));
        let (code, body) = match path.rsplit_once('/').unwrap() {
            (_, "clusterqueues") => (200, json!({"metadata": {}, "items": queues})),
            ("/apis/sluice.dev/v1alpha1/clusterqueues", name) => (200, queue(name, name)),
            (_, "tree") => {
                let node = json!({"kind": "ClusterQueue", "name": "a", "gatedWorkloads": 3, "pendingWorkloads": 4,
                    "flavors": []});
                (200, json!({"nodes": [node]}))
            }
            (_, "pendingworkloads") => (200, json!({"total": 0, "items": []})),
            _ => (200, json!({"metadata": {}, "items": []})),
        };
        seen.lock().unwrap().push(path);
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    let client = Client::new(answering, "default");
    let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
    let told = viewer.waiting(QueueName::Cluster("a".to_owned())).await;
    let told = serde_json::to_value(told.unwrap()).unwrap();
    assert_eq!(told["node"]["gated"], 3);
    let asked = asked.lock().unwrap();
    let trees: Vec<_> = asked
        .iter()
        .filter(|path| path.ends_with("/tree"))
        .collect();
    assert_eq!(
        trees,
        ["/apis/visibility.sluice.dev/v1alpha1/clusterqueues/a/tree"]
    );
}

/// As the page of a job shows it.
#[tokio::test]
async fn pods_are_a_request_where_there_is_quota_for_them() {
    let requests = async |usage: Value| {
        let answering = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let (code, body) = if path.ends_with("/localqueues/main/pendingworkloads") {
                let item = json!({"metadata": {"name": "a", "namespace": "blue"},
                    "requests": {"cpu": "2", "pods": "1"}});
                (200, json!({"total": 1, "items": [item]}))
            } else if path.ends_with("/localqueues") {
                let (code, mut list) = tenant(&path);
                list["items"][0]["status"] = json!({"flavorsUsage": usage.clone()});
                (code, list)
            } else {
                tenant(&path)
            };
            let body = Body::from(body.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let client = Client::new(answering, "default");
        let viewer = Viewer::new(client, String::new(), "blue".to_owned(), Assumed::default());
        let local = QueueName::Local("blue".to_owned(), "main".to_owned());
        let answer = serde_json::to_value(viewer.waiting(local).await.unwrap()).unwrap();
        answer["pending"][0]["requests"].clone()
    };
    let usage = |name: &str| json!([{"name": "f", "resources": [{"name": name, "total": "0"}]}]);
    assert_eq!(requests(usage("cpu")).await, json!({"cpu": "2"}));
    let both = json!({"cpu": "2", "pods": "1"});
    assert_eq!(requests(usage("pods")).await, both);
}

/// The example in the page for users, and a group of pods.
#[test]
fn who_waits_is_read_as_it_is_documented() {
    let page = include_str!("../../../../../docs/visibility.md");
    let (_, example) = page.split_once("```json\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    let mut pending: Vec<Pending> = serde_json::from_value(example["items"].clone()).unwrap();
    let group = json!({"metadata": {"name": "crew-pod-group", "namespace": "team-a"},
        "job": {"kind": "Pod", "name": "crew"}, "positionInClusterQueue": 9, "positionInLocalQueue": 2});
    pending.push(serde_json::from_value(group).unwrap());
    let waiters = |is_local| -> Vec<(Option<usize>, [String; 3])> {
        let waiters = pending.iter().cloned().map(|one| one.into_waiter(is_local));
        waiters
            .map(|one| (one.place, [one.group, one.kind, one.name]))
            .collect()
    };
    let of = |place, group: &str, kind: &str, name: &str| {
        (Some(place), [group, kind, name].map(str::to_owned))
    };
    assert_eq!(
        waiters(false),
        [
            of(5, "batch", "Job", "train"),
            of(8, "", "Pod", "notebook"),
            of(10, "", "PodGroup", "crew")
        ]
    );
    assert_eq!(
        waiters(true),
        [
            of(1, "batch", "Job", "train"),
            of(2, "", "Pod", "notebook"),
            of(3, "", "PodGroup", "crew")
        ]
    );
}
