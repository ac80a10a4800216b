//! What the benches on a real control plane share: queues, what processes use, figures for people.
#![allow(dead_code, reason = "no bench uses all of it")]

use anyhow::{Context, Result};
use kube::Client;
use kube::api::Api;
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use serde_json::{Value, json};

/// Sluice's user name.
pub(crate) const SLUICE: &str = "system:serviceaccount:sluice-system:sluice";

/// Clock ticks a second in `/proc`: so for every architecture that Kubernetes runs on.
const TICKS: f64 = 100.0;

/// The queue `bench` with a quota of so many CPUs, and its flavor.
pub(crate) fn queues(cpus: usize) -> String {
    let spec = json!({
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
            {"name": "bench", "resources": [{"name": "cpu", "nominalQuota": cpus}]}]}],
    });
    flavor() + &cluster_queue("bench", &spec)
}

/// The flavor `bench`.
pub(crate) fn flavor() -> String {
    "
apiVersion: sluice.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: bench}"
        .to_owned()
}

/// A ClusterQueue and a LocalQueue of the same name, to be appended to other manifests.
pub(crate) fn cluster_queue(name: &str, spec: &Value) -> String {
    format!(
        "
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterQueue
metadata: {{name: {name}}}
spec: {spec}
---
apiVersion: sluice.dev/v1alpha1
kind: LocalQueue
metadata: {{name: {name}, namespace: default}}
spec: {{clusterQueue: {name}}}"
    )
}

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

/// The CPU time that a process has used, in seconds. Only on Linux.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field, the name, may hold anything, but nothing after it does.
    let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Vec<f64> = ticks.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// The most memory that a process ever had resident, in bytes. Only on Linux.
pub(crate) fn peak_memory(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM")
}

/// What `/proc` says of the memory of a process in this field, in bytes. Only on Linux.
pub(crate) fn memory(pid: u32, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib.with_context(|| format!("no {field}"))?.parse()?;
    Ok(kib * 1024)
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

/// Of sorted figures, the one that so many percent don't exceed.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(last * percent / 100)
        .copied()
        .unwrap_or_default()
}

/// Bytes for people.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / 1_048_576.0)
}
