//! Which versions of TLS and which cipher suites are served, by the names that Kubernetes' components have for them.

use rustls::crypto::CryptoProvider;
use rustls::{CipherSuite, SupportedProtocolVersion};
use thiserror::Error;

use crate::crypto;

static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
static TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Which versions and cipher suites are served.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    versions: &'static [&'static SupportedProtocolVersion],
    provider: CryptoProvider,
}

/// The oldest version that is served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsMinVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Why these options can't be served.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TlsOptionsError {
    /// There is no such cipher suite, or it is not safe.
    #[error("{name:?}: unknown cipher suite; supported values: {}", supported.join(", "))]
    Suite {
        /// What was named.
        name: String,
        /// The names of all that there are.
        supported: Vec<String>,
    },
    /// None of the cipher suites is one of a version that is served.
    #[error(
        "none of the cipher suites is one of TLS 1.3, the oldest version that is served; supported values: {}",
        supported.join(", ")
    )]
    NoSuite {
        /// The names of those that would be.
        supported: Vec<String>,
    },
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            versions: rustls::DEFAULT_VERSIONS,
            provider: crypto::provider(),
        }
    }
}

impl TlsOptions {
    /// The versions from `min_version` on, with these cipher suites; with none, all safe ones.
    ///
    /// # Errors
    /// There is no such suite, or none for these versions.
    pub fn new(min_version: TlsMinVersion, suites: &[String]) -> Result<Self, TlsOptionsError> {
        let mut options = Self::default();
        let all = &mut options.provider.cipher_suites;
        if min_version == TlsMinVersion::Tls13 {
            options.versions = TLS13;
            all.retain(|suite| suite.tls13().is_some());
        }
        if suites.is_empty() {
            return Ok(options);
        }
        let known = crypto::provider().cipher_suites;
        let known: Vec<String> = known.iter().map(|suite| name(suite.suite())).collect();
        if let Some(unknown) = suites.iter().find(|suite| !known.contains(suite)) {
            return Err(TlsOptionsError::Suite {
                name: unknown.clone(),
                supported: known,
            });
        }
        let supported = all.iter().map(|suite| name(suite.suite())).collect();
        all.retain(|suite| suites.contains(&name(suite.suite())));
        if all.is_empty() {
            return Err(TlsOptionsError::NoSuite { supported });
        }
        if all.iter().all(|suite| suite.tls13().is_some()) {
            options.versions = TLS13;
        } else if all.iter().all(|suite| suite.tls13().is_none()) {
            options.versions = TLS12;
        }
        Ok(options)
    }

    pub(crate) fn versions(&self) -> &'static [&'static SupportedProtocolVersion] {
        self.versions
    }

    pub(crate) fn provider(&self) -> &CryptoProvider {
        &self.provider
    }
}

/// The name that IANA has, and Kubernetes' flag `--tls-cipher-suites`.
fn name(suite: CipherSuite) -> String {
    let name = suite.as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

#[cfg(test)]
mod tests {
    use TlsMinVersion::{Tls12, Tls13};

    use super::*;

    #[test]
    fn suites_are_chosen_by_their_names() {
        const OLD: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        const NEW: &str = "TLS_AES_128_GCM_SHA256";
        let chosen = |min_version, suites: &[&str]| {
            let suites: Vec<_> = suites.iter().map(|&suite| suite.to_owned()).collect();
            let options = TlsOptions::new(min_version, &suites).map_err(|e| e.to_string())?;
            Ok::<_, String>((options.versions.len(), options.provider.cipher_suites.len()))
        };
        let all = crypto::provider().cipher_suites.len();
        assert_eq!(chosen(Tls12, &[]), Ok((2, all)));
        assert_eq!(chosen(Tls12, &[OLD, NEW]), Ok((2, 2)));
        assert_eq!(chosen(Tls12, &[OLD]), Ok((1, 1)));
        assert_eq!(chosen(Tls13, &[OLD, NEW]), Ok((1, 1)));
        let (versions, suites) = chosen(Tls13, &[]).unwrap();
        assert!(versions == 1 && 0 < suites && suites < all);
        let told = chosen(Tls13, &[OLD]).unwrap_err();
        assert!(
            told.starts_with("none of the cipher suites is one of TLS 1.3"),
            "{told}"
        );
        let told = chosen(Tls12, &["TLS_RSA_WITH_RC4_128_SHA"]).unwrap_err();
        let begin = "\"TLS_RSA_WITH_RC4_128_SHA\": unknown cipher suite; supported values: TLS_";
        assert!(told.starts_with(begin), "{told}");
    }
}
