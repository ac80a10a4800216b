//! Many pods at once, others who work on their gates, and a controller that is killed meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use sluice_testbed::{Component, Options, SluiceOptions, eventually};

use crate::support::history::Revision;
use crate::support::objects::{self, name_of, quota, revision_of, with};
use crate::support::persist::persist;
use crate::support::pods::{Pod, check_gates, check_usage, gates, has_queue_gate};
use crate::support::scale::scaled;
use crate::support::{DEADLINE, Scene, audit, bed, into_value};

/// Requests of one test at the same time.
const AT_ONCE: usize = 8;

/// A sequence that looks random and is the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.roll(last + 1));
        }
    }
}

/// How somebody removes a gate.
#[derive(Clone, Copy)]
enum Way {
    /// By its name, as Sluice does.
    ByName,
    /// By its place, after a test that it is there.
    ByPlace,
    /// By writing the whole pod that was read before.
    Whole,
}

/// Removes a gate, and tries again if somebody has been faster, or the webhook could not be asked.
/// Returns the revision.
async fn open(scene: &Scene<'_>, pod: &str, gate: &str, way: Way) -> Result<u128> {
    let api = scene.api("Pod");
    for _ in 0..100 {
        let answer = match way {
            Way::ByName => {
                let gates = json!([{ "$patch": "delete", "name": gate }]);
                let patch = Patch::Strategic(json!({ "spec": { "schedulingGates": gates } }));
                api.patch(pod, &PatchParams::default(), &patch).await
            }
            Way::ByPlace => {
                let read = into_value(persist(async || api.get(pod).await).await?);
                let place = gates(&read).iter().position(|name| *name == gate).unwrap();
                let path = format!("/spec/schedulingGates/{place}");
                let patch: json_patch::Patch = serde_json::from_value(json!([
                    { "op": "test", "path": format!("{path}/name"), "value": gate },
                    { "op": "remove", "path": path },
                ]))?;
                let patch = Patch::Json::<()>(patch);
                api.patch(pod, &PatchParams::default(), &patch).await
            }
            Way::Whole => {
                let mut read = into_value(persist(async || api.get(pod).await).await?);
                let left = read["spec"]["schedulingGates"].as_array_mut().unwrap();
                left.retain(|known| known["name"] != gate);
                let written = serde_json::from_value(read)?;
                api.replace(pod, &PostParams::default(), &written).await
            }
        };
        match answer {
            Ok(object) => return Ok(revision_of(&into_value(object))),
            Err(kube::Error::Api(status)) if [409, 422, 429, 500, 503].contains(&status.code) => {}
            Err(error) => return Err(error.into()),
        }
    }
    anyhow::bail!("somebody was always faster at {pod}")
}

/// Pods behind two foreign gates each, which go one by one in any order and in any way, while quota
/// for 40 is handed from one to the next. The gate of one pod in ten stays.
#[tokio::test]
async fn gates_are_lifted_in_any_order() -> Result<()> {
    const GATES: [&str; 2] = ["example.com/data", "example.com/licence"];
    let count = scaled(200);
    bed::shared("race-gates", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let pods = scene.record("Pod").await?;
        create_all(scene, count, |index| {
            let pod = Pod::new(&format!("pod-{index}")).queue("q").cpu("100m");
            pod.runs("0.3")
                .scheduling_gate(GATES[0])
                .scheduling_gate(GATES[1])
        })
        .await?;
        let mut dice = Dice(4);
        let mut turns: Vec<(usize, &str)> = (0..count)
            .flat_map(|pod| GATES.map(|gate| (pod, gate)))
            .filter(|(pod, gate)| pod % 10 != 0 || *gate != GATES[1])
            .collect();
        dice.shuffle(&mut turns);
        let turns = turns.into_iter().map(|(pod, gate)| {
            let way = [Way::ByName, Way::ByPlace, Way::Whole][dice.roll(3)];
            (format!("pod-{pod}"), gate, way)
        });
        let opened = Mutex::new(BTreeSet::new());
        futures::stream::iter(turns.map(anyhow::Ok))
            .try_for_each_concurrent(AT_ONCE, |(pod, gate, way)| {
                let opened = &opened;
                async move {
                    let revision = open(scene, &pod, gate, way).await?;
                    opened.lock().unwrap().insert(revision);
                    Ok(())
                }
            })
            .await?;
        let held = count / 10;
        scene
            .see_so_many("succeeded", count - held, |pod| {
                pod["status"]["phase"] == "Succeeded"
            })
            .await?;
        scene
            .see("LocalQueue", "q", "idle but for what is gated", |queue| {
                crate::queues::quota::is_idle(queue) && queue["status"]["gatedWorkloads"] == held
            })
            .await?;
        let left = scene
            .see_so_many("held", held, |pod| !gates(pod).is_empty())
            .await?;
        for pod in &left {
            let left: BTreeSet<&str> = gates(pod).into_iter().collect();
            assert_eq!(left, BTreeSet::from([GATES[1], sluice_crds::QUEUE_GATE]));
        }
        let history = scene.history("Pod", &pods).await?;
        let opened = opened.into_inner().unwrap();
        assert_eq!(opened.len(), 2 * count - held);
        check_gates(&history, &opened)?;
        check_usage(&history, "cpu", "4", |_| true).map(drop)
    })
    .await
}

/// Creates pods, several at a time.
async fn create_all(scene: &Scene<'_>, count: usize, pod: impl Fn(usize) -> Pod) -> Result<()> {
    futures::stream::iter((0..count).map(anyhow::Ok))
        .try_for_each_concurrent(AT_ONCE, |index| {
            let pod = pod(index).json();
            async move { scene.create(&pod).await.map(drop) }
        })
        .await
}

/// All pods of a queue that opens, while the controller is killed twice: all go, each by one write.
#[tokio::test]
async fn thousands_of_pods_are_ungated_at_once() -> Result<()> {
    let all = scaled(2000);
    let quota_of_all = all.to_string();
    let sluice = SluiceOptions::new(bed::BINARY);
    let options = Options {
        // Nobody shall be busy with pods that no node takes.
        nodes: 0,
        without: vec![Component::Scheduler],
        ..Options::with_crds()?
    };
    bed::own("race-flood", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", &quota_of_all)]);
        scene
            .queue_like(with(queue, "/spec/stopPolicy", json!("Hold")))
            .await?;
        create_all(scene, all, |index| {
            Pod::new(&format!("pod-{index}")).queue("q")
        })
        .await?;
        scene
            .see("ClusterQueue", &scene.ns, "waited in by all", |queue| {
                queue["status"]["pendingWorkloads"] == all
            })
            .await?;
        let pods = scene.record("Pod").await?;
        let begun = std::time::Instant::now();
        scene.stop("None").await?;
        for count in [all / 10, all / 2] {
            eventually("pods to be released", DEADLINE, async || {
                match open_pods(&pods.so_far()) {
                    open if count <= open => Ok(()),
                    open => Err(format!("{open}")),
                }
            })
            .await?;
            bed.sluice.kill();
            bed.sluice.start_again().await?;
        }
        eventually(
            "all pods to be released",
            2 * DEADLINE,
            async || match open_pods(&pods.so_far()) {
                open if open == all => Ok(()),
                open => Err(format!("{open}")),
            },
        )
        .await?;
        eprintln!(
            "{all} pods released in {:?}, two restarts included",
            begun.elapsed()
        );
        scene
            .see("ClusterQueue", &scene.ns, "usage of all", |queue| {
                let usage = &queue["status"]["flavorsUsage"][0]["resources"][0];
                usage["total"] == "2k" || usage["total"] == quota_of_all.as_str()
            })
            .await?;
        let history = scene.history("Pod", &pods).await?;
        check_gates(&history, &BTreeSet::new())?;
        check_usage(&history, "cpu", &quota_of_all, |_| true)?;
        let mut written: BTreeMap<String, usize> = BTreeMap::new();
        for write in audit::writes(&bed.cp.audit_log())? {
            if write.resource == "pods" && write.has_succeeded() {
                assert_eq!(write.what(), "patch pods", "{write:?}");
                *written.entry(write.name).or_default() += 1;
            }
        }
        let twice: Vec<_> = written.iter().filter(|(_, count)| **count != 1).collect();
        ensure!(twice.is_empty(), "written twice: {twice:?}");
        // The answers to requests that were under way at a kill are not in the log.
        ensure!(
            all - all.min(2 * 64) <= written.len(),
            "{} written",
            written.len()
        );
        Ok(())
    })
    .await
}

/// How many pods have lost the queue gate.
fn open_pods(history: &[Revision]) -> usize {
    let open = history.iter().filter(|r| !has_queue_gate(&r.object));
    let names: BTreeSet<&str> = open.map(|r| name_of(&r.object)).collect();
    names.len()
}
