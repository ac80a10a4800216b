//! Objects as the API server stores them, read so that one of them can't make a whole list unreadable, and with it the
//! objects of everybody else. What an object means is read by the other files of this folder.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An object of a list, of a watch, or of an answer.
///
/// Who may edit an object may give it `metadata.managedFields` with a time that no clock of ours can show, or a tree of
/// fields deeper than `serde_json` follows: the API server keeps both. Kinds that keep unknown fields keep such trees
/// anywhere. If an object can't be parsed as it is, it is read without its `managedFields`, which nothing here asks for,
/// and without the fields that are too deep: what needs one finds it missing. Of an event of a watch the type has to come
/// before the object, as the API server writes it.
///
/// ```
/// use kube::core::DynamicObject;
/// use sluice_kinds::stored::Stored;
///
/// let text = r#"{"apiVersion": "batch/v1", "kind": "Job", "metadata": {
///     "name": "train", "managedFields": [{"time": "9999-12-31T23:59:59Z"}]}}"#;
/// assert!(serde_json::from_str::<DynamicObject>(text).is_err());
/// let Stored(job) = serde_json::from_str::<Stored<DynamicObject>>(text)?;
/// assert_eq!(job.metadata.name.as_deref(), Some("train"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Stored<K>(pub K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Stored<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Self(object)),
            // What is told is why the object as a whole can't be read.
            Err(error) => lenient(text.get()).map_err(|_| D::Error::custom(error)),
        }
    }
}

/// The object without `managedFields`, and without fields that can't be parsed.
fn lenient<K: DeserializeOwned>(text: &str) -> Result<Stored<K>, serde_json::Error> {
    let mut object = Map::new();
    for (name, text) in fields(text)? {
        let value = if name == "metadata" {
            let mut metadata = fields(text.get())?;
            metadata.remove("managedFields");
            Some(serde_json::to_value(metadata)?)
        } else {
            serde_json::from_str(text.get()).ok()
        };
        object.extend(value.map(|value| (name, value)));
    }
    serde_json::from_value(Value::Object(object)).map(Stored)
}

fn fields(object: &str) -> Result<BTreeMap<String, &RawValue>, serde_json::Error> {
    serde_json::from_str(object)
}

impl<K: Resource> Resource for Stored<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use kube::core::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    /// As deep as that.
    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"f:a\":".repeat(depth), "}".repeat(depth))
    }

    fn job(name: &str, managed_fields: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "{name}",
                "labels": {{"a": "b"}}, "managedFields": {managed_fields}}}, "spec": {spec}}}"#
        )
    }

    fn hostile() -> [(String, Value); 3] {
        let far = r#"[{"manager": "x", "time": "9999-12-31T23:59:59Z"}]"#;
        let deep = format!(r#"[{{"manager": "x", "fieldsV1": {}}}]"#, nested(1000));
        let spec = r#"{"parallelism": 2}"#;
        [
            (job("far", far, spec), json!({"parallelism": 2})),
            (job("deep", &deep, spec), json!({"parallelism": 2})),
            (job("template", "[]", &nested(1000)), Value::Null),
        ]
    }

    #[test]
    fn what_is_hostile_is_read_for_the_rest_of_it() {
        for (text, spec) in hostile() {
            assert!(serde_json::from_str::<DynamicObject>(&text).is_err());
            let Stored(object) = serde_json::from_str::<Stored<DynamicObject>>(&text).unwrap();
            assert_eq!(object.data["spec"], spec, "{:?}", object.metadata.name);
            assert_eq!(object.metadata.labels.unwrap()["a"], "b");
            assert_eq!(object.types.unwrap().kind, "Job");
        }
    }

    #[test]
    fn others_of_a_list_and_of_a_watch_are_read_as_they_are() {
        let ours = r#"{"metadata": {"name": "ours", "managedFields": [{"manager": "x"}]}, "spec": {"a": 1.50}}"#;
        let [(far, _), (deep, _), (template, _)] = hostile();
        let list = format!(
            r#"{{"apiVersion": "batch/v1", "kind": "JobList", "metadata": {{"resourceVersion": "7"}},
                "items": [{far}, {ours}, {deep}, {template}]}}"#
        );
        let list: ObjectList<Stored<DynamicObject>> = serde_json::from_str(&list).unwrap();
        assert_eq!(list.items.len(), 4);
        let expected: DynamicObject = serde_json::from_str(ours).unwrap();
        assert_eq!(list.items[1].0, expected);
        assert!(expected.metadata.managed_fields.is_some());
        let event = format!(r#"{{"type": "DELETED", "object": {deep}}}"#);
        let event: WatchEvent<Stored<DynamicObject>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Deleted(Stored(object)) = event else {
            panic!("{event:?}");
        };
        assert_eq!(object.metadata.name.as_deref(), Some("deep"));
    }

    #[test]
    fn what_is_no_object_is_told() {
        let told = |text| serde_json::from_str::<Stored<DynamicObject>>(text).unwrap_err();
        assert!(
            told("[]").to_string().contains("invalid type"),
            "{}",
            told("[]")
        );
        assert!(
            told(r#"{"metadata": {"name": 3}}"#)
                .to_string()
                .contains("invalid type")
        );
    }
}
