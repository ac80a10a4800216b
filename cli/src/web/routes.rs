//! The fixed list of paths, and what each answer carries: headers that keep the browser from asking anybody else, and a
//! mark by which an unchanged answer is not sent again.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::answers::{Answer, QueueName, Session, Viewer};
use super::assets::{self, PAGE};
use super::guard::{Guard, Refusal, SESSION, Token};
use super::problem::{Problem, Reason};
use super::sent::sent;
use super::users::{Readers, Stranger};

/// Longest time that an answer takes.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest path. Names are at most 253 characters long.
const PATH_BYTES_MAX: usize = 1024;

/// Nothing but what this server serves itself, in files; and texts can't become elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/// On each answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=()",
    ),
];

/// A year: browsers then reach the page by TLS alone.
const TLS_ALONE: &str = "max-age=31536000";
/// Whether the server is alive. It needs no name of it, and no token.
const HEALTH: &str = "/healthz";

/// Where a reader looks who may not look into all namespaces.
const NAMESPACE: &str = "sluice-namespace";

/// What all requests share.
struct Desk {
    guard: Arc<Guard>,
    readers: Readers,
    /// What is answered at a time. Others wait.
    answers: Arc<Semaphore>,
}

/// On an answer: the API server has not accepted the token.
#[derive(Debug, Clone)]
struct Unaccepted;

/// What is served to those whom the guard lets pass, at most so many answers at a time.
pub fn router(guard: Arc<Guard>, readers: Readers, answers: usize) -> Router {
    let is_of_users = guard.is_of_users();
    let desk = Arc::new(Desk {
        guard,
        readers,
        answers: Arc::new(Semaphore::new(answers)),
    });
    let api = Router::new()
        .route(SESSION, get(session))
        .route("/api/queues", get(queues))
        .route("/api/clusterqueues/{name}", get(cluster_queue))
        .route(
            "/api/namespaces/{namespace}/localqueues/{name}",
            get(local_queue),
        )
        .route(
            "/api/clusterqueues/{name}/starts",
            get(cluster_queue_starts),
        )
        .route(
            "/api/namespaces/{namespace}/localqueues/{name}/starts",
            get(local_queue_starts),
        )
        .route("/api/jobs", get(all_jobs))
        .route("/api/namespaces/{namespace}/jobs", get(jobs))
        .route("/api/namespaces/{namespace}/jobs/{kind}/{name}", get(job))
        .route(
            "/api/namespaces/{namespace}/jobs/{kind}/{name}/start",
            get(job_start),
        )
        .route("/api/gates", get(gates))
        .route("/api/flavors", get(flavors));
    let mut router = api.route("/assets/{*name}", get(asset)).fallback(nothing);
    for view in [
        "/",
        "/queues",
        "/clusterqueues/{name}",
        "/localqueues/{namespace}/{name}",
        "/jobs",
        "/jobs/{namespace}/{kind}/{name}",
        "/gates",
        "/flavors",
    ] {
        router = router.route(view, get(move || async move { page(is_of_users) }));
    }
    let router = router.layer(middleware::from_fn_with_state(desk, guarded));
    if is_of_users {
        router.route(HEALTH, get(async || "ok"))
    } else {
        router
    }
}

/// Lets a request pass or not, and finishes the answer.
async fn guarded(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let known = parts.headers.get(IF_NONE_MATCH).cloned();
    let mut response = match desk.guard.check(&parts, Instant::now()) {
        Err(refusal) => refusal.into_response(),
        Ok(_) if PATH_BYTES_MAX < parts.uri.path().len() => {
            StatusCode::URI_TOO_LONG.into_response()
        }
        Ok(None) => next.run(Request::from_parts(parts, body)).await,
        Ok(Some(token)) => {
            let answered = desk.answered(token, parts, body, next);
            match timeout(ANSWER_TIME_MAX, answered).await {
                Ok(response) => response,
                Err(_) => late().into_response(),
            }
        }
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if desk.guard.is_https() {
        let alone = HeaderValue::from_static(TLS_ALONE);
        headers.insert(STRICT_TRANSPORT_SECURITY, alone);
    }
    if known.is_some() && headers.get(ETAG) == known.as_ref() {
        headers.remove(CONTENT_TYPE);
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
    }
    response
}

impl Desk {
    /// The answer about the cluster to whoever has this token. If there are several readers, one who asks much waits for
    /// himself before he waits for others.
    async fn answered(&self, token: Token, mut parts: Parts, body: Body, next: Next) -> Response {
        let reader = match self.readers.of(&token).await {
            Ok(reader) => reader,
            Err(Stranger::Unaccepted) => return Refusal::Unaccepted.into_response(),
            Err(Stranger::Unknown(problem)) => return problem.into_response(),
        };
        let turn = reader.turn().await;
        // The semaphore is never closed.
        let slot = self.answers.clone().acquire_owned().await.ok();
        let mut viewer = reader.viewer();
        if let Some(namespace) = parts.headers.get(NAMESPACE) {
            match named(String::from_utf8_lossy(namespace.as_bytes()).into_owned()) {
                Ok(namespace) => viewer = viewer.within(namespace),
                Err(problem) => return problem.into_response(),
            }
        }
        parts.extensions.insert(viewer);
        if !self.guard.is_of_users() {
            parts.extensions.insert(token.clone());
        }
        let response = next.run(Request::from_parts(parts, body)).await;
        // The token of the page itself is another one, where there is one.
        if self.guard.is_of_users() && response.extensions().get::<Unaccepted>().is_some() {
            self.readers.forget(&token);
            return Refusal::Unaccepted.into_response();
        }
        // It takes memory until it is sent.
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, sent(body, (turn, slot)).await)
    }
}

fn late() -> Problem {
    Problem {
        what: "the answer".to_owned(),
        reason: Reason::Unanswered,
        message: format!("no answer within {} s", ANSWER_TIME_MAX.as_secs()),
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.answer().into_response();
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            let allowed = HeaderValue::from_static("GET");
            response.headers_mut().insert(ALLOW, allowed);
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let is_unaccepted = self.reason == Reason::Unauthorized;
        let mut response = (self.status(), Json(json!({ "problem": self }))).into_response();
        if is_unaccepted {
            response.extensions_mut().insert(Unaccepted);
        }
        response
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let text = match serde_json::to_vec(&self) {
            Ok(text) => text,
            Err(error) => return unprintable(&error).into_response(),
        };
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let mut headers = HeaderMap::new();
        if let Ok(mark) = HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish())) {
            headers.insert(ETAG, mark);
        }
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        (headers, text).into_response()
    }
}

fn unprintable(error: &serde_json::Error) -> Problem {
    Problem {
        what: "the answer".to_owned(),
        reason: Reason::Unanswered,
        message: format!("it can't be written as JSON: {error}"),
    }
}

async fn nothing() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, "there is nothing at this address")
}

/// The page knows by a mark whether it has to ask for a token of the cluster.
fn page(is_of_users: bool) -> impl IntoResponse {
    let text = if is_of_users {
        Cow::Owned(PAGE.replacen("<html", "<html data-served=\"cluster\"", 1))
    } else {
        Cow::Borrowed(PAGE)
    };
    ([(CONTENT_TYPE, "text/html; charset=utf-8")], text)
}

async fn asset(Path(name): Path<String>) -> Response {
    match assets::named(&name) {
        Some(asset) => ([(CONTENT_TYPE, asset.media_type)], asset.text).into_response(),
        None => nothing().await.into_response(),
    }
}

async fn session(
    Extension(viewer): Extension<Viewer>,
    token: Option<Extension<Token>>,
) -> Json<Session> {
    Json(viewer.session(token.map(|Extension(Token(token))| token)))
}

async fn queues(Extension(viewer): Extension<Viewer>) -> impl IntoResponse {
    viewer.queues().await
}

async fn cluster_queue(
    Extension(viewer): Extension<Viewer>,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let queue = QueueName::Cluster(named(name)?);
    viewer.waiting(queue).await
}

async fn local_queue(
    Extension(viewer): Extension<Viewer>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let queue = QueueName::Local(named(namespace)?, named(name)?);
    viewer.waiting(queue).await
}

async fn cluster_queue_starts(
    Extension(viewer): Extension<Viewer>,
    Path(name): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    viewer.starts(QueueName::Cluster(named(name)?)).await
}

async fn local_queue_starts(
    Extension(viewer): Extension<Viewer>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let queue = QueueName::Local(named(namespace)?, named(name)?);
    viewer.starts(queue).await
}

async fn all_jobs(Extension(viewer): Extension<Viewer>) -> impl IntoResponse {
    viewer.jobs(None).await
}

async fn jobs(
    Extension(viewer): Extension<Viewer>,
    Path(namespace): Path<String>,
) -> Result<impl IntoResponse, Problem> {
    let namespace = named(namespace)?;
    viewer.jobs(Some(&namespace)).await
}

async fn job(
    Extension(viewer): Extension<Viewer>,
    Path(job): Path<(String, String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let (namespace, kind, name) = named_job(job)?;
    viewer.job(&namespace, &kind, &name).await
}

async fn job_start(
    Extension(viewer): Extension<Viewer>,
    Path(job): Path<(String, String, String)>,
) -> Result<impl IntoResponse, Problem> {
    let (namespace, kind, name) = named_job(job)?;
    viewer.start(&namespace, &kind, &name).await
}

async fn gates(Extension(viewer): Extension<Viewer>) -> impl IntoResponse {
    viewer.gates().await
}

async fn flavors(Extension(viewer): Extension<Viewer>) -> impl IntoResponse {
    viewer.flavors().await
}

/// A name that an object may have. It becomes part of a URL of the API server.
fn named(name: String) -> Result<String, Problem> {
    if sluice_kinds::names::subdomain(&name, "").is_empty() {
        Ok(name)
    } else {
        Err(unnamed(&name))
    }
}

/// The namespace, kind and name that a job may have. The kind may have its API group behind it.
fn named_job(
    (namespace, kind, name): (String, String, String),
) -> Result<(String, String, String), Problem> {
    let (namespace, name) = (named(namespace)?, named(name)?);
    let (plain, group) = match kind.split_once('.') {
        Some((plain, group)) => (plain, Some(group)),
        None => (kind.as_str(), None),
    };
    let is_group = |group| sluice_kinds::names::subdomain(group, "").is_empty();
    if plain.chars().all(|letter| letter.is_ascii_alphanumeric()) && group.is_none_or(is_group) {
        Ok((namespace, kind, name))
    } else {
        Err(unnamed(&kind))
    }
}

fn unnamed(name: &str) -> Problem {
    let message = format!("{name:?} is no name of an object or kind");
    Problem::not_found("the object", message)
}
