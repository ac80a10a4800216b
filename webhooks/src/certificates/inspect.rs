//! Reads certificates: how long they are valid, and where one ends in a bundle.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::parse_x509_certificate;

use crate::certificates::error::CertificateError;

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: Timestamp,
    /// The last second.
    pub not_after: Timestamp,
}

/// The validity of the first certificate in `certificate_pem`.
pub fn validity(certificate_pem: &str) -> Result<Validity, CertificateError> {
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
        .map_err(CertificateError::Pem)?;
    let (_, certificate) =
        parse_x509_certificate(&der).map_err(|error| CertificateError::X509(error.to_string()))?;
    let read = |second: i64| {
        Timestamp::from_second(second).map_err(|error| CertificateError::X509(error.to_string()))
    };
    Ok(Validity {
        not_before: read(certificate.validity().not_before.timestamp())?,
        not_after: read(certificate.validity().not_after.timestamp())?,
    })
}

/// The PEM blocks of the certificates in `text`, in order, without what lies between them.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, from) = rest.split_at_checked(rest.find(BEGIN)?)?;
        let (block, after) = from.split_at_checked(from.find(END)? + END.len())?;
        rest = after;
        Some(block)
    })
}
