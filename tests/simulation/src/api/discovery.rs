//! What the model says that it serves: groups, resources, and schemas that keep everything.

use serde_json::{Value, json};

use super::request::is_served;
use super::resource::RESOURCES;

/// The versions of a group.
pub(super) fn group(group: &str) -> Option<Value> {
    let found = RESOURCES.iter().find(|resource| resource.group == group)?;
    let version = json!({"groupVersion": found.api_version(), "version": found.version});
    Some(json!({
        "apiVersion": "v1", "kind": "APIGroup", "name": group,
        "versions": [version], "preferredVersion": version,
    }))
}

/// The resources of a version.
pub(super) fn resources(group: &str, version: &str) -> Option<Value> {
    if !is_served(group, version) {
        return None;
    }
    let of_version = RESOURCES
        .iter()
        .filter(|resource| (resource.group, resource.version) == (group, version));
    let mut list = Vec::new();
    for resource in of_version {
        let mut add = |name: String| {
            list.push(json!({
                "name": name, "kind": resource.kind, "namespaced": resource.is_namespaced,
                "singularName": resource.kind.to_lowercase(),
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
            }));
        };
        add(resource.plural.to_owned());
        if resource.has_status {
            add(format!("{}/status", resource.plural));
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    Some(json!({
        "apiVersion": "v1", "kind": "APIResourceList",
        "groupVersion": group_version, "resources": list,
    }))
}

/// The schemas below `/openapi/v3`.
pub(super) fn published(path: &[&str]) -> Option<Value> {
    let (group, version) = match path {
        [] => {
            let paths = RESOURCES.iter().map(|resource| {
                let place = match resource.group {
                    "" => format!("api/{}", resource.version),
                    group => format!("apis/{group}/{}", resource.version),
                };
                let address = json!({"serverRelativeURL": format!("/openapi/v3/{place}?hash=0")});
                (place, address)
            });
            let paths: serde_json::Map<String, Value> = paths.collect();
            return Some(json!({ "paths": paths }));
        }
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return None,
    };
    let of_version = RESOURCES
        .iter()
        .filter(|resource| (resource.group, resource.version) == (group, version));
    let schemas = of_version.map(|resource| {
        let schema = json!({
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-group-version-kind":
                [{"group": group, "version": version, "kind": resource.kind}],
        });
        (resource.kind.to_owned(), schema)
    });
    let schemas: serde_json::Map<String, Value> = schemas.collect();
    Some(json!({"openapi": "3.0.0", "components": {"schemas": schemas}}))
}
