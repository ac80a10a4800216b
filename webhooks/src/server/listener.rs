//! The server, with TLS or without: accepts connections within limits until it is told to stop. What is served is the
//! router's business, with which certificate the slot's.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::server::allowed_clients::AllowedClients;
use crate::server::connection::{self, CLOSING_TIME_MAX, Transport};
use crate::server::idle::IdleConnections;
use crate::server::tls::{self, CertificateSlot};
use crate::server::tls_options::TlsOptions;
use crate::server::unserved::Unserved;

/// Most connections at a time. Each holds at most some 400 KiB of buffers; an API server needs a few.
const CONNECTIONS_MAX: usize = 256;
/// Pause after a failed accept: it fails for want of file descriptors, which come back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often an idle connection is looked for while there is no slot: one that is busy now may be idle in a moment.
const EVICTION_PAUSE: Duration = Duration::from_millis(50);
/// Longest time that all connections get to end: their own limit and a little.
const STOPPING_TIME_MAX: Duration = CLOSING_TIME_MAX.saturating_add(Duration::from_millis(500));

/// A server that is bound to its address.
pub struct Server {
    listener: Arc<TcpListener>,
    transport: Transport,
    router: Router,
}

impl Server {
    /// Listens on `address` for these clients; connections wait until [`Server::serve`].
    pub async fn bind(
        address: SocketAddr,
        certificates: Arc<CertificateSlot>,
        clients: AllowedClients,
        options: &TlsOptions,
        router: Router,
    ) -> io::Result<Self> {
        let listener = Arc::new(TcpListener::bind(address).await?);
        Self::on(listener, certificates, clients, options, router)
    }

    /// The same on a listener that others go on with when this server has ended.
    pub fn on(
        listener: Arc<TcpListener>,
        certificates: Arc<CertificateSlot>,
        clients: AllowedClients,
        options: &TlsOptions,
        router: Router,
    ) -> io::Result<Self> {
        let config = tls::server_config(certificates, &clients, options);
        let config = config.map_err(io::Error::other)?;
        Ok(Self {
            listener,
            transport: Transport::tls(config, clients),
            router,
        })
    }

    /// Listens on `address` for anybody, without TLS: for probes and metrics.
    pub async fn bind_plain(address: SocketAddr, router: Router) -> io::Result<Self> {
        Ok(Self {
            listener: Arc::new(TcpListener::bind(address).await?),
            transport: Transport::Plain,
            router,
        })
    }

    /// The address that is listened on, with the port that was chosen for port 0.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `shutdown` is done; then lets requests under way end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let (stop, stopped) = watch::channel(false);
        let mut guests = Guests::new(self.transport, self.router, stopped);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = shutdown.as_mut() => break,
            };
            let (stream, _) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    guests.unserved.add(&error);
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            tokio::select! {
                () = guests.admit(stream) => {}
                () = shutdown.as_mut() => break,
            }
        }
        drop(self.listener);
        let _ = stop.send(true);
        // Dropping what is left aborts it.
        let _ = timeout(STOPPING_TIME_MAX, guests.leave()).await;
    }
}

/// The open connections.
struct Guests {
    transport: Transport,
    router: Router,
    stopped: watch::Receiver<bool>,
    slots: Arc<Semaphore>,
    idle: Arc<IdleConnections>,
    unserved: Arc<Unserved>,
    tasks: JoinSet<()>,
}

impl Guests {
    fn new(transport: Transport, router: Router, stopped: watch::Receiver<bool>) -> Self {
        Self {
            transport,
            router,
            stopped,
            slots: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            idle: Arc::default(),
            unserved: Arc::default(),
            tasks: JoinSet::new(),
        }
    }

    /// Serves `stream` in a task of its own, once a slot is free.
    async fn admit(&mut self, stream: TcpStream) {
        while self.tasks.try_join_next().is_some() {}
        let Some(permit) = self.free_slot().await else {
            return;
        };
        // Answers are small: waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        let guest = Arc::new(self.idle.enter());
        let served = connection::serve(
            stream,
            self.transport.clone(),
            self.router.clone(),
            guest.clone(),
            self.unserved.clone(),
            self.stopped.clone(),
        );
        self.tasks.spawn(async move {
            tokio::select! {
                () = served => {}
                () = guest.evicted() => {}
            }
            drop(permit);
        });
    }

    async fn free_slot(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = self.slots.clone().try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.idle.evict();
            let slot = self.slots.clone().acquire_owned();
            if let Ok(permit) = timeout(EVICTION_PAUSE, slot).await {
                return permit.ok();
            }
        }
    }

    async fn leave(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_becomes_idle_later_gives_its_slot_to_who_waits() {
        let (_stop, stopped) = watch::channel(false);
        let guests = Guests::new(Transport::Plain, Router::new(), stopped);
        let all = u32::try_from(CONNECTIONS_MAX).unwrap();
        let slots = guests.slots.clone().acquire_many_owned(all).await.unwrap();
        let busy = guests.idle.enter();
        busy.begin();
        let ends = async {
            // Whoever waits has looked for an idle connection by then, and found none.
            tokio::task::yield_now().await;
            busy.end();
            busy.evicted().await;
            drop(slots);
        };
        let both = async { tokio::join!(guests.free_slot(), ends).0 };
        let slot = timeout(Duration::from_secs(30), both).await;
        assert!(slot.is_ok_and(|slot| slot.is_some()));
    }
}
