//! Pages of lists, bounded by bytes: how many objects a page has follows from how large they are. Only
//! requests for lists are looked at; what is in a page is not.
//!
//! A page is read as a whole before its objects are parsed, and parsed it takes several times its text. A
//! limit on objects alone is none on memory: a tenant may store objects of a megabyte and a half each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use futures::future::BoxFuture;
use http::{Method, Request, Response, Uri, request};
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use kube::client::Body;
use tower::{BoxError, Layer, Service, ServiceExt};

/// Bytes of a page. Parsed, a list of empty texts takes eleven times its text, so a page takes 24 MiB at
/// most; that allows a list of each kind at a time below the limit of 1 GiB of the Deployment.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// Objects in the first page of a list.
const FIRST_LIMIT: u32 = 64;
/// Lists whose sizes are remembered: one for each watched kind.
const LISTS_MAX: usize = 128;

/// Makes a client ask for pages of no more than [`PAGE_BYTES_MAX`]; a page of one object may be larger.
#[derive(Clone, Default)]
pub struct BoundedPages {
    limits: Arc<Limits>,
}

/// A client's service with bounded pages.
#[derive(Clone)]
pub struct Pages<S> {
    inner: S,
    limits: Arc<Limits>,
}

/// How many objects the next page of each list is to have, by the path of the list.
#[derive(Default)]
struct Limits(Mutex<BTreeMap<String, u32>>);

/// The page as it was read; or the response as it came, if it is none.
type PageBody<B> = Either<Full<Bytes>, B>;

impl<S> Layer<S> for BoundedPages {
    type Service = Pages<S>;

    fn layer(&self, inner: S) -> Pages<S> {
        let limits = Arc::clone(&self.limits);
        Pages { inner, limits }
    }
}

impl<S, B> Service<Request<Body>> for Pages<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<PageBody<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(asked) = page_limit(&request) else {
            let answer = self.inner.call(request);
            return Box::pin(
                async move { Ok(answer.await.map_err(Into::into)?.map(Either::Right)) },
            );
        };
        let (head, _) = request.into_parts();
        // The clone would not be ready, and this one is.
        let fresh = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, fresh);
        Box::pin(page(service, head, asked, Arc::clone(&self.limits)))
    }
}

/// Asks for a page, and again for a smaller one as long as it is too large.
async fn page<S, B>(
    mut service: S,
    head: request::Parts,
    asked: u32,
    limits: Arc<Limits>,
) -> Result<Response<PageBody<B>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let path = head.uri.path().to_owned();
    let mut limit = limits.of(&path).min(asked);
    loop {
        let mut head = head.clone();
        head.uri = with_limit(&head.uri, limit)?;
        let request = Request::from_parts(head, Body::empty());
        let service = service.ready().await.map_err(Into::into)?;
        let (head, body) = (service.call(request).await.map_err(Into::into)?).into_parts();
        if !head.status.is_success() {
            return Ok(Response::from_parts(head, Either::Right(body)));
        }
        let bytes_max = if limit == 1 {
            usize::MAX
        } else {
            PAGE_BYTES_MAX
        };
        match Limited::new(body, bytes_max).collect().await {
            Ok(body) => {
                let bytes = body.to_bytes();
                limits.note(&path, next_limit(limit, bytes.len()));
                let body = Either::Left(Full::new(bytes));
                return Ok(Response::from_parts(head, body));
            }
            Err(error) if error.is::<LengthLimitError>() => {
                limit = (limit / 4).max(1);
                limits.note(&path, limit);
            }
            Err(error) => return Err(error),
        }
    }
}

/// How many objects a request asks for; none if it does not ask for a page of a list.
fn page_limit<T>(request: &Request<T>) -> Option<u32> {
    if request.method() != Method::GET {
        return None;
    }
    let parameters = || request.uri().query().unwrap_or_default().split('&');
    let is_watch = parameters().any(|parameter| parameter.starts_with("watch="));
    let limit = parameters().find_map(|parameter| parameter.strip_prefix("limit="));
    limit.filter(|_| !is_watch)?.parse().ok()
}

/// The same address with another limit.
fn with_limit(uri: &Uri, limit: u32) -> Result<Uri, BoxError> {
    let parameters = uri.query().unwrap_or_default().split('&');
    let parameters: Vec<String> = parameters
        .map(|parameter| match parameter.strip_prefix("limit=") {
            Some(_) => format!("limit={limit}"),
            None => parameter.to_owned(),
        })
        .collect();
    let mut parts = uri.clone().into_parts();
    let path_and_query = format!("{}?{}", uri.path(), parameters.join("&"));
    parts.path_and_query = Some(path_and_query.parse()?);
    Ok(Uri::from_parts(parts)?)
}

/// How many objects the page after one of `limit` objects with so many bytes is to have: as many as make
/// half a page, and twice as many as before at most.
fn next_limit(limit: u32, bytes: usize) -> u32 {
    let wanted = u64::try_from(PAGE_BYTES_MAX / 2).unwrap_or(u64::MAX);
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(1);
    let next = (u64::from(limit) * wanted / bytes).clamp(1, u64::from(limit) * 2);
    u32::try_from(next).unwrap_or(u32::MAX)
}

impl Limits {
    fn of(&self, path: &str) -> u32 {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).copied().unwrap_or(FIRST_LIMIT)
    }

    fn note(&self, path: &str, limit: u32) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < LISTS_MAX || known.contains_key(path) {
            known.insert(path.to_owned(), limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// A list of objects of these sizes, as an API server pages it: `continue` is the index to go on at.
    /// Notes the limit of each request.
    #[expect(clippy::type_complexity, reason = "a service has no shorter name")]
    fn server(
        sizes: Vec<usize>,
    ) -> (
        impl Service<Request<Body>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
        Arc<Mutex<Vec<u32>>>,
    ) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let limit = page_limit(&request).unwrap();
            noted.lock().unwrap().push(limit);
            let query = request.uri().query().unwrap().to_owned();
            let from = query.split('&').find_map(|p| p.strip_prefix("continue="));
            let from: usize = from.map_or(0, |text| text.parse().unwrap());
            let page = sizes.iter().skip(from).take(limit as usize).sum::<usize>();
            let body = Full::new(Bytes::from(vec![b'x'; page]));
            std::future::ready(Ok(Response::new(body)))
        });
        (service, asked)
    }

    async fn get(
        service: &mut (
                 impl Service<
            Request<Body>,
            Response = Response<PageBody<Full<Bytes>>>,
            Error = BoxError,
        > + Clone
             ),
        query: &str,
    ) -> usize {
        let request = Request::get(format!("https://host/apis/batch/v1/jobs?{query}"));
        let request = request.body(Body::empty()).unwrap();
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .len()
    }

    #[tokio::test]
    async fn pages_of_large_objects_have_few() {
        let mebibyte = 1 << 20;
        let (inner, asked) = server(vec![mebibyte; 40]);
        let mut pages = BoundedPages::default().layer(inner);
        assert_eq!(get(&mut pages, "limit=500").await, mebibyte);
        assert_eq!(*asked.lock().unwrap(), [64, 16, 4, 1]);
        assert_eq!(get(&mut pages, "limit=500&continue=1").await, mebibyte);
        assert_eq!(
            asked.lock().unwrap().last(),
            Some(&1),
            "what was found out is kept"
        );
    }

    #[tokio::test]
    async fn pages_of_small_objects_grow_to_what_was_asked_for() {
        let (inner, asked) = server(vec![1000; 5000]);
        let mut pages = BoundedPages::default().layer(inner);
        for _ in 0..6 {
            get(&mut pages, "limit=500&labelSelector=a%3Db").await;
        }
        assert_eq!(*asked.lock().unwrap(), [64, 128, 256, 500, 500, 500]);
    }

    #[tokio::test]
    async fn small_objects_before_large_ones_make_no_large_page() {
        let mut sizes = vec![1000; 1000];
        sizes.extend(vec![1 << 20; 1000]);
        let (inner, _) = server(sizes);
        let mut pages = BoundedPages::default().layer(inner);
        for from in [0, 64, 192, 448, 900, 948, 996] {
            let bytes = get(&mut pages, &format!("limit=500&continue={from}")).await;
            assert!(bytes <= PAGE_BYTES_MAX, "{bytes} from {from}");
        }
    }

    #[test]
    fn only_lists_are_paged() {
        let limit = |method: Method, query: &str| {
            let request = Request::builder()
                .method(method)
                .uri(format!("/api/v1/pods?{query}"));
            page_limit(&request.body(()).unwrap())
        };
        assert_eq!(limit(Method::GET, "limit=500&continue=x"), Some(500));
        assert_eq!(limit(Method::GET, "watch=true&limit=500"), None);
        assert_eq!(limit(Method::GET, ""), None);
        assert_eq!(limit(Method::DELETE, "limit=500"), None);
        let uri: Uri = "https://host/api/v1/pods?labelSelector=a%3Db&limit=500&continue=x"
            .parse()
            .unwrap();
        let smaller = with_limit(&uri, 7).unwrap();
        assert_eq!(
            smaller.to_string(),
            "https://host/api/v1/pods?labelSelector=a%3Db&limit=7&continue=x"
        );
    }
}
