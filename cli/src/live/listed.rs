//! What is listed of a cluster, as types. An object that does not fit its type is left out, and told. And what
//! visibility.sluice.dev says, or why not.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::time::Duration;

use axum::body::Bytes;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::outcome::LiveError;
use crate::cluster::{ClusterError, Tell, Told, answer_within, pages};

/// The API group of Sluice's answers.
const VISIBILITY: &str = "visibility.sluice.dev";
/// How long such an answer may take: the leader works it out in memory, and people wait for what comes without it. Where
/// Sluice is down the API server says 503 at once, and kube asks again until then.
const VISIBLE_DEADLINE: Duration = Duration::from_secs(3);
/// Bytes of such an answer: whoever creates jobs decides how long what is said of them is.
const VISIBLE_BYTES_MAX: usize = 2 << 20;
/// Bytes of an answer about queues, which administrators create.
const TREE_BYTES_MAX: usize = 32 << 20;

/// All objects of a kind in a namespace, or in all.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn list<K>(
    client: &Client,
    namespace: Option<&str>,
    labels: Option<&str>,
    tell: &mut Tell<'_>,
) -> Result<Vec<K>, LiveError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    each(client, namespace, labels, tell, |object| {
        all.push(object);
        ControlFlow::Continue(())
    })
    .await?;
    Ok(all)
}

/// Hands on the objects of a kind in a namespace, or in all, one by one, until `take` breaks off: so nothing is kept of them
/// but what it keeps.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn each<K>(
    client: &Client,
    namespace: Option<&str>,
    labels: Option<&str>,
    tell: &mut Tell<'_>,
    mut take: impl FnMut(K) -> ControlFlow<()>,
) -> Result<(), LiveError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Debug,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut params = ListParams::default();
    if let Some(labels) = labels {
        params = params.labels(labels);
    }
    let what = format!("list {}", resource.plural);
    pages::each(&what, &api, params, |written| match written.read::<K>() {
        Ok(mut object) => {
            // Nothing asks who wrote what, and it may be most of an object.
            object.meta_mut().managed_fields = None;
            Ok(take(object))
        }
        Err(error) => {
            let kind = &resource.kind;
            let named = written.read::<DynamicObject>();
            let name = named.map_or_else(|_| String::new(), |object| object.name_any());
            tell(Told::Note(format!("can't read the {kind} {name}: {error}")))?;
            Ok(ControlFlow::Continue(()))
        }
    })
    .await
}

/// What was listed; nothing, and a note that `what` is left out, if the caller may not list it.
///
/// # Errors
/// The API server does not answer.
pub fn unless_refused<T: Default>(
    what: &str,
    listed: Result<T, LiveError>,
    tell: &mut Tell<'_>,
) -> Result<T, LiveError> {
    match listed {
        Err(LiveError::Cluster(why)) if why.is_no() => {
            tell(Told::Note(format!("left out: {what}: {why}")))?;
            Ok(T::default())
        }
        listed => listed,
    }
}

/// Why visibility.sluice.dev does not say something.
#[derive(Debug, Error)]
pub enum Unseen {
    /// There is no such API, or it is older than this question.
    #[error("{VISIBILITY} is not installed")]
    NotInstalled,
    /// It does not know what is asked about.
    #[error("{0}")]
    NotFound(String),
    /// The caller may not read that.
    #[error("{0}")]
    Forbidden(String),
    /// It answers with more bytes than are read.
    #[error("{VISIBILITY} answers with more than {} MiB", .0 >> 20)]
    TooLong(usize),
    /// It does not answer.
    #[error("{0}")]
    NoAnswer(String),
}

impl Unseen {
    fn of(error: &ClusterError) -> Self {
        match error {
            ClusterError::Refused(status) if status.code == 404 => {
                if status.message.contains(VISIBILITY) {
                    Self::NotFound(status.message.clone())
                } else {
                    Self::NotInstalled
                }
            }
            ClusterError::Refused(status) if status.code == 403 => {
                Self::Forbidden(status.message.clone())
            }
            // It answers that it is too much to tell.
            ClusterError::Refused(status) if status.code == 413 => {
                Self::NoAnswer(status.message.clone())
            }
            other => Self::NoAnswer(format!("{VISIBILITY} does not answer: {other}")),
        }
    }
}

/// What visibility.sluice.dev says below the path of its version.
///
/// # Errors
/// Why it does not.
pub async fn visible<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Unseen> {
    visible_within(VISIBLE_DEADLINE, client, path).await
}

/// The same of a tree of queues.
///
/// # Errors
/// Why it does not say it.
pub async fn visible_tree<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, Unseen> {
    read_visible(&ask(VISIBLE_DEADLINE, TREE_BYTES_MAX, client, path).await?)
}

/// The same, for what may take so long to be worked out.
///
/// # Errors
/// Why it does not say it.
pub async fn visible_within<T: DeserializeOwned>(
    deadline: Duration,
    client: &Client,
    path: &str,
) -> Result<T, Unseen> {
    read_visible(&ask(deadline, VISIBLE_BYTES_MAX, client, path).await?)
}

/// The text of what it says.
///
/// # Errors
/// Why it does not say it.
pub async fn visible_text(client: &Client, path: &str) -> Result<Bytes, Unseen> {
    ask(VISIBLE_DEADLINE, VISIBLE_BYTES_MAX, client, path).await
}

/// What such a text says.
///
/// # Errors
/// It is nothing of the kind.
pub fn read_visible<T: DeserializeOwned>(text: &[u8]) -> Result<T, Unseen> {
    serde_json::from_slice(text).map_err(|error| {
        let text = format!("{VISIBILITY} does not answer: can't read its answer: {error}");
        Unseen::NoAnswer(text)
    })
}

async fn ask(
    deadline: Duration,
    bytes_max: usize,
    client: &Client,
    path: &str,
) -> Result<Bytes, Unseen> {
    let uri = format!("/apis/{VISIBILITY}/v1alpha1/{path}");
    let request = http::Request::get(uri).body(Vec::new());
    let request = request.map_err(|error| Unseen::NoAnswer(error.to_string()))?;
    let what = format!("ask {VISIBILITY}");
    let answer = answer_within(deadline, what, pages::text(client, request, bytes_max)).await;
    let text = answer.map_err(|error| Unseen::of(&error))?;
    text.ok_or(Unseen::TooLong(bytes_max))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Instant;

    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_cluster_without_sluice_is_told() {
        let bare = tower::service_fn(async |_: http::Request<Body>| {
            let answer = http::Response::builder().status(404);
            Ok::<_, Infallible>(
                answer
                    .body(Body::from(b"404 page not found\n".to_vec()))
                    .unwrap(),
            )
        });
        let client = Client::new(bare, "default");
        let found = list::<sluice_crds::Workload>(&client, None, None, &mut |_| Ok(())).await;
        assert_eq!(
            found.unwrap_err().to_string(),
            "can't list workloads: the cluster does not serve this kind; if it is one of Sluice's, kubectl sluice check \
             says what of Sluice is not installed"
        );
    }

    #[tokio::test]
    async fn a_queue_that_is_too_long_to_be_told_is_told() {
        let long = tower::service_fn(async |_: http::Request<Body>| {
            let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 413,
                "reason": "RequestEntityTooLarge", "message": "more than 300000 wait in this queue"});
            let answer = http::Response::builder().status(413);
            let body = Body::from(status.to_string().into_bytes());
            Ok::<_, Infallible>(answer.body(body).unwrap())
        });
        let client = Client::new(long, "default");
        let found = visible::<Value>(&client, "clusterqueues/a/pendingworkloads").await;
        assert_eq!(
            found.unwrap_err().to_string(),
            "more than 300000 wait in this queue"
        );
    }

    #[tokio::test]
    async fn no_more_is_read_of_an_answer_than_it_may_have() {
        let long = tower::service_fn(async |_: http::Request<Body>| {
            let text = serde_json::json!("x".repeat(VISIBLE_BYTES_MAX)).to_string();
            Ok::<_, Infallible>(http::Response::new(Body::from(text.into_bytes())))
        });
        let client = Client::new(long, "default");
        let found = visible::<Value>(&client, "namespaces/blue/workloads/a/explanation").await;
        assert_eq!(
            found.unwrap_err().to_string(),
            "visibility.sluice.dev answers with more than 2 MiB"
        );
        assert!(
            visible_tree::<Value>(&client, "cohorts/all/tree")
                .await
                .is_ok()
        );
    }

    /// Others wait for a minute for an answer.
    #[tokio::test]
    async fn nobody_waits_long_for_an_api_that_does_not_answer() {
        let silent = tower::service_fn(async |_: http::Request<Body>| {
            std::future::pending::<Result<http::Response<Body>, Infallible>>().await
        });
        let client = Client::new(silent, "default");
        let began = Instant::now();
        let found = visible::<Value>(&client, "cohorts/all/tree").await;
        assert!(began.elapsed() < VISIBLE_DEADLINE.saturating_mul(5));
        assert_eq!(
            found.unwrap_err().to_string(),
            "visibility.sluice.dev does not answer: can't ask visibility.sluice.dev: no answer within 3 s"
        );
    }
}
