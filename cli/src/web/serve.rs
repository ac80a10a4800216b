//! The listener on loopback: connections and their limits, and the end by a signal. What is answered is the router's
//! business.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Most connections at a time. A browser opens six.
const CONNECTIONS_MAX: usize = 64;
/// Longest time to send the head of a request, and longest time between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Largest head of a request.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest time that requests under way get at the end.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(2);
/// Pause after a failed accept: it fails for want of file descriptors, which come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Listens on loopback, and nowhere else.
///
/// # Errors
/// The port is in use, or not to be had.
pub async fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
}

/// Serves until the process is told to end.
pub async fn until_ended(listener: TcpListener, router: Router) {
    let mut end = std::pin::pin!(told_to_end());
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        connections.spawn(async move {
            connection(stream, router, stopped).await;
            drop(slot);
        });
    }
    drop(listener);
    let _ = stop.send(true);
    // Dropping what is left aborts it.
    let _ = timeout(CLOSING_TIME_MAX, connections.join_all()).await;
}

async fn connection(stream: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
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
