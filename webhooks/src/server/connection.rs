//! One connection: the handshake if there is one, the requests, and its end. Every wait has a limit.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::server::allowed_clients::AllowedClients;
use crate::server::idle::Guest;
use crate::server::tls::ALPN_HTTP2;
use crate::server::unserved::Unserved;

/// Longest TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(3);
/// Longest time from the handshake to the first answer: a body alone may take 2.5 s.
const FIRST_ANSWER_TIME_MAX: Duration = Duration::from_secs(6);
/// Longest time that a connection lies idle; a little more than the 90 s of Go's HTTP client, so that
/// it is the client who closes.
const IDLE_TIME_MAX: Duration = Duration::from_secs(95);
/// Longest time that requests under way get when a connection is closed.
pub(crate) const CLOSING_TIME_MAX: Duration = Duration::from_secs(3);
/// Most requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Most unread bytes of one HTTP/2 stream, and of one connection.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Largest head of a request.
const HEAD_BYTES_MAX: u32 = 16 << 10;
/// Read buffer of an HTTP/1.1 connection.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// What is going on on one connection.
pub(crate) struct Activity {
    /// Counts requests, and may be evicted while there are none.
    guest: Arc<Guest>,
    /// When the connection must be looked at again if nothing is under way.
    deadline: Mutex<Instant>,
}

impl Activity {
    fn new(guest: Arc<Guest>) -> Self {
        Self {
            guest,
            deadline: Mutex::new(Instant::now() + FIRST_ANSWER_TIME_MAX),
        }
    }

    fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, by: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + by;
    }
}

/// Counts one request for as long as it lives.
struct UnderWay(Arc<Activity>);

impl UnderWay {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.guest.begin();
        Self(activity.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.extend(IDLE_TIME_MAX);
        self.0.guest.end();
    }
}

/// What a connection speaks below HTTP.
#[derive(Clone)]
pub(crate) enum Transport {
    /// Nothing: anybody is answered, in HTTP/1.1.
    Plain,
    /// TLS, with these clients.
    Tls(TlsAcceptor, Arc<AllowedClients>),
}

impl Transport {
    pub(crate) fn tls(config: ServerConfig, clients: AllowedClients) -> Self {
        Self::Tls(TlsAcceptor::from(Arc::new(config)), Arc::new(clients))
    }
}

/// Serves one connection to its end, if its client is allowed.
pub(crate) async fn serve(
    stream: TcpStream,
    transport: Transport,
    router: Router,
    guest: Arc<Guest>,
    unserved: Arc<Unserved>,
    shutdown: watch::Receiver<bool>,
) {
    let (acceptor, clients) = match transport {
        Transport::Plain => return converse(stream, false, router, guest, shutdown).await,
        Transport::Tls(acceptor, clients) => (acceptor, clients),
    };
    let stream = match timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        // Who only looks whether the port is open, as load balancers do, says nothing.
        Ok(Err(error)) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => return,
        Ok(Err(error)) => return unserved.add(&format_args!("the TLS handshake failed: {error}")),
        Err(elapsed) => return unserved.add(&format_args!("the TLS handshake: {elapsed}")),
    };
    if let Err(stranger) = clients.check_name(stream.get_ref().1.peer_certificates()) {
        return unserved.add(&stranger);
    }
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP2);
    converse(stream, is_http2, router, guest, shutdown).await;
}

/// Answers the requests of one connection, to its end.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_http2: bool,
    router: Router,
    guest: Arc<Guest>,
    mut shutdown: watch::Receiver<bool>,
) {
    let activity = Arc::new(Activity::new(guest));
    let counted = activity.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let guard = UnderWay::begin(&counted);
        let answer = router.clone().call(request.map(Body::new));
        async move {
            let answer = answer.await;
            drop(guard);
            answer
        }
    });
    let builder = builder(is_http2);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            () = sleep_until(activity.deadline()) => {
                if activity.guest.under_way() == 0
                    && activity.deadline() <= Instant::now()
                {
                    break;
                }
                if activity.deadline() <= Instant::now() {
                    activity.extend(CLOSING_TIME_MAX);
                }
            }
            _ = shutdown.wait_for(|is_shutdown| *is_shutdown) => break,
        }
    }
    connection.as_mut().graceful_shutdown();
    // What is not finished by then is dropped: the caller does not read its answer.
    let _ = timeout(CLOSING_TIME_MAX, connection).await;
}

fn builder(is_http2: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // hyper counts the idle time before a head as time that the head takes. The first head is bounded by the
        // first answer (https://docs.rs/hyper/latest/hyper/server/conn/http1/struct.Builder.html).
        .header_read_timeout(IDLE_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(10));
    if is_http2 {
        builder.http2_only()
    } else {
        builder.http1_only()
    }
}
