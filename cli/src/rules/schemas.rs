//! The schemas of kinds, from OpenAPI v3 documents and CustomResourceDefinitions. How a JobKind is held
//! against them is said in `sluice-kinds`.

use serde_json::{Map, Value, json};
use sluice_kinds::{CompiledKind, Problem, schema};

use crate::input::{Document, InputError};

/// Whether `object` is a CustomResourceDefinition.
pub fn is_definition(object: &Value) -> bool {
    let api_version = object.get("apiVersion").and_then(Value::as_str);
    object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition")
        && api_version.is_some_and(|version| version.starts_with("apiextensions.k8s.io/"))
}

/// What is known of the schemas of kinds.
#[derive(Debug, Default)]
pub struct Schemas {
    /// All that was given, as one OpenAPI v3 document.
    document: Value,
    /// The user asked for the check: a kind without a schema is then a problem.
    is_asked: bool,
}

impl Schemas {
    /// What the `definitions` among the objects say, and what `given` says by the user's wish.
    ///
    /// # Errors
    /// What is given and is no schema.
    pub fn new(definitions: &[Document], given: &[Document]) -> Result<Self, Vec<InputError>> {
        let mut schemas = Map::new();
        let mut errors = Vec::new();
        for Document { file, value, .. } in definitions.iter().chain(given) {
            if is_definition(value) {
                schemas.extend(published(value));
            } else if let Some(Value::Object(more)) = value.pointer("/components/schemas") {
                schemas.extend(more.clone());
            } else {
                errors.push(InputError::NoSchema(file.clone()));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Self {
            document: json!({"components": {"schemas": schemas}}),
            is_asked: !given.is_empty(),
        })
    }

    /// What of `kind` does not fit the schema of its kind; none if there is no schema to look at.
    pub fn check(&self, kind: &CompiledKind) -> Option<Vec<Problem>> {
        (self.is_asked || self.covers(kind)).then(|| schema::check(kind, &self.document))
    }

    /// Whether there is a schema of the kind, in whatever version.
    fn covers(&self, kind: &CompiledKind) -> bool {
        let schemas = self.document.pointer("/components/schemas");
        let named = schemas
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(_, schema)| schema.get("x-kubernetes-group-version-kind")?.as_array())
            .flatten();
        named.into_iter().any(|name| {
            let is = |key: &str, value: &str| name.get(key).and_then(Value::as_str) == Some(value);
            is("group", &kind.group) && is("kind", &kind.kind)
        })
    }
}

/// The schemas that the API server publishes for `definition`: one for each version that it serves.
fn published(definition: &Value) -> Vec<(String, Value)> {
    let text = |pointer: &str| {
        let found = definition.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    };
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let schema = |version: &Value| {
        let name = version.get("name")?.as_str()?;
        version.get("served")?.as_bool()?.then_some(())?;
        let mut schema = version.pointer("/schema/openAPIV3Schema")?.clone();
        schema.as_object_mut()?.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([{"group": group, "version": name, "kind": kind}]),
        );
        Some((format!("{group}.{name}.{kind}"), schema))
    };
    versions.into_iter().flatten().filter_map(schema).collect()
}
