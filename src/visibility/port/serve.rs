//! The port of the API: served by the leader, and passed on to it by the others, so that whichever replica the API server
//! finds, the answer is the leader's. Whatever goes wrong here is told in the log and in a metric and tried again; nothing
//! else of the process knows.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kube::Client;
use sluice_webhooks::{CertificateSlot, Server, TlsOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::forward::{forward, refuse};
use super::front_proxy::{FrontProxy, FrontProxyError};
use crate::process::lease::Leader;
use crate::process::metrics::Metrics;

/// How often it is looked whether the API server has another front proxy.
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// How soon it is looked again where there is none that is known.
const LOOK_AGAIN: Duration = Duration::from_secs(15);
/// Longest time for one look.
const DEADLINE: Duration = Duration::from_secs(5);

/// What is served, and to whom.
pub struct Basis {
    /// The paths.
    pub router: Router,
    /// The certificate.
    pub slot: Arc<CertificateSlot>,
    /// Versions and cipher suites.
    pub tls: TlsOptions,
    /// Asks the API server who its front proxy is.
    pub client: Client,
    /// Who leads.
    pub leader: watch::Receiver<Leader>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Basis {
    fn note_unavailable(&self, is_so: bool) {
        self.metrics.process.visibility_is_unavailable(is_so);
    }
}

/// The port.
pub struct Visibility {
    listener: Arc<TcpListener>,
    address: SocketAddr,
}

impl Visibility {
    /// Listens on `bind`. Other replicas reach it at `ip`, if that is another one.
    pub async fn bind(bind: SocketAddr, ip: Option<IpAddr>) -> io::Result<Self> {
        let listener = TcpListener::bind(bind).await?;
        let local = listener.local_addr()?;
        Ok(Self {
            address: SocketAddr::new(ip.unwrap_or(local.ip()), local.port()),
            listener: Arc::new(listener),
        })
    }

    /// Where other replicas reach it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`.
    pub async fn serve(self, mut basis: Basis, stop: CancellationToken) {
        let mut told = None;
        while !stop.is_cancelled() {
            let leader = basis.leader.borrow_and_update().to_owned();
            if let Some(other) = self.other(leader) {
                basis.note_unavailable(false);
                let until = self.until_another(&mut basis.leader, Some(other), &stop);
                forward(&self.listener, other, until).await;
                continue;
            }
            match front_proxy(&basis.client).await {
                Ok(proxy) => {
                    told = None;
                    self.serve_to(&proxy, &mut basis, &stop).await;
                }
                Err(error) => {
                    basis.note_unavailable(true);
                    let error = error.to_string();
                    if told.as_ref() != Some(&error) {
                        warn!(
                            error,
                            "visibility.sluice.dev is not served; everything else is, and it is tried again"
                        );
                        told = Some(error);
                    }
                    let until = self.until_another(&mut basis.leader, None, &stop);
                    let _ = timeout(LOOK_AGAIN, refuse(&self.listener, until)).await;
                }
            }
        }
    }

    /// Serves a front proxy until there is another one, or another leader.
    async fn serve_to(&self, proxy: &FrontProxy, basis: &mut Basis, stop: &CancellationToken) {
        let clients = proxy.clients().map_err(io::Error::other);
        let server = clients.and_then(|clients| {
            let (slot, router) = (basis.slot.clone(), basis.router.clone());
            Server::on(self.listener.clone(), slot, clients, &basis.tls, router)
        });
        let server = match server {
            Ok(server) => server,
            Err(error) => {
                basis.note_unavailable(true);
                warn!(%error, "visibility.sluice.dev can't be served; trying again");
                return sleep(LOOK_AGAIN).await;
            }
        };
        basis.note_unavailable(false);
        info!(address = %self.address, "serving visibility.sluice.dev");
        let other_leader = self.until_another(&mut basis.leader, None, stop);
        let until = async {
            tokio::select! {
                () = other_leader => {}
                () = other_proxy(&basis.client, proxy) => {}
            }
        };
        server.serve(until).await;
    }

    /// Where the leader is, if that is another replica. A Lease that this one held before may name its own address.
    fn other(&self, leader: Leader) -> Option<SocketAddr> {
        match leader {
            Leader::At(address) => Some(address).filter(|address| *address != self.address),
            Leader::Here | Leader::Unknown => None,
        }
    }

    /// Until connections go somewhere else than to `other`.
    async fn until_another(
        &self,
        leader: &mut watch::Receiver<Leader>,
        other: Option<SocketAddr>,
        stop: &CancellationToken,
    ) {
        let changed = async {
            let changed = leader.wait_for(|leader| self.other(*leader) != other);
            changed.await.is_ok()
        };
        tokio::select! {
            () = stop.cancelled() => {}
            is_news = changed => if !is_news {
                // The election is over: so is the process.
                stop.cancelled().await;
            },
        }
    }
}

async fn front_proxy(client: &Client) -> Result<FrontProxy, FrontProxyError> {
    let silent = || FrontProxyError::Get(kube::Error::Service("no reply in time".into()));
    let read = timeout(DEADLINE, FrontProxy::read(client)).await;
    let proxy = read.unwrap_or_else(|_| Err(silent()))?;
    proxy.clients()?;
    Ok(proxy)
}

/// Until the API server publishes another front proxy than this one.
async fn other_proxy(client: &Client, proxy: &FrontProxy) {
    loop {
        sleep(LOOK_EVERY).await;
        // What can't be read now is as it was.
        if front_proxy(client).await.is_ok_and(|now| now != *proxy) {
            return info!("the API server has another front proxy");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::{Request, Response};
    use k8s_openapi::jiff::Timestamp;
    use kube::client::Body;
    use serde_json::json;
    use sluice_webhooks::certificates::issue_ca;

    use super::*;
    use crate::process::metrics::Exposition;

    /// Waits until the metric says so.
    async fn see(metrics: &Metrics, unavailable: u8, when: &str) {
        let line = format!("sluice_visibility_unavailable {unavailable}\n");
        let seen = async {
            while !metrics.text(Exposition::Text).contains(&line) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        let seen = timeout(LOOK_AGAIN * 4, seen).await;
        seen.unwrap_or_else(|_| panic!("{unavailable}: {when}"));
    }

    #[tokio::test(start_paused = true)]
    async fn that_nobody_is_answered_is_counted() {
        let has_proxy = Arc::new(AtomicBool::new(false));
        let authority = issue_ca(Timestamp::now()).unwrap().certificate_pem;
        let known = has_proxy.clone();
        let each = tower::service_fn(move |_: Request<Body>| {
            let data = if known.load(Ordering::Relaxed) {
                json!({"requestheader-client-ca-file": authority})
            } else {
                json!({})
            };
            let body = Body::from(json!({ "data": data }).to_string().into_bytes());
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let (elected, leader) = watch::channel(Leader::Here);
        let metrics = Arc::new(Metrics::new());
        let basis = Basis {
            router: Router::new(),
            slot: Arc::default(),
            tls: TlsOptions::default(),
            client: Client::new(each, "default"),
            leader,
            metrics: metrics.clone(),
        };
        see(&metrics, 0, "before it is to be served").await;
        let port = Visibility::bind("127.0.0.1:0".parse().unwrap(), None);
        let stop = CancellationToken::new();
        tokio::spawn(port.await.unwrap().serve(basis, stop.clone()));
        see(&metrics, 1, "there is no front proxy").await;
        elected.send_replace(Leader::At("127.0.0.1:1".parse().unwrap()));
        see(&metrics, 0, "another replica is to answer").await;
        elected.send_replace(Leader::Here);
        see(&metrics, 1, "it leads again").await;
        has_proxy.store(true, Ordering::Relaxed);
        see(&metrics, 0, "there is a front proxy").await;
        stop.cancel();
    }
}
