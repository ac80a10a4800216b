//! Holds a JobKind's paths and expressions against the schema that the API server publishes for the
//! kind (`/openapi/v3/apis/<group>/<version>`), so that a typo is told before any job is misread.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::expression::compiled::Expression;
use crate::field::path::FieldPath;
use crate::field::problem::Problem;
use crate::jobkind::kind::CompiledKind;
use crate::pod_sets::rule::{Rule, Source};

#[cfg(test)]
mod tests;

/// Deepest chain of references that is followed for one field: real documents need two.
const REFERENCES_MAX: usize = 8;
/// Field names that a message lists.
const NAMES_MAX: usize = 12;

/// How a field is not as a JobKind has it.
#[derive(Debug, Error)]
enum Misfit {
    #[error("there is no field {field:?} in {place}: there are {names}")]
    NoField {
        field: String,
        place: String,
        names: String,
    },
    #[error("there is no field {field:?} in {place}, which is {kind}")]
    NoFields {
        field: String,
        place: String,
        kind: String,
    },
    #[error("must name a list or a map: this one is {0}")]
    NotAList(String),
    #[error("must name {wanted}: this one is {kind}")]
    OtherType { wanted: String, kind: String },
    #[error("must name a pod template: this field has no spec.containers")]
    NotATemplate,
}

/// What of `kind` does not fit the OpenAPI v3 `document` of its group and version. Fields below an
/// object that keeps unknown fields can't be checked and pass.
pub fn check(kind: &CompiledKind, document: &Value) -> Vec<Problem> {
    let Some(root) = find_kind(kind, document) else {
        return vec![Problem::invalid(
            "spec.kind",
            kind.kind.clone(),
            format!(
                "the published schema of {}/{} has no such kind",
                kind.group, kind.version
            ),
        )];
    };
    let root = Known {
        schema: Some(root),
        document,
        name: "",
    };
    let mut problems = Vec::new();
    if let Some(suspend) = kind.suspend_path() {
        let rule = root.must_be(suspend, "boolean");
        problems.extend(
            rule.map(|rule| {
                Problem::invalid("spec.suspend", suspend.to_string(), rule.to_string())
            }),
        );
    }
    for (field, rule) in kind.rules() {
        problems.extend(check_rule(rule, &field, root));
    }
    for (field, expression) in kind.expressions() {
        problems.extend(check_expression(expression, field, root, None));
    }
    problems
}

/// Whether the kind is among those of the OpenAPI v3 `document`.
pub fn has_kind(kind: &CompiledKind, document: &Value) -> bool {
    find_kind(kind, document).is_some()
}

fn check_rule(rule: &Rule, field: &str, root: Known<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut told = |name: &str, path: &FieldPath, rule: Misfit| {
        problems.push(Problem::invalid(
            format!("{field}.{name}"),
            path.to_string(),
            rule.to_string(),
        ));
    };
    let (mut holder, mut element) = (root, root);
    for list in &rule.lists {
        holder = element;
        element = match element.at(list.segments()).and_then(Known::elements) {
            Ok(elements) => Known {
                name: "the element",
                ..elements
            },
            Err(rule) => {
                told("forEach", list, rule);
                return problems;
            }
        };
    }
    let of_source = match &rule.source {
        Source::Template(path) => ("template", path, element.must_be_template(path)),
        Source::TemplateFrom(path) => ("templateFrom", path, element.must_be(path, "string")),
        Source::Metadata(path) => ("podMetadata", path, element.must_be(path, "object")),
    };
    let name_from = rule.name_from.as_ref();
    let infos = rule.infos.as_ref();
    let checked = [
        Some(of_source),
        name_from.map(|path| ("nameFrom", path, element.must_be(path, "string"))),
        infos.map(|path| ("podInfos", path, holder.must_be(path, "array"))),
    ];
    for (name, path, rule) in checked.into_iter().flatten() {
        if let Some(rule) = rule {
            told(name, path, rule);
        }
    }
    if let Some(partial) = &rule.partial
        && let Some(rule) = root.must_be(&partial.field, "integer")
    {
        told("partialAdmission.field", &partial.field, rule);
    }
    let item = (!rule.lists.is_empty()).then_some(Known {
        name: "item",
        ..element
    });
    for (index, added) in rule.added.iter().enumerate() {
        let field = format!("{field}.addContainers[{index}]");
        if let Some(path) = &added.resources_from
            && let Some(rule) = root.must_be(path, "object")
        {
            problems.push(Problem::invalid(
                format!("{field}.resourcesFrom"),
                path.to_string(),
                rule.to_string(),
            ));
        }
        if let Some(when) = &added.when {
            problems.extend(check_expression(when, &format!("{field}.when"), root, item));
        }
    }
    for (name, expression) in [("count", &rule.count), ("reclaimable", &rule.reclaimable)] {
        if let Some(expression) = expression {
            let field = format!("{field}.{name}");
            problems.extend(check_expression(expression, &field, root, item));
        }
    }
    problems
}

/// What is wrong with the fields that an expression names. The metadata of all kinds is alike, and
/// is not described in a CRD.
fn check_expression(
    expression: &Expression,
    field: &str,
    root: Known<'_>,
    item: Option<Known<'_>>,
) -> Vec<Problem> {
    let mut named = BTreeSet::new();
    let mut problems = Vec::new();
    for reference in expression.references() {
        let place = match reference.variable.as_str() {
            "object"
                if reference
                    .fields
                    .first()
                    .is_none_or(|first| first == "metadata") =>
            {
                continue;
            }
            "object" => Some(root),
            "item" => item,
            _ => None,
        };
        if let Some(Err(rule)) = place.map(|place| place.at(&reference.fields)) {
            let text = format!("{}.{}", reference.variable, reference.fields.join("."));
            if named.insert(text.clone()) {
                let rule = format!("{rule}{}", expression.position(reference));
                problems.push(Problem::invalid(field, text, rule));
            }
        }
    }
    problems
}

fn find_kind<'a>(kind: &CompiledKind, document: &'a Value) -> Option<&'a Value> {
    let schemas = document.pointer("/components/schemas")?.as_object()?;
    schemas.values().find(|schema| {
        let names = schema
            .get("x-kubernetes-group-version-kind")
            .and_then(Value::as_array);
        names.into_iter().flatten().any(|name| {
            let is = |key: &str, value: &str| name.get(key).and_then(Value::as_str) == Some(value);
            is("group", &kind.group) && is("version", &kind.version) && is("kind", &kind.kind)
        })
    })
}

/// A field, and what the document says of it: nothing, where unknown fields are kept.
#[derive(Clone, Copy)]
struct Known<'a> {
    schema: Option<&'a Value>,
    document: &'a Value,
    /// How it is called in messages; empty for the object itself.
    name: &'a str,
}

impl<'a> Known<'a> {
    fn with(self, schema: Option<&'a Value>) -> Self {
        let schema = schema.map(|schema| resolve(schema, self.document));
        Self { schema, ..self }
    }

    /// The field at `fields` below, or why there can't be one.
    fn at(self, fields: &[String]) -> Result<Self, Misfit> {
        let mut here = self.with(self.schema);
        let mut walked = self.name.to_owned();
        for field in fields {
            let Some(schema) = here.schema else {
                return Ok(here);
            };
            let properties = schema.get("properties").and_then(Value::as_object);
            here = match properties.and_then(|properties| properties.get(field)) {
                Some(next) => here.with(Some(next)),
                None if keeps_unknown(schema) => here.with(values_of(schema)),
                None if properties.is_none_or(Map::is_empty) && has_type(schema, "object") => {
                    here.with(None)
                }
                None => {
                    let place = if walked.is_empty() {
                        "the object"
                    } else {
                        &walked
                    };
                    let (field, place) = (field.clone(), place.to_owned());
                    return Err(match properties {
                        Some(_) => Misfit::NoField {
                            field,
                            place,
                            names: names(properties),
                        },
                        None => Misfit::NoFields {
                            field,
                            place,
                            kind: kind_of(schema).to_owned(),
                        },
                    });
                }
            };
            walked.push('.');
            walked.push_str(field);
        }
        Ok(here)
    }

    /// The elements of a list or the values of a map.
    fn elements(self) -> Result<Self, Misfit> {
        let Some(schema) = self.schema else {
            return Ok(self);
        };
        if type_of(schema) == Some("array") {
            return Ok(self.with(schema.get("items")));
        }
        if keeps_unknown(schema) || type_of(schema).is_none() {
            return Ok(self.with(values_of(schema)));
        }
        Err(Misfit::NotAList(kind_of(schema).to_owned()))
    }

    /// Why the field at `path` is not of this type, if it is not.
    fn must_be(self, path: &FieldPath, wanted: &str) -> Option<Misfit> {
        match self.at(path.segments()) {
            Ok(found) => {
                let schema = found.schema.filter(|schema| !has_type(schema, wanted))?;
                Some(Misfit::OtherType {
                    wanted: described(wanted).to_owned(),
                    kind: kind_of(schema).to_owned(),
                })
            }
            Err(rule) => Some(rule),
        }
    }

    fn must_be_template(self, path: &FieldPath) -> Option<Misfit> {
        match self.at(path.segments()) {
            Ok(found) => {
                let schema = found.schema?;
                let is_template = is_template(schema, self.document);
                (!is_template).then_some(Misfit::NotATemplate)
            }
            Err(rule) => Some(rule),
        }
    }
}

/// Follows `$ref`, also where it is wrapped in `allOf`, as the API server writes it.
fn resolve<'a>(schema: &'a Value, document: &'a Value) -> &'a Value {
    let mut here = schema;
    for _ in 0..REFERENCES_MAX {
        let reference = here
            .get("$ref")
            .or_else(|| here.pointer("/allOf/0/$ref"))
            .and_then(Value::as_str)
            .and_then(|reference| reference.strip_prefix('#'));
        match reference.and_then(|pointer| document.pointer(pointer)) {
            Some(next) => here = next,
            None => return here,
        }
    }
    here
}

fn is_template(schema: &Value, document: &Value) -> bool {
    let is_object = schema.get("type").is_none_or(|kind| kind == "object");
    if keeps_unknown(schema) || (is_object && schema.get("properties").is_none()) {
        return true;
    }
    let Some(spec) = schema
        .pointer("/properties/spec")
        .map(|spec| resolve(spec, document))
    else {
        return false;
    };
    keeps_unknown(spec)
        || spec
            .get("properties")
            .is_none_or(|p| p.get("containers").is_some())
}

/// Whether fields that the schema does not name are kept.
fn keeps_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
        || schema
            .get("additionalProperties")
            .is_some_and(|values| *values != Value::Bool(false))
}

/// What the values of a map are, where that is said.
fn values_of(schema: &Value) -> Option<&Value> {
    schema
        .get("additionalProperties")
        .filter(|values| values.is_object())
}

/// Whether the schema allows for a value of this type. One that says nothing allows for all.
fn has_type(schema: &Value, wanted: &str) -> bool {
    type_of(schema).is_none_or(|found| found == wanted)
        && (wanted != "boolean" || type_of(schema).is_some())
}

fn kind_of(schema: &Value) -> &str {
    type_of(schema).map_or("of no one type", described)
}

fn described(kind: &str) -> &str {
    match kind {
        "boolean" => "a boolean field",
        "object" => "an object",
        "array" => "a list",
        "string" => "a string",
        "integer" => "an integer",
        other => other,
    }
}

fn type_of(schema: &Value) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

fn names(properties: Option<&Map<String, Value>>) -> String {
    let all: Vec<&str> = properties
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    let shown = all
        .iter()
        .take(NAMES_MAX)
        .copied()
        .collect::<Vec<_>>()
        .join(", ");
    match all.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
