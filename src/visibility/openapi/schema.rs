//! The schemas of the objects that are answered with, from the types that they are written from, in the words of
//! Kubernetes' OpenAPI: no references within an object, no null, amounts as texts.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// The schema of `T` as it is written.
pub(super) fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let generator = settings
        .with_transform(RecursiveTransform(kubernetes))
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.remove("title");
    schema.to_value()
}

fn kubernetes(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if fields.remove("x-kubernetes-int-or-string").is_some() {
        for field in ["anyOf", "pattern", "maxLength"] {
            fields.remove(field);
        }
        fields.insert("type".into(), "string".into());
    }
    // What has no value is left out, and is never null.
    if let Some(Value::Array(types)) = fields.get("type") {
        let one = types.iter().find(|name| *name != "null").cloned();
        fields.insert("type".into(), one.unwrap_or_default());
    }
    if let Some(Value::Array(choices)) = fields.remove("oneOf") {
        let values = choices.iter().filter_map(|choice| choice.get("const"));
        let values = values.cloned().collect();
        fields.insert("type".into(), "string".into());
        fields.insert("enum".into(), Value::Array(values));
    }
    fields.remove("minimum");
    let format = fields.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| format.starts_with("uint")) {
        fields.insert("format".into(), "int64".into());
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use sluice_crds::Quantity;

    use super::*;

    /// Which one.
    #[derive(serde::Serialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is wanted")]
    enum Which {
        /// The first.
        First,
        /// The second.
        Second,
    }

    /// What is
    /// answered.
    #[derive(serde::Serialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only its schema is wanted")]
    struct Answer {
        /// How many.
        how_many: usize,
        /// Which.
        which: Which,
        /// Amounts.
        #[serde(skip_serializing_if = "Option::is_none")]
        amounts: Option<BTreeMap<String, Quantity>>,
        /// Others.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        others: Vec<Which>,
    }

    #[test]
    fn a_schema_is_written_as_kubernetes_does() {
        let which = |text: &str| json!({"description": text, "type": "string", "enum": ["First", "Second"]});
        let expected = json!({
            "description": "What is answered.",
            "type": "object",
            "required": ["howMany", "which"],
            "properties": {
                "howMany": {"description": "How many.", "type": "integer", "format": "int64"},
                "which": which("Which."),
                "amounts": {
                    "description": "Amounts.",
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                },
                "others": {"description": "Others.", "type": "array", "items": which("Which one.")},
            },
        });
        assert_eq!(of::<Answer>(), expected);
    }
}
