//! What the controller costs while jobs wait, on a real control plane: memory idle, with many jobs
//! waiting, after a start with all of them, after all of them were deleted, and with large objects that are in no
//! queue. `make bench` builds it in release and runs it. How memory is compared is in `docs/benchmarks.md`.
//!
//! `BENCH_PENDING` jobs wait (10,000), and `BENCH_LARGE` objects are large (40). Measures, never fails.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};
use shared::{
    DEADLINE, count, create_waiting, is_there, memory, mib, queue, queues, resource, see_pending,
};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, wait_for};
use tokio::time::sleep;

/// How long after a change the memory is read: what is kept for a while is given back by then.
const SETTLED: Duration = Duration::from_mins(1);
/// How many empty arguments a large object has: 1.35 MB of JSON, near the most that is stored.
const ARGUMENTS: usize = 450_000;

#[tokio::main]
async fn main() -> Result<()> {
    let pending = count("BENCH_PENDING", 10_000);
    let large = count("BENCH_LARGE", 40);
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

    print_memory(&sluice, "idle")?;
    sleep(SETTLED).await;
    print_memory(&sluice, "idle, a minute later")?;

    let begun = Instant::now();
    create_waiting(&sluice, &client, pending).await?;
    wait_for("all jobs to be queued", DEADLINE, async || {
        sluice.revive().ok()?;
        let queue = queue(&client).await.ok()?;
        (queue["status"]["pendingWorkloads"].as_u64()? >= u64::try_from(pending).ok()?)
            .then_some(())
    })
    .await?;
    println!(
        "{pending} jobs created and queued: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    print_memory(&sluice, &format!("with {pending} jobs waiting"))?;
    sleep(SETTLED).await;
    print_memory(&sluice, "the same, a minute later")?;
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
    see_pending(&sluice, pending).await?;
    println!(
        "started again with {pending} jobs waiting: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    print_memory(&sluice, "after that")?;
    sleep(SETTLED).await;
    print_memory(&sluice, "the same, a minute later")?;

    delete_all(&client).await?;
    see_pending(&sluice, 0).await?;
    print_memory(&sluice, "all jobs deleted")?;
    sleep(SETTLED).await;
    print_memory(&sluice, "the same, a minute later")?;

    sluice.kill();
    create_large(&client, large).await?;
    sluice.start_again().await?;
    see_pending(&sluice, 0).await?;
    print_memory(
        &sluice,
        &format!("started with {large} large objects in no queue"),
    )?;
    sleep(SETTLED).await;
    print_memory(&sluice, "the same, a minute later")?;
    Ok(())
}

/// Prints what Sluice has resident, how much of that is no file, and the most that it has had resident since it was
/// started; and which process that is, as a busy machine makes it lose its Lease and start again.
fn print_memory(sluice: &Sluice, when: &str) -> Result<()> {
    let pid = sluice.pid().context("Sluice is stopped")?;
    let [resident, own, peak] = ["VmRSS", "RssAnon", "VmHWM"].map(|field| memory(pid, field));
    println!(
        "memory {when}: {}, {} without files, peak {} (process {pid})",
        mib(resident?),
        mib(own?),
        mib(peak?)
    );
    Ok(())
}

/// Deletes all jobs, and waits until their Workloads are gone.
async fn delete_all(client: &Client) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client.clone());
    api.delete_collection(&DeleteParams::background(), &ListParams::default())
        .await?;
    let workloads: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &resource("Workload", "workloads"));
    wait_for("all Workloads to be gone", DEADLINE, async || {
        let one = ListParams::default().limit(1);
        let left = workloads.list_metadata(&one).await.ok()?;
        left.items.is_empty().then_some(())
    })
    .await
}

/// Creates `number` suspended jobs in no queue, each as large as the API server takes.
async fn create_large(client: &Client, number: usize) -> Result<()> {
    let api: Api<Job> = Api::default_namespaced(client.clone());
    let arguments = vec![""; ARGUMENTS];
    for index in 0..number {
        let job: Value = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("large-{index}")},
            "spec": {"suspend": true, "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none", "args": arguments}],
            }}},
        });
        let job = serde_json::from_value(job)?;
        wait_for("a large job to be created", DEADLINE, async || {
            let created = api.create(&PostParams::default(), &job).await;
            is_there(&created).then_some(())
        })
        .await?;
    }
    Ok(())
}
