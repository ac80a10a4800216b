//! The parts of a value that an expression reads, as CEL sees them. Bounded: a value that is too
//! large is refused, not converted.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::expression::error::EvaluationError;
use crate::expression::limits::{TEXT_BYTES_MAX, VALUES_MAX};
use crate::expression::walk::Parts;

/// Converts for one evaluation, and notes what that takes.
#[derive(Debug, Default)]
pub(super) struct Projection {
    values: usize,
    text_bytes: usize,
    longest: usize,
    longest_text_bytes: usize,
}

impl Projection {
    /// The number of elements of the longest list or map so far.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The length of the longest text so far, in bytes.
    pub(super) fn longest_text_bytes(&self) -> usize {
        self.longest_text_bytes
    }

    /// The `parts` of `value`. What has no fields is there whole, so that an expression that expects
    /// some is told what it has got.
    pub(super) fn of(
        &mut self,
        value: &Value,
        parts: &Parts,
    ) -> Result<cel::Value, EvaluationError> {
        let Value::Object(map) = value else {
            return self.convert(value);
        };
        if parts.is_whole {
            return self.convert(value);
        }
        let mut projected: HashMap<String, cel::Value> = HashMap::new();
        for (field, below) in &parts.fields {
            if let Some(value) = map.get(field) {
                projected.insert(field.clone(), self.of(value, below)?);
            }
        }
        Ok(projected.into())
    }

    /// `value` as CEL sees it: whole numbers are `int`, as in Kubernetes.
    fn convert(&mut self, value: &Value) -> Result<cel::Value, EvaluationError> {
        self.values = self.values.saturating_add(1);
        if VALUES_MAX < self.values {
            return Err(EvaluationError::TooManyValues);
        }
        Ok(match value {
            Value::Null => cel::Value::Null,
            Value::Bool(truth) => cel::Value::Bool(*truth),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(int), _) => cel::Value::Int(int),
                (None, Some(uint)) => cel::Value::UInt(uint),
                (None, None) => cel::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => {
                self.text_bytes = self.text_bytes.saturating_add(text.len());
                self.longest_text_bytes = self.longest_text_bytes.max(text.len());
                if TEXT_BYTES_MAX < self.text_bytes {
                    return Err(EvaluationError::TooMuchText);
                }
                cel::Value::String(Arc::new(text.clone()))
            }
            Value::Array(elements) => {
                self.longest = self.longest.max(elements.len());
                let converted: Result<Vec<_>, _> = elements
                    .iter()
                    .map(|element| self.convert(element))
                    .collect();
                cel::Value::List(Arc::new(converted?))
            }
            Value::Object(map) => self.convert_map(map.iter())?,
        })
    }

    fn convert_map<'a>(
        &mut self,
        entries: impl Iterator<Item = (&'a String, &'a Value)>,
    ) -> Result<cel::Value, EvaluationError> {
        let mut map: HashMap<String, cel::Value> = HashMap::new();
        for (key, value) in entries {
            map.insert(key.clone(), self.convert(value)?);
        }
        self.longest = self.longest.max(map.len());
        Ok(map.into())
    }
}
