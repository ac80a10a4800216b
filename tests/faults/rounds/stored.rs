//! What was stored with the CRDs of the version before stays as it was: an object of each kind with every field is
//! stored with these CRDs, and read with those of this version.

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Map, Value, json};
use sluice_testbed::{ControlPlane, Options, apply_crds};

use crate::bed::Version;

/// What limits values. Fields are what is looked at.
const LIMITS: [&str; 11] = [
    "x-kubernetes-validations",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
];

pub async fn play() -> Result<()> {
    let new = Version::present()?;
    let old = Version::earlier().unwrap_or_else(|| new.clone());
    let mut options = Options::with_crds_of(&old.root)?;
    let crds = options.manifests.iter();
    let crds = crds.map(|text| serde_saphyr::from_str::<Value>(text).context("a CRD"));
    let crds: Vec<Value> = crds.filter(is_of_crd).collect::<Result<_>>()?;
    options.manifests = crds
        .iter()
        .map(|crd| without_limits(crd).to_string())
        .collect();
    options.nodes = 0;
    let cp = ControlPlane::start(options).await?;
    cp.crds_established().await?;
    let mut stored = Vec::new();
    for crd in &crds {
        let object = full(crd)?;
        let created = api(&cp, crd)?;
        let created = created
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        stored.push((crd, serde_json::to_value(created)?));
    }
    apply_crds(&cp, &new.root).await?;
    // It begins with these CRDs, and with no object in memory.
    cp.kill_api_server()?;
    cp.restart_api_server().await?;
    for (crd, before) in &stored {
        let kind = &crd["spec"]["names"]["kind"];
        let now = serde_json::to_value(api(&cp, crd)?.get("full").await?)?;
        let mut lost = Vec::new();
        compare("", &content(before), &content(&now), &mut lost);
        ensure!(lost.is_empty(), "{kind}: lost or changed: {lost:?}");
    }
    println!(
        "{} kinds with every field, stored by {}",
        stored.len(),
        old.root.display()
    );
    Ok(())
}

/// The file for kustomize lies beside them.
fn is_of_crd(parsed: &Result<Value>) -> bool {
    parsed
        .as_ref()
        .map_or(true, |parsed| parsed["kind"] == "CustomResourceDefinition")
}

/// The CRD without what limits values, and with the status as a field like others.
fn without_limits(crd: &Value) -> Value {
    let mut crd = crd.clone();
    for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
        if let Some(version) = version.as_object_mut() {
            version.remove("subresources");
        }
        unlimit(&mut version["schema"]["openAPIV3Schema"]);
    }
    crd
}

fn unlimit(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.retain(|name, _| !LIMITS.contains(&name.as_str()));
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get_mut(below) {
            unlimit(schema);
        }
    }
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut);
    properties
        .into_iter()
        .flatten()
        .for_each(|(_, schema)| unlimit(schema));
}

fn api(cp: &ControlPlane, crd: &Value) -> Result<Api<DynamicObject>> {
    let spec = &crd["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let gvk = GroupVersionKind {
        group: text(&spec["group"]),
        version: text(&spec["versions"][0]["name"]),
        kind: text(&spec["names"]["kind"]),
    };
    let resource = ApiResource::from_gvk_with_plural(&gvk, &text(&spec["names"]["plural"]));
    let client = cp.client()?;
    Ok(if spec["scope"] == "Namespaced" {
        Api::namespaced_with(client, "default", &resource)
    } else {
        Api::all_with(client, &resource)
    })
}

/// An object with a value in every field.
fn full(crd: &Value) -> Result<Value> {
    let version = &crd["spec"]["versions"][0];
    let mut object = value_of(&version["schema"]["openAPIV3Schema"]);
    let fields = object.as_object_mut().context("no fields")?;
    let group = crd["spec"]["group"].as_str().context("no group")?;
    let version = version["name"].as_str().context("no version")?;
    fields.insert("apiVersion".to_owned(), json!(format!("{group}/{version}")));
    fields.insert("kind".to_owned(), crd["spec"]["names"]["kind"].clone());
    fields.insert("metadata".to_owned(), json!({"name": "full"}));
    Ok(object)
}

/// A value with every field of a schema.
fn value_of(schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return json!("1");
    }
    let allowed = schema["enum"]
        .as_array()
        .and_then(|allowed| allowed.first());
    if let Some(allowed) = allowed {
        return allowed.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("2026-01-01T00:00:00Z"),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([value_of(&schema["items"])]),
        _ if schema["additionalProperties"].is_object() => {
            json!({"key": value_of(&schema["additionalProperties"])})
        }
        _ => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let fields = properties.map(|(name, schema)| (name.clone(), value_of(schema)));
            let mut fields: Map<String, Value> = fields.collect();
            if schema["x-kubernetes-preserve-unknown-fields"] == true {
                fields.insert("unknown".to_owned(), json!("kept"));
            }
            Value::Object(fields)
        }
    }
}

/// An object without its metadata, which is Kubernetes' own.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
    }
    object
}

/// Collects the places of what is no longer as it was. Defaults may come.
fn compare(place: &str, before: &Value, now: &Value, lost: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before {
                let found = now.get(name).unwrap_or(&Value::Null);
                compare(&format!("{place}.{name}"), value, found, lost);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (index, (before, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{place}[{index}]"), before, now, lost);
            }
        }
        _ if before == now => {}
        _ => lost.push(format!("{place}: {before}, now {now}")),
    }
}
