//! What is submitted in a round: queues, jobs, and what their users do to them later. All of it is drawn
//! from a seed and made before anything starts.

use fastrand::Rng;
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::RUN_SECONDS;

/// The annotation of one gate.
const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
/// The gate of the jobs that have one.
const GATE: &str = "acme.io/budget";
/// The LocalQueues, each with a ClusterQueue of its own.
const QUEUES: [&str; 3] = ["a", "b", "c"];

/// What a user does.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Submits a job.
    Create(Value),
    /// Takes the gate off the job of this name.
    LiftGate(String),
    /// Deletes the job of this name.
    Delete(String),
}

/// A load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Queues and what belongs to them, in the order in which they are created.
    pub queues: Vec<Value>,
    /// What users do, one thing after the other.
    pub acts: Vec<Act>,
}

impl Load {
    /// Draws a load with this many jobs for a namespace. Each of them can end.
    pub fn draw(rng: &mut Rng, namespace: &str, jobs: usize) -> Self {
        let mut acts: Vec<Act> = Vec::new();
        for index in 0..jobs {
            let name = format!("job-{index}");
            let job = job(rng, namespace, &name);
            let is_gated = job["metadata"]["annotations"].get(GATED).is_some();
            acts.push(Act::Create(job));
            // Later, but not before it is there.
            let later = rng.usize(acts.len()..=jobs.max(acts.len()));
            if is_gated {
                acts.insert(later.min(acts.len()), Act::LiftGate(name.clone()));
            } else if rng.u8(..) < 26 {
                acts.insert(later.min(acts.len()), Act::Delete(name.clone()));
            }
        }
        Self {
            queues: queues(rng, namespace),
            acts,
        }
    }

    /// One LocalQueue with so many cpus.
    pub fn one_queue(namespace: &str, queue: &str, cpus: &str) -> Vec<Value> {
        let cpu = json!([{"name": "cpu", "nominalQuota": cpus}]);
        let groups = json!([{
            "coveredResources": ["cpu"],
            "flavors": [{"name": namespace, "resources": cpu}],
        }]);
        vec![
            own("ResourceFlavor", namespace, json!({})),
            own(
                "ClusterQueue",
                namespace,
                json!({"namespaceSelector": {}, "resourceGroups": groups}),
            ),
            own("LocalQueue", queue, json!({"clusterQueue": namespace})),
        ]
    }

    /// The names of the jobs that are there at the end.
    pub fn stays(&self) -> Vec<&str> {
        let is_deleted = |name: &str| self.acts.contains(&Act::Delete(name.to_owned()));
        let created = self.acts.iter().filter_map(|act| match act {
            Act::Create(job) => job["metadata"]["name"].as_str(),
            Act::LiftGate(_) | Act::Delete(_) => None,
        });
        created.filter(|name| !is_deleted(name)).collect()
    }
}

/// Three queues that lend to each other, the third one a level deeper, with two flavors; limits and
/// preemption as drawn. Whatever is drawn, each job fits the nominal quota of its queue.
fn queues(rng: &mut Rng, namespace: &str) -> Vec<Value> {
    let flavors = ["x", "y"].map(|flavor| format!("{namespace}-{flavor}"));
    let mut made: Vec<Value> = flavors
        .iter()
        .map(|name| own("ResourceFlavor", name, json!({})))
        .collect();
    made.push(own("Cohort", namespace, json!({})));
    let inner = format!("{namespace}-inner");
    made.push(own("Cohort", &inner, json!({"parentName": namespace})));
    for (name, value) in [("low", -10), ("high", 100)] {
        made.push(json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "WorkloadPriorityClass",
            "metadata": {"name": format!("{namespace}-{name}")}, "value": value,
        }));
    }
    for queue in QUEUES {
        let name = format!("{namespace}-{queue}");
        let quotas: Vec<_> = flavors
            .iter()
            .map(|flavor| {
                let mut cpu = json!({"name": "cpu", "nominalQuota": "3"});
                if rng.bool() {
                    cpu["borrowingLimit"] = json!(rng.u8(0..3).to_string());
                }
                if rng.bool() {
                    cpu["lendingLimit"] = json!(rng.u8(0..3).to_string());
                }
                json!({"name": flavor, "resources": [cpu]})
            })
            .collect();
        let preemption = json!({
            "withinClusterQueue": rng.choice(["Never", "LowerPriority"]),
            "reclaimWithinCohort": rng.choice(["Never", "LowerPriority", "Any"]),
        });
        made.push(own(
            "ClusterQueue",
            &name,
            json!({
                "namespaceSelector": {},
                "cohortName": if queue == "c" { &inner } else { namespace },
                "queueingStrategy": rng.choice(["BestEffortFIFO", "StrictFIFO"]),
                "preemption": preemption,
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
            }),
        ));
        made.push(own("LocalQueue", queue, json!({"clusterQueue": name})));
    }
    made
}

fn job(rng: &mut Rng, namespace: &str, name: &str) -> Value {
    let sizes = [("500m", 3), ("1", 3), ("1500m", 2), ("3", 1)];
    let (cpu, most) = rng.choice(sizes).unwrap_or(("1", 1));
    let mut annotations = json!({});
    if rng.u8(..) < 50 {
        annotations[GATED] = json!(GATE);
    }
    if rng.u8(..) < 26 {
        annotations[ADMISSION_ANNOTATION] = json!("PerPod");
    }
    let queue = rng.choice(QUEUES).unwrap_or("a");
    let mut job = named_job(name, queue, cpu, rng.u8(1..=most), annotations);
    job["spec"]["template"]["metadata"]["annotations"][RUN_SECONDS] =
        json!(rng.choice(["0.2", "0.5", "1", "2"]));
    let priority = rng.usize(0..6);
    if let Some(class) = ["low", "high"].get(priority) {
        let class = json!(format!("{namespace}-{class}"));
        job["metadata"]["labels"][PRIORITY_CLASS_LABEL] = class;
    }
    job
}

/// A job of so many pods, all at a time, that run for half a second.
pub fn named_job(name: &str, queue: &str, cpu: &str, pods: u8, annotations: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name, "labels": {QUEUE_NAME_LABEL: queue}, "annotations": annotations,
        },
        "spec": {
            "parallelism": pods, "completions": pods,
            "template": {
                "metadata": {"annotations": {RUN_SECONDS: "0.5"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{
                        "name": "main", "image": "example.com/none",
                        "resources": {"requests": {"cpu": cpu}},
                    }],
                },
            },
        },
    })
}

/// An object of group `sluice.dev`.
#[allow(
    clippy::needless_pass_by_value,
    reason = "what is made with json!() is given away where it is made"
)]
fn own(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_load() {
        let draw = |seed| Load::draw(&mut Rng::with_seed(seed), "ns", 20);
        let (one, same, other) = (draw(1), draw(1), draw(2));
        assert_eq!(one.acts, same.acts);
        assert_eq!(one.queues, same.queues);
        assert_ne!(one.acts, other.acts);
    }

    #[test]
    fn nothing_is_done_to_a_job_before_it_is_there() {
        for seed in 0..200 {
            let load = Load::draw(&mut Rng::with_seed(seed), "ns", 20);
            let mut there = Vec::new();
            for act in &load.acts {
                match act {
                    Act::Create(job) => {
                        there.push(job["metadata"]["name"].as_str().unwrap_or_default());
                    }
                    Act::LiftGate(name) | Act::Delete(name) => {
                        assert!(there.contains(&name.as_str()), "seed {seed}: {name}");
                    }
                }
            }
            assert_eq!(there.len(), 20);
        }
    }
}
