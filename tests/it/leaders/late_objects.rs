//! Objects in any order: what was missing and comes is taken up at once, without a restart.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::bed;
use crate::support::objects::{
    self, Job, cluster_queue, condition, flavor, is_admitted, local_queue, priority_class, quota,
    with,
};
use crate::support::widgets::Widgets;

#[tokio::test]
async fn a_job_waits_for_its_queue_and_all_below_it() -> Result<()> {
    bed::shared("late-queue", async |scene| {
        let ns = &scene.ns;
        scene.create(&Job::new("early").queue("q").json()).await?;
        let message = format!("LocalQueue \"{ns}/q\" doesn't exist");
        scene
            .see_waiting("early", "Misconfigured", &message)
            .await?;
        scene.create(&local_queue("q", ns)).await?;
        let message = format!("ClusterQueue \"{ns}\" of LocalQueue \"{ns}/q\" doesn't exist");
        scene
            .see_waiting("early", "Misconfigured", &message)
            .await?;
        scene
            .create(&cluster_queue(ns, ns, &[quota("cpu", "2")]))
            .await?;
        let message = format!(
            "ClusterQueue \"{ns}\" is inactive: ResourceFlavors that don't exist: \"{ns}\""
        );
        scene
            .see_waiting("early", "Misconfigured", &message)
            .await?;
        scene.create(&flavor(ns)).await?;
        scene.see_complete("early").await?;
        scene
            .see_condition("LocalQueue", "q", "Active", "True", "Ready")
            .await?;
        scene
            .see_condition("ClusterQueue", ns, "Active", "True", "Ready")
            .await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_waits_for_its_priority_class() -> Result<()> {
    bed::shared("late-class", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let class = scene.name("class");
        scene.create(&Job::new("early").queue("q").priority_class(&class).json()).await?;
        let told = scene.see_event("early", "PriorityClassNotFound").await?;
        assert_eq!(
            told,
            format!(
                "Can't be queued: there is no WorkloadPriorityClass {class:?}; create it, or change the \
                 label sluice.dev/priority-class"
            )
        );
        ensure!(scene.find_workload("early").await?.is_none(), "it is queued without its priority");
        scene.create(&priority_class(&class, 7)).await?;
        let workload = scene.see_admitted("early").await?;
        assert_eq!(workload["spec"]["priority"], 7);
        let reference = &workload["spec"]["priorityClassRef"];
        assert_eq!((&reference["kind"], &reference["name"]), (&json!("WorkloadPriorityClass"), &json!(class)));
        scene.see_complete("early").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_can_come_under_a_selector_and_leave_it() -> Result<()> {
    bed::shared("late-label", async |scene| {
        let ns = &scene.ns;
        let queue = with(
            cluster_queue(ns, ns, &[quota("cpu", "2")]),
            "/spec/namespaceSelector",
            json!({"matchLabels": {"team": "red"}}),
        );
        scene.queue_like(queue).await?;
        scene
            .create(&Job::new("early").queue("q").runs_forever().json())
            .await?;
        let message = format!("ClusterQueue \"{ns}\" doesn't select the namespace \"{ns}\"");
        scene
            .see_waiting("early", "Misconfigured", &message)
            .await?;
        scene
            .merge(
                "Namespace",
                ns,
                json!({"metadata": {"labels": {"team": "red"}}}),
            )
            .await?;
        scene.see_admitted("early").await?;
        scene
            .see_condition("LocalQueue", "q", "Active", "True", "Ready")
            .await?;
        // And out of it: what runs stays and keeps its usage, what comes waits.
        scene
            .merge(
                "Namespace",
                ns,
                json!({"metadata": {"labels": {"team": null}}}),
            )
            .await?;
        scene
            .see_condition("LocalQueue", "q", "Active", "False", "NamespaceNotSelected")
            .await?;
        scene.create(&Job::new("late").queue("q").json()).await?;
        scene.see_waiting("late", "Misconfigured", &message).await?;
        let early = scene.find_workload("early").await?.unwrap();
        ensure!(is_admitted(&early), "{early}");
        // The selector changes instead.
        scene
            .merge(
                "ClusterQueue",
                ns,
                json!({"spec": {"namespaceSelector": {"matchLabels": null}}}),
            )
            .await?;
        scene.see_complete("late").await?;
        Ok(())
    })
    .await
}

/// The life of a widget, once it is released.
async fn see_through(widgets: &Widgets<'_>, name: &str) -> Result<()> {
    widgets.see_released(name).await?;
    widgets.set_status(name, json!({"done": true})).await?;
    let told = Some(("True", "Succeeded", "all widgets are made"));
    widgets
        .see_workload(name, "finished", |w| condition(w, "Finished") == told)
        .await
        .map(drop)
}

/// Objects first, then the JobKind that makes them Sluice's: a kind that Sluice knows nothing of.
#[tokio::test]
async fn objects_are_taken_over_when_their_job_kind_comes() -> Result<()> {
    bed::shared("late-kind", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        widgets.serve().await?;
        let early = with(widgets.widget("early"), "/spec/halted", json!(false));
        scene.apply(&early).await?;
        widgets.manage(&widgets.job_kind()).await?;
        // It runs until it is held: that it is released says something only after that.
        widgets
            .see_workload("early", "admitted", is_admitted)
            .await?;
        see_through(&widgets, "early").await?;
        // The next waits until the one before it is done.
        scene.apply(&widgets.widget("a")).await?;
        widgets.see_released("a").await?;
        scene.apply(&widgets.widget("b")).await?;
        let waits =
            |w: &Value| condition(w, "QuotaReserved").is_some_and(|(status, ..)| status == "False");
        widgets.see_workload("b", "waiting", waits).await?;
        see_through(&widgets, "a").await?;
        see_through(&widgets, "b").await?;
        widgets.delete_crd().await?;
        // Its CRD gone, it says so, and the other kinds go on.
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Waiting")
            .await?;
        scene.create(&Job::new("other").queue("q").json()).await?;
        scene.see_complete("other").await?;
        scene.delete("JobKind", &scene.ns).await
    })
    .await
}

/// A JobKind whose objects Sluice may not read: it says so, everything else goes on, also after a
/// restart; and with the right it is taken up.
#[tokio::test]
async fn a_job_kind_waits_for_its_role() -> Result<()> {
    bed::own_running("late-role", async |bed, scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        let [crd, role] = widgets.crd();
        scene.apply(&crd).await?;
        widgets.see_served().await?;
        scene.create(&widgets.job_kind()).await?;
        let told = scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Forbidden")
            .await?;
        ensure!(
            told.contains("widgets") && told.contains("sluice.dev/aggregate-to-controller"),
            "{told}"
        );
        scene.create(&Job::new("before").queue("q").json()).await?;
        scene.see_complete("before").await?;
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene.create(&Job::new("after").queue("q").json()).await?;
        scene.see_complete("after").await?;
        scene.apply(&role).await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        scene.apply(&widgets.widget("late")).await?;
        see_through(&widgets, "late").await?;
        // Taken away again, it says so again.
        scene.delete("ClusterRole", objects::name_of(&role)).await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Forbidden")
            .await?;
        Ok(())
    })
    .await
}

/// The JobKind first, then the CRD that it speaks of.
#[tokio::test]
async fn a_job_kind_waits_for_its_crd() -> Result<()> {
    bed::shared("late-crd", async |scene| {
        let widgets = Widgets::new(scene);
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&widgets.job_kind()).await?;
        let told = scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "Waiting")
            .await?;
        assert_eq!(
            told,
            format!(
                "Widget is not served in {}.example.com/v1; install its CRD, or correct spec.version",
                scene.ns
            )
        );
        widgets.serve().await?;
        scene
            .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
            .await?;
        scene.apply(&widgets.widget("late")).await?;
        see_through(&widgets, "late").await?;
        scene.delete("JobKind", &scene.ns).await?;
        widgets.delete_crd().await
    })
    .await
}
