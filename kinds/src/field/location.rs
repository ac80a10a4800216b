//! Where a field of one object lies, with its places in lists and its keys in maps: what the paths
//! of a JobKind come to in that object. Which fields these are is the JobKind's matter (`jobkind`).

use std::fmt;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::field::path::FieldPath;

/// Deepest location that an object may name.
const STEPS_MAX: usize = 32;

/// One step down into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Key(String),
    Place(usize),
}

/// The rule that a text breaks by which an object says where a field of it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum LocationError {
    #[error(
        "must be field names with dots between them, with the places in lists in brackets (such as \"template.spec.jobs[0].template\")"
    )]
    NoFieldName,
    #[error("must not lead deeper than {STEPS_MAX} fields")]
    TooDeep,
}

/// Where a field of an object lies. The empty one is the object itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location(Vec<Step>);

impl Location {
    /// The field at `path` below.
    #[must_use]
    pub(crate) fn below(&self, path: &FieldPath) -> Self {
        let fields = path.segments().iter().cloned().map(Step::Field);
        Self(self.0.iter().cloned().chain(fields).collect())
    }

    /// What there is below by these keys.
    #[must_use]
    pub(crate) fn keys(&self, keys: &[&str]) -> Self {
        keys.iter().fold(self.clone(), |at, key| at.key(key))
    }

    /// What the map here has at `key`.
    #[must_use]
    pub(crate) fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// The element of the list here at `place`.
    #[must_use]
    pub(crate) fn place(&self, place: usize) -> Self {
        self.then(Step::Place(place))
    }

    /// The field below whose path the object itself says: names with a dot between them, each of
    /// which may have places in lists behind it, as in `template.spec.jobs[0].template`.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub(crate) fn follow(&self, text: &str) -> Result<Self, LocationError> {
        let rule = LocationError::NoFieldName;
        let mut at = self.clone();
        for part in text.trim_start_matches('.').split('.') {
            let (name, places) = part.split_at(part.find('[').unwrap_or(part.len()));
            let name = FieldPath::parse_below(&format!(".{name}")).map_err(|_| rule)?;
            at = at.below(&name);
            if places.is_empty() {
                continue;
            }
            let places = places
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            for place in places.ok_or(rule)?.split("][") {
                let is_number = place.bytes().all(|byte| byte.is_ascii_digit());
                let place = place.parse().ok().filter(|_| is_number);
                at = at.place(place.ok_or(rule)?);
            }
        }
        if STEPS_MAX < at.0.len() {
            return Err(LocationError::TooDeep);
        }
        Ok(at)
    }

    /// What `object` has here, if that is not null.
    pub(crate) fn get<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let mut steps = self.0.iter();
        steps
            .try_fold(object, |value, step| step.of(value))
            .filter(|value| !value.is_null())
    }

    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }

    /// The fields `below` as a JSON pointer.
    pub(crate) fn pointer(&self, below: &[&str]) -> PointerBuf {
        let steps = self.0.iter().map(Step::token);
        PointerBuf::from_tokens(steps.chain(below.iter().map(|&field| field.to_owned())))
    }

    /// The one operation that makes this field of `object` hold `value`, making the objects above it
    /// where they are missing.
    pub(crate) fn set(&self, object: &Value, value: Value) -> PatchOperation {
        let mut here = object;
        let mut depth = 0_usize;
        for step in &self.0 {
            match step.of(here) {
                Some(next) if next.is_object() || next.is_array() => here = next,
                _ => break,
            }
            depth = depth.saturating_add(1);
        }
        let (there, missing) = self.0.split_at(depth.saturating_add(1).min(self.0.len()));
        let value = missing.iter().rev().fold(value, |inner, step| {
            Value::Object(Map::from_iter([(step.token(), inner)]))
        });
        PatchOperation::Add(AddOperation {
            path: PointerBuf::from_tokens(there.iter().map(Step::token)),
            value,
        })
    }
}

impl Step {
    fn token(&self) -> String {
        match self {
            Self::Field(name) | Self::Key(name) => name.clone(),
            Self::Place(place) => place.to_string(),
        }
    }

    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Field(name) | Self::Key(name) => value.get(name),
            Self::Place(place) => value.get(place),
        }
    }
}

impl fmt::Display for Location {
    /// As the API server writes it: `spec.roles[Master].templates[0].spec`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if index == 0 => write!(f, "{name}")?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[{key}]")?,
                Step::Place(place) => write!(f, "[{place}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn is_written_as_the_api_server_writes_it() {
        let spec = Location::default().below(&FieldPath::parse(".spec.roles").unwrap());
        let inner = FieldPath::parse_below(".template.spec").unwrap();
        let cases = [
            (Location::default(), "", ""),
            (spec.clone(), "spec.roles", "/spec/roles"),
            (
                spec.key("a/b~c").below(&inner),
                "spec.roles[a/b~c].template.spec",
                "/spec/roles/a~1b~0c/template/spec",
            ),
            (
                spec.place(3).below(&inner),
                "spec.roles[3].template.spec",
                "/spec/roles/3/template/spec",
            ),
        ];
        for (location, text, pointer) in cases {
            assert_eq!(location.to_string(), text);
            assert_eq!(location.pointer(&[]).as_str(), pointer);
        }
    }

    #[test]
    fn follows_the_path_that_an_object_says() {
        let object = json!({"template": {"jobs": [[{"x": 1}, {"x": 2}]]}});
        let root = Location::default();
        let cases = [
            ("template.jobs[0][1].x", Some(2)),
            (".template.jobs[0][0].x", Some(1)),
            ("template.jobs[1].x", None),
            ("template.jobs.x", None),
        ];
        for (text, expected) in cases {
            let at = root.follow(text).unwrap();
            assert_eq!(at.get(&object).and_then(Value::as_i64), expected, "{text}");
        }
        for text in [
            "", "a..b", "a[x]", "a[-1]", "a[+1]", "a[0", "a]0[", "[0]", "a/b", "a[0]b",
        ] {
            let rule = root.follow(text).unwrap_err();
            assert_eq!(rule, LocationError::NoFieldName, "{text}");
        }
        let rule = root.follow(&vec!["a"; 40].join(".")).unwrap_err();
        assert_eq!(rule.to_string(), "must not lead deeper than 32 fields");
    }

    #[test]
    fn sets_and_makes_what_is_missing() {
        let at = Location::default()
            .below(&FieldPath::parse(".spec.list").unwrap())
            .place(1)
            .below(&FieldPath::parse_below(".a.b").unwrap());
        for list in [
            json!([{}, {}]),
            json!([{}, {"a": {}}]),
            json!([{}, {"a": {"b": 0}}]),
        ] {
            let object = json!({"spec": {"list": list}});
            let mut patched = object.clone();
            json_patch::patch(&mut patched, &[at.set(&object, json!(1))]).unwrap();
            assert_eq!(patched, json!({"spec": {"list": [{}, {"a": {"b": 1}}]}}));
        }
    }
}
