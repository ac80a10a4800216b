//! What ungating pods costs on a real control plane: from freed capacity to the answered PATCH, with
//! few and with many pods waiting; PATCHes a second when much is freed at once, beside the same PATCHes
//! with nothing deciding; memory with many gated pods. `make bench` builds it in release and runs it.
//!
//! `BENCH_FEW` (100) and `BENCH_MANY` (5,000) pods wait, `BENCH_ROUNDS` (200) are released one by one,
//! `BENCH_BURST` (2,000) at once, `BENCH_GATED` (10,000) only wait. Measures, never fails. No node is
//! needed: a pod that was released has usage whether or not it has one.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use shared::{SLUICE, count, mib, percentile, queue, queues};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, sum_of_series, wait_for};

/// Requests at the same time: as many as Sluice sends.
const CONCURRENCY: usize = 24;
/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(20);
const GATE: &str = "sluice.dev/queue-allocation-gate";

#[tokio::main]
async fn main() -> Result<()> {
    let (few, many) = (count("BENCH_FEW", 100), count("BENCH_MANY", 5_000));
    let rounds = count("BENCH_ROUNDS", 200);
    let (burst, gated) = (count("BENCH_BURST", 2_000), count("BENCH_GATED", 10_000));
    let options = Options {
        nodes: 0,
        ..Options::with_crds()?
    };
    let control_plane = ControlPlane::start(options).await?;
    let sluice = Sluice::install(
        &control_plane,
        SluiceOptions::new(env!("CARGO_BIN_EXE_sluice")),
    )
    .await?;
    sluice.start().await?;
    let bench = Bench {
        client: control_plane.client()?,
        control_plane: &control_plane,
    };
    println!("memory idle: {}", mib(sluice.resident_memory()?));
    for waiting in [few, many] {
        bench.one_by_one(waiting, rounds.min(waiting)).await?;
    }
    bench.at_once(burst).await?;

    bench.set_quota(0).await?;
    bench.create("gated", gated).await?;
    bench.see_pending(gated).await?;
    println!(
        "memory with {gated} gated pods waiting: {}",
        mib(sluice.resident_memory()?)
    );
    sluice.kill();
    let begun = Instant::now();
    sluice.start_again().await?;
    // The status of the queue is that of before.
    wait_for("the queue to be known again", DEADLINE, async || {
        let metrics = sluice.metrics().await.ok()?;
        let of_queue = ["cluster_queue=\"bench\""];
        let known = sum_of_series(&metrics, "sluice_pending_workloads", &of_queue)?;
        (known.to_string() == gated.to_string()).then_some(())
    })
    .await?;
    println!(
        "started again with them: {:.1} s, memory after that: {}",
        begun.elapsed().as_secs_f64(),
        mib(sluice.resident_memory()?)
    );
    bench.clear().await?;
    bench.floor(&sluice, burst).await
}

struct Bench<'a> {
    client: Client,
    control_plane: &'a ControlPlane,
}

impl Bench<'_> {
    /// One pod holds all quota and `waiting` pods wait; it is deleted, and so is each that follows it.
    async fn one_by_one(&self, waiting: usize, rounds: usize) -> Result<()> {
        self.set_quota(1).await?;
        let prefix = format!("one-of-{waiting}");
        self.create(&prefix, waiting + 1).await?;
        self.see_pending(waiting).await?;
        let pods = self.pods();
        let mut released = std::pin::pin!(self.released());
        for _ in 0..rounds {
            let next = tokio::time::timeout(DEADLINE, released.try_next()).await;
            let name = next??.context("the watch ended")?;
            pods.delete(&name, &now()).await?;
        }
        let took = latencies(
            &std::fs::read_to_string(self.control_plane.audit_log())?,
            &prefix,
        );
        println!(
            "from the end of one pod to the answered PATCH of the next, {waiting} waiting: \
             p50 {:.1} ms, p99 {:.1} ms ({} rounds)",
            percentile(&took, 50),
            percentile(&took, 99),
            took.len()
        );
        self.clear().await
    }

    /// Quota for all of `number` waiting pods comes at once.
    async fn at_once(&self, number: usize) -> Result<()> {
        self.set_quota(0).await?;
        self.create("burst", number).await?;
        self.see_pending(number).await?;
        self.set_quota(number).await?;
        self.see_released(number).await?;
        let log = std::fs::read_to_string(self.control_plane.audit_log())?;
        println!(
            "{number} pods released at once: {:.0} PATCHes/s",
            rate(&log, "burst")
        );
        self.clear().await
    }

    /// The same PATCHes, with nothing deciding.
    async fn floor(&self, sluice: &Sluice, number: usize) -> Result<()> {
        self.set_quota(0).await?;
        self.create("floor", number).await?;
        sluice.kill();
        // They would refuse what is done here; what Sluice does they are not asked about.
        let webhooks = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
        let kubectl = self
            .control_plane
            .kubectl(["delete", webhooks, "sluice"], None);
        kubectl.await?.ok()?;
        let pods = self.pods();
        stream::iter(0..number)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |index| {
                let pods = pods.clone();
                let patch = json!({
                    "metadata": {"annotations": {"bench": "the length of the record of an admission, or about that"}},
                    "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
                });
                async move {
                    let name = format!("floor-{index}");
                    let patch = Patch::Strategic(patch);
                    pods.patch(&name, &PatchParams::default(), &patch).await?;
                    anyhow::Ok(())
                }
            })
            .await?;
        let log = std::fs::read_to_string(self.control_plane.audit_log())?;
        println!(
            "the same with nothing deciding: {:.0} PATCHes/s",
            rate(&log, "floor")
        );
        self.clear().await
    }

    /// The names of the pods that are released, each once.
    fn released(&self) -> impl Stream<Item = Result<String>> {
        let mut seen = BTreeSet::new();
        watcher(self.pods(), watcher::Config::default())
            .applied_objects()
            .map_err(anyhow::Error::from)
            .try_filter_map(move |pod| {
                let name = pod.metadata.name.clone().filter(|_| is_released(&pod));
                let news = name.filter(|name| seen.insert(name.clone()));
                std::future::ready(Ok(news))
            })
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn set_quota(&self, quota: usize) -> Result<()> {
        let queues = queues(quota);
        let kubectl = self
            .control_plane
            .kubectl(["apply", "-f", "-"], Some(&queues));
        kubectl.await?.ok()?;
        Ok(())
    }

    /// Creates gated pods as a gated template makes them.
    async fn create(&self, prefix: &str, number: usize) -> Result<()> {
        let pods = self.pods();
        stream::iter(0..number)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |index| {
                let pods = pods.clone();
                async move {
                    let pod = serde_json::from_value(pod(&format!("{prefix}-{index}")))?;
                    let created = pods.create(&PostParams::default(), &pod).await;
                    created.context("create a pod")?;
                    anyhow::Ok(())
                }
            })
            .await
    }

    async fn see_pending(&self, number: usize) -> Result<()> {
        self.see(number, "pendingWorkloads").await
    }

    async fn see_released(&self, number: usize) -> Result<()> {
        self.see(number, "admittedWorkloads").await
    }

    async fn see(&self, number: usize, field: &str) -> Result<()> {
        wait_for(&format!("{field} to be {number}"), DEADLINE, async || {
            let queue = queue(&self.client).await.ok()?;
            (queue["status"][field].as_u64()? == u64::try_from(number).ok()?).then_some(())
        })
        .await
    }

    /// Deletes all pods.
    async fn clear(&self) -> Result<()> {
        let pods = self.pods();
        pods.delete_collection(&now(), &kube::api::ListParams::default())
            .await?;
        wait_for("all pods to be gone", DEADLINE, async || {
            let left = pods.list(&kube::api::ListParams::default().limit(1)).await;
            left.ok()?.items.is_empty().then_some(())
        })
        .await
    }
}

fn now() -> DeleteParams {
    DeleteParams::default().grace_period(0)
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"sluice.dev/queue-name": "bench", "sluice.dev/managed": "true"},
            "annotations": {GATE: "true"},
        },
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
        },
    })
}

fn is_released(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_none_or(Vec::is_empty) && pod.metadata.deletion_timestamp.is_none()
}

/// What was done to pods called `prefix-…`: verb, who, when it was answered.
fn answered(log: &str, prefix: &str) -> Vec<(String, bool, Timestamp)> {
    let mut done: BTreeMap<(Timestamp, usize), (String, bool)> = BTreeMap::new();
    for (index, line) in log.lines().enumerate() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let text = |at: &str| {
            event
                .pointer(at)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let code = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let is_one = text("/objectRef/resource") == "pods"
            && text("/objectRef/name").starts_with(&format!("{prefix}-"))
            && text("/stage") == "ResponseComplete"
            && (200..300).contains(&code);
        if let (true, Ok(at)) = (is_one, text("/stageTimestamp").parse()) {
            let by_sluice =
                text("/user/username") == SLUICE || text("/impersonatedUser/username") == SLUICE;
            done.insert((at, index), (text("/verb").to_owned(), by_sluice));
        }
    }
    done.into_iter()
        .map(|((at, _), (verb, by_sluice))| (verb, by_sluice, at))
        .collect()
}

/// Milliseconds from each deletion of a pod to the next PATCH by Sluice, sorted.
fn latencies(log: &str, prefix: &str) -> Vec<f64> {
    let mut took = Vec::new();
    let mut freed: Option<Timestamp> = None;
    for (verb, by_sluice, at) in answered(log, prefix) {
        if verb == "delete" {
            freed = Some(at);
        } else if verb == "patch"
            && by_sluice
            && let Some(freed) = freed.take()
        {
            took.push(at.duration_since(freed).as_secs_f64() * 1000.0);
        }
    }
    took.sort_by(f64::total_cmp);
    took
}

/// PATCHes a second, from the first answer to the last.
fn rate(log: &str, prefix: &str) -> f64 {
    let times: Vec<Timestamp> = answered(log, prefix)
        .into_iter()
        .filter(|(verb, ..)| verb == "patch")
        .map(|(_, _, at)| at)
        .collect();
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return 0.0;
    };
    shared::ratio(times.len(), 1) / last.duration_since(*first).as_secs_f64().max(0.001)
}
