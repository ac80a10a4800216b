//! The tree of cohorts, asked of visibility.sluice.dev, and what the kubectl plugin shows of it and of those who wait.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::bed::{self, Bed};
use crate::support::objects::{self, Job, own_gate, quota};
use crate::support::plugin::run;
use crate::support::visibility::{free_port, get, options, register, see};
use crate::support::{Scene, refusal};

/// What a tree says of cpu in one node.
fn cpu(tree: &Value, name: &str, field: &str) -> Option<String> {
    let node = node(tree, name)?;
    let cpu = &node["flavors"][0]["resources"][0];
    Some(cpu[field].as_str()?.to_owned())
}

fn node<'a>(tree: &'a Value, name: &str) -> Option<&'a Value> {
    let mut nodes = tree["nodes"].as_array()?.iter();
    nodes.find(|node| node["name"] == name)
}

fn job(name: &str, queue: &str, cpu: &str) -> Job {
    Job::new(name).queue(queue).cpu(cpu)
}

/// A cohort of two ClusterQueues of four CPUs each: `q` borrows two of them, and `b` lends them.
async fn fill(scene: &Scene<'_>) -> Result<(String, String)> {
    let (family, other) = (scene.name("family"), scene.name("b"));
    let mut own = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "4")]);
    own["spec"]["cohortName"] = json!(family);
    scene.queue_like(own).await?;
    let mut lender = objects::cluster_queue(&other, &scene.ns, &[quota("cpu", "4")]);
    lender["spec"]["cohortName"] = json!(family);
    scene
        .create_all(&[lender, objects::local_queue("b", &other)])
        .await?;
    for (name, queue, cpu) in [("big", "q", "6"), ("small", "b", "1")] {
        let runs = job(name, queue, cpu).runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_admitted(name).await?;
    }
    let (gate, _) = own_gate(&scene.ns, "budget");
    scene
        .create(&job("held", "b", "1").gate(&gate).json())
        .await?;
    scene.create(&job("waits", "q", "2").json()).await?;
    Ok((family, other))
}

#[tokio::test]
async fn a_tree_says_who_borrows_from_whom_and_the_plugin_shows_it() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("quota-trees", options(port), async |bed, scene| {
        register(bed, port).await?;
        let (family, other) = fill(scene).await?;
        let of_queue = format!("clusterqueues/{}/tree", scene.ns);
        let tree = see(scene, None, &of_queue, |tree| {
            node(tree, &family)
                .is_some_and(|node| node["pendingWorkloads"] == 1 && node["gatedWorkloads"] == 1)
        })
        .await?;
        ensure!(
            tree["kind"] == "QuotaTree" && tree["nodes"][0]["kind"] == "Cohort",
            "{tree}"
        );
        for (name, field, expected) in [
            (&family, "quota", "8"),
            (&family, "used", "7"),
            (&scene.ns, "borrowed", "2"),
            (&scene.ns, "lent", "0"),
            (&other, "used", "1"),
            (&other, "lendable", "4"),
            (&other, "lent", "2"),
        ] {
            let found = cpu(&tree, name, field);
            ensure!(
                found.as_deref() == Some(expected),
                "{name}, {field}: {tree}"
            );
        }
        let of_cohort = get(scene, None, &format!("cohorts/{family}/tree")).await??;
        ensure!(of_cohort["nodes"] == tree["nodes"], "{of_cohort}");

        let bind = format!(
            "create rolebinding tenant -n {} --clusterrole=admin --user=tenant",
            scene.ns
        );
        scene
            .kubectl(&bind.split(' ').collect::<Vec<_>>(), None)
            .await?
            .ok()?;
        for (user, path, told) in [
            (
                Some("tenant"),
                &of_queue,
                "cannot get resource \"clusterqueues/tree\"",
            ),
            (
                None,
                &"cohorts/nowhere/tree".to_owned(),
                "cohorts.visibility.sluice.dev \"nowhere\" not found",
            ),
        ] {
            let refused = refusal(get(scene, user, path).await?)?;
            ensure!(refused.contains(told), "{path}: {refused}");
        }
        // What is listed of the API disturbs nobody who asks for the objects themselves.
        let listed = scene
            .kubectl(&["get", "clusterqueues,cohorts", "-A"], None)
            .await?
            .ok()?;
        ensure!(listed.contains(&other), "{listed}");

        see_shown(bed, scene, &family).await
    })
    .await
}

/// What a run without notes prints, word by word.
async fn ok(bed: &Bed, arguments: &str) -> Result<Vec<String>> {
    let (code, stdout, stderr) = run(bed, arguments).await?;
    ensure!((code, stderr.as_str()) == (0, ""), "{arguments}: {stderr}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(stdout.lines().map(words).collect())
}

async fn see_shown(bed: &Bed, scene: &Scene<'_>, family: &str) -> Result<()> {
    let status = ok(bed, "status").await?;
    let shown = |line: &str| status.iter().any(|found| found == line);
    ensure!(
        shown("QUEUE GATED PENDING ADMITTED RESOURCE USED QUOTA BORROWED LENT USAGE")
            && shown(&format!(
                "{family} (cohort) 1 1 cpu 7 8 ##################.."
            ))
            && shown(&format!(
                "{} 0 1 1 cpu 6 4 2 #############+++++++",
                scene.ns
            )),
        "{status:#?}"
    );
    let list = ok(bed, &format!("list -n {} -q q", scene.ns)).await?;
    ensure!(
        list[0] == "KIND NAME QUEUE STATE PLACE AHEAD SINCE REASON",
        "{list:#?}"
    );
    ensure!(
        list[1].starts_with("Job waits q Pending 1/1 0 "),
        "{list:#?}"
    );

    let explain = format!("explain job/waits -n {}", scene.ns);
    let told = ok(bed, &explain).await?;
    let flavor = &scene.ns;
    for line in [
        "Ahead: none in the ClusterQueue".to_owned(),
        format!("Lacking: cpu 1 in flavor {flavor}"),
        format!("{flavor} main WaitingForQuota cpu 2 1 1 8 Cohort"),
    ] {
        ensure!(told.contains(&line), "no {line:?} in {told:#?}");
    }
    // The one that was admitted last: both may have been in the same second.
    let ends = |name: &str| told.contains(&format!("Waits For: Job/{name}"));
    ensure!(ends("small") || ends("big"), "{told:#?}");
    let (_, json, _) = run(bed, &format!("{explain} -o json")).await?;
    let json: Value = serde_json::from_str(&json)?;
    ensure!(
        json["explanation"]["kind"] == "WorkloadExplanation",
        "{json}"
    );

    // Without the API the same commands know less, and say so.
    let args = ["delete", "apiservice", "v1alpha1.visibility.sluice.dev"];
    scene.kubectl(&args, None).await?.ok()?;
    for command in ["status", &explain, &format!("list -n {}", scene.ns)] {
        let (code, stdout, stderr) = run(bed, command).await?;
        ensure!(
            code == 0 && !stdout.is_empty(),
            "{command}: {stdout}{stderr}"
        );
        ensure!(
            stderr.starts_with("note: ")
                && stderr.lines().count() == 1
                && stderr.contains("visibility.sluice.dev"),
            "{command}: {stderr}"
        );
    }
    Ok(())
}
