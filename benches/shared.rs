//! What the benches on a real control plane share: a queue, and figures for people.

use kube::Client;
use kube::api::Api;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;

use anyhow::Result;
use serde_json::Value;

/// Sluice's user name.
#[allow(dead_code, reason = "not every bench counts writes")]
pub(crate) const SLUICE: &str = "system:serviceaccount:sluice-system:sluice";

/// The ClusterQueue `bench`.
pub(crate) async fn queue(client: &Client) -> Result<Value> {
    let api: Api<DynamicObject> =
        Api::all_with(client.clone(), &resource("ClusterQueue", "clusterqueues"));
    Ok(api.get("bench").await?.data)
}

/// A resource of Sluice's.
pub(crate) fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "sluice.dev".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "sluice.dev/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// A number from the environment.
pub(crate) fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// A quotient.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn ratio(number: usize, of: usize) -> f64 {
    number as f64 / of.max(1) as f64
}

/// Bytes for people.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}
