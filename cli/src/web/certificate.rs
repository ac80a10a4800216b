//! The certificate that the page is served with in a cluster, from files that somebody else writes, and writes anew.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// The files, and what they had when they were read last.
pub struct Certificate {
    files: Files,
    text: Text,
    slot: Arc<Slot>,
}

struct Files {
    chain: PathBuf,
    key: PathBuf,
}

/// What is in both files.
#[derive(PartialEq, Eq)]
struct Text {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// What new connections are served with.
#[derive(Debug)]
struct Slot(RwLock<Arc<CertifiedKey>>);

/// The files can't be used.
#[derive(Debug, Error)]
#[error("--tls-cert and --tls-key: {0}")]
pub struct Unusable(String);

impl Certificate {
    /// From PEM files: the certificate, with those that it is signed by, and its key.
    ///
    /// # Errors
    /// They can't be read, or are none.
    pub fn read(chain: PathBuf, key: PathBuf) -> Result<Self, Unusable> {
        let files = Files { chain, key };
        let text = files.read()?;
        let slot = Arc::new(Slot(RwLock::new(Arc::new(text.certified()?))));
        Ok(Self { files, text, slot })
    }

    /// What accepts connections with the certificate of the moment.
    ///
    /// # Errors
    /// There is no TLS.
    pub fn acceptor(&self) -> Result<TlsAcceptor, Unusable> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| Unusable(error.to_string()))?;
        let mut config = builder
            .with_no_client_auth()
            .with_cert_resolver(self.slot.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Looks at the files from time to time, and takes what is new in them. Returns where that can't be used: what was
    /// there before is served on.
    pub async fn followed(&mut self) -> Unusable {
        loop {
            sleep(LOOKED_AT).await;
            if let Err(unusable) = self.look() {
                return unusable;
            }
        }
    }

    /// What can't be read is looked at again, and told once it can be and is no good.
    fn look(&mut self) -> Result<(), Unusable> {
        let Ok(text) = self.files.read() else {
            return Ok(());
        };
        if text == self.text {
            return Ok(());
        }
        let certified = text.certified();
        self.text = text;
        let certified = Arc::new(certified?);
        *self.slot.0.write().unwrap_or_else(PoisonError::into_inner) = certified;
        Ok(())
    }
}

impl Files {
    fn read(&self) -> Result<Text, Unusable> {
        let read = |path: &PathBuf| {
            fs::read(path).map_err(|error| Unusable(format!("{}: {error}", path.display())))
        };
        Ok(Text {
            chain: read(&self.chain)?,
            key: read(&self.key)?,
        })
    }
}

impl Text {
    fn certified(&self) -> Result<CertifiedKey, Unusable> {
        let unusable = |error: &dyn std::error::Error| Unusable(error.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.chain).collect();
        let chain = chain.map_err(|error| unusable(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| unusable(&error))?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider());
        certified.map_err(|error| unusable(&error))
    }
}

impl ResolvesServerCert for Slot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(current.clone())
    }
}
