//! A namespace that comes to require a queue and leaves again, with mixed objects: none is lost, and none is freed wrongly.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::enforcement::{Fate, enforce, fate_of, is_required};
use crate::support::made_up::MadeUp;
use crate::support::objects::{Job, is_suspended, local_queue, quota, with};
use crate::support::pods::{Pod, is_released, is_running, replicated};
use crate::support::{DEADLINE, Scene};

both_ways!(a_namespace_is_enrolled_and_leaves);

/// One object of each kind, named for the time at which it is created.
struct Batch<'a> {
    scene: &'a Scene<'a>,
    /// Policies know the shipped kinds only.
    kind: Option<&'a MadeUp>,
    at: &'static str,
}

impl Batch<'_> {
    fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.at)
    }

    /// Creates them, and checks what becomes of each.
    async fn create(&self, expected: Fate) -> Result<()> {
        let Self { scene, kind, .. } = self;
        let job = Job::new(&self.name("job")).runs_forever().json();
        let deployment = replicated("Deployment", &self.name("deployment"), 1, Pod::new(""));
        let pod = Pod::new(&self.name("pod")).json();
        for object in [job, deployment, pod] {
            let stored = scene.create(&object).await?;
            ensure!(fate_of(&stored) == expected, "{stored}");
        }
        if let Some(kind) = kind {
            let train = kind.object(&self.name("train"));
            let object = with(train, "/spec/halted", json!(false));
            let stored = kind.create(scene, &object).await?;
            ensure!(fate_of(&stored) == expected, "{stored}");
        }
        let from = format!("--from=cronjob/{}", self.name("cron"));
        let cron = crate::support::enforcement::cron_job(
            &self.name("cron"),
            json!({}),
            &Job::new("").runs_forever(),
        );
        let output = scene
            .kubectl(&["create", "-f", "-"], Some(&cron.to_string()))
            .await?;
        ensure!(output.code == 0, "{}", output.stderr);
        let made = self.name("made");
        scene
            .kubectl(&["create", "job", &made, &from], None)
            .await?
            .ok()?;
        let stored = scene.get("Job", &made).await?;
        ensure!(fate_of(&stored) == expected, "{stored}");
        Ok(())
    }

    /// Waits until all of them run.
    async fn see_running(&self) -> Result<()> {
        let Self { scene, kind, .. } = self;
        for job in ["job", "made"] {
            let is_started = |job: &Value| !is_suspended(job);
            scene
                .see("Job", &self.name(job), "started", is_started)
                .await?;
        }
        if let Some(kind) = kind {
            kind.see_released(scene, &self.name("train")).await?;
        }
        scene
            .see("Pod", &self.name("pod"), "running", is_running)
            .await?;
        let app = self.name("deployment");
        eventually("the pod of the Deployment to run", DEADLINE, async || {
            let mut pods = scene.list("Pod").await?;
            pods.retain(|pod| pod["metadata"]["labels"]["app"] == *app);
            ensure!(pods.len() == 1 && is_running(&pods[0]), "{pods:?}");
            Ok::<_, anyhow::Error>(())
        })
        .await
    }

    /// Checks that none of them runs.
    async fn check_held(&self) -> Result<()> {
        let Self { scene, kind, .. } = self;
        for job in ["job", "made"] {
            let job = scene.get("Job", &self.name(job)).await?;
            ensure!(is_suspended(&job) && is_required(&job), "{job}");
        }
        if let Some(kind) = kind {
            kind.see_held(scene, &self.name("train")).await?;
        }
        for pod in scene.list("Pod").await? {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            ensure!(!name.starts_with(self.at) || !is_released(&pod), "{pod}");
        }
        Ok(())
    }
}

async fn a_namespace_is_enrolled_and_leaves(admission: Admission) -> Result<()> {
    play(admission, "enf-life", async |scene| {
        scene.queue(&[quota("cpu", "50")]).await?;
        scene.create(&local_queue("default", &scene.ns)).await?;
        let kind = MadeUp::new(scene, "Train");
        let kind = (admission == Admission::Webhooks).then_some(&kind);
        if let Some(kind) = kind {
            kind.install(scene).await?;
        }
        let batch = |at: &'static str| Batch { scene, kind, at };
        batch("before").create(Fate::Left).await?;
        batch("before").see_running().await?;
        enforce(scene, Some("DryRun"), Fate::Left).await?;
        batch("reported").create(Fate::Left).await?;
        batch("reported").see_running().await?;
        enforce(scene, Some("Default"), Fate::Defaulted).await?;
        batch("defaulted").create(Fate::Defaulted).await?;
        batch("defaulted").see_running().await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        batch("held").create(Fate::Held).await?;
        scene.see_event("held-job", "Gated").await?;
        batch("held").check_held().await?;
        // Whatever else is required, what is held stays so.
        for (value, fate) in [("Default", Fate::Defaulted), ("Refuse", Fate::Refused)] {
            enforce(scene, Some(value), fate).await?;
            batch("held").check_held().await?;
        }
        // One of them gets a queue.
        let queue = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        scene.merge("Job", "held-job", queue).await?;
        scene.see_admitted("held-job").await?;

        enforce(scene, None, Fate::Left).await?;
        batch("held").see_running().await?;
        batch("left").create(Fate::Left).await?;
        for at in ["before", "reported", "defaulted", "held", "left"] {
            batch(at).see_running().await?;
        }
        // What was queued still is.
        for job in ["defaulted-job", "defaulted-made", "held-job"] {
            scene.see_admitted(job).await?;
        }
        ensure!(scene.find_workload("held-made").await?.is_none());
        match kind {
            Some(kind) => kind.delete_crd(scene).await,
            None => Ok(()),
        }
    })
    .await
}
