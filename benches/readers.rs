//! What readers of visibility.sluice.dev wait for, through a real API server, while many jobs are pending: a page of a
//! queue, how one workload stands, and the tree of a queue. `make bench` builds it in release and runs it. The same
//! without an API server is measured by tests of `src/visibility`.
//!
//! `BENCH_PENDING` jobs wait (100,000), `BENCH_READS` (500) times each is read, one after the other. Measures, never fails.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::Client;
use serde_json::Value;
use shared::{DEADLINE, count, create_waiting, memory, mib, percentile, queues, see_pending};
use sluice_testbed::{
    ControlPlane, Options, Sluice, SluiceOptions, free_port, register_visibility, sum_of_series,
    wait_for,
};
use tokio::time::sleep;

/// Where the API is.
const ROOT: &str = "/apis/visibility.sluice.dev/v1alpha1";

#[tokio::main]
async fn main() -> Result<()> {
    let (pending, reads) = (count("BENCH_PENDING", 100_000), count("BENCH_READS", 500));
    let options = Options {
        nodes: 0,
        ..Options::with_crds()?
    };
    let control_plane = ControlPlane::start(options).await?;
    let port = free_port()?;
    let sluice = SluiceOptions::new(env!("CARGO_BIN_EXE_sluice")).with_visibility(port);
    let sluice = Sluice::install(&control_plane, sluice).await?;
    register_visibility(&control_plane, port).await?;
    sluice.start().await?;
    let (client, applied) = (control_plane.client()?, queues(8));
    let applied = control_plane.kubectl(["apply", "-f", "-"], Some(&applied));
    applied.await?.ok()?;

    let begun = Instant::now();
    create_waiting(&sluice, &client, pending).await?;
    see_pending(&sluice, pending).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{pending} jobs created and queued: {seconds:.1} s");
    let begun = Instant::now();
    see_explained(&sluice).await?;
    let seconds = begun.elapsed().as_secs_f64();
    println!("each is told why it waits after another {seconds:.1} s");
    let pid = sluice.pid().context("Sluice is stopped")?;
    println!("memory: {}", mib(memory(pid, "VmRSS")?));

    let queue = "namespaces/default/localqueues/bench/pendingworkloads";
    let first = format!("{queue}?limit=1");
    wait_for("the API to answer", DEADLINE, async || {
        names(&client, &first).await.ok()
    })
    .await?;
    let offset = |index: usize| index * pending / reads.max(1);
    let mut known = Vec::new();
    for index in 0..reads {
        let page = format!("{queue}?limit=1&offset={}", offset(index));
        known.extend(names(&client, &page).await?);
    }
    for limit in [50, 1000] {
        let path = |index: usize| format!("{queue}?limit={limit}&offset={}", offset(index));
        print(
            &format!("page of {limit}"),
            measured(&client, reads, path).await?,
        );
    }
    let path = |index: usize| {
        let name = known.get(index).map_or("", String::as_str);
        format!("namespaces/default/workloads/{name}/explanation")
    };
    print("explanation", measured(&client, reads, path).await?);
    let path = |_: usize| "clusterqueues/bench/tree".to_owned();
    print("tree", measured(&client, reads, path).await?);
    Ok(())
}

/// Waits until the leader has no more to write: whoever reads while 100,000 Workloads get their statuses waits for the
/// API server.
async fn see_explained(sluice: &Sluice) -> Result<()> {
    let written = async || {
        let metrics = sluice.metrics().await?;
        sum_of_series(&metrics, "sluice_api_write_seconds_count", &[]).context("no writes")
    };
    let mut before = written().await?;
    loop {
        sleep(Duration::from_secs(5)).await;
        let now = written().await?;
        if now - before < 50.0 {
            return Ok(());
        }
        before = now;
    }
}

/// The names of the Workloads on a page.
async fn names(client: &Client, page: &str) -> Result<Vec<String>> {
    let answer = get(client, page).await?;
    let items = answer["items"].as_array().context("no items")?;
    let names = items
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The milliseconds that each read takes.
async fn measured(
    client: &Client,
    reads: usize,
    path: impl Fn(usize) -> String,
) -> Result<Vec<f64>> {
    let mut taken = Vec::with_capacity(reads);
    for index in 0..reads {
        let begun = Instant::now();
        get(client, &path(index)).await?;
        taken.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    Ok(taken)
}

async fn get(client: &Client, path: &str) -> Result<Value> {
    let request = http::Request::get(format!("{ROOT}/{path}")).body(Vec::new())?;
    let answer = client.request(request).await;
    answer.with_context(|| path.to_owned())
}

fn print(what: &str, mut taken: Vec<f64>) {
    taken.sort_by(f64::total_cmp);
    let [median, most, longest] = [50, 99, 100].map(|percent| percentile(&taken, percent));
    println!("{what}: median {median:.1} ms, 99 % {most:.1} ms, longest {longest:.1} ms");
}
