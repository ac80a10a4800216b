//! Lists, asked for in pages: a cluster may have more objects of a kind than an answer should have.

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ObjectList, PartialObjectMeta, Request};
use sluice_kinds::stored::Stored;

use super::connection::{ClusterError, answer};
use super::resource::Resource;

/// Objects that are asked for at a time.
const PAGE: u32 = 500;

/// The objects of a list. `what` is said where it fails: `list jobs`.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn list(
    what: &str,
    api: &Api<DynamicObject>,
    params: ListParams,
) -> Result<Vec<DynamicObject>, ClusterError> {
    let mut all = Vec::new();
    each(what, api, params, |page| {
        all.extend(page);
        Ok::<_, ClusterError>(())
    })
    .await?;
    Ok(all)
}

/// Hands on the objects of a list, page by page.
///
/// # Errors
/// The API server refuses or does not answer, or `take` fails.
pub async fn each<E: From<ClusterError>>(
    what: &str,
    api: &Api<DynamicObject>,
    params: ListParams,
    mut take: impl FnMut(Vec<DynamicObject>) -> Result<(), E>,
) -> Result<(), E> {
    let page = |params: ListParams| async move {
        let request = Request::new(api.resource_url()).list(&params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        api.clone().into_client().request(request).await
    };
    pages(what, params, page, |page: Vec<Stored<DynamicObject>>| {
        take(page.into_iter().map(|Stored(object)| object).collect())
    })
    .await
}

/// The metadata of the objects of a resource that carry a label.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn list_metadata(
    resource: &Resource,
    api: &Api<DynamicObject>,
    label: &str,
) -> Result<Vec<PartialObjectMeta<DynamicObject>>, ClusterError> {
    let what = format!("list {}", resource.api.plural);
    let params = ListParams::default().labels(label);
    let mut all = Vec::new();
    let page = |params: ListParams| async move { api.list_metadata(&params).await };
    pages(&what, params, page, |page| {
        all.extend(page);
        Ok::<_, ClusterError>(())
    })
    .await?;
    Ok(all)
}

/// The API server says `404 page not found` of a kind that it does not serve.
fn unserved(what: &str, error: ClusterError) -> ClusterError {
    match error {
        ClusterError::Refused(status) if status.code == 404 && status.reason != "NotFound" => {
            ClusterError::Unserved {
                what: what.to_owned(),
            }
        }
        other => other,
    }
}

async fn pages<K, E, F>(
    what: &str,
    params: ListParams,
    page: impl Fn(ListParams) -> F,
    mut take: impl FnMut(Vec<K>) -> Result<(), E>,
) -> Result<(), E>
where
    K: Clone,
    E: From<ClusterError>,
    F: Future<Output = kube::Result<ObjectList<K>>>,
{
    let mut params = params.limit(PAGE);
    loop {
        let page = answer(what, page(params.clone())).await;
        let page = page.map_err(|error| unserved(what, error))?;
        take(page.items)?;
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
