//! Health and metrics over plain HTTP, for kubelet and Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use axum::Router;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::process::metrics::{Exposition, Metrics};

/// Whether all is well with something.
pub type Check = Arc<dyn Fn() -> bool + Send + Sync>;

/// Serves /healthz, by whether the process goes on, and /readyz, by whether it can do its work.
pub async fn serve_health(
    address: SocketAddr,
    alive: Check,
    ready: Check,
    stop: CancellationToken,
) -> Result<()> {
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
    let router = Router::new()
        .route("/healthz", answer(alive, "the controller hangs\n"))
        .route("/readyz", answer(ready, "not ready\n"));
    serve(address, router, stop).await.context("serve health")
}

/// Serves /metrics, in the format that the scraper asks for.
pub async fn serve_metrics(
    address: SocketAddr,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<()> {
    let router = Router::new().route(
        "/metrics",
        get(move |headers: HeaderMap| {
            let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
            let exposition = Exposition::accepted(accept);
            let text = metrics.text(exposition);
            async move { ([(CONTENT_TYPE, exposition.content_type())], text) }
        }),
    );
    serve(address, router, stop).await.context("serve metrics")
}

async fn serve(address: SocketAddr, router: Router, stop: CancellationToken) -> Result<()> {
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("listen on {address}"))?;
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await?;
    Ok(())
}
