//! The OpenAPI documents: version 3 for kubectl and other clients, who ask for it by way of the API server, and version 2,
//! which the API server merges into its own. It asks for both again and again, and without them its log fills with errors.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::schema;
use crate::visibility::cohorts::quota_tree::QuotaTree;
use crate::visibility::discovery::{
    GROUP, RESOURCES, Resource, Subresource, VERSION, only_subresources, root,
};
use crate::visibility::estimated::start_estimate::StartEstimate;
use crate::visibility::explained::explanation::WorkloadExplanation;
use crate::visibility::pending::summary::PendingWorkloadsSummary;

/// The documents. A clone is another hold on the same ones.
#[derive(Debug, Clone)]
pub struct OpenApiDocuments {
    /// `/openapi/v2`.
    pub v2: Document,
    /// `/openapi/v3`: where the document of version 3 is.
    pub index: Document,
    /// The document of version 3.
    pub v3: Document,
}

/// A document that does not change while the process lives.
#[derive(Debug, Clone)]
pub struct Document {
    body: Bytes,
    /// Equal in all replicas of one version of Sluice.
    hash: Arc<str>,
    /// The hash as an ETag.
    tag: HeaderValue,
}

/// In which version of OpenAPI something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    V2,
    V3,
}

/// Where the document of version 3 is.
pub fn document() -> String {
    format!("/openapi/v3{}", root())
}

impl OpenApiDocuments {
    /// Generates them.
    pub fn new() -> Self {
        let v3 = Document::new(&written(Style::V3));
        let group = format!("apis/{GROUP}/{VERSION}");
        let url = format!("{}?hash={}", document(), v3.hash);
        Self {
            v2: Document::new(&written(Style::V2)),
            index: Document::new(&json!({"paths": {group: {"serverRelativeURL": url}}})),
            v3,
        }
    }
}

impl Document {
    fn new(content: &Value) -> Self {
        let text = content.to_string();
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(&text);
        let hash = format!("{hash:016X}");
        let tag = HeaderValue::from_str(&format!("\"{hash}\""));
        Self {
            body: text.into(),
            hash: hash.into(),
            // Hexadecimal digits are always the value of a header.
            tag: tag.unwrap_or(HeaderValue::from_static("\"0\"")),
        }
    }

    /// The answer to somebody who may have the document already. Who names its hash asks for nothing else, and may keep it.
    pub fn answer(&self, headers: &HeaderMap, query: Option<&str>) -> Response {
        let mut told = HeaderMap::new();
        told.insert(ETAG, self.tag.clone());
        let named = format!("hash={}", self.hash);
        if query.is_some_and(|query| query.split('&').any(|pair| pair == named)) {
            let keep = HeaderValue::from_static("public, immutable");
            told.insert(CACHE_CONTROL, keep);
        }
        let known = headers.get(IF_NONE_MATCH).map(HeaderValue::as_bytes);
        let mut known = known.unwrap_or_default().split(|byte| *byte == b',');
        if known.any(|tag| tag.trim_ascii() == self.tag.as_bytes()) {
            return (StatusCode::NOT_MODIFIED, told).into_response();
        }
        told.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        (told, self.body.clone()).into_response()
    }
}

fn written(style: Style) -> Value {
    let paths: Map<String, Value> = RESOURCES.iter().flat_map(|it| paths(style, it)).collect();
    let info = json!({"title": GROUP, "version": VERSION});
    match style {
        Style::V2 => json!({
            "swagger": "2.0",
            "info": info,
            "paths": paths,
            "definitions": schemas(style),
        }),
        Style::V3 => json!({
            "openapi": "3.0.0",
            "info": info,
            "paths": paths,
            "components": {"schemas": schemas(style)},
        }),
    }
}

/// Of each kind: those that are answered with, and those of the resources, so that `kubectl explain` goes from a resource on
/// to its subresources.
fn schemas(style: Style) -> Value {
    let mut schemas = Map::new();
    for (kind, schema) in [
        (
            "PendingWorkloadsSummary",
            schema::of::<PendingWorkloadsSummary>(),
        ),
        ("QuotaTree", schema::of::<QuotaTree>()),
        ("StartEstimate", schema::of::<StartEstimate>()),
        ("WorkloadExplanation", schema::of::<WorkloadExplanation>()),
    ] {
        let schema = and(
            schema,
            "x-kubernetes-group-version-kind",
            json!([of_kind(kind)]),
        );
        schemas.insert(full_name(kind), schema);
    }
    for resource in &RESOURCES {
        let properties = resource.subresources.iter().map(|subresource| {
            let description = format!(
                "A subresource of {}/NAME: see {}.",
                resource.name, subresource.kind
            );
            let of = reference(style, subresource.kind);
            let property = json!({"description": description, "allOf": [of]});
            (subresource.name.to_owned(), property)
        });
        let properties: Map<String, Value> = properties.collect();
        let schema = json!({
            "description": only_subresources(resource),
            "type": "object",
            "properties": properties,
            "x-kubernetes-group-version-kind": [of_kind(resource.kind)],
        });
        schemas.insert(full_name(resource.kind), schema);
    }
    Value::Object(schemas)
}

/// The paths of a resource: the one of its objects, which answers nothing but leads kubectl to the schema, and those of
/// its subresources.
fn paths(style: Style, resource: &Resource) -> Vec<(String, Value)> {
    let mut parameters = vec![parameter(style, "path", "name", "The name of the object.")];
    if resource.is_namespaced {
        let text = "The namespace of the object.";
        parameters.push(parameter(style, "path", "namespace", text));
    }
    let own = json!({
        "parameters": parameters,
        "get": {
            "description": only_subresources(resource),
            "operationId": operation_id(resource, None),
            "responses": {"404": {"description": only_subresources(resource)}},
            "x-kubernetes-group-version-kind": of_kind(resource.kind),
        },
    });
    let mut paths = vec![(resource.path(), own)];
    for subresource in resource.subresources {
        let mut parameters = parameters.clone();
        if subresource.has_pages {
            let limit =
                "How many items are answered at most, from 1 to 1000, which is the default.";
            parameters.push(parameter(style, "query", "limit", limit));
            let offset = "How many items are left out before the first one.";
            parameters.push(parameter(style, "query", "offset", offset));
        }
        let get = json!({
            "description": format!("Read {} of one of {}.", subresource.name, resource.name),
            "operationId": operation_id(resource, Some(subresource)),
            "responses": {"200": ok(style, subresource.kind)},
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": of_kind(subresource.kind),
        });
        let get = match style {
            Style::V2 => and(get, "produces", json!(["application/json"])),
            Style::V3 => get,
        };
        let path = format!("{}/{}", resource.path(), subresource.name);
        paths.push((path, json!({"parameters": parameters, "get": get})));
    }
    paths
}

fn ok(style: Style, kind: &str) -> Value {
    let schema = reference(style, kind);
    match style {
        Style::V2 => json!({"description": "OK", "schema": schema}),
        Style::V3 => json!({
            "description": "OK",
            "content": {"application/json": {"schema": schema}},
        }),
    }
}

fn parameter(style: Style, place: &str, name: &str, description: &str) -> Value {
    let is_path = place == "path";
    let parameter = json!({
        "name": name, "in": place, "description": description, "required": is_path,
    });
    let of_type = json!(if is_path { "string" } else { "integer" });
    match style {
        Style::V2 => and(parameter, "type", of_type),
        Style::V3 => and(parameter, "schema", json!({"type": of_type})),
    }
}

/// The object with this field too.
fn and(mut object: Value, name: &str, value: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.insert(name.to_owned(), value);
    }
    object
}

fn reference(style: Style, kind: &str) -> Value {
    let of = match style {
        Style::V2 => "#/definitions",
        Style::V3 => "#/components/schemas",
    };
    json!({"$ref": format!("{of}/{}", full_name(kind))})
}

fn of_kind(kind: &str) -> Value {
    json!({"group": GROUP, "version": VERSION, "kind": kind})
}

fn full_name(kind: &str) -> String {
    format!("dev.sluice.visibility.{VERSION}.{kind}")
}

fn operation_id(resource: &Resource, subresource: Option<&Subresource>) -> String {
    let subresource = subresource.map(|subresource| format!("-{}", subresource.name));
    let subresource = subresource.unwrap_or_default();
    format!("read-{GROUP}-{VERSION}-{}{subresource}", resource.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_described_and_has_one_type() {
        fn look(path: &str, schema: &Value) {
            let properties = schema["properties"].as_object().into_iter().flatten();
            for (name, property) in properties {
                let path = format!("{path}.{name}");
                let text = property["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{path} has no description");
                let is_typed = property["type"].is_string() || property["allOf"].is_array();
                assert!(is_typed, "{path}: {property}");
                for field in ["anyOf", "oneOf", "nullable", "const", "$ref"] {
                    assert!(property.get(field).is_none(), "{path}: {property}");
                }
                for below in [
                    property,
                    &property["items"],
                    &property["additionalProperties"],
                ] {
                    look(&path, below);
                }
            }
        }
        let written = schemas(Style::V3);
        let schemas = written.as_object().unwrap();
        assert_eq!(schemas.len(), 4 + RESOURCES.len());
        for (name, schema) in schemas {
            assert_ne!(schema["description"], Value::Null, "{name}");
            look(name, schema);
        }
    }

    #[test]
    fn what_is_known_is_not_sent_again() {
        let documents = OpenApiDocuments::new();
        let ask = |tag: Option<&str>, query: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(tag) = tag {
                headers.insert(IF_NONE_MATCH, tag.parse().unwrap());
            }
            let answer = documents.v3.answer(&headers, query);
            let header = |name| answer.headers().get(name).cloned();
            (
                answer.status().as_u16(),
                header(ETAG),
                header(CACHE_CONTROL),
            )
        };
        let tag = Some(documents.v3.tag.clone());
        let text = documents.v3.tag.to_str().unwrap();
        let hash = format!("hash={}", documents.v3.hash);
        let keep = Some(HeaderValue::from_static("public, immutable"));
        assert_eq!(ask(None, None), (200, tag.clone(), None));
        assert_eq!(ask(Some("\"other\""), None), (200, tag.clone(), None));
        assert_eq!(ask(Some(text), None), (304, tag.clone(), None));
        assert_eq!(
            ask(Some(&format!("\"a\", {text}")), None),
            (304, tag.clone(), None)
        );
        assert_eq!(ask(None, Some(&hash)), (200, tag.clone(), keep));
        assert_eq!(ask(None, Some("hash=old")), (200, tag, None));
        assert_eq!(OpenApiDocuments::new().v2.hash, documents.v2.hash);
    }
}
