//! What is wrong with a certificate, or with making one.

use thiserror::Error;

/// Why a certificate can't be made or used.
#[derive(Debug, Error)]
pub enum CertificateError {
    /// It could not be made or signed.
    #[error("failed to issue a certificate: {0}")]
    Issue(#[source] rcgen::Error),
    /// A name is not a DNS name.
    #[error("{name:?} is not a DNS name")]
    Name {
        /// The name.
        name: String,
    },
    /// The text holds no readable PEM block of the kind that is needed.
    #[error("failed to read PEM: {0}")]
    Pem(#[source] rustls::pki_types::pem::Error),
    /// There is no certificate in the text.
    #[error("there is no certificate in the PEM text")]
    Empty,
    /// A certificate is not X.509.
    #[error("failed to read a certificate: {0}")]
    X509(String),
    /// The key is unusable, or belongs to another certificate.
    #[error("the certificate can't be served: {0}")]
    Unusable(#[source] rustls::Error),
}
