//! What is patched to hold a job, and what only queues are for.

use std::convert::Infallible;

use clap::FromArgMatches as _;
use http::{Request, Response};
use kube::client::Body;

use super::*;

/// The patch with which somebody holds an object who gets this answer to the list of JobKinds.
async fn held(kind: &str, spec: Value, job_kinds: (u16, Value)) -> Result<Value, String> {
    let resource = |kind: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({"resource": plural, "singularResource": kind.to_lowercase(), "responseKind": {"kind": kind},
            "scope": "Namespaced", "verbs": ["get"]})
    };
    let group = |name: &str, kinds: &[&str]| {
        let resources: Vec<Value> = kinds.iter().map(|kind| resource(kind)).collect();
        json!({"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]})
    };
    let groups = json!([
        group("kubeflow.org", &["PyTorchJob"]),
        group("batch", &["Job"]),
        group("acme.io", &["Train"]),
    ]);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (code, body) = match request.uri().path() {
            "/api" => (200, json!({"items": []})),
            "/apis" => (200, json!({"items": groups.clone()})),
            "/apis/sluice.dev/v1alpha1/jobkinds" => job_kinds.clone(),
            _ => (
                200,
                json!({"metadata": {"name": "x"}, "spec": spec.clone()}),
            ),
        };
        let body = Body::from(body.to_string().into_bytes());
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    let client = Client::new(service, "default");
    let served = Served::ask(&client).await.unwrap();
    let resource = served.named(kind).unwrap();
    let objects = resource.objects(&client, Some("blue"));
    let patch = Stop::Hold.suspension(&client, &served, &resource, &objects, "x");
    match patch.await.map_err(|error| error.to_string())? {
        Suspension::Patch(patch) => Ok(patch),
        Suspension::Impossible(why) => Err(why),
    }
}

fn forbidden() -> (u16, Value) {
    let status = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "jobkinds.sluice.dev is forbidden"});
    (403, status)
}

#[tokio::test]
async fn who_may_not_list_job_kinds_suspends_by_those_that_are_shipped() {
    let mark = json!({"annotations": {"sluice.dev/held": "false"}});
    let held = async |kind: &str, spec: Value| held(kind, spec, forbidden()).await;
    assert_eq!(
        held("pytorchjob", json!({})).await,
        Ok(json!({"metadata": mark, "spec": {"runPolicy": {"suspend": true}}}))
    );
    assert_eq!(
        held("job", json!({})).await,
        Ok(json!({"metadata": mark, "spec": {"suspend": true}}))
    );
    assert_eq!(
        held("train", json!({"suspend": false})).await,
        Ok(json!({"metadata": mark, "spec": {"suspend": true}}))
    );
    let unknown = "which field suspends train.acme.io x is not known to you: jobkinds.sluice.dev is forbidden";
    assert_eq!(held("train", json!({})).await, Err(unknown.to_owned()));
}

/// The field may be another one.
#[tokio::test]
async fn nothing_is_suspended_by_guess_where_job_kinds_are_not_answered() {
    let away = json!({"kind": "Status", "status": "Failure", "reason": "InternalError", "code": 500,
        "message": "away"});
    let told = held("train", json!({"suspend": false}), (500, away)).await;
    assert_eq!(told, Err("away".to_owned()));
    let none = (200, json!({"metadata": {}, "items": []}));
    let told = held("train", json!({}), none).await;
    let expected = "train.acme.io x has no field that suspends it";
    assert_eq!(told, Err(expected.to_owned()));
}

#[test]
fn only_a_queue_is_drained() {
    let told = |stop: Stop, object: &str, is_queue| {
        let checked = stop.check_drain(object, is_queue);
        checked.err().map(|error| error.to_string())
    };
    let wrong = "--drain does not go with job/train: it is for clusterqueue/NAME and localqueue/NAME; hold job/train \
                 stops it if it runs";
    assert_eq!(
        told(Stop::Drain, "job/train", false).as_deref(),
        Some(wrong)
    );
    assert_eq!(told(Stop::Drain, "localqueue/main", true), None);
    assert_eq!(told(Stop::Hold, "job/train", false), None);
}

/// That a pod is a member of a group may be known only by an alias.
#[test]
fn what_a_pod_is_admitted_with_is_known_by_aliases() {
    let gate = "scheduling.volcano.sh/queue-allocation-gate";
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": "n",
            "labels": {"sluice.dev/queue-name": "q", "a.io/color": "crew"},
            "annotations": {(gate): "true", "sluice.dev/pod-group-labels": "a.io/color",
                "sluice.dev/pod-group-total-from": "a.io/size", "a.io/size": "2"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "u",
                "controller": true}],
        },
        "spec": {"containers": [], "schedulingGates": [{"name": gate}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let told = |words: &[&str]| {
        let command = QueueAliases::augment_args(clap::Command::new("evict"));
        let given = command.get_matches_from([&["evict"], words].concat());
        let aliases = QueueAliases::from_arg_matches(&given).unwrap();
        why_no_workload(&pod, &aliases.names())
    };
    let aliases = ["--alias-presets", "Kueue,Volcano"];
    assert_eq!(
        told(&aliases),
        "it is admitted with its pod group: say podgroup/crew"
    );
    assert_ne!(told(&[]), told(&aliases));
}
