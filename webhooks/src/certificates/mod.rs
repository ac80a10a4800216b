//! Certificates of Sluice's own making: made, checked and read.
//!
//! Must not know the clock, nor where a certificate is kept. Uses no other folder.

mod error;
mod inspect;
mod issue;

pub use error::CertificateError;
pub use inspect::{Validity, validity};
pub use issue::*;
