//! Who says that his pod belongs to something else does not get it past the queue: whoever may edit one
//! namespace, with whatever account of it.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::made_up::controlled_by;
use crate::support::objects::{Job, is_suspended, name_of, quota, with};
use crate::support::pods::{Pod, has_queue_gate, is_released, is_running, queued, replicated};
use crate::support::{DEADLINE, Scene};

both_ways!(
    a_labelled_pod_that_names_an_owner_waits,
    the_pods_of_a_job_are_believed,
    a_gate_without_a_queue_is_reported,
    pods_that_run_without_usage_are_counted_and_reported,
    a_job_that_names_a_queued_one_does_not_hide_its_pods,
    a_template_with_sluices_label_does_not_hide_its_pods,
    a_replica_set_that_names_a_queued_job_gets_none_of_its_places,
    a_pod_of_an_unqueued_job_is_not_admitted_by_its_user,
    a_pod_is_not_moved_to_another_object,
);

async fn a_labelled_pod_that_names_an_owner_waits(admission: Admission) -> Result<()> {
    play(admission, "forged", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let user = scene.editor("tenant").await?;
        let config = scene
            .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}}))
            .await?;
        let config = with(
            with(config, "/apiVersion", json!("v1")),
            "/kind",
            json!("ConfigMap"),
        );
        // Suspended by its user: its controller makes no pod of its own, and adopts none.
        let tiny = Job::new("tiny").queue("q").json();
        let tiny = scene
            .create(&with(tiny, "/spec/suspend", json!(true)))
            .await?;
        let nothing = json!({"apiVersion": "no.example.com/v1", "kind": "Nothing",
            "metadata": {"name": "x", "uid": "00000000-0000-4000-8000-000000000000"}});
        let rows = [
            ("config-map", config),
            ("tiny-job", tiny),
            ("no-such-kind", nothing),
        ];
        // The API server may not have heard yet that the user may.
        let create = async |pod: Value| -> Result<Value> {
            let stored = eventually("the user's pod to be taken", DEADLINE, async || {
                scene.try_as(&user, &pod).await?.ok()
            });
            Ok(serde_json::from_str(&stored.await?)?)
        };
        for (name, owner) in &rows {
            let pod = Pod::new(name).queue("q").cpu("50").json();
            let pod = with(pod, "/metadata/ownerReferences", controlled_by(owner));
            let stored = create(pod).await?;
            ensure!(has_queue_gate(&stored), "{name}: {stored}");
        }
        // One that fits is released, and has usage of its own.
        let small = Pod::new("small").queue("q").cpu("1").json();
        let small = with(
            small,
            "/metadata/ownerReferences",
            controlled_by(&rows[0].1),
        );
        create(small).await?;
        scene.see("Pod", "small", "released", is_released).await?;
        for (name, _) in &rows {
            let pod = scene.get("Pod", name).await?;
            ensure!(!is_released(&pod), "{name}: {pod}");
        }
        Ok(())
    })
    .await
}

/// The label came down from the template, and the usage is the Job's.
async fn the_pods_of_a_job_are_believed(admission: Admission) -> Result<()> {
    play(admission, "believed", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let labels = json!({"metadata": {"labels": {"sluice.dev/queue-name": "q"}}});
        let mut job = Job::new("job").queue("q").json();
        json_patch::merge(&mut job["spec"]["template"], &labels);
        scene.create(&job).await?;
        scene.see_complete("job").await.map(drop)
    })
    .await
}

async fn a_gate_without_a_queue_is_reported(admission: Admission) -> Result<()> {
    play(admission, "gate-alone", async |scene| {
        let pod = Pod::new("alone").scheduling_gate(sluice_crds::QUEUE_GATE);
        scene.create(&pod.json()).await?;
        scene.see_event("alone", "NoQueue").await.map(drop)
    })
    .await
}

/// A Job in no queue, with these labels in its template and this owner; its pods run, and are counted.
async fn is_counted(scene: &Scene<'_>, labels: Value, owners: Value) -> Result<()> {
    // A Job without labels gets those of its template from the API server.
    let mut job = Job::new("big").runs_forever().json();
    job["metadata"]["labels"] = json!({"tests/own": "yes"});
    job["metadata"]["ownerReferences"] = owners;
    let labels = json!({"metadata": { "labels": labels }});
    json_patch::merge(&mut job["spec"]["template"], &labels);
    scene.create(&job).await?;
    let pods = scene.see_pods("Running", 1).await?;
    scene.see_event(name_of(&pods[0]), "NotAdmitted").await?;
    scene.see_account("cpu", ("1", "1", "0"), 0).await
}

/// Batch Jobs make no Jobs: the one above has no usage for these pods, whatever it names.
async fn a_job_that_names_a_queued_one_does_not_hide_its_pods(admission: Admission) -> Result<()> {
    play(admission, "uncharged-owner", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let tiny = Job::new("tiny").queue("q").gate("tests/never").json();
        let tiny = scene.create(&tiny).await?;
        let labels = json!({"sluice.dev/queue-name": "q"});
        is_counted(scene, labels, controlled_by(&tiny)).await
    })
    .await
}

async fn a_template_with_sluices_label_does_not_hide_its_pods(admission: Admission) -> Result<()> {
    play(admission, "uncharged-label", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let labels = json!({"sluice.dev/queue-name": "q", "sluice.dev/managed": "true"});
        is_counted(scene, labels, Value::Null).await
    })
    .await
}

/// Nobody makes the pods of the Job, so its places are free; its ReplicaSet could not be told to stop when they are
/// reclaimed.
async fn a_replica_set_that_names_a_queued_job_gets_none_of_its_places(
    admission: Admission,
) -> Result<()> {
    play(admission, "forged-set", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let mut job = Job::new("job").queue("q").cpu("2").json();
        job["spec"]["managedBy"] = json!("tests/nobody");
        scene.create(&job).await?;
        scene.see_admitted("job").await?;
        let job = scene
            .see("Job", "job", "released", |job| !is_suspended(job))
            .await?;
        let pod = Pod::new("p")
            .cpu("2")
            .label("sluice.dev/queue-name", "q")
            .label("sluice.dev/managed", "true")
            .annotation("sluice.dev/pod-set", "main")
            .scheduling_gate(sluice_crds::QUEUE_GATE);
        let mut set = replicated("ReplicaSet", "set", 1, pod);
        set["metadata"]["ownerReferences"] = controlled_by(&job);
        scene.create(&set).await?;
        scene.see_so_many("waiting", 1, has_queue_gate).await?;
        // What comes later has gone through by the time that it still waits.
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        let pods = scene.list("Pod").await?;
        let waiting = pods.iter().filter(|pod| has_queue_gate(pod)).count();
        ensure!(waiting == 1, "{waiting} wait");
        Ok(())
    })
    .await
}

/// The Job is in no queue, and its pods say that they are.
async fn pods_that_run_without_usage_are_counted_and_reported(admission: Admission) -> Result<()> {
    play(admission, "uncharged", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let labels = json!({"metadata": {"labels": {"sluice.dev/queue-name": "q"}}});
        // A Job without labels gets those of its template from the API server.
        let mut job = Job::new("job").runs_forever().json();
        job["metadata"]["labels"] = json!({"tests/own": "yes"});
        json_patch::merge(&mut job["spec"]["template"], &labels);
        scene.create(&job).await?;
        scene
            .see_so_many("marked", 1, |pod| {
                pod["metadata"]["labels"]["sluice.dev/managed"] == "true"
            })
            .await?;
        let pod = scene.list("Pod").await?.remove(0);
        let name = pod["metadata"]["name"].as_str().unwrap();
        scene.see_event(name, "NotAdmitted").await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await
    })
    .await
}

/// Its usage would be another tenant's. The record of an admission is Sluice's to write, whenever it comes.
async fn a_pod_of_an_unqueued_job_is_not_admitted_by_its_user(admission: Admission) -> Result<()> {
    play(admission, "forged-record", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let template = json!({
            "metadata": {"labels": {"sluice.dev/queue-name": "q"}},
            "spec": {"schedulingGates": [{"name": "tests/held"}]},
        });
        let mut job = Job::new("job").runs_forever().json();
        job["metadata"]["labels"] = json!({"tests/own": "yes"});
        json_patch::merge(&mut job["spec"]["template"], &template);
        scene.create(&job).await?;
        scene.see_so_many("made", 1, |_| true).await?;
        let pod = scene.list("Pod").await?.remove(0);
        let record = json!({"clusterQueue": "ghost", "cohort": "another",
            "flavors": {"cpu": scene.ns}, "at": "2026-01-01T00:00:00Z"});
        let forged =
            json!({"metadata": {"annotations": {"sluice.dev/admitted": record.to_string()}}});
        let told = scene.try_merge("Pod", name_of(&pod), forged).await;
        let told = told.map(drop).map_err(|error| error.to_string());
        let rule = "metadata.annotations[sluice.dev/admitted]: Forbidden: is set by Sluice alone";
        ensure!(
            told.as_ref().is_err_and(|told| told.contains(rule)),
            "{told:?}"
        );
        let released = r#"[{"op": "remove", "path": "/spec/schedulingGates"}]"#;
        let args = ["patch", "pod", name_of(&pod), "--type=json", "-p", released];
        scene.kubectl(&args, None).await?.ok()?;
        scene.see_event(name_of(&pod), "NotAdmitted").await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await
    })
    .await
}

/// It would be counted with that one, and its place would be free for another pod.
async fn a_pod_is_not_moved_to_another_object(admission: Admission) -> Result<()> {
    play(admission, "forged-move", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let set = queued(replicated("StatefulSet", "s", 1, Pod::new("p")));
        scene.create(&set).await?;
        scene.see("Pod", "s-0", "running", is_running).await?;
        let other = scene.create(&Job::new("other").queue("q").json()).await?;
        let user = format!("--as={}", scene.editor("ed").await?);
        let patch = |owners: Value| json!({"metadata": {"ownerReferences": owners}}).to_string();
        let moved = patch(controlled_by(&other));
        let args = ["patch", "pod", "s-0", "--type=merge", "-p", &moved, &user];
        let expected = admission.of_pod(
            "metadata.ownerReferences: Forbidden: only a controller may name another one as the controller of a pod that is in a queue",
        );
        // The API server may not have heard yet that the user may edit at all.
        eventually("the edit to be refused", DEADLINE, async || {
            let told = scene.kubectl(&args, None).await?.err()?;
            ensure!(told.contains(&expected), "{told}");
            anyhow::Ok(())
        })
        .await?;
        // It keeps the usage that it had by itself.
        let left = patch(Value::Null);
        let args = ["patch", "pod", "s-0", "--type=merge", "-p", &left, &user];
        eventually("the pod to be by itself", DEADLINE, async || {
            scene.kubectl(&args, None).await?.ok()
        })
        .await
        .map(drop)
    })
    .await
}
