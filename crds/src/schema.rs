//! Pieces of OpenAPI schema that several types share: condition lists, limits. No types of the API.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Conditions as an associative list keyed by `type`, so that appliers merge them by type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let item =
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
    json_schema!({
        "type": "array",
        "description": "The object's conditions, one for each type.",
        "items": item,
        "maxItems": 16,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}
