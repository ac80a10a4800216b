//! Gates that wait for another object, and what they say of Jobs.

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use super::objects::{Job, own, own_gate};
use super::{DEADLINE, Scene};

/// The annotation that names what a job waits for.
pub const AFTER: &str = "sluice.dev/after";
/// Both are conditions of a Job that has ended.
const COMPLETE: &str = "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')";
const FAILED: &str = "has(object.status.conditions) && object.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')";

/// A Job that is to be complete.
pub fn job_rule() -> Value {
    json!({"group": "batch", "kind": "Job", "condition": COMPLETE, "failed": FAILED})
}

/// An object of this group and kind of which an expression is to be true.
pub fn rule(group: &str, kind: &str, condition: &str) -> Value {
    json!({"group": group, "kind": kind, "condition": condition})
}

/// The same, named by the Gate.
pub fn object(mut rule: Value, name: &str, namespace: Option<&str>) -> Value {
    rule["name"] = json!(name);
    if let Some(namespace) = namespace {
        rule["namespace"] = json!(namespace);
    }
    json!({ "object": rule })
}

/// Makes the Gate `data` of the namespace, with this `spec.after`; returns its gate.
pub async fn after_gate(scene: &Scene<'_>, after: Value) -> Result<String> {
    let (name, object) = own_gate(&scene.ns, "data");
    scene
        .apply(&own("Gate", &object, json!({"after": after})))
        .await?;
    Ok(name)
}

/// A queued job that this gate holds until `named` satisfies its condition.
pub fn waiting(name: &str, gate: &str, named: &str) -> Job {
    let job = Job::new(name).queue("q").gate(gate);
    job.annotation(AFTER, named)
}

impl Scene<'_> {
    /// Waits until an event about an object says this, and returns all of its text.
    pub async fn see_told(&self, object: &str, reason: &str, part: &str) -> Result<String> {
        let what = format!("an event {reason} about {object} with {part:?}");
        eventually(&what, DEADLINE, async || {
            let events = self.events(object).await.map_err(|e| format!("{e:#}"))?;
            let mut told = events.iter().filter(|(r, _)| r == reason);
            let found = told.find(|(_, note)| note.contains(part));
            found
                .map(|(_, note)| note.clone())
                .ok_or_else(|| format!("{events:?}"))
        })
        .await
    }
}
