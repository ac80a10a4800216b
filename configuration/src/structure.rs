//! Holds the text of a configuration against the schema of its types: unknown fields, values of the wrong type,
//! values that there are not. What does not fit is taken out, so that the rest can be judged too.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use sluice_crds::duration;
use sluice_kinds::Problem;

/// The schema of `T`, without references.
pub(crate) fn schema_of<T: schemars::JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

/// Whether `value`, which lies at `field`, can be read by `schema`. Parts that can't be are removed as far as
/// `schema` lets them be absent.
pub(crate) fn fits(
    value: &mut Value,
    schema: &Value,
    field: &str,
    problems: &mut Vec<Problem>,
) -> bool {
    if let Some(schema) = alternative(schema) {
        return value.is_null() || fits(value, schema, field, problems);
    }
    if value.is_null() && types(schema).contains(&"null") {
        return true;
    }
    if let Some(accepted) = accepted_values(schema) {
        let is_one = value.as_str().is_some_and(|text| accepted.contains(&text));
        if !is_one {
            problems.push(Problem::not_supported(field, shown(value), &accepted));
        }
        return is_one;
    }
    let types = types(schema);
    let Some((_, rule)) = types.iter().find_map(|name| rule(name)) else {
        return true;
    };
    match value {
        Value::Object(fields) if types.contains(&"object") => {
            object_fits(fields, schema, field, problems)
        }
        Value::Array(elements) if types.contains(&"array") => {
            let items = schema.get("items").unwrap_or(&Value::Null);
            let mut fit = true;
            for (index, element) in elements.iter_mut().enumerate() {
                fit &= fits(element, items, &format!("{field}[{index}]"), problems);
            }
            fit
        }
        Value::String(text) if types.contains(&"string") => {
            let is_duration = schema.get("format").and_then(Value::as_str) == Some("duration");
            if is_duration && duration::parse(text).is_err() {
                problems.push(Problem::invalid(field, text.clone(), duration::RULE));
                return false;
            }
            true
        }
        Value::Bool(_) if types.contains(&"boolean") => true,
        Value::Number(number) if types.contains(&"integer") || types.contains(&"number") => {
            number_fits(number.as_f64(), schema, field, problems)
        }
        other => {
            problems.push(Problem::invalid(field, shown(other), rule));
            false
        }
    }
}

fn object_fits(
    fields: &mut Map<String, Value>,
    schema: &Value,
    field: &str,
    problems: &mut Vec<Problem>,
) -> bool {
    let none = Map::new();
    let known = schema.get("properties").and_then(Value::as_object);
    let known = known.unwrap_or(&none);
    let others = schema.get("additionalProperties").filter(|s| s.is_object());
    fields.retain(|name, value| {
        let below = below(field, name);
        let Some(schema) = known.get(name).or(others) else {
            let names: Vec<_> = known.keys().map(|name| format!("{name:?}")).collect();
            let detail = format!("unknown field; supported fields: {}", names.join(", "));
            problems.push(Problem::forbidden(below, detail));
            return false;
        };
        // As the API server does: a field that is null is absent, unless that says something else. A key of a map that
        // has no value is a mistake: without it a selector would match more.
        if value.is_null() && known.contains_key(name) && !is_nullable(schema) {
            return false;
        }
        fits(value, schema, &below, problems)
    });
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let mut fit = true;
    for name in required.filter(|name| !fields.contains_key(*name)) {
        fit = false;
        let at = below(field, name);
        // A field that was present but did not fit is reported already.
        if !problems.iter().any(|problem| lies_at(&problem.field, &at)) {
            let schema = known.get(name).unwrap_or(&Value::Null);
            let accepted = match accepted_values(schema).as_deref() {
                Some([only]) => format!("must be {only:?}"),
                _ => description(schema).to_owned(),
            };
            problems.push(Problem::required(at, accepted));
        }
    }
    fit
}

fn number_fits(
    number: Option<f64>,
    schema: &Value,
    field: &str,
    problems: &mut Vec<Problem>,
) -> bool {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let value = number.unwrap_or(f64::NAN);
    let least = limit("minimum").unwrap_or(f64::MIN);
    let most = limit("maximum").unwrap_or(f64::MAX);
    let is_whole = !types(schema).contains(&"integer") || value.fract() == 0.0;
    let fit = is_whole && (least..=most).contains(&value);
    if !fit {
        let rule = if types(schema).contains(&"integer") {
            "must be a whole number"
        } else {
            "must be a number"
        };
        let at = |text: &str, limit: Option<f64>| limit.map(|limit| format!(", at {text} {limit}"));
        let (least, most) = (at("least", limit("minimum")), at("most", limit("maximum")));
        let rule = [Some(rule.to_owned()), least, most].into_iter().flatten();
        let rule: String = rule.collect();
        problems.push(Problem::invalid(field, value.to_string(), rule));
    }
    fit
}

/// The schema of a value that may also be null, where that is written as a choice.
pub(crate) fn alternative(schema: &Value) -> Option<&Value> {
    let choices = schema.get("anyOf")?.as_array()?;
    choices.iter().find(|choice| types(choice) != ["null"])
}

fn is_nullable(schema: &Value) -> bool {
    schema.get("anyOf").is_some() || types(schema).contains(&"null")
}

/// The values of a closed set of names.
pub(crate) fn accepted_values(schema: &Value) -> Option<Vec<&str>> {
    if let Some(one) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![one]);
    }
    if let Some(names) = schema.get("enum").and_then(Value::as_array) {
        return Some(names.iter().filter_map(Value::as_str).collect());
    }
    let choices = schema.get("oneOf")?.as_array()?.iter();
    Some(choices.filter_map(accepted_values).flatten().collect())
}

/// The types that a schema allows.
pub(crate) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// What is said of a field.
pub(crate) fn description(schema: &Value) -> &str {
    let text = schema.get("description").and_then(Value::as_str);
    text.unwrap_or_default()
}

/// The type of this name, and what is said to a value that is of another one.
fn rule(name: &str) -> Option<(&str, &'static str)> {
    let rule = match name {
        "object" => "must be a map of fields",
        "array" => "must be a list",
        "string" => "must be a text (a number or a truth value needs quotes)",
        "boolean" => "must be true or false",
        "integer" | "number" => "must be a number",
        _ => return None,
    };
    Some((name, rule))
}

/// Whether a problem is of this field, or of what lies in it.
fn lies_at(field: &str, at: &str) -> bool {
    let rest = field.strip_prefix(at);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn below(field: &str, name: &str) -> String {
    if field.is_empty() {
        name.to_owned()
    } else {
        format!("{field}.{name}")
    }
}

/// A text as it is, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
