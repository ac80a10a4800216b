//! Namespaces that the configuration selects (`managedNamespaces`), its exceptions, and what is reported before anything is
//! enforced.

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_testbed::SluiceOptions;

use crate::support::bed;
use crate::support::enforcement::{Fate, cron_job, enforce, fate_of, see_fate};
use crate::support::objects::{Job, local_queue, name_of, quota};
use crate::support::pods::{Pod, replicated};

pub fn configured(config: &str) -> SluiceOptions {
    SluiceOptions {
        config: Some(config.to_owned()),
        ..SluiceOptions::new(bed::BINARY)
    }
}

#[tokio::test]
async fn the_configuration_selects_namespaces_and_makes_exceptions() -> Result<()> {
    let config = "
managedNamespaces:
  selector: {matchLabels: {team: a}}
  unlabelled: Default
  defaultLocalQueue: batch
  exceptions:
  - users: [ann]
  - when: \"object.metadata.name.startsWith('probe-')\"
";
    bed::own_running_with("enf-config", configured(config), async |_, scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        scene.create(&local_queue("batch", &scene.ns)).await?;
        see_fate(scene, Fate::Left).await?;
        let labels = json!({"metadata": {"labels": {"team": "a"}}});
        scene.merge("Namespace", &scene.ns, labels).await?;
        see_fate(scene, Fate::Defaulted).await?;
        let stored = scene.create(&Job::new("j").json()).await?;
        ensure!(
            stored["metadata"]["labels"]["sluice.dev/queue-name"] == "batch",
            "{stored}"
        );
        scene.see_complete("j").await?;
        let stored = scene.create(&Job::new("probe-1").json()).await?;
        ensure!(fate_of(&stored) == Fate::Left, "{stored}");
        scene.let_edit("ann").await?;
        let stored = scene
            .acting_as("ann")?
            .create(&Job::new("of-ann").json())
            .await?;
        ensure!(fate_of(&stored) == Fate::Left, "{stored}");
        // The label of the namespace goes before the configuration.
        enforce(scene, Some("Refuse"), Fate::Refused).await?;
        enforce(scene, Some("Ignore"), Fate::Left).await?;
        enforce(scene, None, Fate::Defaulted).await
    })
    .await
}

#[tokio::test]
async fn a_dry_run_only_reports() -> Result<()> {
    let config =
        "managedNamespaces: {selector: {matchLabels: {team: a}}, unlabelled: Refuse, dryRun: true}";
    bed::own_running_with("enf-dry", configured(config), async |bed, scene| {
        let labels = json!({"metadata": {"labels": {"team": "a"}}});
        scene.merge("Namespace", &scene.ns, labels).await?;
        let warning = format!(
            "Warning: namespace \"{}\" will require a queue: this object would be refused; set metadata.labels[sluice.dev/queue-name] to the name of a LocalQueue of the namespace",
            scene.ns
        );
        let probe = Job::new("probe").manifest();
        sluice_testbed::eventually("a warning", crate::support::DEADLINE, async || {
            let args = ["create", "-f", "-", "--dry-run=server"];
            let output = scene.kubectl(&args, Some(&probe)).await?;
            ensure!(output.stderr.contains(&warning), "{}", output.stderr);
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let stored = scene.create(&Job::new("j").json()).await?;
        ensure!(fate_of(&stored) == Fate::Left, "{stored}");
        scene.see_complete("j").await?;
        let metrics = bed.sluice.metrics().await?;
        let counted = "sluice_unlabelled_objects_total{action=\"Refuse\",mode=\"DryRun\"} 1";
        ensure!(metrics.contains(counted), "{metrics}");

        // What stands at the top says so by an event, once it is there; what a controller makes of it does not.
        scene.create(&Pod::new("p").json()).await?;
        scene.create(&replicated("Deployment", "d", 1, Pod::new(""))).await?;
        let cron = cron_job("c", json!({}), &Job::new("")).to_string();
        scene.kubectl(&["create", "-f", "-"], Some(&cron)).await?.ok()?;
        let message = warning.trim_start_matches("Warning: ");
        for name in ["j", "p", "d"] {
            let told = scene.see_event(name, "QueueWillBeRequired").await?;
            ensure!(told == message, "{told}");
        }
        let told = scene.see_event("c", "QueueWillBeRequired").await?;
        ensure!(
            told == "spec.jobTemplate.metadata.labels[sluice.dev/queue-name]: is not set, so the Jobs of this CronJob would be refused",
            "{told}"
        );
        // The probes were not stored.
        for pod in scene.list("Pod").await?.iter().filter(|pod| name_of(pod) != "p") {
            let told = scene.events(name_of(pod)).await?;
            let is_told = told.iter().any(|(reason, _)| reason == "QueueWillBeRequired");
            ensure!(!is_told, "{told:?}");
        }
        let told = scene.events("probe").await?;
        ensure!(told.is_empty(), "{told:?}");
        Ok(())
    })
    .await
}
