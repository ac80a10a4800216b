//! Certificates of Sluice's own making: a CA, and the certificate that the webhook server is served
//! with. Pure: the time is an argument, and where the PEM is kept is the caller's business.
//!
//! Each serving certificate has a CA of its own, which ends with it: its key need not be kept. While one
//! follows another both CAs are trusted: [`merge_bundle`] puts the new one beside those that are still valid.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::certificates::error::CertificateError;
use crate::certificates::inspect::{self, validity};
use crate::crypto;

/// How long a CA is valid: as long as the certificate that it signs, so that two are trusted at most.
const CA_LIFETIME: SignedDuration = SERVING_LIFETIME;
/// How long a serving certificate is valid.
const SERVING_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 90);
/// How far validity begins in the past, for clocks that are behind.
const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The certificate; for a serving certificate followed by nothing else.
    pub certificate_pem: String,
    /// The private key, PKCS #8.
    pub key_pem: String,
}

impl std::fmt::Debug for Pair {
    /// Leaves the key out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair")
            .field("certificate_pem", &self.certificate_pem)
            .finish_non_exhaustive()
    }
}

/// Makes a CA that is valid from `now` on.
pub fn issue_ca(now: Timestamp) -> Result<Pair, CertificateError> {
    let mut params = params("sluice-webhook-ca", now, CA_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate().map_err(CertificateError::Issue)?;
    let certificate = params.self_signed(&key).map_err(CertificateError::Issue)?;
    Ok(Pair {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    })
}

/// Makes a serving certificate for these names and addresses, signed by `ca`.
pub fn issue_serving(
    ca: &Pair,
    dns_names: &[String],
    addresses: &[IpAddr],
    now: Timestamp,
) -> Result<Pair, CertificateError> {
    let ca_key = KeyPair::from_pem(&ca.key_pem).map_err(CertificateError::Issue)?;
    let issuer =
        Issuer::from_ca_cert_pem(&ca.certificate_pem, ca_key).map_err(CertificateError::Issue)?;
    let mut params = params("sluice-webhook", now, SERVING_LIFETIME);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    for name in dns_names {
        let text = Ia5String::try_from(name.as_str())
            .map_err(|_| CertificateError::Name { name: name.clone() })?;
        params.subject_alt_names.push(SanType::DnsName(text));
    }
    params
        .subject_alt_names
        .extend(addresses.iter().copied().map(SanType::IpAddress));
    let key = KeyPair::generate().map_err(CertificateError::Issue)?;
    let certificate = params
        .signed_by(&key, &issuer)
        .map_err(CertificateError::Issue)?;
    Ok(Pair {
        certificate_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    })
}

/// The DNS names of a service, for [`issue_serving`].
pub fn service_dns_names(service: &str, namespace: &str) -> Vec<String> {
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ]
}

/// The certificate and key to serve with. Fails if the key belongs to another certificate.
pub fn certified_key(pair: &Pair) -> Result<CertifiedKey, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(pair.certificate_pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(CertificateError::Pem)?;
    if chain.is_empty() {
        return Err(CertificateError::Empty);
    }
    let key =
        PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).map_err(CertificateError::Pem)?;
    CertifiedKey::from_der(chain, key, &crypto::provider()).map_err(CertificateError::Unusable)
}

/// The CAs to trust when `ca_pem` is used from now on: it first, then those of `bundle_pem` that are
/// still valid, each once. What can't be read in `bundle_pem` is left out.
pub fn merge_bundle(ca_pem: &str, bundle_pem: &str, now: Timestamp) -> String {
    let mut kept: Vec<String> = vec![ca_pem.trim().to_owned()];
    for certificate in inspect::split(bundle_pem) {
        let is_valid = validity(certificate).is_ok_and(|v| now < v.not_after);
        if is_valid && !kept.iter().any(|other| other == certificate) {
            kept.push(certificate.to_owned());
        }
    }
    let mut text = kept.join("\n");
    text.push('\n');
    text
}

fn params(name: &str, now: Timestamp, lifetime: SignedDuration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    // The time tells apart the names of two CAs in one bundle.
    params
        .distinguished_name
        .push(DnType::CommonName, format!("{name}@{}", now.as_second()));
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + since_epoch(now, -BACKDATED);
    params.not_after = epoch + since_epoch(now, lifetime);
    params
}

/// `now + shift`, within what a certificate can say: 1970 to 9998.
fn since_epoch(now: Timestamp, shift: SignedDuration) -> Duration {
    const SECONDS_MAX: u64 = 253_370_764_800;
    let seconds = now.as_second().saturating_add(shift.as_secs());
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX))
}
