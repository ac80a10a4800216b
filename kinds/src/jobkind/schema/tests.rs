//! Paths and expressions that fit a schema, and those that do not.

use serde_json::json;

use super::*;
use crate::fixtures::job_kind;

fn document() -> Value {
    json!({"components": {"schemas": {
        "io.k8s.api.batch.v1.Job": {
            "x-kubernetes-group-version-kind": [{"group": "batch", "version": "v1", "kind": "Job"}],
            "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/JobSpec"}], "default": {}},
                "status": {"type": "object", "properties": {
                    "active": {"type": "integer"},
                    "ready": {"type": "integer"},
                    "succeeded": {"type": "integer"},
                    "failedIndexes": {"type": "string"},
                    "terminating": {"type": "integer"},
                    "startTime": {"type": "string"},
                    "conditions": {"type": "array", "items": {"type": "object"}},
                }},
            },
        },
        "JobSpec": {"properties": {
            "suspend": {"type": "boolean"},
            "parallelism": {"type": "integer"},
            "completions": {"type": "integer"},
            "backoffLimitPerIndex": {"type": "integer"},
            "managedBy": {"type": "string"},
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
            "spec.suspend: Invalid value: \".spec.runPolicy.suspend\": there is no field \"runPolicy\" in .spec: there are backoffLimitPerIndex, completions, managedBy, parallelism, suspend, template"
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
            "spec.suspend: Invalid value: \".spec.parallelism\": must name a boolean field: this one is an integer",
            "spec.podSets[0].template: Invalid value: \".spec\": must name a pod template: this field has no spec.containers",
        ]
    );
}

#[test]
fn without_a_suspend_field_there_are_just_the_templates() {
    let mut kind = job_kind();
    kind.spec.suspend = None;
    kind.spec.clear_start_time = None;
    kind.spec.pod_sets[0].partial_admission = None;
    kind.spec.pod_sets[0].template = Some(".spec.pods".to_owned());
    let kind = CompiledKind::compile(&kind).unwrap();
    let texts: Vec<_> = check(&kind, &document())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "spec.podSets[0].template: Invalid value: \".spec.pods\": there is no field \"pods\" in .spec: there are backoffLimitPerIndex, completions, managedBy, parallelism, suspend, template"
        ]
    );
}

#[test]
fn the_number_of_pods_must_be_an_integer() {
    let mut kind = job_kind();
    let partial = kind.spec.pod_sets[0].partial_admission.as_mut().unwrap();
    partial.field = ".spec.suspend".to_owned();
    let kind = CompiledKind::compile(&kind).unwrap();
    assert_eq!(
        check(&kind, &document())[0].to_string(),
        "spec.podSets[0].partialAdmission.field: Invalid value: \".spec.suspend\": must name an integer: this one is a boolean field"
    );
}

#[test]
fn a_kind_that_is_not_published_is_reported() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    assert_eq!(
        check(&kind, &json!({}))[0].to_string(),
        "spec.kind: Invalid value: \"Job\": the published schema of batch/v1 has no such kind"
    );
}

/// A kind with a map of roles, a list of components that hold lists, and the document that says so.
fn roles(rule: &Value, active: &str) -> Vec<String> {
    let pod = json!({"type": "object", "properties": {"spec": {"properties": {"containers": {}}}}});
    let role = json!({"type": "object", "properties": {
        "replicas": {"type": "string"}, "template": pod}});
    let component = json!({"type": "object", "properties": {
        "infos": {"type": "array", "items": {"type": "object"}},
        "sets": {"type": "array", "items": {"type": "object", "properties": {"path": {"type": "string"}}}}}});
    let document = json!({"components": {"schemas": {"io.acme.v1.Fleet": {
        "x-kubernetes-group-version-kind": [{"group": "acme.io", "version": "v1", "kind": "Fleet"}],
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "suspend": {"type": "boolean"},
                "roles": {"type": "object", "additionalProperties": role},
                "components": {"type": "array", "items": component},
                "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }},
            "status": {"type": "object", "properties": {"active": {"type": "integer"}}},
        },
    }}}});
    let kind = serde_json::from_value(json!({
        "metadata": {"name": "fleet"},
        "spec": {"group": "acme.io", "version": "v1", "kind": "Fleet", "suspend": ".spec.suspend",
            "active": active, "podSets": [rule]},
    }));
    let kind = CompiledKind::compile(&kind.unwrap()).unwrap();
    let problems = check(&kind, &document);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn elements_of_lists_and_maps_are_looked_into() {
    let active = "has(object.status) && object.status.active > 0";
    let cases = [
        (
            "all is right",
            json!({"name": "r", "forEach": ".spec.roles", "template": ".template",
                "count": "int(item.replicas)"}),
            vec![],
        ),
        (
            "unknown fields are kept",
            json!({"name": "r", "forEach": ".spec.extra.roles", "template": ".any.template",
                "count": "item.replicas"}),
            vec![],
        ),
        (
            "a field of an element",
            json!({"name": "r", "forEach": ".spec.roles", "template": ".templat",
                "count": "has(item.replica) ? int(item.replica) : 1"}),
            vec![
                "spec.podSets[0].template: Invalid value: \".templat\": there is no field \"templat\" in the element: there are replicas, template",
                "spec.podSets[0].count: Invalid value: \"item.replica\": there is no field \"replica\" in item: there are replicas, template at 1:5",
            ],
        ),
        (
            "no list",
            json!({"name": "r", "forEach": ".spec.suspend", "template": ".template"}),
            vec![
                "spec.podSets[0].forEach: Invalid value: \".spec.suspend\": must name a list or a map: this one is a boolean field",
            ],
        ),
        (
            "lists in lists, with what is beside them",
            json!({"name": "r", "forEach": ".spec.components[].sets", "templateFrom": ".path",
                "podInfos": ".infos", "nameFrom": ".path"}),
            vec![],
        ),
        (
            "nothing beside them",
            json!({"name": "r", "forEach": ".spec.components[].sets", "templateFrom": ".path",
                "podInfos": ".info"}),
            vec![
                "spec.podSets[0].podInfos: Invalid value: \".info\": there is no field \"info\" in the element: there are infos, sets",
            ],
        ),
    ];
    for (name, rule, expected) in cases {
        assert_eq!(roles(&rule, active), expected, "{name}");
    }
}

#[test]
fn a_field_that_an_expression_names_must_be_there() {
    let rule = json!({"name": "r", "forEach": ".spec.roles", "template": ".template"});
    let active = "has(object.status) &&\n  object.status.actve > 0 && object.metadata.name != ''";
    assert_eq!(
        roles(&rule, active),
        [
            "spec.active: Invalid value: \"object.status.actve\": there is no field \"actve\" in .status: there are active at 2:3"
        ]
    );
}
