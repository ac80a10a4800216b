//! Jobs without a WorkloadPriorityClass have the priority that the API server will give their pods: that of the
//! PriorityClass that the template names, or of the global default.

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::{Options, SluiceOptions};

use crate::support::bed;
use crate::support::objects::{Job, quota};

fn class(name: &str, value: i32) -> Value {
    json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value})
}

fn of_class(job: Job, class: &str) -> Value {
    let mut job = job.json();
    job["spec"]["template"]["spec"]["priorityClassName"] = json!(class);
    job
}

#[tokio::test]
async fn a_job_waits_for_the_priority_class_of_its_pods() -> Result<()> {
    bed::shared("no-pod-class", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let name = scene.name("class");
        let job = of_class(Job::new("early").queue("q"), &name);
        scene.create(&job).await?;
        let told = scene.see_event("early", "PriorityClassNotFound").await?;
        assert_eq!(
            told,
            format!(
                "Can't be queued: there is no PriorityClass {name:?}, so that none of its pods could be made; \
                 create it, or change the priorityClassName of its pods"
            )
        );
        scene.create(&class(&name, 70)).await?;
        let workload = scene.see_admitted("early").await?;
        assert_eq!(workload["spec"]["priority"], 70);
        scene.see_complete("early").await?;
        scene.delete("PriorityClass", &name).await
    })
    .await
}

#[tokio::test]
async fn a_job_that_names_no_class_has_the_global_default() -> Result<()> {
    let (sluice, options) = (SluiceOptions::new(bed::BINARY), Options::with_crds()?);
    bed::own("global-default", sluice, options, async |bed, scene| {
        let mut default = class("standard", 7);
        default["globalDefault"] = json!(true);
        scene.create(&default).await?;
        scene.create(&class("high", 70)).await?;
        bed.sluice.start().await?;
        scene.queue(&[quota("cpu", "4")]).await?;
        let rows = [
            (Job::new("none").queue("q").json(), 7, "standard"),
            (of_class(Job::new("high").queue("q"), "high"), 70, "high"),
        ];
        for (job, priority, class) in rows {
            scene.create(&job).await?;
            let name = job["metadata"]["name"].as_str().unwrap_or_default();
            let workload = scene.see_admitted(name).await?;
            let spec = &workload["spec"];
            let (found, named) = (&spec["priority"], &spec["priorityClassRef"]["name"]);
            assert_eq!((found, named), (&json!(priority), &json!(class)));
        }
        Ok(())
    })
    .await
}
