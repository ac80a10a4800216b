//! What the controller costs on a real control plane: memory idle and with many jobs waiting, writes
//! to the API server from a job's creation to its end. `make bench` builds it in release and runs it.
//!
//! `BENCH_PENDING` jobs wait (10,000) and `BENCH_JOBS` jobs run through (200). Measures, never fails.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use shared::{SLUICE, count, mib, queue, ratio, resource};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, wait_for};

/// Jobs created at the same time.
const CREATING: usize = 16;
/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(20);

const QUEUES: &str = "
apiVersion: sluice.dev/v1alpha1
kind: ResourceFlavor
metadata: {name: bench}
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterQueue
metadata: {name: bench}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu]
      flavors: [{name: bench, resources: [{name: cpu, nominalQuota: 8}]}]
---
apiVersion: sluice.dev/v1alpha1
kind: LocalQueue
metadata: {name: bench, namespace: default}
spec: {clusterQueue: bench}
";

#[tokio::main]
async fn main() -> Result<()> {
    let pending = count("BENCH_PENDING", 10_000);
    let jobs = count("BENCH_JOBS", 200);
    let control_plane = ControlPlane::start(Options::with_crds()?).await?;
    let sluice = Sluice::install(
        &control_plane,
        SluiceOptions::new(env!("CARGO_BIN_EXE_sluice")),
    )
    .await?;
    sluice.start().await?;
    control_plane
        .kubectl(["apply", "-f", "-"], Some(QUEUES))
        .await?
        .ok()?;
    let client = control_plane.client()?;

    println!("memory idle: {}", mib(sluice.resident_memory()?));

    let begun = Instant::now();
    create(&client, "run", jobs, "500m").await?;
    wait_for("all jobs to finish", DEADLINE, async || {
        let finished = workloads(&client)
            .await
            .ok()?
            .iter()
            .filter(|w| is_finished(w))
            .count();
        (finished >= jobs).then_some(())
    })
    .await?;
    println!(
        "{jobs} jobs through a quota for 16 at a time: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    println!("writes for each of them:");
    for (what, number) in writes(&std::fs::read_to_string(control_plane.audit_log())?) {
        println!("  {what:<28} {:.2}", ratio(number, jobs));
    }

    let begun = Instant::now();
    create(&client, "wait", pending, "9").await?;
    wait_for("all jobs to be queued", DEADLINE, async || {
        let queue = queue(&client).await.ok()?;
        (queue["status"]["pendingWorkloads"].as_u64()? >= u64::try_from(pending).ok()?)
            .then_some(())
    })
    .await?;
    println!(
        "{pending} jobs created and queued: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "memory with {pending} jobs waiting: {}",
        mib(sluice.resident_memory()?)
    );
    let metrics = sluice.metrics().await?;
    for line in metrics
        .lines()
        .filter(|l| l.starts_with("sluice_decision_seconds_"))
    {
        println!("  {line}");
    }
    sluice.kill();
    let begun = Instant::now();
    sluice.start_again().await?;
    wait_for("the queue to be known again", DEADLINE, async || {
        let metrics = sluice.metrics().await.ok()?;
        let line = format!("sluice_pending_workloads{{cluster_queue=\"bench\"}} {pending}");
        metrics.contains(&line).then_some(())
    })
    .await?;
    println!(
        "started again with {pending} jobs waiting: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    println!("memory after that: {}", mib(sluice.resident_memory()?));
    Ok(())
}

/// Creates `number` jobs whose one pod asks for `cpu`.
async fn create(client: &Client, prefix: &str, number: usize, cpu: &str) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client.clone());
    stream::iter(0..number)
        .map(Ok)
        .try_for_each_concurrent(CREATING, |index| {
            let job = json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": format!("{prefix}-{index}"), "labels": {"sluice.dev/queue-name": "bench"}},
                "spec": {"suspend": true, "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
                }}},
            });
            let api = api.clone();
            async move {
                let job = serde_json::from_value(job)?;
                api.create(&PostParams::default(), &job).await.context("create a job")?;
                anyhow::Ok(())
            }
        })
        .await
}

async fn workloads(client: &Client) -> Result<Vec<DynamicObject>> {
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &resource("Workload", "workloads"));
    Ok(api.list(&kube::api::ListParams::default()).await?.items)
}

fn is_finished(workload: &DynamicObject) -> bool {
    let conditions = workload.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Finished" && c["status"] == "True")
}

/// Sluice's writes that concern jobs, by verb and resource, from the audit log; those that did not
/// succeed are told apart. Leases and the statuses of queues don't grow with jobs.
fn writes(log: &str) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for line in log.lines().filter(|line| line.contains(SLUICE)) {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |pointer: &str| {
            event
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let is_write = matches!(text("/verb"), "create" | "patch" | "update" | "delete");
        let concerns_jobs = matches!(text("/objectRef/resource"), "jobs" | "workloads" | "events");
        if text("/stage") != "ResponseComplete" || !is_write || !concerns_jobs {
            continue;
        }
        let subresource = match text("/objectRef/subresource") {
            "" => String::new(),
            name => format!("/{name}"),
        };
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let failed = if (200..300).contains(&code) {
            String::new()
        } else {
            format!(" ({code})")
        };
        let what = format!(
            "{} {}{subresource}{failed}",
            text("/verb"),
            text("/objectRef/resource")
        );
        *counted.entry(what).or_default() += 1;
    }
    counted
}
