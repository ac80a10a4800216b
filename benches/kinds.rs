//! What kinds by declaration cost on a real control plane: how long it takes from `kubectl apply` of a
//! JobKind until its objects are held, and the memory of idle JobKinds and of objects that wait.
//! `make bench` builds it in release and runs it.
//!
//! `BENCH_KINDS` JobKinds (20), `BENCH_OBJECTS` objects of one of them (5,000). Measures, never fails.
#![allow(
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a bench prints its figures, and reads JSON that the API server wrote"
)]

mod shared;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::DynamicObject;
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use shared::{count, mib, queue, queues, ratio, resource};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, wait_for};

/// Objects created at the same time.
const CREATING: usize = 16;
/// How often the JobKinds go and come again.
const ROUNDS: usize = 5;
/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_mins(10);

#[tokio::main]
async fn main() -> Result<()> {
    let kinds = count("BENCH_KINDS", 20);
    let objects = count("BENCH_OBJECTS", 5_000);
    let control_plane = ControlPlane::start(Options::with_crds()?).await?;
    let options = SluiceOptions::new(env!("CARGO_BIN_EXE_sluice"));
    let sluice = Sluice::install(&control_plane, options).await?;
    sluice.start().await?;
    let client = control_plane.client()?;
    apply(&control_plane, &queues(0)).await?;
    let crds: Vec<Value> = (0..=kinds).flat_map(served).collect();
    apply(&control_plane, &list(&crds)).await?;
    for number in 0..=kinds {
        see_served(&client, number).await?;
    }

    see_held(&control_plane, &client, 0).await?;
    let before = sluice.resident_memory()?;
    println!(
        "memory with the shipped JobKinds and one more: {}",
        mib(before)
    );
    let more: Vec<Value> = (1..=kinds).map(job_kind).collect();
    let begun = Instant::now();
    apply(&control_plane, &list(&more)).await?;
    for number in 1..=kinds {
        see_ready(&client, number).await?;
    }
    println!(
        "{kinds} more JobKinds ready: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let after = sluice.resident_memory()?;
    println!(
        "memory for each of them: {}",
        mib(each(after, before, kinds))
    );

    for round in 1..=ROUNDS {
        let names: Vec<String> = (1..=kinds)
            .map(|number| format!("bench-{number}"))
            .collect();
        let delete = ["delete", "jobkinds"].into_iter().map(str::to_owned);
        let delete: Vec<String> = delete.chain(names).collect();
        control_plane.kubectl(delete, None).await?.ok()?;
        apply(&control_plane, &list(&more)).await?;
        for number in 1..=kinds {
            see_ready(&client, number).await?;
        }
        let memory = mib(sluice.resident_memory()?);
        println!("memory after they went and came again {round} times: {memory}");
    }

    let before = sluice.resident_memory()?;
    create(&client, objects).await?;
    wait_for("all objects to be queued", DEADLINE, async || {
        let queue = queue(&client).await.ok()?;
        (queue["status"]["pendingWorkloads"].as_u64()? >= u64::try_from(objects).ok()?)
            .then_some(())
    })
    .await?;
    let after = sluice.resident_memory()?;
    println!(
        "memory with {objects} of its objects waiting: {}",
        mib(after)
    );
    println!(
        "memory for 1,000 of them: {}",
        mib(each(after, before, objects).saturating_mul(1000))
    );
    println!(
        "bytes for each of them: {:.0}",
        ratio(usize::try_from(after.saturating_sub(before))?, objects)
    );
    Ok(())
}

fn each(after: u64, before: u64, number: usize) -> u64 {
    let number = u64::try_from(number).unwrap_or(u64::MAX).max(1);
    after.saturating_sub(before).div_ceil(number)
}

/// How long until objects of a kind are held, those that are there and those that are created.
async fn see_held(control_plane: &ControlPlane, client: &Client, number: usize) -> Result<()> {
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &resource_of(number));
    let old: DynamicObject = serde_json::from_value(object(number, "old"))?;
    api.create(&PostParams::default(), &old).await?;
    let kind = job_kind(number).to_string();
    let begun = Instant::now();
    apply(control_plane, &kind).await?;
    println!(
        "kubectl apply of a JobKind: {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    wait_for("the old object to be held", DEADLINE, async || {
        let old = api.get("old").await.ok()?;
        (old.data["spec"]["halted"] == true).then_some(())
    })
    .await?;
    println!(
        "an object of before is held after {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let new: DynamicObject = serde_json::from_value(object(number, "new"))?;
    wait_for("a new object to be born held", DEADLINE, async || {
        let born = api.create(&dry_run, &new).await.ok()?;
        (born.data["spec"]["halted"] == true).then_some(())
    })
    .await?;
    println!(
        "a new object is born held after {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    see_ready(client, number).await?;
    println!(
        "the JobKind is ready after {:.2} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn see_ready(client: &Client, number: usize) -> Result<()> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource("JobKind", "jobkinds"));
    wait_for("a JobKind to be ready", DEADLINE, async || {
        let kind = api.get(&format!("bench-{number}")).await.ok()?;
        let conditions = kind.data["status"]["conditions"].as_array()?;
        let mut ready = conditions.iter().filter(|c| c["type"] == "Ready");
        ready.any(|c| c["status"] == "True").then_some(())
    })
    .await
}

async fn see_served(client: &Client, number: usize) -> Result<()> {
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &resource_of(number));
    wait_for("a CRD to be served", DEADLINE, async || {
        let list = api.list(&kube::api::ListParams::default()).await;
        list.ok().map(drop)
    })
    .await
}

async fn apply(control_plane: &ControlPlane, manifest: &str) -> Result<()> {
    let applied = control_plane.kubectl(["apply", "-f", "-"], Some(manifest));
    applied.await?.ok()?;
    Ok(())
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The CRD of a kind, and the role that lets Sluice read it.
fn served(number: usize) -> [Value; 2] {
    let group = group(number);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "halted": {"type": "boolean"}, "size": {"type": "integer"}, "template": open}},
        "status": open,
    }});
    let name = format!("widgets.{group}");
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"sluice.dev/aggregate-to-controller": "true"}},
        "rules": [{"apiGroups": [group], "resources": ["widgets"],
            "verbs": ["get", "list", "patch", "watch"]}],
    });
    [crd, role]
}

fn job_kind(number: usize) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "JobKind",
        "metadata": {"name": format!("bench-{number}")},
        "spec": {
            "group": group(number), "version": "v1", "kind": "Widget", "suspend": ".spec.halted",
            "active": "has(object.status) && has(object.status.active) && object.status.active > 0",
            "podSets": [{"name": "main", "template": ".spec.template", "count": "object.spec.size"}],
        },
    })
}

fn object(number: usize, name: &str) -> Value {
    json!({
        "apiVersion": format!("{}/v1", group(number)), "kind": "Widget",
        "metadata": {"name": name, "labels": {"sluice.dev/queue-name": "bench"}},
        "spec": {"halted": false, "size": 2, "template": {"spec": {"containers": [
            {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}]}}},
    })
}

fn group(number: usize) -> String {
    format!("bench-{number}.example.com")
}

fn resource_of(number: usize) -> ApiResource {
    let group = group(number);
    ApiResource {
        api_version: format!("{group}/v1"),
        group,
        version: "v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    }
}

/// Creates `number` objects of the first kind.
async fn create(client: &Client, number: usize) -> Result<()> {
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource_of(0));
    stream::iter(0..number)
        .map(Ok)
        .try_for_each_concurrent(CREATING, |index| {
            let api = api.clone();
            async move {
                let object = serde_json::from_value(object(0, &format!("wait-{index}")))?;
                let created = api.create(&PostParams::default(), &object).await;
                created.context("create an object")?;
                anyhow::Ok(())
            }
        })
        .await
}
