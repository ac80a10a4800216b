//! What users and administrators do in a simulation, drawn from a seed before it starts. The jobs and queues
//! are those of the rounds against a real control plane; more is done to them here.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use sluice_crds::{QUEUE_GATE, QUEUE_NAME_LABEL};
use sluice_faults::load::{Act, Load};
use tokio::time::sleep;

use crate::api::resource::Place;
use crate::api::{Author, Part, Server};
use crate::cluster::RUN_SECONDS;

/// The namespace of the users.
pub const NAMESPACE: &str = "team";
/// A user of it.
const USER: &str = "user";
/// An administrator.
const ADMIN: &str = "admin";
/// How long a user tries again what was not answered, and how often.
const TRIES: usize = 40;
const RETRY: Duration = Duration::from_millis(500);
/// The annotation by which pods of a testbed say how long they run.
const TESTBED_RUN_SECONDS: &str = "testbed.sluice.dev/run-seconds";
/// The annotation of gates.
const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";

/// What somebody does.
#[derive(Clone, Debug)]
pub enum Deed {
    /// What users do in rounds against a real control plane too.
    Of(Act),
    /// Suspends a job, or resumes it.
    Suspend(String, bool),
    /// Changes how many pods of a job run at a time.
    Resize(String, u8),
    /// Moves a job to another queue.
    Move(String, &'static str),
    /// Deletes a job and leaves its pods.
    Orphan(String),
    /// Deletes a job, and submits it again under its name.
    Replace(Value),
    /// Deletes the Workload of a job.
    DeleteWorkload(String),
    /// Deletes a pod of a job.
    DeletePod(String),
    /// Deletes the pods that keep gates of a job which they do not belong to any more, as an event tells to.
    DeleteGatesLeft,
    /// Creates a bare pod in a queue.
    Pod(Value),
    /// Gives a queue so much more quota. Less would be a race with what is admitted meanwhile.
    Quota(&'static str, u8),
    /// Stops a queue, or has it go on.
    Stop(&'static str, &'static str),
    /// Takes a job's Workload out of its queue, or puts it back.
    Deactivate(String, bool),
}

/// All that is done, with the pause before each.
#[derive(Clone, Debug)]
pub struct Script {
    /// What is there from the beginning.
    pub queues: Vec<Value>,
    /// What is done.
    pub deeds: Vec<(Duration, Deed)>,
    /// What is put right in the end, so that all that is left can end.
    pub endings: Vec<Deed>,
}

impl Script {
    /// Draws a script with so many jobs.
    pub fn draw(rng: &mut Rng, jobs: usize) -> Self {
        let load = Load::draw(rng, NAMESPACE, jobs);
        let mut deeds = Vec::new();
        let mut there: Vec<Value> = Vec::new();
        let mut endings = vec![Deed::DeleteGatesLeft];
        for act in load.acts {
            let act = adapted(rng, act);
            if let Act::Create(job) = &act {
                there.push(job.clone());
                // A lift that was refused, as another edit came between, is not tried again.
                if job["metadata"]["annotations"][GATED].is_string() {
                    endings.push(lift(job));
                }
            }
            deeds.push(Deed::Of(act));
            if rng.u8(..) < 90 {
                let deed = more(rng, &there, deeds.len());
                endings.extend(undone(&deed));
                deeds.push(deed);
            }
        }
        let burst = rng.u64(5..800);
        let deeds = deeds
            .into_iter()
            .map(|deed| (Duration::from_millis(rng.u64(0..burst)), deed))
            .collect();
        let mut queues: Vec<Value> = load.queues;
        for queue in &mut queues {
            if queue["kind"] == "LocalQueue" {
                queue["metadata"]["namespace"] = json!(NAMESPACE);
            }
        }
        Self {
            queues,
            deeds,
            endings,
        }
    }
}

/// Pods say here how long they run, and some jobs have more pods than run at a time, so they may grow.
fn adapted(rng: &mut Rng, act: Act) -> Act {
    let Act::Create(mut job) = act else {
        return act;
    };
    if rng.u8(..) < 80 {
        let pods = job["spec"]["completions"].as_u64().unwrap_or(1);
        job["spec"]["completions"] = json!(pods + rng.u64(1..4));
    }
    let annotations = &mut job["spec"]["template"]["metadata"]["annotations"];
    let time = annotations[TESTBED_RUN_SECONDS].clone();
    *annotations = json!({ (RUN_SECONDS): time });
    Act::Create(job)
}

const QUEUES: [&str; 3] = ["a", "b", "c"];

/// How many pods of a job its queue always has quota for.
pub(crate) fn most_pods(job: &Value) -> u8 {
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    match container["resources"]["requests"]["cpu"].as_str() {
        Some("500m" | "1") => 3,
        Some("1500m") => 2,
        _ => 1,
    }
}

fn more(rng: &mut Rng, there: &[Value], number: usize) -> Deed {
    let object = rng.choice(there).cloned().unwrap_or_default();
    let job = name_of(&object).to_owned();
    let queue = rng.choice(QUEUES).unwrap_or("a");
    match rng.u8(0..17) {
        0 | 1 => Deed::Suspend(job, true),
        2 => Deed::Suspend(job, false),
        3 | 16 => Deed::Resize(job, rng.u8(1..=most_pods(&object))),
        4 => Deed::Move(job, queue),
        5 => Deed::Orphan(job),
        6 | 13 => Deed::DeleteWorkload(job),
        7 => Deed::DeletePod(job),
        8 => Deed::Quota(queue, rng.u8(1..4)),
        9 => Deed::Stop(
            queue,
            rng.choice(["Hold", "HoldAndDrain"]).unwrap_or("Hold"),
        ),
        10 => Deed::Stop(queue, "None"),
        11 => Deed::Deactivate(job, false),
        12 => Deed::Replace(object),
        _ => Deed::Pod(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("pod-{number}"), "labels": {QUEUE_NAME_LABEL: queue},
                "annotations": {RUN_SECONDS: rng.choice(["0.5", "2", "5"])},
            },
            "spec": {"restartPolicy": "Never", "containers": [{
                "name": "main", "image": "example.com/none",
                "resources": {"requests": {"cpu": rng.choice(["500m", "1", "2"])}},
            }]},
        })),
    }
}

/// What puts right what would keep jobs from ending.
fn undone(deed: &Deed) -> Option<Deed> {
    match deed {
        Deed::Suspend(job, true) => Some(Deed::Suspend(job.clone(), false)),
        Deed::Stop(queue, _) => Some(Deed::Stop(queue, "None")),
        Deed::Deactivate(job, _) => Some(Deed::Deactivate(job.clone(), true)),
        Deed::Replace(job) => Some(lift(job)),
        _ => None,
    }
}

fn lift(job: &Value) -> Deed {
    Deed::Of(Act::LiftGate(name_of(job).to_owned()))
}

pub(crate) fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Does one thing; what is refused is not done, what is not answered is tried again.
pub async fn act(server: &Arc<Server>, deed: &Deed) {
    for _ in 0..TRIES {
        match attempt(server, deed).await {
            Err(code) if code >= 500 => sleep(RETRY).await,
            _ => return,
        }
    }
}

fn here(kind: &str, name: &str) -> Place {
    Place::of(kind, NAMESPACE, name)
}

/// An error is the code of the answer.
async fn attempt(server: &Arc<Server>, deed: &Deed) -> Result<(), u16> {
    let user: Author = USER.into();
    let code = |refusal: crate::api::Refusal| refusal.code;
    match deed {
        Deed::Of(Act::Create(object)) | Deed::Pod(object) => {
            let kind = object["kind"].as_str().unwrap_or_default();
            server
                .create(&user, here(kind, ""), object.clone())
                .await
                .map(drop)
                .map_err(code)
        }
        Deed::Of(Act::LiftGate(job)) => {
            edit(server, &user, here("Job", job), |job| {
                if let Some(annotations) = job["metadata"]["annotations"].as_object_mut() {
                    annotations.remove(GATED);
                }
            })
            .await
        }
        Deed::Of(Act::Delete(job)) => server
            .delete(&user, &here("Job", job), &Value::Null)
            .map(drop)
            .map_err(code),
        Deed::Orphan(job) => {
            let options = json!({"propagationPolicy": "Orphan"});
            server
                .delete(&user, &here("Job", job), &options)
                .map(drop)
                .map_err(code)
        }
        Deed::Replace(job) => {
            let place = here("Job", name_of(job));
            // It may be gone already.
            drop(server.delete(&user, &place, &Value::Null));
            server
                .create(&user, here("Job", ""), job.clone())
                .await
                .map(drop)
                .map_err(code)
        }
        Deed::Suspend(job, is_suspended) => {
            edit(server, &user, here("Job", job), |job| {
                job["spec"]["suspend"] = json!(is_suspended);
            })
            .await
        }
        Deed::Resize(job, pods) => {
            edit(server, &user, here("Job", job), |job| {
                job["spec"]["parallelism"] = json!(pods);
            })
            .await
        }
        Deed::Move(job, queue) => {
            edit(server, &user, here("Job", job), |job| {
                job["metadata"]["labels"][QUEUE_NAME_LABEL] = json!(queue);
            })
            .await
        }
        Deed::DeletePod(job) => {
            let found = {
                let store = server.store();
                let resource = Place::of("Pod", "", "").resource;
                let mut pods = store.list(resource, NAMESPACE);
                pods.find(|(_, pod)| pod["metadata"]["ownerReferences"][0]["name"] == **job)
                    .map(|(place, _)| place.clone())
            };
            match found {
                Some(place) => server
                    .delete(&user, &place, &Value::Null)
                    .map(drop)
                    .map_err(code),
                None => Ok(()),
            }
        }
        Deed::DeleteGatesLeft => {
            let left: Vec<_> = {
                let store = server.store();
                let pods = store.list(Place::of("Pod", "", "").resource, NAMESPACE);
                let left = pods.filter(|(_, pod)| keeps_gates(pod));
                left.map(|(place, _)| place.clone()).collect()
            };
            for place in left {
                server.delete(&user, &place, &Value::Null).map_err(code)?;
            }
            Ok(())
        }
        Deed::DeleteWorkload(_) | Deed::Deactivate(..) | Deed::Quota(..) | Deed::Stop(..) => {
            administer(server, deed).await
        }
    }
}

/// Whether gates hold a pod that belongs to nothing and has none of its own.
fn keeps_gates(pod: &Value) -> bool {
    let metadata = &pod["metadata"];
    let gates = pod["spec"]["schedulingGates"].as_array();
    let mut gates = gates.into_iter().flatten();
    metadata["ownerReferences"].is_null()
        && metadata["annotations"][GATED].is_null()
        && gates.any(|gate| gate["name"] != QUEUE_GATE)
}

/// What is done to Workloads and queues.
async fn administer(server: &Arc<Server>, deed: &Deed) -> Result<(), u16> {
    let user: Author = USER.into();
    let admin: Author = ADMIN.into();
    let code = |refusal: crate::api::Refusal| refusal.code;
    match deed {
        Deed::DeleteWorkload(job) => match workload_of(server, job) {
            Some(place) => server
                .delete(&admin, &place, &Value::Null)
                .map(drop)
                .map_err(code),
            None => Ok(()),
        },
        Deed::Deactivate(job, is_active) => match workload_of(server, job) {
            Some(place) => {
                edit(server, &user, place, |workload| {
                    workload["spec"]["active"] = json!(is_active);
                })
                .await
            }
            None => Ok(()),
        },
        Deed::Quota(queue, cpus) => {
            let place = Place::of("ClusterQueue", "", &format!("{NAMESPACE}-{queue}"));
            edit(server, &admin, place, |queue| {
                let flavor = &mut queue["spec"]["resourceGroups"][0]["flavors"][0];
                let nominal = &mut flavor["resources"][0]["nominalQuota"];
                let before: u64 = nominal.as_str().and_then(|n| n.parse().ok()).unwrap_or(0);
                *nominal = json!((before + u64::from(*cpus)).to_string());
            })
            .await
        }
        Deed::Stop(queue, policy) => {
            let place = Place::of("ClusterQueue", "", &format!("{NAMESPACE}-{queue}"));
            edit(server, &admin, place, |queue| {
                queue["spec"]["stopPolicy"] = json!(policy);
            })
            .await
        }
        _ => Ok(()),
    }
}

fn workload_of(server: &Arc<Server>, job: &str) -> Option<Place> {
    let store = server.store();
    let resource = Place::of("Workload", "", "").resource;
    let mut workloads = store.list(resource, NAMESPACE);
    workloads
        .find(|(_, workload)| workload["metadata"]["ownerReferences"][0]["name"] == *job)
        .map(|(place, _)| place.clone())
}

async fn edit(
    server: &Arc<Server>,
    author: &Author,
    place: Place,
    change: impl Fn(&mut Value),
) -> Result<(), u16> {
    let change = |old: &Value| {
        let mut new = old.clone();
        change(&mut new);
        Ok(new)
    };
    let done = server
        .change(author, &place, Part::Main, false, change)
        .await;
    done.map(drop).map_err(|refusal| refusal.code)
}
