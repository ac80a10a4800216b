//! TLS with a serving certificate that is swapped while connections are open.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::server::allowed_clients::AllowedClients;
use crate::server::tls_options::TlsOptions;

/// Protocols offered. API servers speak HTTP/2 where it is offered: one connection for all requests.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Holds the certificate that new connections are served with. Empty at first: handshakes fail.
#[derive(Debug, Default)]
pub struct CertificateSlot {
    current: ArcSwapOption<CertifiedKey>,
}

impl CertificateSlot {
    /// Serves new connections with `key` from now on. Open connections go on with the one before.
    pub fn set(&self, key: CertifiedKey) {
        self.current.store(Some(Arc::new(key)));
    }

    /// Whether there is a certificate to serve with.
    pub fn is_set(&self) -> bool {
        self.current.load().is_some()
    }
}

impl ResolvesServerCert for CertificateSlot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

/// A client certificate is asked for only if not all clients are allowed.
pub(crate) fn server_config(
    slot: Arc<CertificateSlot>,
    clients: &AllowedClients,
    options: &TlsOptions,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(options.provider().clone());
    let verifier = clients.verifier(provider.clone())?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(options.versions())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(slot);
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(config)
}
