//! Resources that a ClusterQueue does not cover: by default those that the configuration lists are not
//! counted and any other blocks; a ClusterQueue may say otherwise. And devices, which can't be counted.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::bed;
use crate::support::objects::{self, Job, quota, with};
use crate::support::pods::{Pod, has_queue_gate};

#[tokio::test]
async fn what_no_queue_covers_is_ignored_or_blocks_as_the_queue_says() -> Result<()> {
    bed::shared("undeclared", async |scene| {
        scene.create(&objects::flavor(&scene.ns)).await?;
        for (queue, policy) in [
            ("unset", None),
            ("block", Some("Block")),
            ("ignore", Some("Ignore")),
        ] {
            let name = scene.name(queue);
            let mut object = objects::cluster_queue(&name, &scene.ns, &[quota("cpu", "4")]);
            if let Some(policy) = policy {
                object = with(object, "/spec/undeclaredResources", json!(policy));
            }
            scene.create(&object).await?;
            scene.create(&objects::local_queue(queue, &name)).await?;
        }
        let job = |name: &str, queue: &str, resource: &str| {
            let job = Job::new(name).queue(queue).request(resource, "1");
            job.json()
        };
        for (name, queue, resource) in [
            ("listed", "unset", "ephemeral-storage"),
            ("listed-too", "ignore", "ephemeral-storage"),
            ("any", "ignore", "memory"),
        ] {
            scene.create(&job(name, queue, resource)).await?;
            scene.see_complete(name).await?;
        }
        let told = scene.see_event("listed", "Admitted").await?;
        let expected = format!(
            "Admitted by ClusterQueue {:?} with flavor {}, not counted: ephemeral-storage",
            scene.name("unset"),
            scene.ns
        );
        assert_eq!(told, expected);
        for (name, queue, resource) in [
            ("other", "unset", "example.com/licence"),
            ("strict", "block", "ephemeral-storage"),
        ] {
            scene.create(&job(name, queue, resource)).await?;
            let expected = format!(
                "ClusterQueue {:?} has no quota for resource {resource:?}",
                scene.name(queue)
            );
            scene
                .see_waiting(name, "NoMatchingFlavor", &expected)
                .await?;
        }

        // What is said later counts for those that wait.
        let later = json!({"spec": {"undeclaredResources": "Ignore"}});
        scene
            .merge("ClusterQueue", &scene.name("block"), later)
            .await?;
        scene.see_complete("strict").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn who_claims_devices_is_held_and_told() -> Result<()> {
    bed::shared("claims", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "4")]);
        let queue = with(queue, "/spec/undeclaredResources", json!("Ignore"));
        scene.queue_like(queue).await?;
        let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "gpu"}]);
        let rule = "devices of a claim can't be counted, and nothing in a queue runs without usage: request an extended resource in resources.limits instead";
        let path = ["spec", "template", "spec", "resourceClaims"];
        let job = Job::new("job").queue("q").with(&path, claims.clone());
        scene.create(&job.json()).await?;
        assert_eq!(
            scene.see_event("job", "InvalidPodSets").await?,
            format!(
                "Can't be queued: spec.template.spec.resourceClaims[0]: Invalid value: \"gpu\": {rule}"
            )
        );
        let pod = Pod::new("pod").queue("q").with(&["spec", "resourceClaims"], claims);
        scene.create(&pod.json()).await?;
        let told = scene.see_event("pod", "InvalidPodSets").await?;
        let rule = "devices of a claim can't be counted for a pod that is admitted by itself";
        ensure!(told.contains(rule), "{told}");
        ensure!(has_queue_gate(&scene.get("Pod", "pod").await?));
        ensure!(objects::is_suspended(&scene.get("Job", "job").await?));
        Ok(())
    })
    .await
}
