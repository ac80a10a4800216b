use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_engine::Amount;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::visibility::question::{ASKED_MAX, Asked};
use crate::visibility::view::tests::{mk_taken, mk_waiting};
use crate::visibility::waiting::{Job, Why};

/// The paths before a controller with one queue.
fn mk_router(leader: Leader) -> Router {
    let (asks, mut questions) = mpsc::channel::<Asked>(ASKED_MAX);
    tokio::spawn(async move {
        while let Some(Asked { place, reply }) = questions.recv().await {
            let key = LocalQueueKey::new("team-a", "q");
            let is_known = place == Place::LocalQueue(key.clone())
                || place == Place::ClusterQueue("cq".into());
            let mut first = mk_waiting(&key, "train-0f8fad5bd9cb469f", 10, 1);
            let at = |second| Timestamp::from_second(second).ok();
            (first.made, first.since) = (at(1_760_000_000), at(1_760_000_060));
            first.job = Some(Job {
                group: "batch".into(),
                kind: "Job".into(),
                name: "train".into(),
            });
            first.requests = Arc::new([("cpu".into(), Amount::new(1_500_000_000))]);
            first.why = Some(Why {
                reason: "WaitingForQuota".into(),
                message: "cpu in flavor a: 1 more is needed".into(),
            });
            let second = mk_waiting(&key, "a-pod", 0, 2);
            let taken = mk_taken(vec![key], vec![second, first]);
            let _ = reply.send(is_known.then_some(taken));
        }
    });
    let (_, leader) = watch::channel(leader);
    router(Desk::open(asks, CancellationToken::new()), leader)
}

async fn answer(router: &Router, method: Method, path: &str) -> (u16, Option<String>, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let retry = answer.headers().get("retry-after").cloned();
    let retry = retry.map(|value| value.to_str().unwrap().to_owned());
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, retry, serde_json::from_slice(&body).unwrap_or_default())
}

const ROOT: &str = "/apis/visibility.sluice.dev/v1alpha1";

#[tokio::test]
async fn a_summary_has_the_fields_of_kueue_and_more() {
    let router = mk_router(Leader::Here);
    let path = format!("{ROOT}/namespaces/team-a/localqueues/q/pendingworkloads");
    let (status, _, mut summary) = answer(&router, Method::GET, &path).await;
    assert_eq!(status, 200);
    assert!(summary["taken"].take().is_string());
    let expected = json!({
        "kind": "PendingWorkloadsSummary",
        "apiVersion": "visibility.sluice.dev/v1alpha1",
        "metadata": {"namespace": "team-a", "name": "q"},
        "total": 2,
        "taken": null,
        "items": [
            {
                "metadata": {
                    "name": "train-0f8fad5bd9cb469f",
                    "namespace": "team-a",
                    "creationTimestamp": "2025-10-09T08:53:20Z",
                },
                "priority": 10,
                "localQueueName": "q",
                "positionInClusterQueue": 0,
                "positionInLocalQueue": 0,
                "job": {"apiGroup": "batch", "kind": "Job", "name": "train"},
                "waitingSince": "2025-10-09T08:54:20Z",
                "requests": {"cpu": "1500m"},
                "reason": "WaitingForQuota",
                "message": "cpu in flavor a: 1 more is needed",
            },
            {
                "metadata": {"name": "a-pod", "namespace": "team-a"},
                "priority": 0,
                "localQueueName": "q",
                "positionInClusterQueue": 1,
                "positionInLocalQueue": 1,
                "requests": {},
            },
        ],
    });
    assert_eq!(summary, expected);
}

#[tokio::test]
async fn what_is_not_answered_is_told_as_the_api_does() {
    let queue = format!("{ROOT}/clusterqueues/cq/pendingworkloads");
    let missing = format!("{ROOT}/namespaces/team-b/localqueues/q/pendingworkloads");
    let limited = format!("{queue}?limit=0");
    let other = format!("{ROOT}/workloads");
    for (case, leader, method, path, code, retry, reason, message) in [
        (
            "a queue that is not there",
            Leader::Here,
            Method::GET,
            &missing,
            404,
            None,
            "NotFound",
            "localqueues.visibility.sluice.dev \"q\" not found",
        ),
        (
            "no page",
            Leader::Here,
            Method::GET,
            &limited,
            400,
            None,
            "BadRequest",
            "limit: Invalid value: \"0\": must be an integer from 1 to 1000",
        ),
        (
            "a write",
            Leader::Here,
            Method::DELETE,
            &queue,
            405,
            None,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            "another resource",
            Leader::Here,
            Method::GET,
            &other,
            404,
            None,
            "NotFound",
            "the server could not find the requested resource",
        ),
        (
            "a replica that does not lead",
            Leader::Unknown,
            Method::GET,
            &queue,
            503,
            Some("1"),
            "ServiceUnavailable",
            "no replica of Sluice leads at the moment; try again in a second",
        ),
    ] {
        let (status, after, told) = answer(&mk_router(leader), method, path).await;
        assert_eq!((status, after.as_deref()), (code, retry), "{case}");
        assert_eq!(told["kind"], "Status", "{case}");
        assert_eq!(told["reason"], reason, "{case}");
        assert_eq!(told["message"], message, "{case}");
    }
}

#[tokio::test]
async fn it_is_found_whether_or_not_a_replica_leads() {
    let router = mk_router(Leader::Unknown);
    for (path, kind) in [
        ("/apis", "APIGroupList"),
        ("/apis/visibility.sluice.dev", "APIGroup"),
        (ROOT, "APIResourceList"),
    ] {
        let (status, _, found) = answer(&router, Method::GET, path).await;
        assert_eq!((status, &found["kind"]), (200, &kind.into()), "{path}");
    }
}
