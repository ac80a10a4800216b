//! The scheduler, which gives pods without gates a node, and the kubelets, which run them for as long as they
//! say and end those that are deleted. There is always a node.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use sluice::clock;
use tokio::time::sleep;

use super::{all, has_ended, is_deleted};
use crate::api::resource::Place;
use crate::api::store::in_seconds;
use crate::api::{Author, Part, Server};

/// How long a pod runs, by its annotation; without one it runs for ever.
pub const RUN_SECONDS: &str = "simulation.sluice.dev/run-seconds";
/// How long a kubelet takes to start a pod, and to end one that is deleted, at most.
const KUBELET: Duration = Duration::from_millis(1500);

/// Gives every pod a node that may have one.
pub(super) async fn bind(server: &Arc<Server>, author: &Author) {
    for (place, pod) in all(server, "Pod") {
        let is_gated = pod["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|g| !g.is_empty());
        let is_bound = !pod["spec"]["nodeName"].is_null();
        if is_gated || is_bound || is_deleted(&pod) || has_ended(&pod) {
            continue;
        }
        let uid = pod["metadata"]["uid"].clone();
        let mut store = server.store();
        // A binding is no update that webhooks are asked about.
        let found = store
            .get(&place)
            .filter(|found| found["metadata"]["uid"] == uid)
            .cloned();
        let Some(found) = found else { continue };
        let is_gated = found["spec"]["schedulingGates"]
            .as_array()
            .is_some_and(|g| !g.is_empty());
        if is_gated || is_deleted(&found) {
            continue;
        }
        let mut bound = (*found).clone();
        bound["spec"]["nodeName"] = json!("node");
        store.put(&place, bound, author);
    }
}

/// Runs pods that are bound.
pub(super) async fn kubelet(server: Arc<Server>, mut rng: Rng) {
    let mut follow = server.store().follow();
    let mut seen = 0;
    loop {
        let changes: Vec<_> = {
            let store = server.store();
            let changes = store.since(seen).unwrap_or_default().to_vec();
            seen = store.revision();
            changes
        };
        for change in changes {
            let Some(pod) = change.after.filter(|pod| pod["kind"] == "Pod") else {
                continue;
            };
            let node = |pod: &Value| !pod["spec"]["nodeName"].is_null();
            let was_bound = change.before.as_ref().is_some_and(|before| node(before));
            let was_deleted = change
                .before
                .as_ref()
                .is_some_and(|before| is_deleted(before));
            let wait = KUBELET.mul_f64(rng.f64());
            let uid = pod["metadata"]["uid"].clone();
            if node(&pod) && !was_bound {
                let life = live(
                    server.clone(),
                    change.place.clone(),
                    uid.clone(),
                    run_time(&pod),
                    wait,
                );
                tokio::spawn(life);
            }
            if is_deleted(&pod) && !was_deleted && node(&pod) {
                tokio::spawn(end(server.clone(), change.place, uid, wait));
            }
        }
        follow.changed().await;
    }
}

fn run_time(pod: &Value) -> Option<Duration> {
    let text = pod["metadata"]["annotations"][RUN_SECONDS].as_str()?;
    text.parse().ok().map(Duration::from_secs_f64)
}

/// Starts a pod, and has it succeed after its time.
async fn live(
    server: Arc<Server>,
    place: Place,
    uid: Value,
    time: Option<Duration>,
    wait: Duration,
) {
    sleep(wait).await;
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let running = json!({
        "phase": "Running", "startTime": in_seconds(clock::wall()), "conditions": ready,
    });
    if !set_status(&server, &place, &uid, running).await {
        return;
    }
    if let Some(time) = time {
        sleep(time).await;
        set_status(&server, &place, &uid, json!({"phase": "Succeeded"})).await;
    }
}

/// Ends a pod that is deleted.
async fn end(server: Arc<Server>, place: Place, uid: Value, wait: Duration) {
    sleep(wait).await;
    set_status(&server, &place, &uid, json!({"phase": "Failed"})).await;
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    drop(server.delete(&KUBELET_NAME.into(), &place, &options));
}

const KUBELET_NAME: &str = "system:node:node";

/// Whether the pod was there, and had not ended.
async fn set_status(server: &Arc<Server>, place: &Place, uid: &Value, status: Value) -> bool {
    let is_live = {
        let store = server.store();
        let found = store.get(place);
        found.is_some_and(|pod| pod["metadata"]["uid"] == *uid && !has_ended(pod))
    };
    let change = |old: &Value| {
        let mut new = old.clone();
        new["metadata"]["uid"] = uid.clone();
        new["status"] = status.clone();
        Ok(new)
    };
    is_live
        && server
            .change(&KUBELET_NAME.into(), place, Part::Status, false, change)
            .await
            .is_ok()
}
