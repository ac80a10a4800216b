//! The end of a seed, when nothing goes wrong any more and all has ended: what is left of the history that nobody
//! sees while jobs come and go. No queue may have usage or anything pending left. Then jobs come that run until they
//! are deleted: each is admitted in the term that the Lease names, and again when its Workload is deleted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluice_faults::load::{Act, named_job};
use tokio::time::{Instant, sleep};

use crate::api::Server;
use crate::api::resource::Place;
use crate::users::{self, Deed, NAMESPACE};

/// How long a job waits at most that fits and has nothing before it.
const ADMITTED: Duration = Duration::from_secs(30);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);
/// The queues, with a job for each.
const JOBS: [(&str, &str); 3] = [("last-a", "a"), ("last-b", "b"), ("last-c", "c")];

/// Whether no ClusterQueue has anything left, by its status.
///
/// # Errors
/// What one has left.
pub fn nothing_is_left(server: &Server) -> Result<(), String> {
    let store = server.store();
    let resource = Place::of("ClusterQueue", "", "").resource;
    for (place, queue) in store.list(resource, "") {
        let status = &queue["status"];
        let counts = [
            "pendingWorkloads",
            "reservingWorkloads",
            "admittedWorkloads",
        ];
        for count in counts {
            if status[count].as_i64().is_some_and(|count| count != 0) {
                let name = &place.name;
                return Err(format!(
                    "all has ended, and {name} has {count}: {}",
                    status[count]
                ));
            }
        }
        let flavors = status["flavorsUsage"].as_array().into_iter().flatten();
        let mut resources =
            flavors.flat_map(|flavor| flavor["resources"].as_array().into_iter().flatten());
        if let Some(used) = resources.find(|resource| resource["total"] != "0") {
            return Err(format!("all has ended, and {} uses {used}", place.name));
        }
    }
    Ok(())
}

/// Has the jobs come, takes their Workloads away, and in the end deletes them.
///
/// # Errors
/// What did not come about.
pub async fn sit(server: &Arc<Server>) -> Result<(), String> {
    for (name, queue) in JOBS {
        let job = named_job(name, queue, "1", 1, json!({}));
        users::act(server, &Deed::Of(Act::Create(job))).await;
    }
    let first = admitted(server, "").await?;
    for (name, _) in JOBS {
        users::act(server, &Deed::DeleteWorkload(name.to_owned())).await;
    }
    admitted(server, &first).await?;
    for (name, _) in JOBS {
        users::act(server, &Deed::Of(Act::Delete(name.to_owned()))).await;
    }
    let began = Instant::now();
    while !workloads(server).is_empty() {
        if ADMITTED < began.elapsed() {
            return Err("Workloads of deleted jobs are left".to_owned());
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Until each job runs with an admission of the present term, by other Workloads than these. Returns the UIDs of
/// the Workloads.
async fn admitted(server: &Arc<Server>, before: &str) -> Result<String, String> {
    let began = Instant::now();
    loop {
        let found = workloads(server);
        let term = term(server);
        let is_admitted = |workload: &Value| {
            let uid = workload["metadata"]["uid"].as_str().unwrap_or_default();
            workload["status"]["admission"]["term"] == *term && !before.contains(uid)
        };
        let count = found
            .iter()
            .filter(|workload| is_admitted(workload))
            .count();
        if count == JOBS.len() && all_run(server) {
            let uids = found
                .iter()
                .filter_map(|workload| workload["metadata"]["uid"].as_str());
            return Ok(uids.collect::<Vec<_>>().join(" "));
        }
        if ADMITTED < began.elapsed() {
            let states: Vec<_> = found
                .iter()
                .map(|workload| workload["status"].to_string())
                .collect();
            return Err(format!(
                "{count} of {} last jobs run by an admission of term {term} after {ADMITTED:?}: {}",
                JOBS.len(),
                states.join("; ")
            ));
        }
        sleep(LOOK).await;
    }
}

/// The Workloads of the last jobs.
fn workloads(server: &Server) -> Vec<Arc<Value>> {
    let store = server.store();
    let resource = Place::of("Workload", "", "").resource;
    let is_of_a_last_job = |workload: &Value| {
        let owner = &workload["metadata"]["ownerReferences"][0]["name"];
        JOBS.iter().any(|(name, _)| owner == name)
    };
    let all = store.list(resource, NAMESPACE);
    all.filter(|(_, workload)| is_of_a_last_job(workload))
        .map(|(_, workload)| workload.clone())
        .collect()
}

fn all_run(server: &Server) -> bool {
    let store = server.store();
    JOBS.iter().all(|(name, _)| {
        let job = store.get(&Place::of("Job", NAMESPACE, name));
        job.is_some_and(|job| job["spec"]["suspend"] != true)
    })
}

/// The term that the Lease names.
fn term(server: &Server) -> String {
    let store = server.store();
    let lease = store.get(&Place::of("Lease", "sluice-system", "sluice"));
    lease.map_or_else(String::new, |lease| {
        let uid = lease["metadata"]["uid"].as_str().unwrap_or_default();
        format!("{}.{uid}", lease["spec"]["leaseTransitions"])
    })
}
