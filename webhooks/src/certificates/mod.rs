//! Certificates of Sluice's own making: made, checked and read, and when they are to be renewed.
//!
//! Must not know the clock, nor where a certificate is kept. Uses no other folder.

mod error;
mod inspect;
mod issue;
mod renewal;

pub use error::CertificateError;
pub use inspect::{Validity, validity};
pub use issue::*;
pub use renewal::{nears_its_end, needs_renewal};
