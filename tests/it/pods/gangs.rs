//! Pods that a controller makes by groups: each group is admitted as a whole, also when its pods are made
//! again. Whose pods they are, and what tells their group, is in their template.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_crds::{POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{condition, is_admitted, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::{
    Pod, check_usage, has_queue_gate, is_released, is_running, names, queued, replicated,
};
use crate::support::{Scene, refusal};

both_ways!(
    a_gang_starts_as_a_whole,
    an_evicted_gang_keeps_its_workload,
    a_gang_made_again_for_more_is_queued_with_that,
    a_gang_made_again_in_part_for_more_is_queued_with_that,
    a_gang_without_pods_keeps_its_quota_for_a_moment,
    a_pod_can_not_be_moved_out_of_its_group,
    a_group_without_a_size_is_reported,
);

const SIZE: &str = "acme.io/size";

/// A StatefulSet that makes all its pods at once, as one group.
fn gang(replicas: u32, cpu: &str) -> Value {
    let pod = Pod::new("p")
        .cpu(cpu)
        .label("acme.io/gang", "red")
        .label("acme.io/index", "0")
        .annotation(SIZE, &replicas.to_string())
        .annotation(POD_GROUP_LABELS_ANNOTATION, "acme.io/gang,acme.io/index")
        .annotation(POD_GROUP_TOTAL_FROM_ANNOTATION, SIZE);
    let mut set = queued(replicated("StatefulSet", "s", replicas, pod));
    set["spec"]["podManagementPolicy"] = json!("Parallel");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    set
}

async fn see_group(scene: &Scene<'_>, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    scene.see("Workload", "red-0-pod-group", what, is_so).await
}

/// Quota for two of three is for another pod: none of the three holds any.
async fn a_gang_starts_as_a_whole(admission: Admission) -> Result<()> {
    play(admission, "gang-whole", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&gang(3, "1")).await?;
        let message = format!(
            "insufficient quota for cpu in flavor \"{ns}\": requests 3, more than the maximum capacity (nominal quota 2)"
        );
        see_group(scene, "told what it waits for", |workload| {
            condition(workload, "QuotaReserved").is_some_and(|(_, _, told)| told.contains(&message))
        })
        .await?;
        let gated = scene.see_so_many("waiting", 3, has_queue_gate).await?;
        assert_eq!(names(&gated), ["s-0", "s-1", "s-2"]);
        scene
            .create(&Pod::new("other").queue("q").cpu("2").json())
            .await?;
        scene.see("Pod", "other", "running", is_running).await?;

        scene.set_cpu("5").await?;
        for name in ["s-0", "s-1", "s-2"] {
            scene.see("Pod", name, "running", is_running).await?;
        }
        let workload = see_group(scene, "admitted", is_admitted).await?;
        assert_eq!(workload["spec"]["podSets"][0]["count"], 3, "{workload}");
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "5", |_| true).map(drop)
    })
    .await
}

/// Its pods are deleted and made again: the Workload stays, and so does its place in the queue.
async fn an_evicted_gang_keeps_its_workload(admission: Admission) -> Result<()> {
    play(admission, "gang-evicted", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&gang(2, "1")).await?;
        scene.see_so_many("running", 2, is_running).await?;
        let before = see_group(scene, "admitted", is_admitted).await?;
        scene.stop("HoldAndDrain").await?;
        scene.see_so_many("made again", 2, has_queue_gate).await?;
        let waits = |workload: &Value| {
            condition(workload, "Requeued").is_some() && workload["status"]["admission"].is_null()
        };
        see_group(scene, "queued again", waits).await?;
        scene.stop("None").await?;
        scene.see_so_many("running", 2, is_running).await?;
        let after = see_group(scene, "admitted again", is_admitted).await?;
        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(
            before["spec"]["jobCreationTimestamp"],
            after["spec"]["jobCreationTimestamp"]
        );
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;

        // Without its maker it comes to an end.
        scene.delete("StatefulSet", "s").await?;
        scene.see_gone("Workload", "red-0-pod-group").await
    })
    .await
}

/// What was admitted fits no pod any more: it would hold quota for nobody, for ever.
async fn a_gang_made_again_for_more_is_queued_with_that(admission: Admission) -> Result<()> {
    play(admission, "gang-changed", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&gang(2, "1")).await?;
        scene.see_so_many("running", 2, is_running).await?;
        ask_for_more(scene).await?;
        for name in ["s-0", "s-1"] {
            scene.delete("Pod", name).await?;
        }
        see_more_admitted(scene).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "4", |_| true).map(drop)
    })
    .await
}

/// One pod waits that asks for more than was admitted, and the other runs as before: both are queued again.
async fn a_gang_made_again_in_part_for_more_is_queued_with_that(
    admission: Admission,
) -> Result<()> {
    play(admission, "gang-part", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let pods = scene.record("Pod").await?;
        scene.create(&gang(2, "1")).await?;
        scene.see_so_many("running", 2, is_running).await?;
        ask_for_more(scene).await?;
        scene.delete("Pod", "s-1").await?;
        see_more_admitted(scene).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "4", |_| true).map(drop)
    })
    .await
}

/// Its controller restarts it, as one does that deletes all pods of a group when one fails; and then makes no more.
async fn a_gang_without_pods_keeps_its_quota_for_a_moment(admission: Admission) -> Result<()> {
    play(admission, "gang-restart", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&gang(2, "1")).await?;
        scene.see_so_many("running", 2, is_running).await?;
        let before = see_group(scene, "admitted", is_admitted).await?;
        let scale = async |replicas: u32| {
            let spec = json!({"spec": {"replicas": replicas}});
            scene.merge("StatefulSet", "s", spec).await
        };
        scene
            .create(&Pod::new("other").queue("q").cpu("2").json())
            .await?;
        scale(0).await?;
        for name in ["s-0", "s-1"] {
            scene.see_gone("Pod", name).await?;
        }
        scale(2).await?;
        for name in ["s-0", "s-1"] {
            scene.see("Pod", name, "running", is_running).await?;
        }
        let after = see_group(scene, "still admitted", is_admitted).await?;
        assert_eq!(before["metadata"]["uid"], after["metadata"]["uid"]);
        assert_eq!(condition(&after, "Evicted"), None, "{after}");
        ensure!(has_queue_gate(&scene.get("Pod", "other").await?));

        scale(0).await?;
        scene.see("Pod", "other", "running", is_running).await?;
        let left = see_group(scene, "evicted", |workload| {
            condition(workload, "Evicted").is_some_and(|(_, reason, _)| reason == "PodsGone")
        })
        .await?;
        assert_eq!(before["metadata"]["uid"], left["metadata"]["uid"]);
        Ok(())
    })
    .await
}

/// The template of the gang asks for 2 cpus, and its controller has seen that: it would make the pods of before again.
async fn ask_for_more(scene: &Scene<'_>) -> Result<()> {
    let more: json_patch::Patch = serde_json::from_value(json!([{
        "op": "replace",
        "path": "/spec/template/spec/containers/0/resources/requests/cpu",
        "value": "2",
    }]))?;
    let (api, params) = (scene.api("StatefulSet"), PatchParams::default());
    let patch = Patch::Json::<()>(more);
    persist(async || api.patch("s", &params, &patch).await).await?;
    // A controller that has not seen it yet would make the pods of before again.
    scene
        .see("StatefulSet", "s", "seen by its controller", |set| {
            set["status"]["observedGeneration"] == set["metadata"]["generation"]
        })
        .await?;
    Ok(())
}

async fn see_more_admitted(scene: &Scene<'_>) -> Result<()> {
    let has_more = |workload: &Value| {
        is_admitted(workload) && workload["spec"]["podSets"][0]["requests"]["cpu"] == "2"
    };
    see_group(scene, "admitted with more", has_more).await?;
    scene.see_so_many("running", 2, is_running).await.map(drop)
}

/// A pod that left would free a place for another one, and run on.
async fn a_pod_can_not_be_moved_out_of_its_group(admission: Admission) -> Result<()> {
    play(admission, "gang-leave", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&gang(2, "1")).await?;
        scene.see("Pod", "s-0", "released", is_released).await?;
        for (patch, field) in [
            (
                json!({"labels": {"acme.io/gang": "blue"}}),
                "labels[acme.io/gang]",
            ),
            (
                json!({"labels": {"acme.io/index": null}}),
                "labels[acme.io/index]",
            ),
            (
                json!({"annotations": {(SIZE): "1"}}),
                "annotations[acme.io/size]",
            ),
            (
                json!({"annotations": {(POD_GROUP_LABELS_ANNOTATION): null}}),
                "annotations[sluice.dev/pod-group-labels]",
            ),
            (
                json!({"annotations": {(POD_GROUP_TOTAL_FROM_ANNOTATION): "acme.io/x"}}),
                "annotations[sluice.dev/pod-group-total-from]",
            ),
        ] {
            let patch = json!({"metadata": patch});
            let answer =
                answered(async || scene.try_merge("Pod", "s-0", patch.clone()).await).await?;
            let expected = format!("metadata.{field}: Forbidden: is immutable");
            assert_eq!(refusal(answer)?, admission.of_pod(&expected));
        }
        let free = json!({"metadata": {"labels": {"acme.io/other": "x"}}});
        scene.merge("Pod", "s-0", free).await.map(drop)
    })
    .await
}

async fn a_group_without_a_size_is_reported(admission: Admission) -> Result<()> {
    play(admission, "gang-size", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let mut set = gang(2, "1");
        let annotations = &mut set["spec"]["template"]["metadata"]["annotations"];
        ensure!(annotations.as_object_mut().is_some_and(|map| map.remove(SIZE).is_some()));
        scene.create(&set).await?;
        let told = scene.see_event("s-0", "InvalidPodGroup").await?;
        assert_eq!(
            told,
            "metadata.annotations[acme.io/size]: Required value: must say how many pods the group has"
        );
        let pod = scene.get("Pod", "s-0").await?;
        ensure!(has_queue_gate(&pod), "{pod}");
        Ok(())
    })
    .await
}
