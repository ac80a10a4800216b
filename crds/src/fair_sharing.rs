//! What is due to queues and cohorts beside their siblings: weights, and what is known of their shares.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use crate::quantity::{NANOS, Quantity, QuantityError, ResourceList};

/// How the quota that a cohort can lend is shared among its members.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FairSharing {
    /// The share is the borrowed part divided by this weight: with weight 2, a queue may borrow twice
    /// as much for the same share. 0: the queue borrows only what no other queue wants. At most
    /// 4000000, in steps of 0.001. Absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
}

/// A weight, as it was written.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(transparent)]
pub struct Weight(pub Quantity);

/// Why a weight can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WeightError {
    /// It is no quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// It is below zero.
    #[error("must be greater than or equal to 0")]
    Negative,
    /// It is above [`Weight::MAX`].
    #[error("must be less than or equal to 4000000")]
    TooLarge,
    /// It has more than three decimal places.
    #[error("must be a multiple of 0.001")]
    TooFine,
}

impl Weight {
    /// The largest weight.
    pub const MAX: u32 = 4_000_000;
    /// Nano-units in a thousandth.
    const STEP: i128 = NANOS / 1000;

    /// The weight in thousandths.
    pub fn thousandths(&self) -> Result<u32, WeightError> {
        let nanos = self.0.nanos()?;
        if nanos < 0 {
            return Err(WeightError::Negative);
        }
        if i128::from(Self::MAX) * NANOS < nanos {
            return Err(WeightError::TooLarge);
        }
        if nanos % Self::STEP != 0 {
            return Err(WeightError::TooFine);
        }
        u32::try_from(nanos / Self::STEP).map_err(|_| WeightError::TooLarge)
    }
}

impl JsonSchema for Weight {
    fn schema_name() -> Cow<'static, str> {
        "Weight".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// A quantity, with the rules of [`Weight::thousandths`]. CEL counts thousandths as floats: above
    /// 100000 what is off by a few nano-units passes, and the controller says that it can't use it.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let weight = "quantity(string(self))";
        let not_negative = format!("{weight}.compareTo(quantity('0')) >= 0");
        let in_range = format!("{weight}.compareTo(quantity('{}')) <= 0", Self::MAX);
        let exact = format!(
            "[{weight}.asApproximateFloat() * 1000.0].all(x, \
             x - double(int(x + 0.5)) < 0.0000005 + x * 1e-15 && \
             double(int(x + 0.5)) - x < 0.0000005 + x * 1e-15)"
        );
        let mut schema = Quantity::json_schema(generator);
        schema.insert(
            "x-kubernetes-validations".to_owned(),
            json!([
                {
                    "rule": not_negative,
                    "message": WeightError::Negative.to_string(),
                },
                {
                    "rule": in_range,
                    "message": WeightError::TooLarge.to_string(),
                },
                {
                    "rule": format!("!({not_negative} && {in_range}) || {exact}"),
                    "message": WeightError::TooFine.to_string(),
                },
            ]),
        );
        schema
    }
}

/// How the LocalQueues of a ClusterQueue compete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionScope {
    /// NoAdmissionFairSharing: only by the priority and age of their jobs.
    /// UsageBasedAdmissionFairSharing: jobs of the LocalQueue with the least usage, past usage
    /// included, come first.
    pub admission_mode: ScopeMode,
}

/// How the LocalQueues of a ClusterQueue compete.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeMode {
    /// Only by the priority and age of their jobs.
    #[default]
    NoAdmissionFairSharing,
    /// By their usage, past usage included.
    UsageBasedAdmissionFairSharing,
}

/// The share of a queue or cohort.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FairSharingStatus {
    /// The borrowed amount, in thousandths of the quota that the parent cohort can lend, divided by the
    /// weight. Of several resources, the largest result counts. 0: nothing is borrowed.
    /// 9223372036854775807: something is borrowed with weight 0.
    pub weighted_share: i64,
}

/// The usage of a LocalQueue over time.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueFairSharingStatus {
    /// Its usage, past usage included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_fair_sharing_status: Option<AdmissionFairSharingStatus>,
}

/// The usage of a LocalQueue, past usage included.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionFairSharingStatus {
    /// The usage by resource, of all flavors together. Past usage counts half after each half-life. It
    /// is written when it has changed by more than 1 %.
    #[serde(default)]
    pub consumed_resources: ResourceList,
    /// The time until which usage is included.
    pub last_update: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_thousandths_or_refused() {
        let cases = [
            ("1", Ok(1000)),
            ("0", Ok(0)),
            ("-0", Ok(0)),
            ("0.001", Ok(1)),
            ("1m", Ok(1)),
            ("2500m", Ok(2500)),
            ("1.001", Ok(1001)),
            ("1e3", Ok(1_000_000)),
            ("4M", Ok(4_000_000_000)),
            ("4000000.001", Err(WeightError::TooLarge)),
            ("8Ei", Err(WeightError::TooLarge)),
            ("1e40", Err(WeightError::Quantity(QuantityError::Overflow))),
            ("-1m", Err(WeightError::Negative)),
            ("0.0005", Err(WeightError::TooFine)),
            ("1n", Err(WeightError::TooFine)),
            ("0.00100000000001", Err(WeightError::TooFine)),
            ("two", Err(WeightError::Quantity(QuantityError::Malformed))),
        ];
        for (text, expected) in cases {
            let weight = Weight(Quantity(text.to_owned()));
            assert_eq!(weight.thousandths(), expected, "{text:?}");
        }
    }
}
