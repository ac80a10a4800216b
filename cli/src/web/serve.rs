//! The listener: connections and their limits, TLS if there is a certificate, and the end by a signal. What is answered is the router's
//! business.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Longest time to send the head of a request, and longest time between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest TLS handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest time that requests under way get at the end.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(2);
/// Pause after a failed accept: it fails for want of file descriptors, which come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What is accepted.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most connections at a time.
    pub connections: usize,
    /// Largest head of a request.
    pub head_bytes: usize,
}

/// Listens at an address, and nowhere else.
///
/// # Errors
/// The port is in use, or not to be had.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves until the process is told to end.
pub async fn until_ended(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    router: Router,
) {
    let mut end = std::pin::pin!(told_to_end());
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (stop, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    loop {
        let next = async {
            // The semaphore is never closed.
            let slot = slots.clone().acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = end.as_mut() => break,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let (router, stopped) = (router.clone(), stopped.clone());
        let tls = tls.clone();
        connections.spawn(async move {
            connection(stream, tls, limits, router, stopped).await;
            drop(slot);
        });
    }
    drop(listener);
    let _ = stop.send(true);
    // Dropping what is left aborts it.
    let _ = timeout(CLOSING_TIME_MAX, connections.join_all()).await;
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    router: Router,
    stopped: watch::Receiver<bool>,
) {
    let Some(tls) = tls else {
        return requests(stream, limits, router, stopped).await;
    };
    if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        requests(stream, limits, router, stopped).await;
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    limits: Limits,
    router: Router,
    mut stopped: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(limits.head_bytes);
    let service = TowerToHyperService::new(router);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = served.as_mut() => return,
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

/// Ctrl-C, or the signal by which a service manager ends a process.
async fn told_to_end() {
    let interrupted = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let terminated = async {
            match signal(SignalKind::terminate()) {
                Ok(mut signal) => signal.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupted => {}
            _ = terminated => {}
        }
    }
    #[cfg(not(unix))]
    interrupted.await;
}
