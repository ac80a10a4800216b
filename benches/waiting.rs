//! What the controller costs while jobs wait, on a real control plane: memory idle, with many jobs
//! waiting, and after a start with all of them. `make bench` builds it in release and runs it.
//!
//! `BENCH_PENDING` jobs wait (10,000). Measures, never fails.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use shared::{count, mib, queue, queues};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, wait_for};

/// Jobs created at the same time.
const CREATING: usize = 16;
/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(20);

#[tokio::main]
async fn main() -> Result<()> {
    let pending = count("BENCH_PENDING", 10_000);
    let control_plane = ControlPlane::start(Options::with_crds()?).await?;
    let sluice = Sluice::install(
        &control_plane,
        SluiceOptions::new(env!("CARGO_BIN_EXE_sluice")),
    )
    .await?;
    sluice.start().await?;
    control_plane
        .kubectl(["apply", "-f", "-"], Some(&queues(8)))
        .await?
        .ok()?;
    let client = control_plane.client()?;

    println!("memory idle: {}", mib(sluice.resident_memory()?));

    let begun = Instant::now();
    create(&client, pending).await?;
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

/// Creates `number` jobs whose one pod asks for more than the quota.
async fn create(client: &Client, number: usize) -> Result<()> {
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
                api.create(&PostParams::default(), &job).await.context("create a job")?;
                anyhow::Ok(())
            }
        })
        .await
}
