//! A duration in the configuration: in the one grammar of durations, and printed as it was written.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_crds::duration;

/// A duration as it was written, and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) value: Duration,
}

impl Span {
    /// A whole number of hours.
    pub(crate) fn hours(hours: u32) -> Self {
        Self {
            text: format!("{hours}h"),
            value: Duration::from_hours(hours.into()),
        }
    }
}

impl PartialEq for Span {
    /// `7d` and `168h` are the same.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = duration::parse(&text).map_err(serde::de::Error::custom)?;
        Ok(Self { text, value })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "duration"})
    }

    fn inline_schema() -> bool {
        true
    }
}
