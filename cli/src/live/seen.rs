//! What is listed of a cluster, as types. An object that does not fit its type is left out, and told.

use std::fmt::Debug;

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::outcome::LiveError;
use crate::cluster::{Tell, Told, answer};

/// Objects that are asked for at a time.
const PAGE: u32 = 500;

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
    let mut params = ListParams::default().limit(PAGE);
    if let Some(labels) = labels {
        params = params.labels(labels);
    }
    let mut all = Vec::new();
    loop {
        let what = format!("list {}", resource.plural);
        let page = answer(what, api.list(&params)).await?;
        for object in page.items {
            let name = object.name_any();
            match object.try_parse::<K>() {
                Ok(object) => all.push(object),
                Err(error) => {
                    let kind = &resource.kind;
                    tell(Told::Note(format!("can't read the {kind} {name}: {error}")))?;
                }
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}
