//! The table of fields in docs/configuration.md and the rules for `config` of the Helm chart are generated from the types,
//! and the shipped file writes out their defaults. `UPDATE_GENERATED=1` (`make generate`) writes both.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::file::parse;
use crate::kind::{Configuration, LIVE_FIELDS};
use crate::structure::{accepted_values, alternative, description, schema_of, types};

const BEGIN: &str = "<!-- Generated from configuration/src by `make generate`. Do not edit. -->\n";
const END: &str = "<!-- End of the generated part. -->\n";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A row for each field below `schema`, and for the fields below each.
fn rows(schema: &Value, field: &str, takes_effect: Option<&str>, table: &mut String) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        let field = format!("{field}{name}");
        let takes_effect = takes_effect.unwrap_or(if LIVE_FIELDS.contains(&name.as_str()) {
            "at once"
        } else {
            "at the next start"
        });
        let default = schema.get("default").map(|value| match value {
            Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        });
        let default = default.filter(|text| text != "`null`").unwrap_or_default();
        let (kind, items) = kind(schema);
        let text = description(schema).replace('\n', " ").replace('|', "\\|");
        // Writing to a String can't fail.
        let _ = writeln!(
            table,
            "| `{field}` | {kind} | {default} | {takes_effect} | {text} |"
        );
        rows(schema, &format!("{field}."), Some(takes_effect), table);
        if let Some(items) = items {
            rows(items, &format!("{field}[]."), Some(takes_effect), table);
        }
    }
}

/// What a value is, in words, and the schema of its elements.
fn kind(schema: &Value) -> (String, Option<&Value>) {
    if let Some(values) = accepted_values(schema) {
        let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
        return (values.join(" or "), None);
    }
    let is_duration = schema.get("format") == Some(&json!("duration"));
    let names = types(schema);
    let name = names.iter().find(|name| **name != "null");
    let text = match name.copied() {
        Some("string") if is_duration => "duration",
        Some("string") => "text",
        Some("boolean") => "true or false",
        Some("integer") => "whole number",
        Some("object") => "section",
        Some("array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            return (format!("list of: {}", kind(items).0), Some(items));
        }
        other => other.unwrap_or("anything"),
    };
    (text.to_owned(), None)
}

#[test]
fn the_reference_is_up_to_date() {
    let path = repository("docs/configuration.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut table =
        "\n| field | value | default | a change takes effect | meaning |\n|---|---|---|---|---|\n"
            .to_owned();
    rows(&schema_of::<Configuration>(), "", None, &mut table);
    let expected = format!("{before}{BEGIN}{table}\n{END}{after}");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == expected,
        "docs/configuration.md is stale: run `make generate`"
    );
}

/// The rules of `schema` for a value of the Helm chart, as far as Sluice itself looks at the structure. `null` takes a
/// value away in Helm.
fn rules_of_value(schema: &Value) -> Value {
    if let Some(schema) = alternative(schema) {
        let mut rules = rules_of_value(schema);
        if let Some(name) = rules.get("type").cloned() {
            rules["type"] = json!([name, "null"]);
        }
        return rules;
    }
    if let Some(values) = accepted_values(schema) {
        let mut values = json!(values);
        if let Some(values) = values
            .as_array_mut()
            .filter(|_| types(schema).contains(&"null"))
        {
            values.push(Value::Null);
        }
        return json!({"enum": values});
    }
    let names = types(schema);
    let mut rules = match names.as_slice() {
        [] => json!({}),
        [name] => json!({"type": name}),
        names => json!({"type": names}),
    };
    for bound in ["minimum", "maximum", "minItems", "maxItems"] {
        if let Some(bound_at) = schema.get(bound) {
            rules[bound] = bound_at.clone();
        }
    }
    if let Some(items) = schema.get("items") {
        rules["items"] = rules_of_value(items);
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let properties = properties.iter();
        let properties = properties.map(|(name, schema)| (name.clone(), rules_of_value(schema)));
        rules["properties"] = Value::Object(properties.collect());
        rules["additionalProperties"] = json!(false);
    } else if let Some(values) = schema.get("additionalProperties") {
        rules["additionalProperties"] = rules_of_value(values);
    }
    rules
}

#[test]
fn the_chart_has_the_rules() {
    const BEGIN: &str = "    \"config\": ";
    const END: &str = ",\n    \"extraArgs\"";
    let path = repository("charts/sluice/values.schema.json");
    let file = fs::read_to_string(&path).unwrap();
    let (before, rest) = file.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let rules = rules_of_value(&schema_of::<Configuration>());
    let rules = serde_json::to_string_pretty(&rules).unwrap();
    let rules = rules.replace('\n', "\n    ");
    let expected = format!("{before}{BEGIN}{rules}{END}{after}");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == expected,
        "charts/sluice/values.schema.json is stale: run `make generate`"
    );
}

#[test]
fn the_shipped_file_writes_out_the_defaults() {
    let text = fs::read_to_string(repository("config/manager/config.yaml")).unwrap();
    assert_eq!(parse(&text).unwrap(), Configuration::default());
    let document: Value = serde_saphyr::from_str(&text).unwrap();
    let written: Vec<_> = document.as_object().unwrap().keys().collect();
    let defaults = json!(Configuration::default());
    let expected: Vec<_> = defaults.as_object().unwrap().keys().collect();
    assert_eq!(written, expected);
    // Every field is at least shown.
    let schema = schema_of::<Configuration>();
    for name in schema["properties"].as_object().unwrap().keys() {
        assert!(text.contains(&format!("{name}:")), "{name}");
    }
}

/// Each complete example on the page can be used.
#[test]
fn the_examples_are_valid() {
    let page = fs::read_to_string(repository("docs/configuration.md")).unwrap();
    let examples: Vec<_> = page.split("```yaml\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let (text, _) = example.split_once("```").unwrap();
        if text.contains("kind: Configuration") {
            parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
}
