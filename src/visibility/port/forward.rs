//! Passes connections on to the leader, as they are: all replicas have one certificate, and the leader itself sees who
//! asks. So this replica needs no right on it, and reads nothing.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Most connections at a time: API servers need one or two each.
const CONNECTIONS_MAX: usize = 64;
/// Longest time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long nothing may come from the leader. It closes connections that lie idle; this is for one that no leader ends.
/// There is no limit to the life of a connection, as an API server has the requests of all readers on one.
const SILENCE_MAX: Duration = Duration::from_mins(30);
/// Pause after a failed accept: it fails for want of file descriptors, which come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Passes what comes in on to `leader` until `until`. Then what was passed on ends too.
pub async fn forward(listener: &TcpListener, leader: SocketAddr, until: impl Future<Output = ()>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropping it ends them.
    let mut connections = JoinSet::new();
    let mut until = std::pin::pin!(until);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = until.as_mut() => return,
        };
        while connections.try_join_next().is_some() {}
        let Ok((mut stream, _)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            continue;
        };
        connections.spawn(async move {
            let Ok(Ok(onward)) = timeout(CONNECT_TIME_MAX, TcpStream::connect(leader)).await else {
                return;
            };
            let _ = (stream.set_nodelay(true), onward.set_nodelay(true));
            let (mut onward, heard) = Heard::on(onward);
            tokio::select! {
                _ = copy_bidirectional(&mut stream, &mut onward) => {}
                () = silent(heard) => {}
            }
            drop(slot);
        });
    }
}

/// Closes what comes in until `until`.
pub async fn refuse(listener: &TcpListener, until: impl Future<Output = ()>) {
    let mut until = std::pin::pin!(until);
    loop {
        tokio::select! {
            accepted = listener.accept() => if accepted.is_err() {
                sleep(ACCEPT_PAUSE).await;
            },
            () = until.as_mut() => return,
        }
    }
}

/// A connection to the leader, which tells when something came from it.
struct Heard {
    stream: TcpStream,
    at: watch::Sender<Instant>,
}

impl Heard {
    fn on(stream: TcpStream) -> (Self, watch::Receiver<Instant>) {
        let (at, heard) = watch::channel(Instant::now());
        (Self { stream, at }, heard)
    }
}

impl AsyncRead for Heard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.at.send_replace(Instant::now());
        }
        read
    }
}

impl AsyncWrite for Heard {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Ends when nothing has come for too long.
async fn silent(heard: watch::Receiver<Instant>) {
    loop {
        let last = *heard.borrow();
        let until = last + SILENCE_MAX;
        if until <= Instant::now() {
            return;
        }
        sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The readers of an API server are on one connection, for days.
    #[tokio::test(start_paused = true)]
    async fn a_connection_lives_while_the_leader_answers_and_ends_when_it_does_not() {
        let bind = || TcpListener::bind("127.0.0.1:0");
        let (entry, leader) = (bind().await.unwrap(), bind().await.unwrap());
        let (address, onward) = (entry.local_addr().unwrap(), leader.local_addr().unwrap());
        tokio::spawn(async move { forward(&entry, onward, pending()).await });
        let mut reader = TcpStream::connect(address).await.unwrap();
        let (mut answers, _) = leader.accept().await.unwrap();
        let mut byte = [0];
        for _ in 0..4 {
            sleep(SILENCE_MAX / 2).await;
            reader.write_all(&[1]).await.unwrap();
            answers.read_exact(&mut byte).await.unwrap();
            answers.write_all(&byte).await.unwrap();
            reader.read_exact(&mut byte).await.unwrap();
        }
        sleep(SILENCE_MAX * 2).await;
        assert_eq!(reader.read(&mut byte).await.unwrap(), 0, "it has ended");
    }
}
