//! Passes connections on to the leader, as they are: all replicas have one certificate, and the leader itself sees who
//! asks. So this replica needs no right on it, and reads nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Most connections at a time: API servers need one or two each.
const CONNECTIONS_MAX: usize = 64;
/// Longest time to connect.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest life of a connection. The leader closes those that lie idle; this is for one that no leader ends.
const LIFE_MAX: Duration = Duration::from_mins(30);
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
            let Ok(Ok(mut onward)) = timeout(CONNECT_TIME_MAX, TcpStream::connect(leader)).await
            else {
                return;
            };
            let _ = (stream.set_nodelay(true), onward.set_nodelay(true));
            let passed = copy_bidirectional(&mut stream, &mut onward);
            let _ = timeout(LIFE_MAX, passed).await;
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
