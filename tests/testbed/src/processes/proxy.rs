//! A TCP proxy in front of the API server that can hold back what one client sends, or what it is
//! answered, as a server does that hangs: the bytes lie in a socket and arrive later, also when their sender
//! is dead. It sees no requests, as these are encrypted.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the server's side stays open after its client has gone: a server stops working on a request
/// whose client is seen to be gone.
const LINGER: Duration = Duration::from_secs(5);
const CHUNK: usize = 16 * 1024;
/// Parts of one connection that are kept; what follows stays in the socket.
const KEPT_MAX: usize = 1024;
/// Longest pause between two parts that were kept.
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Held {
    requests: bool,
    answers: bool,
}

/// A proxy. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    held: watch::Sender<Held>,
}

impl Proxy {
    /// Listens on loopback, and passes everything on to the server at this URL.
    ///
    /// # Errors
    /// When the URL names no address, or no port can be had.
    pub async fn start(server: &str) -> Result<Self> {
        let address = server.trim_start_matches("https://").trim_end_matches('/');
        let to: SocketAddr = address.parse().context("the server's address")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (held, holds) = watch::channel(Held::default());
        tokio::spawn(async move {
            let mut ended = holds.clone();
            loop {
                let client = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = until_dropped(&mut ended) => return,
                };
                if let Ok((client, _)) = client {
                    tokio::spawn(pass_on(client, to, holds.clone()));
                }
            }
        });
        Ok(Self { port, held })
    }

    /// The URL that its clients take for the server's.
    pub fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Holds back all that is sent to the server from now on. What the server says is passed on.
    pub fn hold_requests(&self) {
        self.held.send_modify(|held| held.requests = true);
    }

    /// Holds back all that is said, either way.
    pub fn hold_all(&self) {
        self.held.send_replace(Held {
            requests: true,
            answers: true,
        });
    }

    /// Passes on what was held back, and all that follows.
    pub fn let_through(&self) {
        self.held.send_replace(Held::default());
    }
}

async fn until_dropped(holds: &mut watch::Receiver<Held>) {
    while holds.changed().await.is_ok() {}
}

async fn pass_on(client: TcpStream, to: SocketAddr, holds: watch::Receiver<Held>) {
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = copy(from_client, to_server, holds.clone(), |held| held.requests);
    let answers = copy(from_server, to_client, holds, |held| held.answers);
    tokio::join!(requests, answers);
}

/// Copies until there is no more to read. What can't be written is thrown away.
async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut holds: watch::Receiver<Held>,
    is_held: impl Fn(&Held) -> bool,
) {
    let mut kept = VecDeque::new();
    let mut at_end = false;
    while !at_end {
        // A dropped proxy holds nothing any more, and passes nothing on either.
        let is_full = KEPT_MAX <= kept.len();
        tokio::select! {
            part = read(&mut from), if !is_full => {
                at_end = part.is_none();
                kept.extend(part);
            }
            is_there = until(&mut holds, |held| !is_held(held)), if !kept.is_empty() => {
                if !is_there {
                    return;
                }
                pass(&mut kept, &mut to).await;
            }
        }
    }
    if until(&mut holds, |held| !is_held(held)).await {
        pass(&mut kept, &mut to).await;
        tokio::time::sleep(LINGER).await;
        let _ = to.shutdown().await;
    }
}

/// Waits until the proxy is in such a state. False if it was dropped.
async fn until(holds: &mut watch::Receiver<Held>, is: impl Fn(&Held) -> bool) -> bool {
    holds.wait_for(|held| is(held)).await.is_ok()
}

/// What was sent in one go, and when it came.
struct Part {
    at: Instant,
    bytes: Vec<u8>,
}

/// The next part. None at the end.
async fn read(from: &mut tokio::net::tcp::OwnedReadHalf) -> Option<Part> {
    let mut bytes = vec![0; CHUNK];
    let read = from.read(&mut bytes).await.unwrap_or(0);
    bytes.truncate(read);
    let part = Part {
        at: Instant::now(),
        bytes,
    };
    (read != 0).then_some(part)
}

/// Writes what was kept, with the pauses in which it came: a request and its cancellation, which follows when
/// its sender gives up, would else arrive as one.
async fn pass(kept: &mut VecDeque<Part>, to: &mut tokio::net::tcp::OwnedWriteHalf) {
    let mut before: Option<Instant> = None;
    while let Some(part) = kept.pop_front() {
        let pause = before.map(|before| part.at.saturating_duration_since(before));
        tokio::time::sleep(pause.unwrap_or_default().min(PAUSE_MAX)).await;
        before = Some(part.at);
        let _ = to.write_all(&part.bytes).await;
    }
}
