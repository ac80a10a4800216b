//! Which clients the server answers: all of them, or those with a certificate of given authorities. How a
//! connection is served is not decided here.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use thiserror::Error;
use x509_parser::parse_x509_certificate;

/// Which clients the server answers. By default all: an API server shows a certificate only if the
/// `AdmissionConfiguration` of its webhooks names a kubeconfig.
#[derive(Debug, Clone, Default)]
pub struct AllowedClients {
    /// None: no certificate is asked for.
    authorities: Option<Arc<RootCertStore>>,
    /// Common names, of which a client has one. None: any name.
    names: Vec<String>,
}

/// Why authorities can't be used.
#[derive(Debug, Error)]
pub enum AllowedClientsError {
    /// The text is not PEM.
    #[error("failed to read PEM: {0}")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// There is no certificate in the text.
    #[error("there is no certificate in the PEM text")]
    Empty,
    /// A certificate can't be an authority.
    #[error("not a certificate of an authority: {0}")]
    Authority(#[source] rustls::Error),
}

impl AllowedClients {
    /// Only clients with a certificate that one of the authorities in `bundle_pem` signed, and with one of
    /// these common names, if there are any. This is as the API server's `--requestheader-client-ca-file` and
    /// `--requestheader-allowed-names` are.
    ///
    /// # Errors
    /// The text is not a bundle of certificates.
    pub fn signed_by(bundle_pem: &str, names: Vec<String>) -> Result<Self, AllowedClientsError> {
        let mut authorities = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle_pem.as_bytes()) {
            let certificate = certificate.map_err(AllowedClientsError::Pem)?;
            authorities
                .add(certificate)
                .map_err(AllowedClientsError::Authority)?;
        }
        if authorities.is_empty() {
            return Err(AllowedClientsError::Empty);
        }
        Ok(Self {
            authorities: Some(Arc::new(authorities)),
            names,
        })
    }

    /// What verifies certificates in the handshake.
    pub(crate) fn verifier(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(WebPkiClientVerifier::no_client_auth());
        };
        WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))
    }

    /// Whether a client that the handshake let in is one of those named.
    ///
    /// # Errors
    /// It is none of them.
    pub(crate) fn check_name(&self, chain: Option<&[CertificateDer<'_>]>) -> Result<(), Stranger> {
        if self.names.is_empty() {
            return Ok(());
        }
        match chain.and_then(|chain| common_name(chain.first()?)) {
            Some(name) if self.names.contains(&name) => Ok(()),
            name => Err(Stranger {
                name,
                allowed: self.names.clone(),
            }),
        }
    }
}

/// A client that is none of those named.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stranger {
    /// The common name in its certificate.
    name: Option<String>,
    allowed: Vec<String>,
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, allowed } = self;
        match name {
            Some(name) => write!(
                f,
                "the certificate of the client is for {name:?}, allowed: {allowed:?}"
            ),
            None => write!(
                f,
                "the certificate of the client has no common name, allowed: {allowed:?}"
            ),
        }
    }
}

/// The common name of the subject, which is the user's name for Kubernetes.
fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    Some(name.as_str().ok()?.to_owned())
}
