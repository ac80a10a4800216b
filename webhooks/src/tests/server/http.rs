//! The router, in process.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request as HttpRequest, StatusCode};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::router;
use crate::tests::*;

fn mk_router() -> Router {
    router(
        &Arc::new(ArcSwap::from_pointee(mk_policy())),
        gates::lift::outside(),
    )
}

async fn post(path: &str, body: impl Into<Body>) -> (StatusCode, Vec<u8>) {
    let request = HttpRequest::post(path).body(body.into()).unwrap();
    let response = mk_router().oneshot(request).await.unwrap();
    let status = response.status();
    (
        status,
        to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap()
            .to_vec(),
    )
}

async fn ask(path: &str, review: &Value) -> Value {
    let (status, body) = post(path, review.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn answers_on_both_roads() {
    let gated = mk_job(&[], &[(GATED, "mygate")], false);
    let review = mk_review(USER, None, &gated);
    let validated = ask("/validate", &review).await;
    assert_eq!(validated["response"]["allowed"], false);
    assert_eq!(
        validated["response"]["status"]["message"],
        "metadata.annotations[kueue.x-k8s.io/scheduling-gated-by]: Invalid value: \"mygate\": must be \
         a domain-prefixed path (such as \"acme.io/foo\")"
    );
    let mutated = ask("/mutate", &review).await;
    assert_eq!(mutated["response"]["allowed"], true);
    assert_eq!(mutated["response"]["patchType"], "JSONPatch");
}

#[tokio::test]
async fn warnings_are_given_with_an_answer() {
    let kind = serde_json::to_value(mk_job_kind("acme.io", "Sparkle")).unwrap();
    let answer = ask("/validate", &mk_review(USER, None, &kind)).await;
    assert_eq!(answer["response"]["allowed"], true);
    let warning = answer["response"]["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("Sparkle of acme.io/v1 is not served yet"),
        "{warning}"
    );
}

#[tokio::test]
async fn the_same_question_gets_the_same_answer() {
    let review = mk_review(USER, None, &mk_job(&[(QUEUE, "a")], &[], false));
    let first = ask("/mutate", &review).await;
    for _ in 0..100 {
        assert_eq!(ask("/mutate", &review).await, first);
    }
}

#[tokio::test]
async fn a_new_policy_counts_from_the_next_request() {
    let policy = Arc::new(ArcSwap::from_pointee(Policy::default()));
    let router = router(&policy, gates::lift::outside());
    let allowed = async || {
        let body = mk_review(USER, None, &mk_job(&[(QUEUE, "a")], &[], true)).to_string();
        let request = HttpRequest::post("/validate")
            .body(Body::from(body))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["response"]["allowed"].clone()
    };
    assert_eq!(allowed().await, json!(false), "no JobKind yet");
    policy.store(Arc::new(mk_policy()));
    assert_eq!(allowed().await, json!(true));
}

#[tokio::test]
async fn malformed_bodies_get_400_and_a_reason() {
    let (status, body) = post("/validate", "{}").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(
        body,
        b"the body must be AdmissionReview of admission.k8s.io/v1"
    );
}

/// Whoever sends a small body that unpacks to a very large one gets nothing unpacked.
#[tokio::test]
async fn packed_bodies_are_not_unpacked() {
    let review = mk_review(USER, None, &mk_job(&[(QUEUE, "a")], &[], true)).to_string();
    let length = u16::try_from(review.len()).unwrap();
    // gzip with one block that is stored as it is.
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(review.as_bytes());
    let request = HttpRequest::post("/validate").header("content-encoding", "gzip");
    let request = request.body(Body::from(packed)).unwrap();
    let response = mk_router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let told = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert!(told.starts_with(b"the body is not an AdmissionReview: "));
}

#[tokio::test]
async fn large_objects_are_answered_and_larger_bodies_are_not() {
    // As large as the API server takes it, and edited.
    let mut job = mk_job(&[(QUEUE, "a")], &[], true);
    job["spec"]["filler"] = json!("x".repeat((3 << 20) - 1000));
    assert_eq!(
        ask("/validate", &mk_review(USER, Some(&job), &job)).await["response"]["allowed"],
        true
    );
    let (status, told) = post("/validate", vec![b' '; 7 << 20]).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(told, b"a review may have 6356992 bytes at most");
}

#[tokio::test(start_paused = true)]
async fn endless_bodies_end() {
    let chunk = || Ok::<_, std::io::Error>(vec![b' '; 64 << 10]);
    let flood = Body::from_stream(futures::stream::repeat_with(chunk));
    assert_eq!(
        post("/validate", flood).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    let drip = futures::stream::unfold((), async |()| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>(vec![b' ']), ()))
    });
    assert_eq!(
        post("/validate", Body::from_stream(drip)).await.0,
        StatusCode::REQUEST_TIMEOUT
    );
}

#[tokio::test]
async fn nothing_else_is_served() {
    let get = |path: &str| mk_router().oneshot(HttpRequest::get(path).body(Body::empty()).unwrap());
    assert_eq!(get("/healthz").await.unwrap().status(), StatusCode::OK);
    assert_eq!(
        get("/validate").await.unwrap().status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(
        get("/debug/pprof").await.unwrap().status(),
        StatusCode::NOT_FOUND
    );
}
