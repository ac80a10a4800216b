//! Users who change a job in the moment between its admission and its release: nobody hits it by chance, as it
//! lasts some milliseconds. The job asks for more or fewer pods then than it was admitted with.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;
use sluice_faults::load::Act;
use tokio::time::sleep;

use crate::api::Server;
use crate::api::resource::Place;
use crate::users::{self, Deed, NAMESPACE, Script, most_pods, name_of};

/// How often such a user looks.
const LOOK: Duration = Duration::from_millis(2);

/// A job, and how many pods it is to run at a time once it is admitted.
#[derive(Clone, Debug)]
struct Change {
    job: String,
    pods: u8,
}

/// What is changed in half of the plays, for half of the jobs that can have another number of pods.
#[derive(Clone, Debug)]
pub struct Hasty {
    changes: Vec<Change>,
}

impl Hasty {
    /// Draws them for the jobs that the script creates.
    pub fn draw(rng: &mut Rng, script: &Script) -> Self {
        let is_played = rng.bool();
        let jobs = script.deeds.iter().filter_map(|(_, deed)| match deed {
            Deed::Of(Act::Create(job)) if is_played => Some(job),
            _ => None,
        });
        let mut changes = Vec::new();
        for job in jobs {
            // More pods than completions are never made.
            let completions = job["spec"]["completions"].as_u64().unwrap_or(1);
            let most = u64::from(most_pods(job)).min(completions);
            let pods = if rng.bool() { most } else { 1 };
            if job["spec"]["parallelism"] != pods && rng.bool() {
                changes.push(Change {
                    job: name_of(job).to_owned(),
                    pods: u8::try_from(pods).unwrap_or(1),
                });
            }
        }
        Self { changes }
    }

    /// Looks for ever, and makes each change once.
    pub async fn act(mut self, server: &Arc<Server>) {
        while !self.changes.is_empty() {
            sleep(LOOK).await;
            let is_due = |change: &mut Change| is_about_to_run(server, &change.job);
            let due: Vec<_> = self.changes.extract_if(.., is_due).collect();
            for Change { job, pods } in due {
                users::act(server, &Deed::Resize(job, pods)).await;
            }
        }
    }
}

/// Whether a job is suspended, and its Workload holds quota.
fn is_about_to_run(server: &Server, job: &str) -> bool {
    let store = server.store();
    let is_suspended = |job: &Value| job["spec"]["suspend"] == true;
    if !store
        .get(&Place::of("Job", NAMESPACE, job))
        .is_some_and(|job| is_suspended(job))
    {
        return false;
    }
    let mut workloads = store.list(Place::of("Workload", "", "").resource, NAMESPACE);
    workloads.any(|(_, workload)| {
        workload["metadata"]["ownerReferences"][0]["name"] == *job
            && workload["status"]["admission"].is_object()
    })
}
