use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use sluice_engine::Amount;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::visibility::pending::positions::tests::{mk_taken, mk_waiting};
use crate::visibility::pending::queue_ref::Taken;
use crate::visibility::pending::waiting::{JobRef, Waiting, Why};
use crate::visibility::question::{ASKED_MAX, Asked, Asker};

/// Those who wait in the example: others of the ClusterQueue before, between and after those of `main`.
fn mk_example() -> Taken {
    let [main, other] = [("team-a", "main"), ("team-b", "other")]
        .map(|(namespace, name)| LocalQueueKey::new(namespace, name));
    let job = |group: &str, kind: &str, name: &str| {
        Some(JobRef {
            group: group.into(),
            kind: kind.into(),
            name: name.into(),
        })
    };
    let requests = |cpu| {
        Arc::new([
            ("cpu".into(), Amount::new(cpu)),
            ("pods".into(), Amount::new(1_000_000_000)),
        ])
    };
    let at = |text: &str| text.parse::<Timestamp>().ok();
    let first = Waiting {
        made: at("2026-03-01T09:00:00Z"),
        since: at("2026-03-01T09:01:00Z"),
        job: job("batch", "Job", "train"),
        requests: requests(1_500_000_000),
        why: Some(Why {
            reason: "WaitingForQuota".into(),
            message: Some(
                "couldn't be admitted to ClusterQueue \"research\": insufficient unused quota for cpu in flavor \
                      \"spot\": requests 1500m (nominal quota 3)"
                    .into(),
            ),
        }),
        ..mk_waiting(&main, "train-0f8fad5bd9cb469f", 10, 1)
    };
    let second = Waiting {
        made: at("2026-03-01T09:10:00Z"),
        since: at("2026-03-01T09:10:00Z"),
        job: job("", "Pod", "notebook"),
        requests: requests(1_000_000_000),
        ..mk_waiting(&main, "notebook", 0, 5)
    };
    let mut waiting = vec![mk_waiting(&main, "third", -1, 1), second, first];
    for (n, priority) in [20, 20, 20, 20, 5, 5].into_iter().enumerate() {
        waiting.push(mk_waiting(&other, &format!("other-{n}"), priority, 0));
    }
    mk_taken(vec![main, other], waiting)
}

/// The paths before a controller that knows the queues of the example.
fn mk_router(leader: Leader) -> Router {
    let (asks, mut questions) = mpsc::channel::<Asked>(ASKED_MAX);
    tokio::spawn(async move {
        while let Some(asked) = questions.recv().await {
            let key = LocalQueueKey::new("team-a", "main");
            let known = [
                QueueRef::LocalQueue(key),
                QueueRef::ClusterQueue("cq".into()),
            ];
            match asked {
                Asked::Pending { place, reply } => {
                    drop(reply.send(known.contains(&place).then(mk_example)));
                }
                Asked::Workload { reply, .. } => drop(reply.send(None)),
                Asked::Standing { reply, .. } => drop(reply.send(None)),
                Asked::Tree { .. } | Asked::Jobs { .. } => {}
            }
        }
    });
    let (_, leader) = watch::channel(leader);
    mk_paths(asks, leader)
}

fn mk_paths(asks: mpsc::Sender<Asked>, leader: watch::Receiver<Leader>) -> Router {
    let asker = Asker::new(asks);
    let view_cache = ViewCache::open(asker.clone(), CancellationToken::new());
    router(
        view_cache.clone(),
        Explainer::new(asker.clone(), view_cache),
        Estimator::new(asker),
        leader,
    )
}

async fn answer(router: &Router, method: Method, path: &str) -> (u16, Option<String>, Value) {
    let request = Request::builder().method(method).uri(path);
    let request = request.body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let retry = answer.headers().get("retry-after").cloned();
    let retry = retry.map(|value| value.to_str().unwrap().to_owned());
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (
        status,
        retry,
        serde_json::from_slice(&body).unwrap_or_default(),
    )
}

const ROOT: &str = "/apis/visibility.sluice.dev/v1alpha1";

/// The example in the page for users.
fn documented() -> Value {
    let page = include_str!("../../../docs/visibility.md");
    let (_, example) = page.split_once("```json\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    serde_json::from_str(example).expect("JSON")
}

#[tokio::test]
async fn a_summary_is_as_it_is_documented() {
    let router = mk_router(Leader::Here);
    let path = format!("{ROOT}/namespaces/team-a/localqueues/main/pendingworkloads?limit=2");
    let (status, _, mut summary) = answer(&router, Method::GET, &path).await;
    assert_eq!(status, 200);
    assert!(summary["taken"].is_string());
    let documented = documented();
    summary["taken"] = documented["taken"].clone();
    assert_eq!(summary, documented);
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
async fn a_path_says_whether_it_is_about_a_workload_or_a_pod() {
    let router = mk_router(Leader::Here);
    for resource in ["workloads", "pods"] {
        for subresource in ["explanation", "estimate"] {
            let path = format!("{ROOT}/namespaces/pods/{resource}/workloads/{subresource}");
            let (status, _, told) = answer(&router, Method::GET, &path).await;
            let missing = format!("{resource}.visibility.sluice.dev \"workloads\" not found");
            assert_eq!((status, &told["message"]), (404, &missing.into()), "{path}");
        }
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

#[tokio::test]
async fn what_discovery_and_openapi_name_is_served() {
    let router = mk_router(Leader::Here);
    let path_of = |pattern: &str| {
        let path = pattern.replace("{namespace}", "team-a");
        path.replace("{name}", "nothing")
    };
    let (_, _, listed) = answer(&router, Method::GET, ROOT).await;
    let (_, _, v2) = answer(&router, Method::GET, "/openapi/v2").await;
    let (_, _, index) = answer(&router, Method::GET, "/openapi/v3").await;
    let url = &index["paths"]["apis/visibility.sluice.dev/v1alpha1"]["serverRelativeURL"];
    let (status, _, v3) = answer(&router, Method::GET, url.as_str().unwrap()).await;
    assert_eq!(status, 200, "{index}");
    let mut documented: Vec<&String> = v3["paths"].as_object().unwrap().keys().collect();
    documented.sort();
    let mut also: Vec<&String> = v2["paths"].as_object().unwrap().keys().collect();
    also.sort();
    assert_eq!(documented, also);
    assert_eq!(
        documented.len(),
        listed["resources"].as_array().unwrap().len()
    );
    for pattern in documented {
        let (status, _, told) = answer(&router, Method::GET, &path_of(pattern)).await;
        let none = "the server could not find the requested resource";
        assert_ne!(told["message"], none, "{pattern}");
        let responses = &v3["paths"][pattern]["get"]["responses"];
        let is_answered = responses["200"].is_object();
        assert_eq!(
            is_answered,
            told["message"] != responses["404"]["description"],
            "{status}: {told}"
        );
    }
}

/// Measures, and fails if readers would have to wait. `docs/benchmarks.md` has the command.
#[tokio::test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "a measurement prints its figures")]
async fn what_a_page_of_100_000_costs() {
    let key = LocalQueueKey::new("team-a", "main");
    let waiting = (0..100_000).map(|n| {
        let one = mk_example()
            .waiting
            .into_iter()
            .find(|one| one.why.is_some());
        let id = format!("job-{n:06}");
        Waiting {
            id: id.as_str().into(),
            name: id.into(),
            local_queue: key.clone(),
            ..one.unwrap()
        }
    });
    let taken = mk_taken(vec![key.clone()], waiting.collect());
    let (asks, mut questions) = mpsc::channel::<Asked>(ASKED_MAX);
    tokio::spawn(async move {
        while let Some(asked) = questions.recv().await {
            if let Asked::Pending { reply, .. } = asked {
                let _ = reply.send(Some(taken.clone()));
            }
        }
    });
    let (_, leader) = watch::channel(Leader::Here);
    let router = mk_paths(asks, leader);
    for limit in [50, 1000] {
        let mut took = Vec::new();
        for n in 0..2000 {
            let offset = (n * 997) % 100_000;
            let path = format!(
                "{ROOT}/namespaces/team-a/localqueues/main/pendingworkloads?limit={limit}&offset={offset}"
            );
            let begun = std::time::Instant::now();
            let request = Request::get(&path).body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status().as_u16(), 200);
            took.push(begun.elapsed());
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        took.sort_unstable();
        let (median, p99, longest) = (took[1000], took[1980], took[1999]);
        println!("pages of {limit}: median {median:?}, p99 {p99:?}, longest {longest:?}");
        assert!(p99 < std::time::Duration::from_millis(50), "{p99:?}");
    }
}
