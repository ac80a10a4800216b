//! Objects whose pods are those of an object that their controller makes. The controller is played by
//! the test: it makes the child, and suspends it and releases it as its owner says.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::MANAGED_LABEL;

use crate::support::history::Revision;
use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{
    Job, cluster_queue, condition, is, is_admitted, local_queue, own, quota, with,
};
use crate::support::{Scene, bed};

/// What KWOK's nodes are.
const PLACED: (&str, &str) = ("kubernetes.io/os", "linux");

/// A queue whose flavor has a node label.
async fn mk_queue(scene: &Scene<'_>) -> Result<()> {
    let flavor = own(
        "ResourceFlavor",
        &scene.ns,
        json!({"nodeLabels": {PLACED.0: PLACED.1}}),
    );
    let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
    scene
        .create_all(&[flavor, queue, local_queue("q", &scene.ns)])
        .await
}

/// Trains whose pods are those of their Sets.
async fn mk_kinds(scene: &Scene<'_>) -> Result<(MadeUp, MadeUp)> {
    let set = MadeUp::new(scene, "Set").makes("batch", "Job");
    set.install(scene).await?;
    let train = MadeUp::new(scene, "Train")
        .makes(&set.group, "Set")
        .without_pods();
    train.install(scene).await?;
    Ok((train, set))
}

/// The child as the controller of a train makes it: two pods of 1 cpu, suspended.
fn mk_child(set: &MadeUp, train: &Value) -> Value {
    let child = with(set.object("part"), "/spec/size", json!(2));
    with(child, "/metadata/ownerReferences", controlled_by(train))
}

/// What the child's controller says of it.
async fn suspend_child(scene: &Scene<'_>, set: &MadeUp, halted: bool, pods: u32) -> Result<()> {
    set.merge(scene, "part", json!({"spec": {"halted": halted}}))
        .await?;
    set.set_status(scene, "part", json!({"active": pods})).await
}

fn selector(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]["nodeSelector"]
}

fn check_never_touched(history: &[Revision]) -> Result<()> {
    // What the test has set is told by who has written it.
    for revision in history {
        let managers = revision.object["metadata"]["managedFields"].as_array();
        let of_sluice = managers
            .into_iter()
            .flatten()
            .filter(|m| m["manager"] == "sluice");
        for fields in of_sluice {
            let spec = &fields["fieldsV1"]["f:spec"];
            ensure!(
                spec["f:halted"].is_null(),
                "Sluice suspends a child: {fields}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_train_goes_with_the_pods_of_its_child() -> Result<()> {
    bed::shared("child-life", async |scene| {
        mk_queue(scene).await?;
        let (train, set) = mk_kinds(scene).await?;
        let before = train.queued("train");
        let created = train.create(scene, &before).await?;
        scene.see_event("train", "WaitsForChild").await?;
        ensure!(
            scene.workload_of(&created).await?.is_none(),
            "nobody knows what it asks for"
        );

        let child = set.create(scene, &mk_child(&set, &created)).await?;
        let workload = scene
            .see_workload_of(&created, "admitted", is_admitted)
            .await?;
        assert_eq!(workload["spec"]["podSets"][0]["count"], 2);
        let released = train.see_released(scene, "train").await?;
        ensure!(released["spec"]["template"].is_null(), "{released}");
        let placed = set
            .see(scene, "part", "placed", |c| {
                selector(c)[PLACED.0] == PLACED.1
            })
            .await?;
        assert_eq!(
            placed["spec"]["halted"], true,
            "that is for its own controller to say"
        );
        assert_eq!(
            placed["spec"]["template"]["metadata"]["labels"][MANAGED_LABEL],
            "true"
        );
        ensure!(
            scene.workload_of(&child).await?.is_none(),
            "the child is queued by itself"
        );

        // Its controller releases it, and makes a Job for the pods.
        suspend_child(scene, &set, false, 1).await?;
        let template = placed["spec"]["template"].clone();
        let job = Job::new("pods").runs_forever().json();
        let job = with(
            job,
            "/spec/template/metadata/labels",
            template["metadata"]["labels"].clone(),
        );
        let annotations = template["metadata"]["annotations"].clone();
        let mut job = with(job, "/metadata/ownerReferences", controlled_by(&placed));
        for (key, value) in annotations.as_object().unwrap() {
            job["spec"]["template"]["metadata"]["annotations"][key] = value.clone();
        }
        let job = scene.create(&job).await?;
        scene.see_pods("Running", 1).await?;

        // Evicted, it is suspended; its quota is free when the pod is gone, whatever is said.
        scene.stop("HoldAndDrain").await?;
        train.see_held(scene, "train").await?;
        suspend_child(scene, &set, true, 0).await?;
        scene
            .create(&Job::new("other").queue("q").cpu("2").json())
            .await?;
        let evicted = |w: &Value| is(w, "Evicted");
        let workload = scene.see_workload_of(&created, "evicted", evicted).await?;
        ensure!(is_admitted(&workload), "its pod runs: {workload}");
        scene.delete("Job", "pods").await?;
        let requeued = |w: &Value| !is_admitted(w);
        scene
            .see_workload_of(&created, "requeued", requeued)
            .await?;
        let restored = set
            .see(scene, "part", "restored", |c| selector(c).is_null())
            .await?;
        assert_eq!(restored["spec"]["halted"], true);

        scene.delete("Job", "other").await?;
        let recorded = set.record(scene).await?;
        scene.stop("None").await?;
        train.see_released(scene, "train").await?;
        suspend_child(scene, &set, false, 2).await?;
        train
            .set_status(scene, "train", json!({"done": true}))
            .await?;
        let finished = |w: &Value| is(w, "Finished");
        scene
            .see_workload_of(&created, "finished", finished)
            .await?;
        let last = set.merge(
            scene,
            "part",
            json!({"metadata": {"annotations": {"tests/mark": "end"}}}),
        );
        let last = crate::support::objects::revision_of(&last.await?);
        check_never_touched(&recorded.until(last).await?)?;
        drop(job);
        cleanup(scene, &[train, set]).await
    })
    .await
}

/// The child first, then the JobKind that says what it is; and a child of nobody's, and a second kind of
/// child that has no JobKind.
#[tokio::test]
async fn a_child_that_was_there_before_its_owner_is_declared_is_found() -> Result<()> {
    bed::shared("child-late", async |scene| {
        mk_queue(scene).await?;
        let set = MadeUp::new(scene, "Set");
        let train = MadeUp::new(scene, "Train")
            .makes(&set.group, "Set")
            .without_pods();
        set.install(scene).await?;
        train.install_crd(scene).await?;
        scene.apply(&train.role()).await?;
        let created = train.create(scene, &train.queued("train")).await?;
        set.create(scene, &mk_child(&set, &created)).await?;
        // It forges the owner: its namespace and name are right, and its UID is not.
        let forged = with(
            created.clone(),
            "/metadata/uid",
            json!("00000000-0000-4000-8000-000000000001"),
        );
        let stranger = with(
            mk_child(&set, &forged),
            "/metadata/name",
            json!("astranger"),
        );
        set.create(scene, &with(stranger, "/spec/size", json!(1)))
            .await?;
        scene.create(&train.job_kind()).await?;
        train.see_watched(scene).await?;
        let workload = scene
            .see_workload_of(&created, "admitted", is_admitted)
            .await?;
        assert_eq!(workload["spec"]["podSets"][0]["count"], 2);
        train.see_released(scene, "train").await?;

        // Without the child's JobKind nobody can read it.
        scene.delete("JobKind", &set.name).await?;
        let other = train.create(scene, &train.queued("other")).await?;
        let child = with(
            mk_child(&set, &other),
            "/metadata/name",
            json!("part-of-other"),
        );
        set.create(scene, &with(child, "/spec/size", json!(1)))
            .await?;
        scene.see_event("other", "WaitsForChild").await?;
        let first = scene.see_workload_of(&created, "there", |_| true).await?;
        ensure!(
            condition(&first, "Evicted").is_none() && is_admitted(&first),
            "{first}"
        );
        train
            .set_status(scene, "train", json!({"done": true}))
            .await?;
        scene.create(&set.job_kind()).await?;
        train.see_released(scene, "other").await?;
        cleanup(scene, &[train, set]).await
    })
    .await
}

async fn cleanup(scene: &Scene<'_>, kinds: &[MadeUp]) -> Result<()> {
    for kind in kinds {
        scene.delete("JobKind", &kind.name).await?;
        kind.delete_crd(scene).await?;
    }
    Ok(())
}
