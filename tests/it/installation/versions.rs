//! The oldest Kubernetes that Sluice is made to run on, emulated by the programs of the newest: whether all that is
//! shipped is taken, and a job goes its whole way. What an API server takes depends on its version most of all in
//! two things: the CEL of policies, and what may change in the template of a Job that has run. New policies may use
//! what the version before knew, which can't be emulated: `cel_functions` in the tests of the webhooks sees to that.

use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_crds::kubernetes::OLDEST_MINOR;
use sluice_testbed::{KubectlOutput, Options, SluiceOptions};

use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{
    Job, cluster_queue, condition, is, is_admitted, is_suspended, local_queue, own, quota,
};
use crate::support::{Scene, refusal};

/// What the flavor of the queue puts into templates.
const PLACED: (&str, &str) = ("kubernetes.io/os", "linux");

fn selector(job: &Value) -> &Value {
    &job["spec"]["template"]["spec"]["nodeSelector"]
}

async fn on_the_oldest(
    prefix: &str,
    test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    let options = Options {
        emulated_version: Some(format!("1.{OLDEST_MINOR}")),
        ..Options::with_crds()?
    };
    bed::own(
        prefix,
        SluiceOptions::new(BINARY),
        options,
        async |bed: &Bed, scene: &Scene<'_>| {
            bed.sluice.start().await?;
            bed::see_leading(scene).await?;
            test(bed, scene).await
        },
    )
    .await
}

#[tokio::test]
async fn all_that_is_shipped_is_taken_and_holds() -> Result<()> {
    on_the_oldest("oldest-install", async |bed, scene| {
        let version = bed.cp.kubectl(["get", "--raw", "/version"], None).await?;
        let version: Value = serde_json::from_str(&version.ok()?)?;
        let emulated = version["emulationMinor"].as_str().map(str::parse);
        ensure!(emulated == Some(Ok(OLDEST_MINOR)), "{version}");
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/default");
        let shipped = shipped.to_string_lossy();
        let args = ["apply", "--dry-run=server", "-k", &*shipped];
        bed.cp.kubectl(args, None).await?.ok()?;

        // The policies that bound Sluice's account, by its own token.
        scene.create(&Job::new("a").gate("acme.io/x").json()).await?;
        let denied = async |args: &[&str], why: &str| {
            let output = as_sluice(bed, scene, args).await?;
            ensure!(output.code != 0 && output.stderr.contains(why), "{args:?}: {output:?}");
            anyhow::Ok(())
        };
        let patch = r#"{"spec":{"backoffLimit":3}}"#;
        let args = ["patch", "job", "a", "--type=merge", "-p", patch];
        denied(&args, "spec.backoffLimit: Forbidden: Sluice's account may change only").await?;
        let patch = r#"[{"op":"add","path":"/webhooks/0/failurePolicy","value":"Ignore"}]"#;
        let args = ["patch", "validatingwebhookconfiguration", "sluice", "--type=json", "-p", patch];
        denied(&args, ".failurePolicy: Forbidden: Sluice's account may change only").await?;

        // The policy about the namespaces that require a queue.
        let labels = json!({"metadata": {"labels": {"sluice.dev/enforcement": "hold"}}});
        let told = refusal(scene.try_merge("Namespace", &scene.ns, labels).await)?;
        let expected = "metadata.labels[sluice.dev/enforcement]: Unsupported value: \"hold\": supported values:";
        ensure!(told.contains(expected), "{told}");
        Ok(())
    })
    .await
}

async fn as_sluice(bed: &Bed, scene: &Scene<'_>, args: &[&str]) -> Result<KubectlOutput> {
    let args = [&["--namespace", scene.ns.as_str()], args].concat();
    bed.cp.kubectl_as(bed.sluice.kubeconfig(), args, None).await
}

/// A queue `q` of 2 cpus, whose flavor has node labels.
async fn create_queue(scene: &Scene<'_>) -> Result<()> {
    let spec = json!({"nodeLabels": {PLACED.0: PLACED.1}});
    scene
        .create(&own("ResourceFlavor", &scene.ns, spec))
        .await?;
    let queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
    scene.create(&queue).await?;
    scene.create(&local_queue("q", &scene.ns)).await.map(drop)
}

#[tokio::test]
async fn a_job_is_gated_queued_evicted_and_runs_again() -> Result<()> {
    on_the_oldest("oldest-life", async |_, scene| {
        create_queue(scene).await?;

        let gated = Job::new("j").queue("q").gate("acme.io/x").runs_forever();
        let created = scene.create(&gated.json()).await?;
        ensure!(is_suspended(&created), "{created}");
        let lifted =
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/scheduling-gated-by": null}}});
        scene.merge("Job", "j", lifted).await?;
        scene.see_pods("Running", 1).await?;
        let placed = scene.get("Job", "j").await?;
        ensure!(
            *selector(&placed) == json!({PLACED.0: PLACED.1}),
            "{placed}"
        );

        // Evicted: its template is as its user wrote it, and its quota is free.
        scene.stop("HoldAndDrain").await?;
        let is_out = |w: &Value| !is_admitted(w) && is(w, "Evicted") && is(w, "Requeued");
        scene
            .see_workload("j", "evicted and queued again", is_out)
            .await?;
        let evicted = scene.see("Job", "j", "suspended", is_suspended).await?;
        ensure!(selector(&evicted).is_null(), "{evicted}");
        scene.stop("None").await?;
        scene.see_pods("Running", 1).await?;
        let placed = scene.get("Job", "j").await?;
        ensure!(
            *selector(&placed) == json!({PLACED.0: PLACED.1}),
            "{placed}"
        );

        // Its user suspends it: that frees its quota, too, and it goes on when its user says so.
        scene
            .merge("Job", "j", json!({"spec": {"suspend": true}}))
            .await?;
        let is_paused = |w: &Value| {
            !is_admitted(w)
                && condition(w, "QuotaReserved").is_some_and(|(_, reason, _)| reason == "OnHold")
        };
        scene
            .see_workload("j", "waiting for its user", is_paused)
            .await?;
        scene.delete("Job", "j").await
    })
    .await
}

/// A Job that ran before it named a queue has a start time too.
#[tokio::test]
async fn a_running_job_joins_a_queue_when_it_is_suspended() -> Result<()> {
    on_the_oldest("oldest-join", async |_, scene| {
        create_queue(scene).await?;
        scene.create(&Job::new("j").runs_forever().json()).await?;
        scene.see_pods("Running", 1).await?;
        let joins =
            json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}, "spec": {"suspend": true}});
        scene.merge("Job", "j", joins).await?;
        scene.see_admitted("j").await?;
        let is_placed =
            |job: &Value| *selector(job) == json!({PLACED.0: PLACED.1}) && !is_suspended(job);
        scene
            .see(
                "Job",
                "j",
                "released with the labels of its flavor",
                is_placed,
            )
            .await?;
        scene.see_pods("Running", 1).await?;
        Ok(())
    })
    .await
}
