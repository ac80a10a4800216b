//! What the API says of itself, for the API server and its clients to find.

use serde_json::{Value, json};

/// The API group.
pub const GROUP: &str = "visibility.sluice.dev";
/// Its only version.
pub const VERSION: &str = "v1alpha1";

/// The path of the version. All objects are below it.
pub fn root() -> String {
    format!("/apis/{GROUP}/{VERSION}")
}

/// `/apis`.
pub fn groups() -> Value {
    let mut group = group();
    if let Value::Object(fields) = &mut group {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
}

/// `/apis/visibility.sluice.dev`.
pub fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    })
}

/// `/apis/visibility.sluice.dev/v1alpha1`. Only subresources are listed: `kubectl get clusterqueues` must go on to mean
/// those of `sluice.dev`.
pub fn resources() -> Value {
    let resource = |name: &str, is_namespaced: bool, kind: &str| {
        json!({
            "name": name,
            "singularName": "",
            "namespaced": is_namespaced,
            "kind": kind,
            "verbs": ["get"],
        })
    };
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": [
            resource("clusterqueues/pendingworkloads", false, "PendingWorkloadsSummary"),
            resource("localqueues/pendingworkloads", true, "PendingWorkloadsSummary"),
            resource("clusterqueues/tree", false, "QuotaTree"),
            resource("cohorts/tree", false, "QuotaTree"),
            resource("workloads/explanation", true, "WorkloadExplanation"),
            resource("pods/explanation", true, "WorkloadExplanation"),
        ],
    })
}
