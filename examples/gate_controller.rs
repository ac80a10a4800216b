//! Lifts the gate that is its argument, such as acme.io/budget, from each Job that asks for at most ten pods.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{Controller, controller::Action, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let gate = std::env::args().nth(1).context("name a gate")?;
    let (domain, path) = gate.split_once('/').context("such as acme.io/budget")?;
    // Just what this gate holds. What could not be lifted is tried again every minute.
    let label = format!("gate.sluice.dev/{path}.{domain}=true");
    let own = watcher::Config::default().labels(&label);
    let again = |_: Arc<Job>, _: &kube::Error, _| Action::requeue(Duration::from_mins(1));
    let client = Client::try_default().await?;
    let context = Arc::new((client.clone(), gate));
    Controller::new(Api::<Job>::all(client), own)
        .run(lift, again, context)
        .for_each(async |outcome| eprintln!("{outcome:?}"))
        .await;
    Ok(())
}

async fn lift(job: Arc<Job>, context: Arc<(Client, String)>) -> kube::Result<Action> {
    let (client, gate) = &*context;
    let asks_for = job.spec.as_ref().and_then(|spec| spec.parallelism);
    if asks_for.is_some_and(|pods| 10 < pods) {
        return Ok(Action::await_change()); // Somebody has to approve it.
    }
    let mut annotations = BTreeMap::new();
    for kind in ["scheduling", "admission"] {
        let key = format!("kueue.x-k8s.io/{kind}-gated-by");
        let gates = job.annotations().get(&key).map_or("", String::as_str);
        let mut left: Vec<_> = gates.split(',').map(str::trim).collect();
        left.retain(|name| name != gate && !name.is_empty());
        // The last gate takes the annotation with it.
        annotations.insert(key, (!left.is_empty()).then(|| left.join(",")));
    }
    // The resourceVersion: gates of others that went meanwhile don't come back.
    let version = job.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
    let (name, namespace) = (job.name_any(), job.namespace().unwrap_or_default());
    let jobs = Api::<Job>::namespaced(client.clone(), &namespace);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    jobs.patch(&name, &params, &patch).await?;
    Ok(Action::await_change())
}
