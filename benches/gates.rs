//! What Gates cost on a real control plane: writes while many jobs are held, a restart with them, and how fast Sluice
//! lifts gates, beside the same PATCHes with nothing deciding. `make bench` builds it in release and runs it.
//!
//! `BENCH_HELD` (10,000) jobs are held, `BENCH_LIFTED` (1,000) are lifted at once, and then all the rest. Sluice is
//! left alone for `BENCH_IDLE` (60) seconds. Measures, never fails. Each job has a second gate that stays, so that
//! nothing but the lifting is measured.
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
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use shared::{SLUICE, count, mib, percentile, ratio, resource};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, wait_for};

/// Requests at the same time: as many as Sluice sends.
const CONCURRENCY: usize = 24;
/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(20);
/// No event is sent for so long: all are sent.
const LAST_EVENT: Duration = Duration::from_secs(5);
/// No writes, for people.
const NONE: &str = "none";
/// The gate that stays.
const STAYS: &str = "bench.acme.io/stays";

#[tokio::main]
async fn main() -> Result<()> {
    let (held, lifted) = (count("BENCH_HELD", 10_000), count("BENCH_LIFTED", 1_000));
    let idle = u64::try_from(count("BENCH_IDLE", 60))?;
    let options = Options {
        nodes: 0,
        ..Options::with_crds()?
    };
    let control_plane = ControlPlane::start(options).await?;
    let sluice = SluiceOptions::new(env!("CARGO_BIN_EXE_sluice"));
    let sluice = Sluice::install(&control_plane, sluice).await?;
    sluice.start().await?;
    let bench = Bench {
        client: control_plane.client()?,
        control_plane: &control_plane,
    };
    println!("memory idle: {}", mib(sluice.resident_memory()?));
    for (gate, number) in [("first", lifted), ("rest", held.saturating_sub(lifted))] {
        bench.close(gate).await?;
        bench.create(gate, number).await?;
        bench.see_held(gate, number).await?;
    }
    println!(
        "memory with {held} jobs held: {}",
        mib(sluice.resident_memory()?)
    );
    bench.idle(held, Duration::from_secs(idle)).await?;

    sluice.kill();
    let (begun, since) = (Instant::now(), Timestamp::now());
    sluice.start_again().await?;
    wait_for("the held jobs to be known again", DEADLINE, async || {
        let metrics = sluice.metrics().await.ok()?;
        let line = format!("sluice_gate_held_objects{{gate=\"first.acme.io\"}} {lifted}");
        metrics.contains(&line).then_some(())
    })
    .await?;
    println!(
        "started again with them: {:.1} s, memory after that: {}, writes: {}",
        begun.elapsed().as_secs_f64(),
        mib(sluice.resident_memory()?),
        bench.writes(since)?
    );
    let by_sluice = bench.lift("first", lifted).await?;
    bench.lift("rest", held.saturating_sub(lifted)).await?;
    bench.create("floor", lifted).await?;
    bench.see_suspended("floor", lifted).await?;
    sluice.kill();
    let floor = bench.floor().await?;
    println!(
        "lifting {lifted} gates, as a part of that: {:.2}",
        by_sluice / floor
    );
    Ok(())
}

struct Bench<'a> {
    client: Client,
    control_plane: &'a ControlPlane,
}

impl Bench<'_> {
    /// Nothing is done to anything for a while, once all events of the creation are sent.
    async fn idle(&self, held: usize, time: Duration) -> Result<()> {
        wait_for("the last event", DEADLINE, async || {
            let since = Timestamp::now();
            tokio::time::sleep(LAST_EVENT).await;
            (self.writes(since).ok()? == NONE).then_some(())
        })
        .await?;
        let since = Timestamp::now();
        tokio::time::sleep(time).await;
        let writes = self.writes(since)?;
        println!(
            "{held} jobs held for {} s: writes: {writes}",
            time.as_secs()
        );
        Ok(())
    }

    /// A gate of so many jobs opens. Returns how many PATCHes a second that made.
    async fn lift(&self, gate: &str, number: usize) -> Result<f64> {
        let since = Timestamp::now();
        self.apply(gate, &json!({"windows": [window()]})).await?;
        self.see_held(gate, 0).await?;
        let took = self.patches(gate)?;
        let after = took.iter().map(|at| at.duration_since(since).as_secs_f64());
        let after: Vec<_> = after.collect();
        let rate = rate(&took);
        println!(
            "{number} gates lifted at once: {rate:.0} PATCHes/s; from the edit of the Gate to the answered PATCH: \
             p50 {:.1} s, p99 {:.1} s; writes: {}",
            percentile(&after, 50),
            percentile(&after, 99),
            self.writes(since)?
        );
        Ok(rate)
    }

    /// The same PATCHes by the same account, with nothing deciding.
    async fn floor(&self) -> Result<f64> {
        let jobs: Api<Job> = Api::default_namespaced(self.control_plane.client_as(Some(SLUICE))?);
        let label = "gate.sluice.dev/floor.acme.io";
        // As Sluice knows them before.
        let all: Api<Job> = Api::default_namespaced(self.client.clone());
        let list = all
            .list_metadata(&ListParams::default().labels(label))
            .await?;
        stream::iter(list.items)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |job| {
                let jobs = jobs.clone();
                let record = json!([{
                    "gate": "acme.io/floor", "by": "sluice", "at": Timestamp::now(),
                    "reason": "its schedule says", "uid": job.metadata.uid,
                }]);
                let patch = json!({"metadata": {
                    "resourceVersion": job.metadata.resource_version,
                    "labels": {(label): null},
                    "annotations": {
                        "kueue.x-k8s.io/admission-gated-by": STAYS,
                        "sluice.dev/lifted-gates": record.to_string(),
                    },
                }});
                async move {
                    let name = job.metadata.name.unwrap_or_default();
                    let patch = Patch::Merge(patch);
                    jobs.patch(&name, &PatchParams::default(), &patch).await?;
                    anyhow::Ok(())
                }
            })
            .await?;
        let rate = rate(&self.patches("floor")?);
        println!("the same PATCHes with nothing deciding: {rate:.0} PATCHes/s");
        Ok(rate)
    }

    /// Closes the gate for a century.
    async fn close(&self, gate: &str) -> Result<()> {
        let never = json!({"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00Z"});
        let schedule = json!({"windows": [window()], "exceptions": [never]});
        self.apply(gate, &schedule).await
    }

    async fn apply(&self, gate: &str, schedule: &Value) -> Result<()> {
        let gate = json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Gate",
            "metadata": {"name": format!("{gate}.acme.io")}, "spec": {"schedule": schedule},
        });
        let gate = gate.to_string();
        let kubectl = self
            .control_plane
            .kubectl(["apply", "-f", "-"], Some(&gate));
        kubectl.await?.ok()?;
        Ok(())
    }

    /// Creates jobs that a gate holds, and another one.
    async fn create(&self, gate: &str, number: usize) -> Result<()> {
        let jobs: Api<Job> = Api::default_namespaced(self.client.clone());
        stream::iter(0..number)
            .map(Ok)
            .try_for_each_concurrent(CONCURRENCY, |index| {
                let jobs = jobs.clone();
                let job = json!({
                    "apiVersion": "batch/v1", "kind": "Job",
                    "metadata": {
                        "name": format!("{gate}-{index}"),
                        "annotations": {"kueue.x-k8s.io/admission-gated-by": format!("acme.io/{gate},{STAYS}")},
                    },
                    "spec": {"template": {"spec": {
                        "restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}],
                    }}},
                });
                async move {
                    let job = serde_json::from_value(job)?;
                    let created = jobs.create(&PostParams::default(), &job).await;
                    created.context("create a job")?;
                    anyhow::Ok(())
                }
            })
            .await
    }

    /// Waits until the Job controller has told of all jobs that they are suspended: it writes to them no more.
    async fn see_suspended(&self, gate: &str, number: usize) -> Result<()> {
        let jobs: Api<Job> = Api::default_namespaced(self.client.clone());
        let label = format!("gate.sluice.dev/{gate}.acme.io");
        wait_for("the jobs to be suspended", DEADLINE, async || {
            let list = jobs
                .list(&ListParams::default().labels(&label))
                .await
                .ok()?;
            let conditions = list.items.iter().filter_map(|job| {
                let conditions = job.status.as_ref()?.conditions.as_ref()?;
                conditions.iter().find(|it| it.type_ == "Suspended")
            });
            (number <= conditions.count()).then_some(())
        })
        .await
    }

    async fn see_held(&self, gate: &str, number: usize) -> Result<()> {
        let gates: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &resource("Gate", "gates"));
        wait_for(&format!("{number} jobs held"), DEADLINE, async || {
            let gate = gates.get(&format!("{gate}.acme.io")).await.ok()?;
            (gate.data["status"]["held"].as_u64()? == u64::try_from(number).ok()?).then_some(())
        })
        .await
    }

    /// When the PATCHes of the jobs of a gate by Sluice were answered.
    fn patches(&self, gate: &str) -> Result<Vec<Timestamp>> {
        let prefix = format!("{gate}-");
        let done = self.answered()?.into_iter();
        let done = done.filter(|done| done.verb == "patch" && done.resource == "jobs");
        let mut times: Vec<_> = done
            .filter(|done| done.name.starts_with(&prefix))
            .map(|done| done.at)
            .collect();
        times.sort();
        Ok(times)
    }

    /// How many of what Sluice has written since then, its lease apart.
    fn writes(&self, since: Timestamp) -> Result<String> {
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for done in self.answered()? {
            if since <= done.at && done.resource != "leases" {
                *writes.entry(done.resource).or_default() += 1;
            }
        }
        let writes: Vec<_> = writes
            .iter()
            .map(|(what, n)| format!("{n} {what}"))
            .collect();
        Ok(if writes.is_empty() {
            NONE.to_owned()
        } else {
            writes.join(", ")
        })
    }

    /// What Sluice has written, as the API server's audit log says.
    fn answered(&self) -> Result<Vec<Done>> {
        let log = std::fs::read_to_string(self.control_plane.audit_log())?;
        Ok(log.lines().filter_map(Done::read).collect())
    }
}

/// A write by Sluice.
struct Done {
    verb: String,
    resource: String,
    name: String,
    at: Timestamp,
}

impl Done {
    fn read(line: &str) -> Option<Self> {
        let event: Value = serde_json::from_str(line).ok()?;
        let text = |at: &str| {
            event
                .pointer(at)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let by_sluice =
            text("/user/username") == SLUICE || text("/impersonatedUser/username") == SLUICE;
        let verb = text("/verb").to_owned();
        let is_write = ["create", "update", "patch", "delete"].contains(&verb.as_str());
        let is_object = text("/objectRef/apiGroup") != "authorization.k8s.io"
            && text("/objectRef/apiGroup") != "authentication.k8s.io";
        (by_sluice && is_write && is_object && text("/stage") == "ResponseComplete")
            .then_some(())?;
        Some(Self {
            verb,
            resource: text("/objectRef/resource").to_owned(),
            name: text("/objectRef/name").to_owned(),
            at: text("/stageTimestamp").parse().ok()?,
        })
    }
}

/// A window that is always open.
fn window() -> Value {
    json!({"start": "* * * * *", "durationSeconds": 3600})
}

/// PATCHes a second, from the first answer to the last.
fn rate(times: &[Timestamp]) -> f64 {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return 0.0;
    };
    ratio(times.len(), 1) / last.duration_since(*first).as_secs_f64().max(0.001)
}
