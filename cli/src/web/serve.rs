//! The listener: connections and their limits, TLS if there is a certificate, and the end by a signal. What is answered is the router's
//! business.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// Longest time to send the head of a request, and longest time between two requests.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest time in which a reader takes what is written to him at once.
const WRITE_TIME_MAX: Duration = Duration::from_secs(30);
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
    let mut served =
        std::pin::pin!(builder.serve_connection(TokioIo::new(Impatient::new(stream)), service));
    tokio::select! {
        _ = served.as_mut() => return,
        _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
    }
    served.as_mut().graceful_shutdown();
    let _ = served.await;
}

/// A stream whose reader has to read. While he does not, nothing else ends the connection: no body is asked for its next part.
struct Impatient<S> {
    stream: S,
    /// When it is too late for what is not yet written.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Impatient<S> {
    fn new(stream: S) -> Self {
        Self { stream, late: None }
    }

    /// What came of writing, or an error if it is too late.
    fn in_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            return written;
        }
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(sleep(WRITE_TIME_MAX)));
        late.as_mut().poll(context).map(|()| {
            let text = "the reader takes the answer too slowly";
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Impatient<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Impatient<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write(context, bytes);
        own.in_time(context, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let own = self.get_mut();
        let written = Pin::new(&mut own.stream).poll_write_vectored(context, parts);
        own.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// It is asked for when all is written: a reader who takes a byte now and then gains no time.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let flushed = Pin::new(&mut own.stream).poll_flush(context);
        if flushed.is_ready() {
            own.late = None;
        }
        own.in_time(context, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        let closed = Pin::new(&mut own.stream).poll_shutdown(context);
        own.in_time(context, closed)
    }
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    /// Serves one who sends this many requests, and then does that. How long the connection lasts.
    async fn lasts<F: Future<Output = ()>>(
        requests_of: usize,
        then: impl FnOnce(DuplexStream) -> F,
    ) -> Duration {
        let (mut client, stream) = duplex(64 << 10);
        let router = Router::new().route("/", get(async || "x".repeat(64 << 10)));
        let limits = Limits {
            connections: 1,
            head_bytes: 16 << 10,
        };
        let (_stop, stopped) = watch::channel(false);
        let began = Instant::now();
        let asking = async {
            for _ in 0..requests_of {
                let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
                client.write_all(request).await.unwrap();
            }
            then(client).await;
        };
        tokio::select! {
            () = requests(stream, limits, router, stopped) => {}
            () = async { asking.await; pending::<()>().await; } => {}
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_loses_the_connection() {
        let silent = lasts(20, async |client| {
            let _client = client;
            pending::<()>().await;
        });
        assert_eq!(silent.await.as_secs(), WRITE_TIME_MAX.as_secs());
        // A few bytes now and then do not help.
        let slow = lasts(20, async |mut client| {
            while client.read_u8().await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(slow.await < WRITE_TIME_MAX * 2);
        // One who reads has it for as long as he asks.
        let reads = lasts(1, async |mut client| {
            let mut answer = vec![0; 64 << 10];
            for _ in 0..4 {
                sleep(HEAD_TIME_MAX / 2).await;
                client.read_exact(&mut answer).await.unwrap();
                let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
                client.write_all(request).await.unwrap();
            }
            while client.read(&mut answer).await.unwrap() > 0 {}
        });
        assert!(reads.await > HEAD_TIME_MAX * 2);
    }
}
