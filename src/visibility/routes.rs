//! The paths of the API: which queue is asked for, and the answer.

use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use sluice_engine::{LocalQueueKey, QueueName};
use tokio::sync::watch;

use super::discovery;
use super::page::Page;
use super::problem::Problem;
use super::question::Place;
use super::summary::PendingWorkloadsSummary;
use super::views::Desk;
use crate::process::lease::Leader;

#[derive(Clone)]
struct Reception {
    desk: Desk,
    leader: watch::Receiver<Leader>,
}

/// All paths. Where this replica does not lead, only those that say what there is are answered.
pub fn router(desk: Desk, leader: watch::Receiver<Leader>) -> Router {
    let root = discovery::root();
    let group = format!("/apis/{}", discovery::GROUP);
    let of_cluster_queue = format!("{root}/clusterqueues/{{name}}/pendingworkloads");
    let of_local_queue =
        format!("{root}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads");
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/apis", get(|| async { Json(discovery::groups()) }))
        .route(&group, get(|| async { Json(discovery::group()) }))
        .route(&root, get(|| async { Json(discovery::resources()) }))
        .route(&of_cluster_queue, get(cluster_queue))
        .route(&of_local_queue, get(local_queue))
        .fallback(|| async { Problem::NoSuchPath })
        .method_not_allowed_fallback(|| async { Problem::Method })
        .with_state(Reception { desk, leader })
}

async fn cluster_queue(
    State(reception): State<Reception>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let place = Place::ClusterQueue(QueueName::from(name));
    reception.pending(place, query.as_deref()).await
}

async fn local_queue(
    State(reception): State<Reception>,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let place = Place::LocalQueue(LocalQueueKey::new(namespace, name));
    reception.pending(place, query.as_deref()).await
}

impl Reception {
    async fn pending(&self, place: Place, query: Option<&str>) -> Result<Response, Problem> {
        let page = Page::read(query)?;
        if *self.leader.borrow() != Leader::Here {
            return Err(Problem::NoLeader);
        }
        let view = self.desk.view(place.clone()).await?;
        let summary = PendingWorkloadsSummary::new(&view, &place, page)?;
        Ok(Json(summary).into_response())
    }
}

#[cfg(test)]
mod tests;
