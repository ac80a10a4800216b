//! When a job will start, asked of visibility.sluice.dev by a tenant who sees nothing but its namespace; and what it is told of
//! others.

use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::bed;
use crate::support::objects::{self, Job, quota};
use crate::support::visibility::{free_port, get, options, register, see};
use crate::support::{DEADLINE, Scene, plugin, refusal};

/// Where the estimate of a job's Workload is.
async fn of_job(scene: &Scene<'_>, name: &str) -> Result<String> {
    let job = scene.get("Job", name).await?;
    let uid = job["metadata"]["uid"].as_str().context("no UID")?;
    let digits: String = uid.chars().filter(|sign| *sign != '-').take(16).collect();
    Ok(of("workloads", scene, &format!("{name}-{digits}")))
}

fn of(resource: &str, scene: &Scene<'_>, name: &str) -> String {
    format!("namespaces/{}/{resource}/{name}/estimate", scene.ns)
}

fn job(name: &str) -> Job {
    Job::new(name).queue("q").cpu("2")
}

fn time(found: &Value, field: &str) -> Result<Timestamp> {
    let text = found[field].as_str();
    let text = text.with_context(|| format!("no {field}: {found}"))?;
    Ok(text.parse()?)
}

#[tokio::test]
async fn a_tenant_is_told_when_its_job_starts_behind_jobs_of_others() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("estimates", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "2")]).await?;
        let neighbour = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: scene.cp.create_namespace("neighbour").await?,
        };
        let queue = objects::local_queue("q", &scene.ns);
        neighbour.create(&queue).await?;
        let bind = format!(
            "create rolebinding tenant -n {} --clusterrole=view --user=tenant",
            scene.ns
        );
        scene
            .kubectl(&bind.split(' ').collect::<Vec<_>>(), None)
            .await?
            .ok()?;
        let tenant = Some("tenant");

        // Nobody knows how long jobs run of which none has finished.
        neighbour.create(&job("first").runs("3").json()).await?;
        neighbour.see_admitted("first").await?;
        scene.create(&job("early").runs("1").json()).await?;
        let early = of_job(scene, "early").await?;
        let found = see(scene, tenant, &early, |found| found["state"] == "Pending").await?;
        ensure!(
            found["kind"] == "StartEstimate"
                && found["reason"] == "NoFinishedJobs"
                && found["message"].is_string()
                && found.get("earliest").is_none(),
            "{found}"
        );

        // Both have finished, and the next one runs for as long as it likes.
        let has_started = |found: &Value| found["reason"] == "NotPending";
        see(scene, tenant, &early, has_started).await?;
        neighbour
            .create(&job("hidden").runs_forever().json())
            .await?;
        neighbour.see_admitted("hidden").await?;
        scene.create(&job("waits").runs("1").json()).await?;
        let waits = of_job(scene, "waits").await?;
        let found = see(scene, tenant, &waits, |found| found["latest"].is_string()).await?;
        let (taken, earliest) = (time(&found, "taken")?, time(&found, "earliest")?);
        ensure!(
            taken <= earliest && earliest <= time(&found, "latest")?,
            "{found}"
        );
        ensure!(
            found["percent"] == 80
                && found["simulations"] == 100
                && found["jobs"] == 2
                && found["finishedJobs"] == 2
                && found["job"] == json!({"apiGroup": "batch", "kind": "Job", "name": "waits"})
                && found.get("reason").is_none(),
            "{found}"
        );
        let text = found.to_string();
        for hidden in ["hidden", "first", neighbour.ns.as_str()] {
            ensure!(!text.contains(hidden), "{hidden}: {text}");
        }
        see_refusals(scene, &neighbour, &waits).await?;
        see_plugin(scene).await
    })
    .await
}

/// The plugin asks for its user, who may list neither ClusterQueues nor what is in other namespaces.
async fn see_plugin(scene: &Scene<'_>) -> Result<()> {
    let bind = format!(
        "create rolebinding account -n {0} --clusterrole=view --serviceaccount={0}:default",
        scene.ns
    );
    scene
        .kubectl(&bind.split(' ').collect::<Vec<_>>(), None)
        .await?
        .ok()?;
    let kubeconfig = scene
        .cp
        .service_account_kubeconfig(&scene.ns, "default")
        .await?;
    let run = async |arguments: &[&str]| {
        let mut command = Command::new(plugin::plugin()?);
        command.args(arguments).args(["-n", &scene.ns]);
        command.arg("--kubeconfig").arg(&kubeconfig);
        let output = timeout(DEADLINE, command.stdin(Stdio::null()).output()).await??;
        let text = String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?;
        anyhow::Ok(text)
    };
    let told = run(&["explain", "job/waits"]).await?;
    ensure!(
        told.contains("Start:") && told.contains("8 of 10 jobs start within such a range"),
        "{told}"
    );
    let told = run(&["list", "--start", "-o", "json"]).await?;
    ensure!(told.contains("\"earliestSeconds\""), "{told}");
    // Without that right it takes others, of which the first one is named that is missing.
    let told = run(&["explain", "job/waits", "--duration", "1m"]).await?;
    ensure!(
        told.contains("can't be estimated: clusterqueues.sluice.dev is forbidden"),
        "{told}"
    );
    Ok(())
}

async fn see_refusals(scene: &Scene<'_>, neighbour: &Scene<'_>, waits: &str) -> Result<()> {
    let theirs = of_job(neighbour, "hidden").await?;
    let no_right = "cannot get resource \"workloads/estimate\"";
    for (user, path, told) in [
        ("stranger", waits, no_right),
        ("tenant", &theirs, no_right),
        (
            "tenant",
            &of("workloads", scene, "nothing"),
            "workloads.visibility.sluice.dev \"nothing\" not found",
        ),
        (
            "tenant",
            &of("pods", scene, "nothing"),
            "pods.visibility.sluice.dev \"nothing\" not found",
        ),
    ] {
        let refused = refusal(get(scene, Some(user), path).await?)?;
        ensure!(refused.contains(told), "{user}, {path}: {refused}");
    }
    Ok(())
}
