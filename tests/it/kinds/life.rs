//! The life of a JobKind: its CRD comes and goes, rights are taken and given, it is changed and deleted,
//! while work runs. What runs stays accounted, and no other kind notices.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{
    Job, condition, holds_quota, is, is_admitted, is_suspended, name_of, quota, with,
};
use crate::support::{DEADLINE, Scene, bed, see_a_second_pass};

/// Creates an object; again while that can't be answered. On a machine that is busy enough a webhook does not
/// answer in time; for a moment it may know nothing of a kind that it is asked about; and the API server
/// may not serve a new CRD yet.
async fn create(scene: &Scene<'_>, kind: &MadeUp, object: &Value) -> Result<Value> {
    eventually("an object to be taken", DEADLINE, async || {
        kind.create(scene, object).await
    })
    .await
}

/// A pod as the object's controller would make it, that stays until `ungate_pod`.
async fn create_pod(scene: &Scene<'_>, name: &str, of: &Value) -> Result<()> {
    let mut pod = of["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["metadata"]["ownerReferences"] = controlled_by(of);
    pod["metadata"]["finalizers"] = json!(["tests.example.com/keep"]);
    scene.create(&pod).await.map(drop)
}

async fn ungate_pod(scene: &Scene<'_>, name: &str) -> Result<()> {
    let free = json!({"metadata": {"finalizers": null}});
    scene.merge("Pod", name, free).await?;
    scene.delete("Pod", name).await.or(Ok(()))
}

/// A job that waits for the quota that something else holds.
async fn see_behind(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene.create(&Job::new(name).queue("q").json()).await?;
    scene
        .see_workload(name, "waiting", |w| {
            is(w, "QuotaReserved") || condition(w, "QuotaReserved").is_some()
        })
        .await?;
    let job = scene.get("Job", name).await?;
    ensure!(
        is_suspended(&job),
        "{name} runs, so that the quota was free"
    );
    Ok(())
}

#[tokio::test]
async fn quota_outlasts_the_crd_while_pods_run() -> Result<()> {
    bed::shared("kind-crd", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        create(scene, &widget, &widget.queued("one")).await?;
        let one = widget.see_released(scene, "one").await?;
        create_pod(scene, "one-pod", &one).await?;
        scene.see_pods("Running", 1).await?;

        widget.delete_crd(scene).await?;
        scene
            .see_condition("JobKind", &widget.name, "Ready", "False", "Waiting")
            .await?;
        see_behind(scene, "behind").await?;
        ungate_pod(scene, "one-pod").await?;
        scene.see_complete("behind").await?;

        widget.install_crd(scene).await?;
        widget.see_watched(scene).await?;
        create(scene, &widget, &widget.queued("two")).await?;
        widget.see_released(scene, "two").await?;
        widget
            .set_status(scene, "two", json!({"done": true}))
            .await?;
        scene.create(&Job::new("last").queue("q").json()).await?;
        scene.see_complete("last").await?;
        scene.delete("JobKind", &widget.name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

#[tokio::test]
async fn rights_to_one_kind_are_nothing_to_another() -> Result<()> {
    bed::shared("kind-rights", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let (widget, gadget) = (MadeUp::new(scene, "Widget"), MadeUp::new(scene, "Gadget"));
        widget.install(scene).await?;
        gadget.install(scene).await?;
        let running = create(scene, &widget, &widget.queued("running")).await?;
        widget.see_released(scene, "running").await?;

        scene.delete("ClusterRole", &widget.resource()).await?;
        let told = scene
            .see_condition("JobKind", &widget.name, "Ready", "False", "Forbidden")
            .await?;
        ensure!(
            told.contains("sluice.dev/aggregate-to-controller"),
            "{told}"
        );
        widget
            .set_status(scene, "running", json!({"done": true}))
            .await?;
        create(scene, &widget, &widget.queued("late")).await?;
        create(scene, &gadget, &gadget.queued("other")).await?;
        gadget.see_released(scene, "other").await?;
        see_behind(scene, "behind").await?;
        let workload = scene.workload_of(&running).await?.unwrap();
        ensure!(
            holds_quota(&workload),
            "nobody knows that it has ended: {workload}"
        );

        scene.apply(&widget.role()).await?;
        widget.see_watched(scene).await?;
        // Its place is that of its creation, also if nobody could read it then.
        widget.see_released(scene, "late").await?;
        widget
            .set_status(scene, "late", json!({"done": true}))
            .await?;
        scene.see_complete("behind").await?;
        for kind in [widget, gadget] {
            scene.delete("JobKind", &kind.name).await?;
            kind.delete_crd(scene).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_runs_outlasts_its_job_kind() -> Result<()> {
    bed::shared("kind-gone", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        create(scene, &widget, &widget.queued("runs")).await?;
        widget.see_released(scene, "runs").await?;
        let waits = create(scene, &widget, &widget.queued("waits")).await?;
        scene.see_workload_of(&waits, "waiting", |w| !is_admitted(w)).await?;

        scene.delete("JobKind", &widget.name).await?;
        let undeclared = |w: &Value| {
            condition(w, "QuotaReserved").is_some_and(|(_, reason, _)| reason == "KindNotDeclared")
        };
        let told = scene.see_workload_of(&waits, "undeclared", undeclared).await?;
        let message = format!(
            "Not queued: no JobKind declares Widget of API group {:?}; create a JobKind to queue it again",
            widget.group
        );
        assert_eq!(condition(&told, "QuotaReserved").unwrap().2, message);
        // Who waits longer comes first, and that is counted in seconds.
        see_a_second_pass(&waits["metadata"]["creationTimestamp"]).await?;
        let new = create(scene, &widget, &widget.queued("new")).await?;
        see_behind(scene, "behind").await?;
        ensure!(scene.workload_of(&new).await?.is_none(), "it is queued");

        // It ends, and that is seen.
        widget.set_status(scene, "runs", json!({"done": true})).await?;
        scene.see_complete("behind").await?;
        let held = widget.see_held(scene, "waits").await?;
        ensure!(held["spec"]["halted"] == true, "{held}");

        // Back again, all that waits is queued.
        scene.create(&widget.job_kind()).await?;
        widget.see_watched(scene).await?;
        for name in ["waits", "new"] {
            widget.see_released(scene, name).await?;
            widget.set_status(scene, name, json!({"done": true})).await?;
        }
        scene.delete("JobKind", &widget.name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

/// Nobody remembers the JobKind, but the Workload records the usage.
#[tokio::test]
async fn what_runs_keeps_its_usage_after_a_restart_without_its_job_kind() -> Result<()> {
    bed::own_running("kind-restart", async |bed, scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        for name in ["ends", "goes"] {
            create(scene, &widget, &widget.queued(name)).await?;
            widget.see_released(scene, name).await?;
        }
        scene.delete("JobKind", &widget.name).await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        widget
            .set_status(scene, "ends", json!({"done": true}))
            .await?;
        see_behind(scene, "behind").await?;

        // An object that is gone takes its Workload along.
        widget.delete(scene, "goes").await?;
        scene.see_complete("behind").await?;
        scene
            .create(&Job::new("large").queue("q").cpu("2").json())
            .await?;
        scene
            .see_workload("large", "waiting", |w| !is_admitted(w))
            .await?;

        // The JobKind knows what has ended.
        scene.create(&widget.job_kind()).await?;
        scene.see_complete("large").await?;
        Ok(())
    })
    .await
}

/// The CRD takes its objects along, and no controller sees that.
#[tokio::test]
async fn a_kind_that_went_while_no_controller_ran_holds_no_quota() -> Result<()> {
    bed::own_running("kind-went", async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        create(scene, &widget, &widget.queued("one")).await?;
        widget.see_released(scene, "one").await?;
        see_behind(scene, "behind").await?;
        bed.sluice.kill();
        widget.delete_crd(scene).await?;
        bed.sluice.start_again().await?;
        scene.see_complete("behind").await?;
        let idle = scene.see("LocalQueue", "q", "idle", crate::queues::quota::is_idle);
        idle.await.map(drop)
    })
    .await
}

#[tokio::test]
async fn a_job_kind_changes_its_version() -> Result<()> {
    bed::shared("kind-version", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        let runs = create(scene, &widget, &widget.queued("runs")).await?;
        widget.see_released(scene, "runs").await?;
        let recorded = scene.record("Workload").await?;

        let version = |version: &str| json!({"spec": {"version": version}});
        let name = &widget.name;
        scene.merge("JobKind", name, version("v3")).await?;
        let told = scene
            .see_condition("JobKind", name, "Ready", "False", "KindNotServed")
            .await?;
        assert_eq!(
            told,
            format!(
                "Widget is not served in {}/v3, but in v1, v2: correct spec.version",
                widget.group
            )
        );
        scene.merge("JobKind", name, version("v2")).await?;
        widget.see_watched(scene).await?;
        let waits = create(scene, &widget, &widget.queued("waits")).await?;
        scene
            .see_workload_of(&waits, "waiting", |w| !is_admitted(w))
            .await?;
        widget
            .set_status(scene, "runs", json!({"done": true}))
            .await?;
        widget.see_released(scene, "waits").await?;

        let history = scene.history("Workload", &recorded).await?;
        let of_runs = |r: &&crate::support::history::Revision| {
            r.object["metadata"]["ownerReferences"][0]["uid"] == runs["metadata"]["uid"]
        };
        for revision in history.iter().filter(of_runs) {
            ensure!(is_admitted(&revision.object), "{revision:?}");
            ensure!(!revision.is_deleted, "{revision:?}");
        }
        scene.delete("JobKind", name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

/// The CRD has left the version of the JobKind behind: what is new is held until the JobKind follows.
#[tokio::test]
async fn a_kind_that_is_served_in_other_versions_only_is_held() -> Result<()> {
    bed::shared("kind-moved", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let mut widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        create(scene, &widget, &widget.queued("runs")).await?;
        widget.see_released(scene, "runs").await?;

        let mut moved = widget.crd();
        let [old, new] = [0, 1].map(|version| format!("/spec/versions/{version}"));
        moved = with(moved, &format!("{old}/served"), json!(false));
        moved = with(moved, &format!("{old}/storage"), json!(false));
        moved = with(moved, &format!("{new}/storage"), json!(true));
        scene.apply(&moved).await?;
        let name = widget.name.clone();
        scene
            .see_condition("JobKind", &name, "Ready", "False", "KindNotServed")
            .await?;
        widget.version = "v2";
        let started = with(widget.queued("late"), "/spec/halted", json!(false));
        eventually("new objects to be held", DEADLINE, async || {
            let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
            let shown = scene.kubectl(&args, Some(&started.to_string())).await?;
            let shown: Value = serde_json::from_str(&shown.ok()?)?;
            ensure!(shown["spec"]["halted"] == true, "{shown}");
            anyhow::Ok(())
        })
        .await?;
        create(scene, &widget, &started).await?;

        let version = json!({"spec": {"version": "v2"}});
        scene.merge("JobKind", &name, version).await?;
        widget.see_watched(scene).await?;
        widget.see_released(scene, "late").await?;
        scene.delete("JobKind", &name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

/// The CRD changes under the JobKind: what runs stays known, nothing new is released.
#[tokio::test]
async fn a_schema_that_fits_no_more_is_noticed() -> Result<()> {
    bed::shared("kind-schema", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install(scene).await?;
        create(scene, &widget, &widget.queued("runs")).await?;
        widget.see_released(scene, "runs").await?;

        let mut other = widget.crd();
        for version in other["spec"]["versions"].as_array_mut().unwrap() {
            let spec = &mut version["schema"]["openAPIV3Schema"]["properties"]["spec"];
            spec["properties"]["halted"]["type"] = json!("string");
        }
        scene.apply(&other).await?;
        let name = &widget.name;
        let told = scene
            .see_condition("JobKind", name, "Ready", "False", "SchemaMismatch")
            .await?;
        ensure!(
            told.contains("spec.suspend") && told.contains("nothing of this kind is admitted"),
            "{told}"
        );
        widget
            .set_status(scene, "runs", json!({"done": true}))
            .await?;
        scene
            .create(&Job::new("all").queue("q").cpu("2").json())
            .await?;
        scene.see_complete("all").await?;

        scene.apply(&widget.crd()).await?;
        widget.see_watched(scene).await?;
        create(scene, &widget, &widget.queued("next")).await?;
        widget.see_released(scene, "next").await?;
        scene.delete("JobKind", name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

/// An expression that is dear on one object, and an object that its JobKind can't count: told by name
/// and place, and the next object comes through.
#[tokio::test]
async fn an_object_that_does_not_fit_hurts_only_itself() -> Result<()> {
    bed::shared("kind-misfit", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        widget.install_crd(scene).await?;
        scene.apply(&widget.role()).await?;
        // Before there is a JobKind nobody minds what is created.
        let items: Vec<u32> = (0..10_000).collect();
        let dear = with(widget.queued("dear"), "/spec/template/items", json!(items));
        let requests = "/spec/template/spec/containers/0/resources/requests";
        let lots = with(widget.queued("lots"), requests, json!({"cpu": "lots"}));
        let mut bare = widget.queued("bare");
        bare["spec"].as_object_mut().unwrap().remove("template");
        for object in [&dear, &lots, &bare] {
            create(scene, &widget, object).await?;
        }
        let active = "has(object.spec.template) && has(object.spec.template.items) && \
                      object.spec.template.items.exists(a, object.spec.template.items.exists(b, a + b < 0))";
        let kind = with(widget.job_kind(), "/spec/active", json!(active));
        scene.create(&kind).await?;
        widget.see_watched(scene).await?;

        let told = scene.see_event("dear", "Unreadable").await?;
        ensure!(told.contains("spec.active"), "{told}");
        let told = scene.see_event("lots", "InvalidPodSets").await?;
        let at = "spec.template.spec.containers[0].resources.requests[cpu]: Invalid value: \"lots\"";
        ensure!(told.contains(at), "{told}");
        let told = scene.see_event("bare", "InvalidPodSets").await?;
        ensure!(told.contains("spec.template: Required value"), "{told}");

        create(scene, &widget, &widget.queued("good")).await?;
        widget.see_released(scene, "good").await?;
        widget.set_status(scene, "good", json!({"done": true})).await?;
        scene.create(&Job::new("other").queue("q").cpu("2").json()).await?;
        scene.see_complete("other").await?;
        for name in ["dear", "lots", "bare"] {
            widget.see_held(scene, name).await?;
        }
        scene.delete("JobKind", &widget.name).await?;
        widget.delete_crd(scene).await
    })
    .await
}

/// JobKinds added and removed in one go while jobs come through: none of the objects is missed, Sluice
/// does not start again, and it forgets what it knew of them.
#[tokio::test]
async fn ten_job_kinds_come_and_go_under_load() -> Result<()> {
    const KINDS: usize = 10;
    const OBJECTS: usize = 2;
    const LOAD: usize = 10;
    const ROUNDS: usize = 3;
    bed::own_running("kind-ten", async |bed, scene| {
        scene.queue(&[quota("cpu", "100")]).await?;
        let kinds: Vec<MadeUp> = (0..KINDS)
            .map(|n| MadeUp::new(scene, &format!("Widget{n}")))
            .collect();
        for kind in &kinds {
            kind.install_crd(scene).await?;
            scene.apply(&kind.role()).await?;
        }
        let pid = bed.sluice.pid();
        for round in 0..ROUNDS {
            let load = async {
                for n in 0..LOAD {
                    let job = Job::new(&format!("load-{round}-{n}")).queue("q").json();
                    eventually("a job to be taken", DEADLINE, async || {
                        scene.create(&job).await
                    })
                    .await?;
                }
                for n in 0..LOAD {
                    let name = format!("load-{round}-{n}");
                    scene.see_complete(&name).await?;
                    scene.delete("Job", &name).await?;
                }
                anyhow::Ok(())
            };
            let come_and_go = async {
                for kind in &kinds {
                    // On a machine that is busy enough a webhook does not answer in time.
                    let what = "a JobKind to be taken";
                    eventually(what, DEADLINE, async || {
                        scene.create(&kind.job_kind()).await
                    })
                    .await?;
                    for n in 0..OBJECTS {
                        create(scene, kind, &kind.queued(&format!("w-{round}-{n}"))).await?;
                    }
                }
                for kind in &kinds {
                    for n in 0..OBJECTS {
                        let name = format!("w-{round}-{n}");
                        kind.see_released(scene, &name).await?;
                        kind.set_status(scene, &name, json!({"done": true})).await?;
                    }
                }
                // Quota is given back before and after the JobKind is gone.
                for kind in &kinds {
                    scene.delete("JobKind", &kind.name).await?;
                }
                eventually("all quota to be free", DEADLINE, async || {
                    let workloads = scene.list("Workload").await?;
                    let held: Vec<_> = workloads
                        .iter()
                        .filter(|w| holds_quota(w))
                        .map(name_of)
                        .collect();
                    ensure!(held.is_empty(), "{held:?}");
                    Ok(())
                })
                .await?;
                for kind in &kinds {
                    for n in 0..OBJECTS {
                        kind.delete(scene, &format!("w-{round}-{n}")).await?;
                    }
                }
                anyhow::Ok(())
            };
            tokio::try_join!(load, come_and_go)?;
            eventually("the kinds to be forgotten", DEADLINE, async || {
                let metrics = bed.sluice.metrics().await?;
                let of_kinds = metrics.lines().find(|line| line.contains("widget"));
                ensure!(of_kinds.is_none(), "{of_kinds:?}");
                Ok(())
            })
            .await?;
        }
        ensure!(bed.sluice.pid() == pid, "Sluice was started again");
        Ok(())
    })
    .await
}
