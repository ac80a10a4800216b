//! When a certificate is to be renewed. Who renews it, and where it is kept, is the caller's business
//! (`src/process/certificate/keeper.rs`).

use jiff::{SignedDuration, Timestamp};
use sluice_crds::RENEWED_AT_ONE_IN;

use crate::certificates::inspect::{Validity, validity};

impl Validity {
    /// When a third of its life is left.
    pub fn renew_at(&self) -> Timestamp {
        let life = self
            .not_after
            .as_second()
            .saturating_sub(self.not_before.as_second());
        self.not_after
            .checked_sub(SignedDuration::from_secs(life) / RENEWED_AT_ONE_IN)
            .unwrap_or(self.not_before)
    }
}

/// Whether it is time to replace the first certificate in `certificate_pem`: a third of its life is
/// left, or it is not valid yet, or it can't be read.
pub fn needs_renewal(certificate_pem: &str, now: Timestamp) -> bool {
    !validity(certificate_pem).is_ok_and(|v| v.not_before <= now && now < v.renew_at())
}
