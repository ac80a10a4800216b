//! Kinds that wait suspended: held, counted, released with every template placed, taken back, released again,
//! finished.

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::{Objects, sample, stop};
use crate::support::Scene;
use crate::support::objects::{condition, is, is_admitted, name_of};

/// A kind, and what its controller writes.
struct Play {
    name: &'static str,
    /// Where its suspend field is.
    suspend: &'static str,
    /// Its pod sets, and where each takes nodeSelector and tolerations, and labels and annotations.
    sets: Vec<Set>,
    running: Value,
    drained: Value,
    succeeded: Value,
    /// What its Workload says in the end.
    told: &'static str,
}

struct Set {
    name: &'static str,
    count: u32,
    spec: String,
    metadata: String,
}

/// A set with a pod template of its own.
fn set(name: &'static str, count: u32, template: &str) -> Set {
    Set {
        name,
        count,
        spec: format!("{template}/spec"),
        metadata: format!("{template}/metadata"),
    }
}

/// A set whose template stays as it is: what its pods are to get stands elsewhere.
fn info(name: &'static str, count: u32, at: &str) -> Set {
    Set {
        name,
        count,
        spec: at.to_owned(),
        metadata: at.to_owned(),
    }
}

/// A condition that is True, with all fields that some CRD requires.
fn are(names: &[(&str, &str)]) -> Value {
    names
        .iter()
        .map(|(name, message)| {
            json!({"type": name, "status": "True", "reason": name, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        })
        .collect()
}

/// A job of the training-operator with one pod of a role, which Sluice calls `set_name`, and three workers.
fn kubeflow(name: &'static str, roles: &str, role: &str, set_name: &'static str) -> Play {
    let template = |role: &str| format!("/spec/{roles}/{role}/template");
    Play {
        name,
        suspend: "/spec/runPolicy/suspend",
        sets: vec![
            set(set_name, 1, &template(role)),
            set("worker", 3, &template("Worker")),
        ],
        running: json!({
            "conditions": are(&[("Created", ""), ("Running", "")]),
            "replicaStatuses": {role: {"active": 1}, "Worker": {"active": 3}},
        }),
        drained: json!({
            "conditions": are(&[("Created", ""), ("Suspended", "")]),
            "replicaStatuses": {role: {"active": 0}, "Worker": {"active": 0}},
        }),
        succeeded: json!({
            "conditions": are(&[("Created", ""), ("Succeeded", "it is successfully completed.")]),
            "replicaStatuses": {role: {"succeeded": 1}, "Worker": {"succeeded": 3}},
        }),
        told: "it is successfully completed.",
    }
}

/// The sets of the cluster that is described at `cluster`.
fn ray_sets(cluster: &str, workers: u32) -> Vec<Set> {
    vec![
        set("head", 1, &format!("{cluster}/headGroupSpec/template")),
        set(
            "small",
            workers,
            &format!("{cluster}/workerGroupSpecs/0/template"),
        ),
    ]
}

fn ray_job() -> Play {
    let mut sets = ray_sets("/spec/rayClusterSpec", 2);
    sets.push(set("submitter", 1, "/spec/submitterPodTemplate"));
    Play {
        name: "rayjob",
        suspend: "/spec/suspend",
        sets,
        running: json!({
            "jobDeploymentStatus": "Running",
            "jobStatus": "RUNNING",
            "rayClusterStatus": {"state": "ready"},
        }),
        drained: json!({"jobDeploymentStatus": "Suspended"}),
        succeeded: json!({
            "jobDeploymentStatus": "Complete",
            "jobStatus": "SUCCEEDED",
            "message": "Job finished successfully.",
        }),
        told: "Job finished successfully.",
    }
}

fn jobset() -> Play {
    let jobs = |ready: u32, succeeded: u32, active: u32| {
        let status = |name: &str, replicas: u32| {
            json!({"name": name, "ready": ready * replicas, "succeeded": succeeded * replicas,
                "failed": 0, "active": active * replicas, "suspended": 0})
        };
        json!([status("driver", 1), status("workers", 2)])
    };
    Play {
        name: "jobset",
        suspend: "/spec/suspend",
        sets: vec![
            set("driver", 1, "/spec/replicatedJobs/0/template/spec/template"),
            set(
                "workers",
                4,
                "/spec/replicatedJobs/1/template/spec/template",
            ),
        ],
        running: json!({"replicatedJobsStatus": jobs(1, 0, 1), "restarts": 0}),
        drained: json!({
            "conditions": are(&[("Suspended", "jobset is suspended")]),
            "replicatedJobsStatus": jobs(0, 0, 0),
        }),
        succeeded: json!({
            "conditions": are(&[("Completed", "jobset completed successfully")]),
            "replicatedJobsStatus": jobs(0, 1, 0),
        }),
        told: "jobset completed successfully",
    }
}

fn plays() -> Vec<Play> {
    vec![
        jobset(),
        ray_job(),
        kubeflow("pytorchjob", "pytorchReplicaSpecs", "Master", "master"),
        kubeflow("tfjob", "tfReplicaSpecs", "PS", "ps"),
        kubeflow("xgboostjob", "xgbReplicaSpecs", "Master", "master"),
        kubeflow("paddlejob", "paddleReplicaSpecs", "Master", "master"),
        Play {
            name: "mpijob",
            suspend: "/spec/runPolicy/suspend",
            sets: vec![
                set("launcher", 1, "/spec/mpiReplicaSpecs/Launcher/template"),
                set("worker", 2, "/spec/mpiReplicaSpecs/Worker/template"),
            ],
            running: json!({
                "conditions": are(&[("Created", ""), ("Running", "")]),
                "replicaStatuses": {"Launcher": {"active": 1}, "Worker": {"active": 2}},
            }),
            drained: json!({
                "conditions": are(&[("Created", ""), ("Suspended", "MPIJob suspended")]),
                "replicaStatuses": {"Launcher": {}, "Worker": {}},
            }),
            succeeded: json!({
                "conditions": are(&[("Succeeded", "successfully completed.")]),
                "completionTime": "2026-01-01T00:00:00Z",
            }),
            told: "successfully completed.",
        },
        Play {
            name: "appwrapper",
            suspend: "/spec/suspend",
            // The wrapped templates stay as they are.
            sets: vec![
                info("component-0-0", 2, "/spec/components/0/podSetInfos/0"),
                info("component-1-0", 1, "/spec/components/1/podSetInfos/0"),
            ],
            running: json!({
                "phase": "Running",
                "conditions": are(&[("PodsReady", ""), ("QuotaReserved", "")]),
            }),
            drained: json!({"phase": "Suspended"}),
            succeeded: json!({
                "phase": "Succeeded",
                "conditions": are(&[("ResourcesDeployed", "3 pods succeeded")]),
            }),
            told: "3 pods succeeded",
        },
    ]
}

/// Plays them all at the same time.
pub(super) async fn all(scene: &Scene<'_>) -> Result<()> {
    let plays = plays();
    try_join_all(
        plays
            .iter()
            .map(async |kind| play(scene, kind).await.context(kind.name)),
    )
    .await?;
    raycluster(scene).await.context("raycluster")
}

async fn play(scene: &Scene<'_>, kind: &Play) -> Result<()> {
    let (objects, created) = until_admitted(scene, kind).await?;
    let name = name_of(&created).to_owned();
    objects.set_status(&name, &kind.running).await?;
    scene
        .see_workload_of(&created, "ready", |w| is(w, "PodsReady"))
        .await?;
    taken_back(scene, kind, &objects, &created).await?;

    objects.set_status(&name, &kind.succeeded).await?;
    let workload = scene
        .see_workload_of(&created, "finished", |w| is(w, "Finished"))
        .await?;
    let (_, reason, told) = condition(&workload, "Finished").context("no condition")?;
    ensure!((reason, told) == ("Succeeded", kind.told), "{workload}");
    Ok(())
}

/// One that never ends.
async fn raycluster(scene: &Scene<'_>) -> Result<()> {
    let kind = Play {
        name: "raycluster",
        suspend: "/spec/suspend",
        sets: ray_sets("/spec", 4),
        running: json!({"state": "ready"}),
        drained: json!({"state": "suspended", "conditions": are(&[("RayClusterSuspended", "")])}),
        succeeded: Value::Null,
        told: "",
    };
    let (objects, created) = until_admitted(scene, &kind).await?;
    objects.set_status(name_of(&created), &kind.running).await?;
    scene
        .see_workload_of(&created, "ready", |w| is(w, "PodsReady"))
        .await?;
    taken_back(scene, &kind, &objects, &created).await
}

/// Creates the sample, sees it held and counted, opens the queue and sees it released.
async fn until_admitted<'a>(scene: &'a Scene<'a>, kind: &Play) -> Result<(Objects<'a>, Value)> {
    let mut sample = sample(kind.name)?;
    if kind.name == "appwrapper" {
        // As good as none.
        sample["spec"]["components"][1]["podSetInfos"] = json!([]);
    }
    let objects = Objects::like(scene, &sample);
    let name = name_of(&sample);
    objects.create(&sample).await?;
    let created = objects.see(name, "held", |o| is_suspended(o, kind)).await?;
    let workload = scene
        .see_workload_of(&created, "made", |w| !w["spec"]["podSets"].is_null())
        .await?;
    let sets: Vec<_> = workload["spec"]["podSets"]
        .as_array()
        .context("no pod sets")?
        .iter()
        .map(|set| (set["name"].as_str(), set["count"].as_u64()))
        .collect();
    let expected: Vec<_> = kind
        .sets
        .iter()
        .map(|set| (Some(set.name), Some(u64::from(set.count))))
        .collect();
    ensure!(sets == expected, "{workload}");

    stop(scene, kind.name, "None").await?;
    see_placed(&objects, name, kind).await?;
    Ok((objects, created))
}

/// Takes the object back, and releases it again. Meanwhile its spec is what it was, but for the marks.
async fn taken_back(
    scene: &Scene<'_>,
    kind: &Play,
    objects: &Objects<'_>,
    created: &Value,
) -> Result<()> {
    let name = name_of(created);
    stop(scene, kind.name, "HoldAndDrain").await?;
    objects
        .see(name, "suspended again", |o| is_suspended(o, kind))
        .await?;
    // Its pods have not gone yet.
    let workload = scene
        .see_workload_of(created, "evicted", |w| is(w, "Evicted"))
        .await?;
    ensure!(is_admitted(&workload), "{workload}");
    objects.set_status(name, &kind.drained).await?;
    scene
        .see_workload_of(created, "without quota", |w| !is_admitted(w))
        .await?;
    let mut expected = created["spec"].clone();
    for set in &kind.sets {
        mark(&mut expected, set);
    }
    objects
        .see(name, "as it was", |o| o["spec"] == expected)
        .await?;

    stop(scene, kind.name, "None").await?;
    see_placed(objects, name, kind).await
}

fn is_suspended(object: &Value, kind: &Play) -> bool {
    object.pointer(kind.suspend) == Some(&json!(true))
}

/// Waits until the object runs with every pod set on the nodes of the flavor.
async fn see_placed(objects: &Objects<'_>, name: &str, kind: &Play) -> Result<()> {
    let is_placed = |object: &Value, set: &Set| {
        object.pointer(&set.spec).is_some_and(|spec| {
            spec["nodeSelector"]["kubernetes.io/os"] == "linux"
                && spec["tolerations"].to_string().contains("acme.io/spot")
        })
    };
    let object = objects
        .see(name, "released", |o| {
            o.pointer(kind.suspend) == Some(&json!(false))
        })
        .await?;
    for set in &kind.sets {
        ensure!(is_placed(&object, set), "{}: {object}", set.name);
        let metadata = object.pointer(&set.metadata).context("no metadata")?;
        ensure!(
            metadata["labels"]["sluice.dev/managed"] == "true"
                && metadata["annotations"]["sluice.dev/pod-set"] == set.name,
            "{}: {object}",
            set.name
        );
    }
    Ok(())
}

/// Puts into a spec the marks that Sluice leaves, by which it knows the pods.
fn mark(spec: &mut Value, set: &Set) {
    let mut here = spec;
    for token in set.metadata.split('/').skip(2) {
        here = match token.parse::<usize>() {
            Ok(index) => {
                let list = match here {
                    Value::Array(list) => list,
                    other => {
                        *other = json!([]);
                        other.as_array_mut().unwrap()
                    }
                };
                if list.len() <= index {
                    list.push(json!({}));
                }
                &mut list[index]
            }
            Err(_) => &mut here[token],
        };
    }
    here["labels"]["sluice.dev/managed"] = json!("true");
    here["annotations"]["sluice.dev/pod-set"] = json!(set.name);
}
