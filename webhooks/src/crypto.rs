//! The cryptography of TLS: *ring*, or AWS-LC where the feature `aws-lc-rs` is on, which `fips` makes its validated
//! module. With both, AWS-LC counts: a build that asks for it gets it.

use rustls::crypto::CryptoProvider;

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
compile_error!("one of the features `ring` and `aws-lc-rs` has to be on");

/// What every TLS connection of the process uses.
pub fn provider() -> CryptoProvider {
    #[cfg(feature = "aws-lc-rs")]
    return rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
    return rustls::crypto::ring::default_provider();
}
