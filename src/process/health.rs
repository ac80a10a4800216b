//! Liveness, readiness and metrics, for kubelet and Prometheus: what is answered, and when a replica is ready. Must not know
//! how it is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use sluice_webhooks::CertificateSlot;

use crate::process::metrics::{Exposition, Metrics};
use crate::process::pulse::Pulse;
use crate::process::watch_freshness::Freshness;

/// Whether all is well with something.
pub type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// Whether the controller's loop goes on.
pub fn liveness(pulse: Arc<Pulse>) -> Check {
    Arc::new(move || pulse.is_beating())
}

/// Whether webhooks can be served, and what is known is not old.
pub fn readiness(
    slot: Arc<CertificateSlot>,
    knows_kinds: Arc<AtomicBool>,
    freshness: Arc<Freshness>,
) -> Check {
    Arc::new(move || slot.is_set() && knows_kinds.load(Ordering::Acquire) && freshness.is_fresh())
}

/// The paths /healthz, by whether the process goes on, and /readyz, by whether it can do its work.
pub fn health_router(alive: Check, ready: Check) -> Router {
    let answer = |check: Check, otherwise: &'static str| {
        get(move || {
            let is_well = check();
            async move {
                if is_well {
                    (StatusCode::OK, "ok\n")
                } else {
                    (StatusCode::SERVICE_UNAVAILABLE, otherwise)
                }
            }
        })
    };
    Router::new()
        .route("/healthz", answer(alive, "the controller hangs\n"))
        .route("/readyz", answer(ready, "not ready\n"))
}

/// The path /metrics, in the format that the scraper asks for.
pub fn metrics_router(metrics: Arc<Metrics>) -> Router {
    Router::new().route(
        "/metrics",
        get(move |headers: HeaderMap| {
            let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let exposition = Exposition::accepted(accept);
            let text = metrics.text(exposition);
            async move { ([(CONTENT_TYPE, exposition.content_type())], text) }
        }),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use tokio::time::advance;
    use tower::ServiceExt;

    use super::*;

    /// Kubelet asks every ten seconds, and restarts the container after three failures: the loop has then not turned
    /// for a minute.
    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_turn_is_not_alive() {
        let pulse = Arc::new(Pulse::default());
        let beating = pulse.clone();
        let router = health_router(liveness(beating), Arc::new(|| true));
        let healthz = async || {
            let request = Request::get("/healthz").body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request).await.unwrap();
            answer.status().as_u16()
        };
        advance(Duration::from_mins(5)).await;
        assert_eq!(healthz().await, 200, "no controller runs");
        pulse.beat();
        advance(Duration::from_secs(29)).await;
        assert_eq!(healthz().await, 200, "it may take its time");
        advance(Duration::from_secs(2)).await;
        assert_eq!(healthz().await, 503, "it hangs");
        pulse.beat();
        assert_eq!(healthz().await, 200, "it turns again");
    }
}
