//! Lists, asked for in pages: a cluster may have more objects of a kind than an answer should have, and whoever creates
//! objects may make them large. A page has so many bytes at most, and its objects are read one at a time.

use std::ops::ControlFlow;

use axum::body::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::client::Body;
use kube::core::{ObjectList, PartialObjectMeta, Request, Status};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sluice_kinds::stored::Stored;

use super::connection::{ClusterError, answer};
use super::resource::Resource;

/// Objects that are asked for at a time.
const PAGE: u32 = 500;
/// Objects of the first page, of which it is not known how large they are.
const PAGE_FIRST: u32 = 64;
/// Bytes of a page. One with a single object may have more.
const PAGE_BYTES_MAX: usize = 2 << 20;

/// An object of a list, as the API server has written it.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a>(&'a RawValue);

/// A page, whose objects nobody has read yet.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

impl Written<'_> {
    /// The object.
    ///
    /// # Errors
    /// It is no such object.
    pub fn read<K: DeserializeOwned>(self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.0.get()).map(|Stored(object)| object)
    }
}

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
    each(what, api, params, |written| {
        all.push(written.read().map_err(|error| unreadable(what, &error))?);
        Ok::<_, ClusterError>(ControlFlow::Continue(()))
    })
    .await?;
    Ok(all)
}

/// Hands on the objects of a list one by one, until `take` breaks off. No more than a page is in memory.
///
/// # Errors
/// The API server refuses or does not answer, or `take` fails.
pub async fn each<K: Clone + kube::Resource, E: From<ClusterError>>(
    what: &str,
    api: &Api<K>,
    params: ListParams,
    mut take: impl FnMut(Written<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let client = api.clone().into_client();
    let (mut limit, mut token) = (PAGE_FIRST, None::<String>);
    loop {
        let mut params = params.clone().limit(limit);
        params.continue_token.clone_from(&token);
        let bytes_max = if limit == 1 {
            usize::MAX
        } else {
            PAGE_BYTES_MAX
        };
        let page = async {
            let request = Request::new(api.resource_url()).list(&params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            text(&client, request, bytes_max).await
        };
        let text = answer(what, page).await;
        let Some(text) = text.map_err(|error| unserved(what, error))? else {
            limit = (limit / 4).max(1);
            continue;
        };
        let page: Page<'_> =
            serde_json::from_slice(&text).map_err(|error| unreadable(what, &error))?;
        for object in page.items.into_iter().flatten() {
            if take(Written(object))?.is_break() {
                return Ok(());
            }
        }
        token = page.metadata.token.filter(|token| !token.is_empty());
        if token.is_none() {
            return Ok(());
        }
        limit = next_limit(limit, text.len());
    }
}

/// How many objects the page after one of `limit` objects with so many bytes is to have: as many as make half a page, and
/// twice as many as before at most.
fn next_limit(limit: u32, bytes: usize) -> u32 {
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let wanted = wanted.saturating_mul(PAGE_BYTES_MAX / 2) / bytes.max(1);
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    wanted.clamp(1, limit.saturating_mul(2).min(PAGE))
}

/// The text of an answer; none if it has more bytes than that.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn text(
    client: &Client,
    request: http::Request<Vec<u8>>,
    bytes_max: usize,
) -> kube::Result<Option<Bytes>> {
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    let text = match Limited::new(body, bytes_max).collect().await {
        Ok(text) => text.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => return Ok(None),
        Err(error) => return Err(kube::Error::Service(error)),
    };
    if head.status.is_success() {
        return Ok(Some(text));
    }
    // As kube reads a refusal.
    let status = serde_json::from_slice::<Status>(&text).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&text);
        let status = Status::failure(&text, "Failed to parse error data");
        status.with_code(head.status.as_u16())
    });
    Err(kube::Error::Api(status.boxed()))
}

fn unreadable(what: &str, error: &serde_json::Error) -> ClusterError {
    ClusterError::Unanswered {
        what: what.to_owned(),
        detail: error.to_string(),
    }
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
    let mut params = params.limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = answer(&what, api.list_metadata(&params)).await;
        let page: ObjectList<_> = page.map_err(|error| unserved(&what, error))?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::Response;
    use kube::core::ApiResource;
    use serde_json::json;
    use sluice_crds::Workload;

    use super::*;

    /// How many are read of Workloads with annotations of these sizes, and how many each request asked for.
    async fn read(sizes: Vec<usize>) -> (usize, Vec<u32>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |name: &str| {
                let value = query.split('&').find_map(|one| one.strip_prefix(name));
                value.and_then(|value| value.parse::<usize>().ok())
            };
            let limit = number("limit=").unwrap();
            let from = number("continue=").unwrap_or_default();
            noted.lock().unwrap().push(u32::try_from(limit).unwrap());
            let items = sizes.iter().enumerate().skip(from).take(limit);
            let items: Vec<_> = items
                .map(|(number, size)| {
                    json!({"metadata": {"name": format!("w{number}"), "annotations": {"a": "x".repeat(*size)}}})
                })
                .collect();
            let rest = from + items.len();
            let token = (rest < sizes.len()).then(|| rest.to_string());
            let page = json!({"metadata": {"continue": token}, "items": items}).to_string();
            let answer = Response::new(Body::from(page.into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        });
        let resource = ApiResource::erase::<Workload>(&());
        let api = Api::all_with(Client::new(service, "default"), &resource);
        let found = list("list workloads", &api, ListParams::default()).await;
        let asked = asked.lock().unwrap().clone();
        (found.unwrap().len(), asked)
    }

    #[tokio::test]
    async fn pages_are_bounded_by_bytes() {
        // None of these is left out, be it alone larger than a page.
        let (found, asked) = read(vec![3 << 20; 3]).await;
        assert_eq!((found, asked), (3, vec![64, 16, 4, 1, 1, 1]));
        let mut sizes = vec![100; 700];
        sizes.extend(vec![256 << 10; 40]);
        let (found, asked) = read(sizes).await;
        assert_eq!(found, 740);
        assert_eq!(asked[..4], [64, 128, 256, 500]);
        assert!(asked.ends_with(&[3, 3]), "{asked:?}");
    }

    #[tokio::test]
    async fn what_is_broken_off_is_not_asked_for() {
        let service = tower::service_fn(async |_: http::Request<Body>| {
            let page =
                json!({"metadata": {"continue": "on"}, "items": [{"metadata": {"name": "a"}}]});
            Ok::<_, Infallible>(Response::new(Body::from(page.to_string().into_bytes())))
        });
        let resource = ApiResource::erase::<Workload>(&());
        let api = Api::<DynamicObject>::all_with(Client::new(service, "default"), &resource);
        let mut seen = 0;
        let read = each("list workloads", &api, ListParams::default(), |_| {
            seen += 1;
            Ok::<_, ClusterError>(if seen < 3 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        });
        read.await.unwrap();
        assert_eq!(seen, 3);
    }
}
