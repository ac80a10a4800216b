//! Paths to fields as users write them in a JobKind (`.spec.template`), and how to read through them.
//! A path names one field: elements of lists and maps are the business of `pod_sets/rule.rs`.

use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

/// A path to one field: dots and field names, as in `.spec.runPolicy.suspend`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    segments: Vec<String>,
}

/// Deepest path that is accepted: the kinds known to us need five.
const SEGMENTS_MAX: usize = 16;

/// The rule that a text breaks which is to be a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathError {
    /// No dot comes first.
    #[error("must start with a dot (such as \".spec.suspend\")")]
    NoDot,
    /// It has too many fields.
    #[error("must not be deeper than {SEGMENTS_MAX} fields")]
    TooDeep,
    /// Something in it is no name of a field.
    #[error(
        "must be field names with a dot before each (such as \".spec.suspend\"); lists are named by forEach"
    )]
    NoFieldName,
    /// It lies where a JobKind may name nothing.
    #[error("must not lie in metadata or status")]
    NotInSpec,
}

impl FieldPath {
    /// Parses `.a.b.c`, a path in an object.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let path = Self::parse_below(text)?;
        let first = path.segments.first();
        if first.is_some_and(|first| first == "metadata" || first == "status") {
            return Err(PathError::NotInSpec);
        }
        Ok(path)
    }

    /// Parses `.a.b.c`, a path in some part of an object.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse_below(text: &str) -> Result<Self, PathError> {
        let rest = text.strip_prefix('.').ok_or(PathError::NoDot)?;
        let segments: Vec<String> = rest.split('.').map(str::to_owned).collect();
        if segments.len() > SEGMENTS_MAX {
            return Err(PathError::TooDeep);
        }
        for segment in &segments {
            let mut letters = segment.chars();
            let starts_well = letters
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !starts_well || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(PathError::NoFieldName);
            }
        }
        Ok(Self { segments })
    }

    /// The path of these fields.
    pub(crate) fn of(fields: &[&str]) -> Self {
        Self {
            segments: fields.iter().map(|&field| field.to_owned()).collect(),
        }
    }

    /// The path of `field` in the one that this path names.
    pub(crate) fn below(&self, field: &str) -> Self {
        let mut path = self.clone();
        path.segments.push(field.to_owned());
        path
    }

    /// The names of the fields, outermost first.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The value in `object`, if there is one that is not null.
    pub fn get<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        self.segments
            .iter()
            .try_fold(object, |value, segment| value.get(segment))
            .filter(|value| !value.is_null())
    }

    /// The field as problems name it: without the leading dot.
    pub fn field(&self) -> String {
        self.segments.join(".")
    }

    /// Makes the merge patch `patch` (RFC 7386) set the field to `value`.
    pub fn merge_into(&self, patch: &mut Value, value: Value) {
        let Some((last, above)) = self.segments.split_last() else {
            return;
        };
        let mut here = patch;
        for segment in above {
            if !here.is_object() {
                *here = Value::Object(Map::new());
            }
            let Value::Object(map) = here else { return };
            here = map
                .entry(segment.clone())
                .or_insert_with(|| Value::Object(Map::new()));
        }
        if let Value::Object(map) = here {
            map.insert(last.clone(), value);
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            write!(f, ".{segment}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_path() {
        let cases = [
            (
                "spec.suspend",
                "must start with a dot (such as \".spec.suspend\")",
            ),
            (".metadata.labels", "must not lie in metadata or status"),
            (".status.active", "must not lie in metadata or status"),
        ];
        for (text, expected) in cases {
            let rule = FieldPath::parse(text).unwrap_err();
            assert_eq!(rule.to_string(), expected, "{text}");
        }
        for text in [
            ".",
            ".spec..x",
            ".spec.jobs[*].x",
            ".spec.a/b",
            ".spec.a~1b",
            ".spec.é",
        ] {
            let rule = FieldPath::parse(text).unwrap_err();
            assert_eq!(rule, PathError::NoFieldName, "{text}");
        }
    }

    #[test]
    fn below_an_element_any_field_may_be_named() {
        assert!(FieldPath::parse_below(".metadata").is_ok());
        assert!(FieldPath::parse_below("metadata").is_err());
    }
}
