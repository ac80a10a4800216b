//! A namespace where objects need a queue.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL, QUEUE_REQUIRED_GATE};
use sluice_testbed::eventually;

use super::objects::{GATES, Job};
use super::{DEADLINE, Scene};

/// What becomes of an object without a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Defaulted,
    Held,
    Refused,
    Left,
}

/// Labels the namespace of the scene, and waits until objects there meet this.
pub async fn enforce(scene: &Scene<'_>, value: Option<&str>, expected: Fate) -> Result<()> {
    let labels = json!({"metadata": {"labels": {(ENFORCEMENT_LABEL): value}}});
    scene.merge("Namespace", &scene.ns, labels).await?;
    see_fate(scene, expected).await
}

/// Waits until an object without a queue meets this.
pub async fn see_fate(scene: &Scene<'_>, expected: Fate) -> Result<()> {
    eventually(
        &format!("a probe to be {expected:?}"),
        DEADLINE,
        async || {
            let probe = Job::new("probe").manifest();
            let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
            let output = scene.kubectl(&args, Some(&probe)).await?;
            let fate = if output.code == 0 {
                let stored = serde_json::from_str(&output.stdout).context("kubectl -o json")?;
                fate_of(&stored)
            } else {
                let is_refused = output.stderr.contains("requires a queue");
                ensure!(is_refused, "{}", output.stderr);
                Fate::Refused
            };
            ensure!(fate == expected, "it is {fate:?}: {}", output.stderr);
            Ok(())
        },
    )
    .await
}

/// What has become of an object that named no queue.
pub fn fate_of(stored: &Value) -> Fate {
    let metadata = &stored["metadata"];
    if metadata["labels"][QUEUE_NAME_LABEL].is_string() {
        Fate::Defaulted
    } else if is_required(stored) {
        Fate::Held
    } else {
        Fate::Left
    }
}

/// Whether an object carries the gate of what names no queue.
pub fn is_required(object: &Value) -> bool {
    let gates = object["metadata"]["annotations"][GATES].as_str();
    gates.is_some_and(|gates| gates.split(',').any(|gate| gate == QUEUE_REQUIRED_GATE))
}

/// A CronJob that never makes a Job by itself.
pub fn cron_job(name: &str, labels: Value, job: &Job) -> Value {
    let mut template = job.json();
    for field in ["apiVersion", "kind"] {
        template.as_object_mut().unwrap().remove(field);
    }
    template["metadata"].as_object_mut().unwrap().remove("name");
    json!({
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": template},
    })
}
