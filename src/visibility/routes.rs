//! The paths of the API: which queue or workload is asked for, and the answer.

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use sluice_engine::{ClusterQueueName, LocalQueueKey, NodeName};
use tokio::sync::watch;

use super::caller::{Caller, Callers};
use super::discovery;
use super::estimator::Estimator;
use super::explained::findings::WorkloadRef;
use super::explainer::Explainer;
use super::openapi::documents::{self, Document, OpenApiDocuments};
use super::pending::page::Page;
use super::pending::queue_ref::QueueRef;
use super::pending::summary::PendingWorkloadsSummary;
use super::problem::Problem;
use super::table::Form;
use super::views::ViewCache;
use crate::process::lease::Leader;

#[derive(Clone)]
struct Reception {
    view_cache: ViewCache,
    explainer: Explainer,
    estimator: Estimator,
    callers: Callers,
    leader: watch::Receiver<Leader>,
}

/// All paths. Where this replica does not lead, only those that say what there is are answered.
pub fn router(
    view_cache: ViewCache,
    explainer: Explainer,
    estimator: Estimator,
    leader: watch::Receiver<Leader>,
) -> Router {
    let root = discovery::root();
    let group = format!("/apis/{}", discovery::GROUP);
    let of_cluster_queue = format!("{root}/clusterqueues/{{name}}/pendingworkloads");
    let of_local_queue =
        format!("{root}/namespaces/{{namespace}}/localqueues/{{name}}/pendingworkloads");
    let workload_path = format!("{root}/namespaces/{{namespace}}/workloads/{{name}}");
    let pod_path = format!("{root}/namespaces/{{namespace}}/pods/{{name}}");
    let OpenApiDocuments { v2, index, v3 } = OpenApiDocuments::new();
    let router = Router::new()
        .route("/openapi/v2", document(v2))
        .route("/openapi/v3", document(index))
        .route(&documents::document(), document(v3));
    let resources = discovery::RESOURCES.iter();
    let router = resources.fold(router, |router, resource| {
        let problem = Problem::OnlySubresources(discovery::only_subresources(resource));
        router.route(&resource.path(), get(async || problem))
    });
    router
        .route("/healthz", get(|| async { "ok" }))
        .route("/apis", get(|| async { Json(discovery::groups()) }))
        .route(&group, get(|| async { Json(discovery::group()) }))
        .route(&root, get(|| async { Json(discovery::resources()) }))
        .route(&of_cluster_queue, get(cluster_queue))
        .route(&of_local_queue, get(local_queue))
        .route(&format!("{root}/cohorts/{{name}}/tree"), get(cohort_tree))
        .route(&format!("{root}/clusterqueues/{{name}}/tree"), get(tree))
        .route(&format!("{workload_path}/explanation"), get(explanation))
        .route(&format!("{pod_path}/explanation"), get(explanation))
        .route(&format!("{workload_path}/estimate"), get(estimate))
        .route(&format!("{pod_path}/estimate"), get(estimate))
        .fallback(|| async { Problem::NoSuchPath })
        .method_not_allowed_fallback(|| async { Problem::Method })
        .with_state(Reception {
            view_cache,
            explainer,
            estimator,
            callers: Callers::default(),
            leader,
        })
}

/// Answers with a document.
fn document<S: Clone + Send + Sync + 'static>(document: Document) -> MethodRouter<S> {
    get(
        async move |_: Form, headers: HeaderMap, RawQuery(query): RawQuery| {
            document.answer(&headers, query.as_deref())
        },
    )
}

async fn cluster_queue(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let place = QueueRef::ClusterQueue(ClusterQueueName::from(name));
    let query = query.as_deref();
    reception.pending(&caller, &form, place, query).await
}

async fn local_queue(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    Path((namespace, name)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let place = QueueRef::LocalQueue(LocalQueueKey::new(namespace, name));
    let query = query.as_deref();
    reception.pending(&caller, &form, place, query).await
}

/// Whom a path is about: `namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE`.
impl<S: Send + Sync> FromRequestParts<S> for WorkloadRef {
    type Rejection = PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, PathRejection> {
        let path = Path::<(String, String)>::from_request_parts(parts, state).await?;
        let Path((namespace, name)) = path;
        let (namespace, name) = (namespace.into(), name.into());
        Ok(match parts.uri.path().rsplit('/').nth(2) {
            Some("pods") => Self::Pod { namespace, name },
            _ => Self::Workload { namespace, name },
        })
    }
}

async fn explanation(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    named: WorkloadRef,
) -> Result<Response, Problem> {
    reception.explain(&caller, &form, named).await
}

async fn estimate(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    named: WorkloadRef,
) -> Result<Response, Problem> {
    reception.estimate(&caller, &form, named).await
}

async fn cohort_tree(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let of = NodeName::Cohort(name.into());
    reception.tree(&caller, &form, of).await
}

async fn tree(
    State(reception): State<Reception>,
    caller: Caller,
    form: Form,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let of = NodeName::ClusterQueue(name.into());
    reception.tree(&caller, &form, of).await
}

impl Reception {
    async fn tree(&self, caller: &Caller, form: &Form, of: NodeName) -> Result<Response, Problem> {
        self.leads()?;
        let _question = self.callers.ask(caller)?;
        let tree = self.explainer.tree(caller, of).await?;
        Ok(form.answer(&tree))
    }

    fn leads(&self) -> Result<(), Problem> {
        match *self.leader.borrow() {
            Leader::Here => Ok(()),
            Leader::At(_) | Leader::Unknown => Err(Problem::NoLeader),
        }
    }

    async fn explain(
        &self,
        caller: &Caller,
        form: &Form,
        named: WorkloadRef,
    ) -> Result<Response, Problem> {
        self.leads()?;
        let _question = self.callers.ask(caller)?;
        let explained = self.explainer.explain(caller, named).await?;
        Ok(form.answer(&explained))
    }

    async fn estimate(
        &self,
        caller: &Caller,
        form: &Form,
        named: WorkloadRef,
    ) -> Result<Response, Problem> {
        self.leads()?;
        let _question = self.callers.ask(caller)?;
        let estimate = self.estimator.estimate(caller, named).await?;
        Ok(form.answer(&estimate))
    }

    async fn pending(
        &self,
        caller: &Caller,
        form: &Form,
        place: QueueRef,
        query: Option<&str>,
    ) -> Result<Response, Problem> {
        let page = Page::read(query)?;
        self.leads()?;
        let _question = self.callers.ask(caller)?;
        let view = self.view_cache.view(place.clone()).await?;
        let summary = PendingWorkloadsSummary::new(&view, &place, page)?;
        Ok(form.answer(&summary))
    }
}

#[cfg(test)]
mod tests;
