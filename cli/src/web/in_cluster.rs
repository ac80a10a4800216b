//! The page as it is served in a cluster: to many users, each with the token that his requests bring. The server itself
//! has no token, and reads none.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use clap::Args;
use thiserror::Error;

use super::certificate::{Certificate, Unusable};
use super::guard::{Access, Guard};
use super::routes::router;
use super::serve::{Limits, bind, until_ended};
use super::site::Site;
use super::users::{Readers, Users};
use crate::cluster::{ApiServer, ClusterError, Tell, Told};
use crate::simulate::Assumed;

/// Where a sidecar finds the page. Others need TLS.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);
/// Where Kubernetes puts the CA of its API server.
const AUTHORITY: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
/// Answers that are made at a time.
const ANSWERS_MAX: usize = 8;
/// Tokens are long, and proxies add headers and cookies of their own.
const LIMITS: Limits = Limits {
    connections: 512,
    head_bytes: 64 << 10,
};

/// How the page is served in a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "In a cluster")]
pub struct InCluster {
    /// Serve the page to many users, each with a token of the cluster that his requests bring. The pod's own is not used.
    #[arg(
        id = "in_cluster",
        long = "in-cluster",
        requires = "public_url",
        conflicts_with_all = ["port", "open", "no_open", "kubeconfig", "context"]
    )]
    is_on: bool,
    /// The address at which browsers find the page, as <https://sluice.example.com>.
    #[arg(long, value_name = "URL", requires = "in_cluster")]
    public_url: Option<Site>,
    /// Where to listen; by default 127.0.0.1:8443.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        requires = "in_cluster",
        overrides_with = "listen"
    )]
    listen: Option<SocketAddr>,
    /// The certificate of the server, and those that it is signed by. It may be replaced at any time.
    #[arg(long, value_name = "FILE", requires_all = ["in_cluster", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate.
    #[arg(long, value_name = "FILE", requires_all = ["in_cluster", "tls_cert"])]
    tls_key: Option<PathBuf>,
    /// Serve without TLS, which ends at a proxy before the server.
    #[arg(long, requires = "in_cluster", conflicts_with = "tls_cert")]
    plain_http: bool,
    /// The CA of the API server; by default where Kubernetes puts it into a pod.
    #[arg(long, value_name = "FILE", requires = "in_cluster")]
    certificate_authority: Option<PathBuf>,
}

/// Why the page can't be served in a cluster.
#[derive(Debug, Error)]
pub enum InClusterError {
    /// The API server can't be asked.
    #[error(transparent)]
    ApiServer(#[from] ClusterError),
    /// Tokens would be seen by others.
    #[error(
        "--listen {0}: tokens would pass in the clear: give --tls-cert and --tls-key, or --plain-http if TLS ends at a \
         proxy before the server"
    )]
    Clear(SocketAddr),
    /// There is no certificate.
    #[error(transparent)]
    Certificate(#[from] Unusable),
    /// The port can't be had.
    #[error("can't listen on {address}: {source}")]
    Port {
        /// Where it would have listened.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// What is told can't be written.
    #[error("the result can't be written: {0}")]
    Unwritable(#[from] io::Error),
}

impl InCluster {
    /// The name of the page, if it is to be served in a cluster.
    pub fn site(&self) -> Option<&Site> {
        self.public_url.as_ref().filter(|_| self.is_on)
    }

    /// Serves the page until it is told to end. Who may not look into all namespaces looks into `namespace`.
    ///
    /// # Errors
    /// The API server is not named, tokens would pass in the clear, or the port can't be had.
    pub async fn serve(
        &self,
        site: Site,
        namespace: Option<String>,
        assumed: Assumed,
        tell: &mut Tell<'_>,
    ) -> Result<(), InClusterError> {
        let address = self.listen.unwrap_or(LISTEN);
        let certificate = self.certificate(address)?;
        let tls = certificate
            .as_ref()
            .map(Certificate::acceptor)
            .transpose()?;
        let authority = self.certificate_authority.clone();
        let authority = authority.unwrap_or_else(|| AUTHORITY.into());
        let server = ApiServer::of_pod(&authority)?;
        let unbound = |source| InClusterError::Port { address, source };
        let listener = bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let page = site.address().to_owned();
        tell(Told::Result(format!(
            "Serving {page} on {address}\nEach request needs a token of the cluster.\n"
        )))?;
        let users = Users::new(server, namespace, assumed);
        let guard = Arc::new(Guard::new(site, Access::Users));
        let router = router(guard, Readers::Users(users), ANSWERS_MAX);
        let mut served = pin!(until_ended(listener, tls, LIMITS, router));
        let Some(mut certificate) = certificate else {
            served.await;
            return Ok(());
        };
        loop {
            tokio::select! {
                () = served.as_mut() => return Ok(()),
                unusable = certificate.followed() => {
                    let text = format!("{unusable}; the certificate of before is served on");
                    tell(Told::Note(text))?;
                }
            }
        }
    }

    /// The certificate; none where the address or the caller says that nobody needs one.
    fn certificate(&self, address: SocketAddr) -> Result<Option<Certificate>, InClusterError> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(chain), Some(key)) => Ok(Some(Certificate::read(chain.clone(), key.clone())?)),
            _ if self.plain_http || address.ip().is_loopback() => Ok(None),
            _ => Err(InClusterError::Clear(address)),
        }
    }
}
