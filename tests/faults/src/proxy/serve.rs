//! Connections of the proxy: each request is passed on, or what goes wrong with it is done.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kube::client::Body;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::{Asked, Fault, Moment, Shared, lock};

/// A reply is on its way to somebody who is killed a moment later.
const A_MOMENT: Duration = Duration::from_millis(3);

type Reply = Response<UnsyncBoxBody<Bytes, Broken>>;

/// The connection ends here: with it the request, or the reply, is lost.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is cut on purpose, or the API server is away")
    }
}

impl std::error::Error for Broken {}

/// Takes connections for ever.
pub(super) async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        // An error is that of one connection, or of a moment without file handles.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(A_MOMENT).await;
            continue;
        };
        tokio::spawn(serve(stream, acceptor.clone(), shared.clone()));
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let service = service_fn(move |request| answer(request, shared.clone()));
    // It ends with an error where a fault cuts it.
    let _ = Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Reply, Broken> {
    let asked = Asked::new(request.method(), request.uri());
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let fault = shared.fault(&asked);
    let call = Call {
        shared,
        head,
        asked,
        body,
    };
    match fault {
        None => call.forward().await,
        // What is on its way arrives, whether or not anybody waits for the reply.
        Some(fault) => tokio::spawn(call.fail(fault)).await.map_err(|_| Broken)?,
    }
}

/// A request that has come.
struct Call {
    shared: Arc<Shared>,
    head: http::request::Parts,
    asked: Asked,
    body: Bytes,
}

impl Call {
    async fn fail(self, fault: Fault) -> Result<Reply, Broken> {
        match fault {
            Fault::Late(time) | Fault::Stranded(time) => {
                tokio::time::sleep(time).await;
                self.forward().await
            }
            Fault::Lost => Err(Broken),
            Fault::ReplyLost => {
                finished(self.forward().await?).await?;
                Err(Broken)
            }
            Fault::ReplyLate(time) => {
                let reply = self.forward().await?;
                tokio::time::sleep(time).await;
                Ok(reply)
            }
            Fault::Refused(code) => Ok(refusal(code)),
            Fault::FailedAfter(code) => {
                finished(self.forward().await?).await?;
                Ok(refusal(code))
            }
            Fault::Twice => {
                finished(self.forward().await?).await?;
                self.forward().await
            }
            Fault::Crash(moment) => self.crash(moment).await,
            Fault::WatchSilent(_) | Fault::WatchDead | Fault::WatchCut(_) | Fault::WatchGone => {
                let healed = self.shared.healed.subscribe();
                let reply = self.forward().await?;
                Ok(reply.map(|body| disturbed(body, fault, healed)))
            }
        }
    }

    /// Sends the request to the API server, with the credentials of the one who sent it.
    async fn forward(&self) -> Result<Reply, Broken> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.asked.target.parse::<Uri>().map_err(|_| Broken)?;
        *request.headers_mut() = self.head.headers.clone();
        request.headers_mut().remove(HOST);
        let reply = self
            .shared
            .upstream
            .send(request)
            .await
            .map_err(|_| Broken)?;
        let mut reply = reply.map(|body| body.map_err(|_| Broken).boxed_unsync());
        // Length and coding are those of one connection.
        for header in ["content-length", "transfer-encoding", "connection"] {
            reply.headers_mut().remove(header);
        }
        Ok(reply)
    }

    async fn crash(&self, moment: Moment) -> Result<Reply, Broken> {
        if moment == Moment::Before {
            (*lock(&self.shared.crash))();
            return Err(Broken);
        }
        let reply = self.forward().await?;
        if moment == Moment::Committed {
            finished(reply).await?;
            (*lock(&self.shared.crash))();
            return Err(Broken);
        }
        let shared = self.shared.clone();
        tokio::spawn(async move {
            tokio::time::sleep(A_MOMENT).await;
            (*lock(&shared.crash))();
        });
        Ok(reply)
    }
}

/// Waits until a reply has come whole: what was asked for has happened.
async fn finished(reply: Reply) -> Result<(), Broken> {
    reply.into_body().collect().await.map(drop)
}

/// A failure as the API server tells it.
fn refusal(code: u16) -> Reply {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "made up by the fault proxy", "reason": reason, "code": code,
    });
    let body = Full::from(status.to_string()).map_err(|never: Infallible| match never {});
    let mut reply = Response::new(body.boxed_unsync());
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = reply.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if code == 429 {
        headers.insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    reply
}

/// What a watch that is disturbed has passed on so far.
struct Disturbed {
    body: UnsyncBoxBody<Bytes, Broken>,
    fault: Fault,
    healed: watch::Receiver<u64>,
    chunks: u8,
}

/// A watch with a fault in it.
fn disturbed(
    body: UnsyncBoxBody<Bytes, Broken>,
    fault: Fault,
    healed: watch::Receiver<u64>,
) -> UnsyncBoxBody<Bytes, Broken> {
    let start = Disturbed {
        body,
        fault,
        healed,
        chunks: 0,
    };
    let frames = stream::unfold(Some(start), |state| async move {
        let mut watch: Disturbed = state?;
        match watch.next().await {
            Ok(chunk) => Some((Ok(Frame::data(chunk)), Some(watch))),
            Err(broken) => Some((Err(broken), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

impl Disturbed {
    async fn next(&mut self) -> Result<Bytes, Broken> {
        match self.fault {
            Fault::WatchGone => {
                self.fault = Fault::WatchCut(0);
                return Ok(gone());
            }
            Fault::WatchDead => {
                let _ = self.healed.changed().await;
                return Err(Broken);
            }
            Fault::WatchSilent(time) if self.chunks == 1 => tokio::time::sleep(time).await,
            _ => {}
        }
        let frame = self.body.frame().await.ok_or(Broken)??;
        let chunk = frame.into_data().map_err(|_| Broken)?;
        if let Fault::WatchCut(after) = self.fault
            && after <= self.chunks
        {
            if chunk.len() < 2 || after == 0 {
                return Err(Broken);
            }
            // Half a line, and at the next call the end.
            self.fault = Fault::WatchCut(0);
            return Ok(chunk.slice(..chunk.len() / 2));
        }
        self.chunks = self.chunks.saturating_add(1);
        Ok(chunk)
    }
}

/// What a watch is told that asked for what the API server has no history of.
fn gone() -> Bytes {
    let event = json!({"type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: made up by the fault proxy",
        "reason": "Expired", "code": 410,
    }});
    Bytes::from(format!("{event}\n"))
}
