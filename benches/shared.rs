//! What the benches on a real control plane share: queues, what processes use, figures for people.
#![allow(dead_code, reason = "no bench uses all of it")]

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use sluice_testbed::{Sluice, sum_of_series, wait_for};

/// Longest wait for anything.
pub(crate) const DEADLINE: Duration = Duration::from_mins(20);

/// Jobs created at the same time.
const CREATING: usize = 16;

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

/// Creates `number` jobs whose one pod asks for more than the quota.
pub(crate) async fn create_waiting(sluice: &Sluice, client: &Client, number: usize) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client.clone());
    stream::iter(0..number)
        .map(Ok)
        .try_for_each_concurrent(CREATING, |index| {
            let job = json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": format!("wait-{index}"), "labels": {"sluice.dev/queue-name": "bench"}},
                "spec": {"suspend": true, "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "9"}}}],
                }}},
            });
            let api = api.clone();
            async move {
                let job = serde_json::from_value(job)?;
                wait_for("a job to be created", DEADLINE, async || {
                    sluice.revive().ok()?;
                    let created = api.create(&PostParams::default(), &job).await;
                    is_there(&created).then_some(())
                })
                .await
            }
        })
        .await
}

/// Waits until the controller knows of so many pending jobs.
pub(crate) async fn see_pending(sluice: &Sluice, pending: usize) -> Result<()> {
    let pending = pending.to_string();
    wait_for("the queue to be known", DEADLINE, async || {
        sluice.revive().ok()?;
        let metrics = sluice.metrics().await.ok()?;
        let of_queue = ["cluster_queue=\"bench\""];
        let known = sum_of_series(&metrics, "sluice_pending_workloads", &of_queue)?;
        (known.to_string() == pending).then_some(())
    })
    .await
}

/// Whether an object is there: on a busy machine an answer may get lost, or a webhook be too slow.
pub(crate) fn is_there<T>(created: &kube::Result<T>) -> bool {
    match created {
        Ok(_) => true,
        Err(kube::Error::Api(status)) => status.code == 409,
        Err(_) => false,
    }
}
