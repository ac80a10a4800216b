//! Amounts and shares as metrics have them.

use sluice_crds::quantity::NANOS;
use sluice_engine::{Amount, Share};

/// An amount in units of its resource.
#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
pub fn units(amount: Amount) -> f64 {
    amount.get() as f64 / NANOS as f64
}

/// A share as a part of one.
#[expect(clippy::cast_precision_loss, reason = "a metric is a float")]
pub fn ratio(share: Share) -> f64 {
    if share.is_unlimited() {
        f64::INFINITY
    } else {
        share.billionths() as f64 / 1e9
    }
}
