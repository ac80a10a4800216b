//! Paths to fields as users write them in a JobKind (`.spec.template`), and how to read and write
//! through them. No lists and no wildcards: a path names one field.

use std::fmt;

use json_patch::{AddOperation, PatchOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value};

/// A path to one field: dots and field names, as in `.spec.runPolicy.suspend`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath {
    segments: Vec<String>,
}

/// Deepest path that is accepted: the kinds known to us need five.
const SEGMENTS_MAX: usize = 16;

impl FieldPath {
    /// Parses `.a.b.c`.
    ///
    /// # Errors
    /// The rule that `text` breaks, as a sentence for the user.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix('.')
            .ok_or_else(|| "must start with a dot (such as \".spec.suspend\")".to_owned())?;
        let segments: Vec<String> = rest.split('.').map(str::to_owned).collect();
        if segments.len() > SEGMENTS_MAX {
            return Err(format!("must not be deeper than {SEGMENTS_MAX} fields"));
        }
        for segment in &segments {
            let mut letters = segment.chars();
            let starts_well = letters
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !starts_well || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
                return Err(
                    "must be field names with a dot before each (such as \".spec.suspend\"); lists and wildcards are not supported"
                        .to_owned(),
                );
            }
        }
        if segments
            .first()
            .is_some_and(|s| s == "metadata" || s == "status")
        {
            return Err("must not lie in metadata or status".to_owned());
        }
        Ok(Self { segments })
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

    /// The field `names` below this one, as a JSON pointer.
    pub fn pointer(&self, below: &[&str]) -> PointerBuf {
        PointerBuf::from_tokens(
            self.segments
                .iter()
                .map(String::as_str)
                .chain(below.iter().copied()),
        )
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

    /// The one operation that makes the field of `object` hold `value`, making the objects above it
    /// where they are missing.
    pub fn set(&self, object: &Value, value: Value) -> PatchOperation {
        let mut here = object;
        let mut depth = 0;
        for segment in &self.segments {
            match here.get(segment) {
                Some(next) if next.is_object() => here = next,
                _ => break,
            }
            depth += 1;
        }
        let (path, missing) = self.segments.split_at((depth + 1).min(self.segments.len()));
        let value = missing.iter().rev().fold(value, |inner, segment| {
            Value::Object(Map::from_iter([(segment.clone(), inner)]))
        });
        PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(path),
            value,
        })
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
    use serde_json::json;

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
            assert_eq!(FieldPath::parse(text).unwrap_err(), expected, "{text}");
        }
        for text in [
            ".",
            ".spec..x",
            ".spec.jobs[*].x",
            ".spec.a/b",
            ".spec.a~1b",
            ".spec.é",
        ] {
            let message = FieldPath::parse(text).unwrap_err();
            assert!(
                message.starts_with("must be field names"),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn reads_and_writes_and_makes_what_is_missing() {
        let path = FieldPath::parse(".spec.runPolicy.suspend").unwrap();
        for object in [
            json!({"spec": {"runPolicy": {"suspend": false, "kept": 1}}}),
            json!({"spec": {"runPolicy": {}}}),
            json!({"spec": {}}),
            json!({}),
        ] {
            let mut patched = object.clone();
            let operation = path.set(&object, json!(true));
            json_patch::patch(&mut patched, &[operation]).unwrap();
            assert_eq!(path.get(&patched), Some(&json!(true)), "{object}");
        }
    }
}
