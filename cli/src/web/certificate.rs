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

#[cfg(test)]
mod tests {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::{ServerName, UnixTime};
    use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
    use tokio_rustls::TlsConnector;

    use super::*;

    /// Somebody who wants to see the certificate, whatever it is.
    #[derive(Debug)]
    struct Onlooker;

    impl ServerCertVerifier for Onlooker {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let provider = ring::default_provider();
            provider
                .signature_verification_algorithms
                .supported_schemes()
        }
    }

    /// The certificate that a connection is served with.
    async fn served(acceptor: &TlsAcceptor) -> Vec<u8> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = builder
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Onlooker))
            .with_no_client_auth();
        let (near, far) = tokio::io::duplex(1 << 14);
        let name = ServerName::try_from("sluice.example.com").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let (client, server) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        server.unwrap();
        let client = client.unwrap();
        let chain = client.get_ref().1.peer_certificates().unwrap();
        chain.first().unwrap().to_vec()
    }

    #[tokio::test]
    async fn a_certificate_that_is_written_anew_is_served_and_no_other() {
        let folder = std::env::temp_dir().join(format!("certificate-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [chain, key] = ["tls.crt", "tls.key"].map(|name| folder.join(name));
        let write = || {
            let made = rcgen::generate_simple_self_signed(["sluice.example.com".to_owned()]);
            let made = made.unwrap();
            fs::write(&chain, made.cert.pem()).unwrap();
            fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            made.cert.der().to_vec()
        };
        assert!(Certificate::read(chain.clone(), key.clone()).is_err());
        let first = write();
        let mut certificate = Certificate::read(chain.clone(), key.clone()).unwrap();
        let acceptor = certificate.acceptor().unwrap();
        assert_eq!(served(&acceptor).await, first);
        let second = write();
        certificate.look().unwrap();
        assert_eq!(served(&acceptor).await, second);
        // Half of it is written: that is told once.
        fs::write(&chain, "no certificate").unwrap();
        let told = certificate.look().unwrap_err().to_string();
        assert!(told.starts_with("--tls-cert and --tls-key: "), "{told}");
        certificate.look().unwrap();
        assert_eq!(served(&acceptor).await, second);
        let third = write();
        certificate.look().unwrap();
        assert_eq!(served(&acceptor).await, third);
        fs::remove_dir_all(&folder).unwrap();
    }
}
