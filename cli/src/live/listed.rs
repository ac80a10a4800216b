//! What is listed of a cluster, as types. An object that does not fit its type is left out, and told. And what
//! visibility.sluice.dev says, or why not.

use std::fmt::Debug;

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::outcome::LiveError;
use crate::cluster::{ClusterError, Tell, Told, answer, pages};

/// The API group of Sluice's answers.
const VISIBILITY: &str = "visibility.sluice.dev";

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
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut params = ListParams::default();
    if let Some(labels) = labels {
        params = params.labels(labels);
    }
    let mut all = Vec::new();
    for object in pages::list(&format!("list {}", resource.plural), &api, params).await? {
        let name = object.name_any();
        match object.try_parse::<K>() {
            Ok(object) => all.push(object),
            Err(error) => {
                let kind = &resource.kind;
                tell(Told::Note(format!("can't read the {kind} {name}: {error}")))?;
            }
        }
    }
    Ok(all)
}

/// Why visibility.sluice.dev does not say something.
#[derive(Debug, Error)]
pub enum Unseen {
    /// There is no such API, or it does not know what is asked about.
    #[error("{0}")]
    NotFound(String),
    /// The caller may not read that.
    #[error("{0}")]
    Forbidden(String),
    /// It does not answer.
    #[error("{0}")]
    NoAnswer(String),
}

impl Unseen {
    fn of(error: &ClusterError) -> Self {
        match error {
            ClusterError::Refused(status) if status.code == 404 => {
                let is_known = status.message.contains(VISIBILITY);
                Self::NotFound(if is_known {
                    status.message.clone()
                } else {
                    format!("{VISIBILITY} is not installed")
                })
            }
            ClusterError::Refused(status) if status.code == 403 => {
                Self::Forbidden(status.message.clone())
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
    let uri = format!("/apis/{VISIBILITY}/v1alpha1/{path}");
    let request = http::Request::get(uri).body(Vec::new());
    let request = request.map_err(|error| Unseen::NoAnswer(error.to_string()))?;
    let answer = answer(format!("ask {VISIBILITY}"), client.request(request)).await;
    answer.map_err(|error| Unseen::of(&error))
}
