//! How one workload stands, asked of visibility.sluice.dev: what it lacks, who is ahead, who holds that and who has to end;
//! and whether that is what then happens.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::bed;
use crate::support::objects::{self, Job, name_of, own_gate, quota};
use crate::support::pods::Pod;
use crate::support::visibility::{free_port, get, options, register, see};
use crate::support::{DEADLINE, Scene, plugin, refusal};

/// Where the explanation of a job's Workload is, whether or not it has one yet.
async fn of_job(scene: &Scene<'_>, name: &str) -> Result<String> {
    let job = scene.get("Job", name).await?;
    let uid = job["metadata"]["uid"].as_str().context("no UID")?;
    let digits: String = uid.chars().filter(|sign| *sign != '-').take(16).collect();
    Ok(of("workloads", scene, &format!("{name}-{digits}")))
}

fn of(resource: &str, scene: &Scene<'_>, name: &str) -> String {
    format!("namespaces/{}/{resource}/{name}/explanation", scene.ns)
}

fn is_state(state: &'static str) -> impl Fn(&Value) -> bool {
    move |found| found["state"] == state
}

/// What is lacking of cpu.
fn lacking(found: &Value) -> Option<&str> {
    found["lacking"][0]["amount"].as_str()
}

/// The jobs that are named in one of its lists.
fn named<'a>(found: &'a Value, list: &str) -> Vec<&'a str> {
    let items = found[list]["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["job"]["name"].as_str())
        .collect()
}

fn job(name: &str, cpu: &str) -> Job {
    Job::new(name).queue("q").cpu(cpu)
}

/// Another tenant of the same ClusterQueue.
async fn neighbour<'a>(scene: &Scene<'a>) -> Result<Scene<'a>> {
    let neighbour = Scene {
        cp: scene.cp,
        client: scene.client.clone(),
        ns: scene.cp.create_namespace("neighbour").await?,
    };
    let queue = objects::local_queue("q", &scene.ns);
    neighbour.create(&queue).await?;
    Ok(neighbour)
}

/// Four CPUs in use, two of them by another tenant, who waits for all of them before `waits` waits for two.
async fn fill<'a>(scene: &Scene<'a>) -> Result<Scene<'a>> {
    let neighbour = neighbour(scene).await?;
    let high = scene.name("high");
    scene.create(&objects::priority_class(&high, 5)).await?;
    let low = scene.name("low");
    scene.create(&objects::priority_class(&low, -5)).await?;
    for (scene, name, cpu) in [
        (scene, "one", "1"),
        (scene, "two", "1"),
        (&neighbour, "hidden", "2"),
    ] {
        scene.create(&job(name, cpu).runs_forever().json()).await?;
        scene.see_admitted(name).await?;
    }
    let secret = job("secret", "4").priority_class(&high);
    neighbour.create(&secret.json()).await?;
    scene
        .create(&job("waits", "2").runs_forever().json())
        .await?;
    let huge = job("huge", "5").priority_class(&low);
    scene.create(&huge.json()).await?;
    Ok(neighbour)
}

#[tokio::test]
async fn what_is_said_to_be_lacking_is_what_has_to_be_freed() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("explanation", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "4")]).await?;
        let neighbour = fill(scene).await?;
        // A tenant, with nothing but the role `view` in the namespace.
        let bind = format!(
            "create rolebinding tenant -n {} --clusterrole=view --user=tenant",
            scene.ns
        );
        scene
            .kubectl(&bind.split(' ').collect::<Vec<_>>(), None)
            .await?
            .ok()?;
        let waits = of_job(scene, "waits").await?;
        let tenant = Some("tenant");
        let found = see(scene, tenant, &waits, |found| {
            lacking(found) == Some("2") && found["positionInClusterQueue"] == 1
        })
        .await?;
        ensure!(
            found["kind"] == "WorkloadExplanation"
                && found["state"] == "Pending"
                && found["job"] == json!({"apiGroup": "batch", "kind": "Job", "name": "waits"})
                && found["localQueueName"] == "q"
                && found["clusterQueueName"] == scene.ns.as_str()
                && found["positionInLocalQueue"] == 0
                && found["requests"]["cpu"] == "2"
                && found["waitingSince"].is_string()
                && found["canEverBeAdmitted"] == true,
            "{found}"
        );
        ensure!(
            found["ahead"] == json!({"items": [], "inNamespace": 0, "inOtherNamespaces": 1}),
            "{found}"
        );
        let tried = &found["flavors"][0];
        ensure!(
            tried["name"] == scene.ns.as_str()
                && tried["reason"] == "WaitingForQuota"
                && tried["resources"][0]
                    == json!({"name": "cpu", "requested": "2", "free": "0", "most": "4",
                        "lacking": "2", "limitedBy": "ClusterQueue"}),
            "{found}"
        );
        ensure!(
            found["heldBy"]
                == json!([{"flavor": scene.ns, "resource": "cpu",
                    "inNamespace": {"count": 2, "amount": "2"},
                    "inClusterQueue": {"count": 1, "amount": "2"},
                    "inCohort": {"count": 0, "amount": "0"}}]),
            "{found}"
        );
        // Of equal priority, those that were admitted last end first: they may be of the same second.
        let ends = &found["hasToEnd"];
        let own_end = ends["inNamespace"] == 2 && ends["inOtherNamespaces"] == 0;
        let other_ends = ends["inNamespace"] == 0 && ends["inOtherNamespaces"] == 1;
        ensure!(own_end || other_ends, "{found}");
        let text = found.to_string();
        for hidden in ["hidden", "secret", neighbour.ns.as_str()] {
            ensure!(!text.contains(hidden), "{hidden}: {text}");
        }

        // Less than that is not enough, and exactly that is.
        scene.delete("Job", "one").await?;
        let found = see(scene, tenant, &waits, |found| lacking(found) == Some("1")).await?;
        ensure!(found["state"] == "Pending", "{found}");
        scene.delete("Job", "two").await?;
        scene.see_admitted("waits").await?;
        let found = see(scene, tenant, &waits, is_state("Admitted")).await?;
        ensure!(
            found["podSetAssignments"][0]["flavors"]["cpu"] == scene.ns.as_str()
                && found["admittedSince"].is_string()
                && found.get("lacking").is_none(),
            "{found}"
        );

        // What can never fit is not waited for.
        let huge = of_job(scene, "huge").await?;
        let found = see(scene, tenant, &huge, |found| {
            found["canEverBeAdmitted"] == false
        })
        .await?;
        ensure!(
            found["reason"] == "ExceedsMaxQuota"
                && found["flavors"][0]["reason"] == "ExceedsMaxQuota"
                && found.get("hasToEnd").is_none(),
            "{found}"
        );

        see_refusals(scene, &neighbour, &waits).await
    })
    .await
}

async fn see_refusals(scene: &Scene<'_>, neighbour: &Scene<'_>, waits: &str) -> Result<()> {
    let theirs = of_job(neighbour, "secret").await?;
    for (user, path, told) in [
        (
            "stranger",
            waits,
            "cannot get resource \"workloads/explanation\"",
        ),
        (
            "tenant",
            &theirs,
            "cannot get resource \"workloads/explanation\"",
        ),
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

#[tokio::test]
async fn jobs_behind_gates_pods_and_groups_are_explained_too() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("explanation-kinds", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&job("runs", "1").runs_forever().json())
            .await?;
        scene.see_admitted("runs").await?;

        let (gate, object) = own_gate(&scene.ns, "budget");
        let spec = json!({"description": "Waits for a budget", "contact": "#finops"});
        scene.create(&objects::own("Gate", &object, spec)).await?;
        scene.create(&job("held", "1").gate(&gate).json()).await?;
        let held = of_job(scene, "held").await?;
        let found = see(scene, None, &held, is_state("Gated")).await?;
        ensure!(
            found["gates"] == json!([gate])
                && found["reason"] == "Gated"
                && found["job"]["name"] == "held"
                && found["localQueueName"] == "q",
            "{found}"
        );
        let waits_for = format!("{gate} (Waits for a budget; ask #finops)");
        let explain = format!("explain job/held -n {}", scene.ns);
        let told = eventually(
            "the plugin to tell what the gate waits for",
            DEADLINE,
            async || {
                let (code, told, notes) = plugin::run(bed, &explain).await?;
                ensure!(code == 0 && told.contains(&waits_for), "{told}{notes}");
                anyhow::Ok(told)
            },
        )
        .await?;
        ensure!(
            told.contains("Requests:") && told.contains("cpu 1"),
            "{told}"
        );
        // The same question is answered when the gate is lifted.
        let lift =
            json!({"metadata": {"annotations": {"kueue.x-k8s.io/scheduling-gated-by": null}}});
        scene.merge("Job", "held", lift).await?;
        see(scene, None, &held, |found| lacking(found) == Some("1")).await?;

        let single = Pod::new("single").queue("q").cpu("1");
        scene.create(&single.json()).await?;
        let single = of("pods", scene, "single");
        let found = see(scene, None, &single, |found| {
            lacking(found) == Some("1") && found["positionInClusterQueue"].is_u64()
        })
        .await?;
        ensure!(
            found["state"] == "Pending" && found["metadata"]["name"] == "single",
            "{found}"
        );
        ensure!(named(&found, "ahead") == ["held"], "{found}");
        ensure!(named(&found, "hasToEnd") == ["runs"], "{found}");

        let gated = Pod::new("behind")
            .queue("q")
            .cpu("1")
            .scheduling_gate("a.io/b");
        scene.create(&gated.json()).await?;
        let behind = of("pods", scene, "behind");
        let found = see(scene, None, &behind, is_state("Gated")).await?;
        ensure!(found["gates"] == json!(["a.io/b"]), "{found}");

        for name in ["g-0", "g-1"] {
            let member = Pod::new(name).queue("q").cpu("1").group("crew", 2);
            scene.create(&member.json()).await?;
        }
        let group = of("workloads", scene, "crew-pod-group");
        let found = see(scene, None, &group, is_state("Pending")).await?;
        ensure!(
            found["canEverBeAdmitted"] == false
                && found["job"] == json!({"apiGroup": "", "kind": "Pod", "name": "crew"}),
            "{found}"
        );
        // A pod of a group is not admitted by itself.
        let told = refusal(get(scene, None, &of("pods", scene, "g-0")).await?)?;
        ensure!(told.contains("not found"), "{told}");

        let pause = json!({"spec": {"active": false}});
        let workload = scene.find_workload("held").await?.context("no Workload")?;
        scene.merge("Workload", name_of(&workload), pause).await?;
        see(scene, None, &held, is_state("Inactive")).await?;
        Ok(())
    })
    .await
}
