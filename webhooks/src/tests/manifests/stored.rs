//! Webhook configurations as the API server has them.

use serde_json::{Value, json};

use crate::manifests::{ManagedResource, Options};

pub(super) fn resource(group: &str, name: &str) -> ManagedResource {
    ManagedResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: name.to_owned(),
        subresources: vec!["status".to_owned()],
        pod_metadata: Vec::new(),
    }
}

pub(super) fn with_resources(resources: &[ManagedResource]) -> Options {
    Options {
        resources: resources.to_vec(),
        ..Options::default()
    }
}

/// The same with rules for jobs that Sluice itself has written there.
pub(super) fn written_by_sluice(mut configuration: Value) -> Value {
    let name = configuration["webhooks"][0]["name"].as_str().unwrap();
    let webhook = format!("k:{{\"name\":\"{name}\"}}");
    configuration["metadata"]["managedFields"] = json!([
        {"manager": "kubectl-client-side-apply", "fieldsV1": {"f:webhooks": {}}},
        {"manager": "sluice", "fieldsV1": {"f:webhooks": {webhook: {"f:rules": {}}}}},
    ]);
    configuration
}

/// A configuration as the API server has it.
pub(super) fn stored(mut configuration: Value) -> Value {
    configuration["metadata"]["resourceVersion"] = json!("7");
    configuration["metadata"]["uid"] = json!("u-1");
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] = json!("UEVN");
    }
    configuration
}
