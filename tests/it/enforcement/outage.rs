//! Namespaces that require a queue, while Sluice is down: they fail closed, and no other namespace does.

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_crds::{ENFORCEMENT_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

use crate::enforcement::config::configured;
use crate::support::bed;
use crate::support::enforcement::{Fate, cron_job, enforce, fate_of, is_required, see_fate};
use crate::support::objects::{Job, quota};
use crate::support::pods::{Pod, replicated};
use crate::support::{DEADLINE, Scene, refusal};

/// The same means in another namespace.
async fn elsewhere<'a>(scene: &Scene<'a>) -> Result<Scene<'a>> {
    Ok(Scene {
        cp: scene.cp,
        client: scene.client.clone(),
        ns: scene.cp.create_namespace("enf-free").await?,
    })
}

#[tokio::test]
async fn an_outage_blocks_managed_namespaces_alone() -> Result<()> {
    bed::own_running("enf-down", async |bed, scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        let free = elsewhere(scene).await?;
        scene.create(&Job::new("held").json()).await?;
        scene
            .create(&Job::new("running").queue("q").runs_forever().json())
            .await?;
        scene.see_pods("Running", 1).await?;
        bed.sluice.kill();

        for object in [
            Job::new("j").json(),
            Pod::new("p").json(),
            replicated("Deployment", "d", 1, Pod::new("")),
        ] {
            let told = refusal(scene.create_once(&object).await)?;
            ensure!(
                told.contains("enforcement-by-label.gates.sluice.dev"),
                "{told}"
            );
        }
        // What is running there already, and what a controller makes, goes on.
        let status = json!({"metadata": {"labels": {"team": "red"}}});
        scene.merge("Job", "running", status).await?;
        scene.delete("Job", "held").await?;
        // In a namespace that requires no queue nothing waits for Sluice.
        free.create_once(&Job::new("j").json()).await?;
        free.create_once(&Pod::new("p").json()).await?;
        free.create_once(&replicated("Deployment", "d", 1, Pod::new("")))
            .await?;
        free.see_complete("j").await?;
        free.see_pods("Running", 2).await?;
        // A namespace may leave meanwhile.
        let left = json!({"metadata": {"labels": {(ENFORCEMENT_LABEL): null}}});
        free.merge("Namespace", &scene.ns, left).await?;
        see_fate(scene, Fate::Left).await?;
        scene.create_once(&Job::new("left").json()).await?;

        bed.sluice.start_again().await?;
        scene.see_complete("left").await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        let held = scene.create(&Job::new("held-again").json()).await?;
        ensure!(is_required(&held), "{held}");
        let queue = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        scene.merge("Job", "held-again", queue).await?;
        scene.see_complete("held-again").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_outage_blocks_nothing_where_it_is_only_reported() -> Result<()> {
    let config = "managedNamespaces: {selector: {matchLabels: {team: dry}}, dryRun: true}";
    bed::own_running_with("enf-dry-down", configured(config), async |bed, scene| {
        enforce(scene, Some("DryRun"), Fate::Left).await?;
        let selected = elsewhere(scene).await?;
        let labels = json!({"metadata": {"labels": {"team": "dry"}}});
        selected.merge("Namespace", &selected.ns, labels).await?;
        let all = [scene, &selected];
        // Both are warned, so both are known to the API server.
        for there in all {
            let warning = "will require a queue: this object would be held";
            eventually("a warning", DEADLINE, async || {
                let args = ["create", "-f", "-", "--dry-run=server"];
                let probe = Job::new("probe").manifest();
                let output = there.kubectl(&args, Some(&probe)).await?;
                ensure!(output.stderr.contains(warning), "{}", output.stderr);
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        bed.sluice.kill();

        for there in all {
            for object in [
                Job::new("j").json(),
                Pod::new("p").json(),
                replicated("Deployment", "d", 1, Pod::new("")),
            ] {
                let stored = there.create_once(&object).await?;
                ensure!(fate_of(&stored) == Fate::Left, "{stored}");
            }
            let cron_job = cron_job("c", json!({}), &Job::new("")).to_string();
            let output = there
                .kubectl(&["create", "-f", "-"], Some(&cron_job))
                .await?;
            ensure!(output.code == 0, "{}", output.stderr);
            there.see_complete("j").await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn system_namespaces_are_never_managed() -> Result<()> {
    bed::own_running("enf-system", async |_, scene| {
        let labels = json!({"metadata": {"labels": {(ENFORCEMENT_LABEL): "Refuse"}}});
        enforce(scene, Some("Refuse"), Fate::Refused).await?;
        for namespace in [
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "sluice-system",
        ] {
            scene.merge("Namespace", namespace, labels.clone()).await?;
            let there = Scene {
                cp: scene.cp,
                client: scene.client.clone(),
                ns: namespace.to_owned(),
            };
            let stored = there.create_once(&Job::new("enf-probe").json()).await?;
            ensure!(fate_of(&stored) == Fate::Left, "{stored}");
            // In Sluice's own, pods have to be restricted.
            if namespace != "sluice-system" {
                there.create_once(&Pod::new("enf-probe").json()).await?;
                there.delete("Pod", "enf-probe").await?;
            }
            there.delete("Job", "enf-probe").await?;
        }
        Ok(())
    })
    .await
}
