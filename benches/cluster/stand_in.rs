//! Plays the Job controller and the kubelets: a Job that is released is complete after the time that
//! its size runs, by one write to its status. It makes no pods.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use crate::load::Size;

/// Jobs completed at the same time.
const COMPLETING: usize = 24;

/// Watches Jobs and completes those that are released, until this is dropped.
pub(crate) struct StandIn {
    /// The UID of each Job that is complete.
    pub(crate) completed: mpsc::UnboundedReceiver<Result<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl StandIn {
    pub(crate) fn start(client: &Client) -> Self {
        let (sender, completed) = mpsc::unbounded_channel();
        let jobs: Api<Job> = Api::default_namespaced(client.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = watch(jobs, &sender).await {
                let _ = sender.send(Err(error.context("the stand-in")));
            }
        });
        Self { completed, task }
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(jobs: Api<Job>, sender: &mpsc::UnboundedSender<Result<String>>) -> Result<()> {
    let slots = Arc::new(Semaphore::new(COMPLETING));
    let mut seen = HashSet::new();
    let mut shown =
        std::pin::pin!(watcher(jobs.clone(), watcher::Config::default()).applied_objects());
    while let Some(job) = shown.try_next().await? {
        let name = job.metadata.name.unwrap_or_default();
        let uid = job.metadata.uid.unwrap_or_default();
        let is_released = job.spec.and_then(|spec| spec.suspend) == Some(false);
        if is_released && seen.insert(uid.clone()) {
            let (jobs, slots, sender) = (jobs.clone(), slots.clone(), sender.clone());
            tokio::spawn(async move {
                let completed = run(&jobs, &name, &slots).await;
                let _ = sender.send(completed.map(|()| uid));
            });
        }
    }
    Ok(())
}

async fn run(jobs: &Api<Job>, name: &str, slots: &Semaphore) -> Result<()> {
    let begun = Timestamp::now();
    let size = Size::of_job(name).with_context(|| format!("no size is called as {name}"))?;
    tokio::time::sleep(size.runs()).await;
    let _permit = slots.acquire().await?;
    let now = Timestamp::now();
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods",
            "lastProbeTime": seconds(now), "lastTransitionTime": seconds(now)})
    };
    let status = json!({"status": {
        "startTime": seconds(begun), "completionTime": seconds(now), "succeeded": 1, "ready": 0,
        "terminating": 0, "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    let patch = Patch::Merge(status);
    let params = PatchParams::default();
    let patched = jobs.patch_status(name, &params, &patch).await;
    patched.context("complete a job")?;
    Ok(())
}

/// As Kubernetes writes times.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
