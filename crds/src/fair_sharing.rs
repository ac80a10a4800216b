//! What is due to queues and cohorts beside their siblings: weights, and what is known of their shares.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use crate::quantity::{NANOS, Quantity, QuantityError, ResourceList};

/// How much is due to a queue or cohort, beside its siblings.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FairSharing {
    /// With twice the weight, twice as much makes the same share. 0: whatever is used beyond one's own
    /// is too much. At most 4000000, in steps of 0.001. Absent: 1.
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

/// What decides between the LocalQueues of a ClusterQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionScope {
    /// NoAdmissionFairSharing: nothing but the order of the jobs. UsageBasedAdmissionFairSharing: jobs
    /// of the LocalQueue that has used the least of late come first.
    pub admission_mode: ScopeMode,
}

/// What decides between the LocalQueues of a ClusterQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScopeMode {
    /// Nothing but the order of the jobs.
    #[default]
    NoAdmissionFairSharing,
    /// What they have used of late.
    UsageBasedAdmissionFairSharing,
}

/// How a queue or cohort stands beside its siblings.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FairSharingStatus {
    /// How much is used beyond one's own, in thousandths of what the cohort above can lend, of the
    /// resource of which that is most; divided by the weight. 0: nothing is borrowed.
    /// 9223372036854775807: something is borrowed with weight 0.
    pub weighted_share: i64,
}

/// How a LocalQueue stands beside the others of its ClusterQueue.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LocalQueueFairSharingStatus {
    /// What it has used of late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission_fair_sharing_status: Option<AdmissionFairSharingStatus>,
}

/// What a LocalQueue has used of late.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionFairSharingStatus {
    /// By resource, in all flavors together; what is long ago counts less. Not written at every
    /// change, but when it has changed visibly.
    #[serde(default)]
    pub consumed_resources: ResourceList,
    /// Up to when.
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
