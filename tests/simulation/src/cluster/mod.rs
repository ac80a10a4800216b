//! The rest of a cluster, as far as Sluice sees it: the Job controller, scheduler and kubelets, and the garbage
//! collector. They see the objects as they are, act after a while, and nothing goes wrong with what they write:
//! that is for Sluice to bear, not for them.

mod garbage;
mod jobs;
pub mod pods;

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use tokio::time::sleep;

use crate::api::resource::Place;
use crate::api::{Author, Server};
pub use pods::RUN_SECONDS;

/// How long a controller takes from a change to what it does about it, at most.
const REACTION: Duration = Duration::from_millis(250);

/// Starts all of it.
pub fn start(server: &Arc<Server>, rng: &mut Rng) {
    tokio::spawn(run(
        server.clone(),
        rng.fork(),
        "system:serviceaccount:kube-system:job-controller",
        jobs::sync,
    ));
    tokio::spawn(run(
        server.clone(),
        rng.fork(),
        "system:kube-scheduler",
        pods::bind,
    ));
    tokio::spawn(pods::kubelet(server.clone(), rng.fork()));
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    tokio::spawn(run(server.clone(), rng.fork(), collector, garbage::collect));
}

/// Has a controller look at everything after each change, a while later.
async fn run(
    server: Arc<Server>,
    mut rng: Rng,
    author: &'static str,
    look: impl AsyncFn(&Arc<Server>, &Author),
) {
    let author: Author = author.into();
    let mut follow = server.store().follow();
    loop {
        look(&server, &author).await;
        follow.changed().await;
        sleep(REACTION.mul_f64(rng.f64())).await;
        follow.mark_seen();
    }
}

/// All objects of a kind.
fn all(server: &Server, kind: &str) -> Vec<(Place, Arc<Value>)> {
    let resource = Place::of(kind, "", "").resource;
    let store = server.store();
    let list = store.list(resource, "");
    list.map(|(place, object)| (place.clone(), object.clone()))
        .collect()
}

/// The UID of the controller that owns an object.
fn controller_of(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    owner["uid"].as_str()
}

fn is_deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

fn has_ended(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&phase(pod))
}
