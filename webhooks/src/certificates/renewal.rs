//! When a certificate is to be renewed. Who renews it, and where it is kept, is the caller's business
//! (`src/process/certificate/keeper.rs`).

use jiff::{SignedDuration, Timestamp};
use sluice_crds::RENEWED_AT_ONE_IN;

use crate::certificates::inspect::{Validity, validity};

/// Whoever else renews a certificate is waited for until one part in so many is left of its life. cert-manager renews one
/// when a third is left, if nobody says otherwise; a week before the end there is an alert.
const AWAITED_UNTIL_ONE_IN: i32 = 10;

impl Validity {
    /// When a third of its life is left.
    pub fn renew_at(&self) -> Timestamp {
        self.with_left_one_in(RENEWED_AT_ONE_IN)
    }

    /// When one part in `parts` of its life is left.
    fn with_left_one_in(&self, parts: i32) -> Timestamp {
        let life = self
            .not_after
            .as_second()
            .saturating_sub(self.not_before.as_second());
        self.not_after
            .checked_sub(SignedDuration::from_secs(life) / parts)
            .unwrap_or(self.not_before)
    }
}

/// Whether it is time to replace the first certificate in `certificate_pem`: a third of its life is
/// left, or it is not valid yet, or it can't be read.
pub fn needs_renewal(certificate_pem: &str, now: Timestamp) -> bool {
    !validity(certificate_pem).is_ok_and(|v| v.not_before <= now && now < v.renew_at())
}

/// Whether the first certificate in `certificate_pem` has ended, or is so near its end that whoever was to renew it is no
/// longer waited for: a tenth of its life is left. Not so of one that can't be read.
pub fn nears_its_end(certificate_pem: &str, now: Timestamp) -> bool {
    validity(certificate_pem).is_ok_and(|v| v.with_left_one_in(AWAITED_UNTIL_ONE_IN) <= now)
}
