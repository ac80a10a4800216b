//! Holds a JobKind's paths against the schema that the API server publishes for the kind
//! (`/openapi/v3/apis/<group>/<version>`), so that a typo is told before any job is misread.

use serde_json::{Map, Value};

use crate::jobkind::CompiledKind;
use crate::path::FieldPath;
use crate::problem::Problem;

/// Deepest chain of references that is followed for one field: real documents need two.
const REFERENCES_MAX: usize = 8;
/// Field names that a message lists.
const NAMES_MAX: usize = 12;

/// What of `kind` does not fit the OpenAPI v3 `document` of its group and version. Fields below an
/// object that keeps unknown fields can't be checked and pass.
pub fn check(kind: &CompiledKind, document: &Value) -> Vec<Problem> {
    let Some(root) = find_kind(kind, document) else {
        return vec![Problem::invalid(
            "spec.kind",
            kind.kind.clone(),
            format!(
                "there is no such kind in the published schema of {}/{}",
                kind.group, kind.version
            ),
        )];
    };
    let mut problems = Vec::new();
    if let Some(suspend) = kind.suspend_path() {
        problems.extend(check_suspend(root, suspend, document));
    }
    for (field, path) in kind.template_paths() {
        match look_up(root, path, document) {
            Ok(Some(schema)) if !is_template(schema, document) => problems.push(Problem::invalid(
                field,
                path.to_string(),
                "must name a pod template: this field has no spec.containers",
            )),
            Ok(_) => {}
            Err(rule) => problems.push(Problem::invalid(field, path.to_string(), rule)),
        }
    }
    problems
}

fn check_suspend(root: &Value, suspend: &FieldPath, document: &Value) -> Option<Problem> {
    let rule = match look_up(root, suspend, document) {
        Ok(Some(schema)) if type_of(schema) != Some("boolean") => format!(
            "must name a boolean field: this one is {}",
            type_of(schema).unwrap_or("of no one type")
        ),
        Ok(_) => return None,
        Err(rule) => rule,
    };
    Some(Problem::invalid("spec.suspend", suspend.to_string(), rule))
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

/// The schema of the field at `path` below `root`; none if the schema says nothing about it.
fn look_up<'a>(
    root: &'a Value,
    path: &FieldPath,
    document: &'a Value,
) -> Result<Option<&'a Value>, String> {
    let mut here = resolve(root, document);
    let mut walked = String::new();
    for segment in path.segments() {
        let properties = here.get("properties").and_then(Value::as_object);
        match properties.and_then(|properties| properties.get(segment)) {
            Some(next) => here = resolve(next, document),
            None if keeps_unknown(here) || properties.is_none_or(Map::is_empty) => return Ok(None),
            None => {
                let place = if walked.is_empty() {
                    "the object".to_owned()
                } else {
                    walked
                };
                return Err(format!(
                    "there is no field {segment:?} in {place}: there are {}",
                    names(properties)
                ));
            }
        }
        walked.push('.');
        walked.push_str(segment);
    }
    Ok(Some(here))
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

fn keeps_unknown(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
        || schema
            .get("additionalProperties")
            .is_some_and(|a| *a != Value::Bool(false))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixtures::job_kind;

    fn document() -> Value {
        json!({"components": {"schemas": {
            "io.k8s.api.batch.v1.Job": {
                "x-kubernetes-group-version-kind": [{"group": "batch", "version": "v1", "kind": "Job"}],
                "properties": {
                    "spec": {"allOf": [{"$ref": "#/components/schemas/JobSpec"}], "default": {}},
                    "status": {},
                },
            },
            "JobSpec": {"properties": {
                "suspend": {"type": "boolean"},
                "parallelism": {"type": "integer"},
                "template": {"$ref": "#/components/schemas/Template"},
            }},
            "Template": {"properties": {"spec": {"properties": {"containers": {}}}}},
        }}})
    }

    fn problems(suspend: &str, template: &str) -> Vec<String> {
        let mut kind = job_kind();
        kind.spec.suspend = Some(suspend.to_owned());
        kind.spec.pod_sets[0].template = Some(template.to_owned());
        let kind = CompiledKind::compile(&kind).unwrap();
        check(&kind, &document())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn paths_must_be_there_and_be_of_the_right_type() {
        assert!(problems(".spec.suspend", ".spec.template").is_empty());
        assert_eq!(
            problems(".spec.runPolicy.suspend", ".spec.template"),
            [
                "spec.suspend: Invalid value: \".spec.runPolicy.suspend\": there is no field \"runPolicy\" in .spec: there are parallelism, suspend, template"
            ]
        );
        assert_eq!(
            problems(".spec.suspend", ".spec.parallelism"),
            [
                "spec.podSets[0].template: Invalid value: \".spec.parallelism\": must name a pod template: this field has no spec.containers",
            ]
        );
        assert_eq!(
            problems(".spec.parallelism", ".spec"),
            [
                "spec.suspend: Invalid value: \".spec.parallelism\": must name a boolean field: this one is integer",
                "spec.podSets[0].template: Invalid value: \".spec\": must name a pod template: this field has no spec.containers",
            ]
        );
    }

    #[test]
    fn without_a_suspend_field_there_are_just_the_templates() {
        let mut kind = job_kind();
        kind.spec.suspend = None;
        kind.spec.pod_sets[0].template = Some(".spec.pods".to_owned());
        let kind = CompiledKind::compile(&kind).unwrap();
        let texts: Vec<_> = check(&kind, &document())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            texts,
            [
                "spec.podSets[0].template: Invalid value: \".spec.pods\": there is no field \"pods\" in .spec: there are parallelism, suspend, template"
            ]
        );
    }

    #[test]
    fn a_kind_that_is_not_published_is_told() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        assert_eq!(
            check(&kind, &json!({}))[0].to_string(),
            "spec.kind: Invalid value: \"Job\": there is no such kind in the published schema of batch/v1"
        );
    }
}
