//! visibility.sluice.dev for kubectl, through the API server: what its OpenAPI documents say.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_testbed::eventually;

use crate::support::DEADLINE;
use crate::support::bed::{self, Bed};
use crate::support::objects::{Job, quota};
use crate::support::visibility::{free_port, options, register, see};

const API_SERVICE: &str = "v1alpha1.visibility.sluice.dev";
const API_VERSION: &str = "--api-version=visibility.sluice.dev/v1alpha1";

/// What the API server says of its OpenAPI documents and this API in its log.
fn told_of_openapi(bed: &Bed) -> Result<Vec<String>> {
    let log = std::fs::read_to_string(bed.cp.dir().join("kube-apiserver.log"))?;
    let lines = log.lines().filter(|line| {
        line.contains(API_SERVICE) && (line.contains("OpenAPI") || line.contains("download"))
    });
    Ok(lines.map(str::to_owned).collect())
}

#[tokio::test]
async fn kubectl_explains_what_is_answered_and_the_api_server_finds_all_documents() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("openapi", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let all = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        see(scene, None, &all, |found| found["total"] == 0).await?;
        // Version 2 is a part of the API server's own document.
        let kind = "dev.sluice.visibility.v1alpha1.WorkloadExplanation";
        eventually(
            "the API server to have both documents",
            DEADLINE,
            async || {
                let args = ["get", "--raw", "/openapi/v2"];
                let merged = scene.kubectl(&args, None).await?.ok()?;
                ensure!(merged.contains(kind), "not in /openapi/v2");
                let args = ["get", "--raw", "/openapi/v3"];
                let index = scene.kubectl(&args, None).await?.ok()?;
                ensure!(
                    index.contains("apis/visibility.sluice.dev/v1alpha1"),
                    "{index}"
                );
                Ok(())
            },
        )
        .await?;
        let before = told_of_openapi(bed)?;
        for (asked, told) in [
            (
                "localqueues",
                [
                    "KIND:       LocalQueue",
                    "only subresources are served: pendingworkloads",
                ],
            ),
            (
                "localqueues.pendingworkloads.items",
                [
                    "positionInClusterQueue",
                    "How many of the ClusterQueue are before it",
                ],
            ),
            (
                "clusterqueues.pendingworkloads",
                [
                    "total\t<integer> -required-",
                    "How many wait in the queue, on whatever page",
                ],
            ),
            (
                "clusterqueues.tree.nodes.flavors.resources",
                ["lendable\t<string>", "What it lends its parent at most"],
            ),
            (
                "cohorts.tree",
                ["nodes\t<[]Object>", "cohorts before what is in them"],
            ),
            (
                "workloads.explanation",
                ["canEverBeAdmitted\t<boolean>", "if nothing else used quota"],
            ),
            (
                "workloads.estimate",
                [
                    "percent\t<integer>",
                    "so many are to start within the range",
                ],
            ),
            (
                "pods.explanation.state",
                ["ENUM:\n    Gated", "gates hold it before its queue"],
            ),
        ] {
            let args = ["explain", asked, API_VERSION];
            let explained = scene.kubectl(&args, None).await?.ok()?;
            // Lines are broken to fit.
            let words = explained.split_whitespace().collect::<Vec<_>>().join(" ");
            for text in told {
                let is_there = explained.contains(text) || words.contains(text);
                ensure!(is_there, "{asked}: no {text:?} in {explained}");
            }
        }
        let after = told_of_openapi(bed)?;
        ensure!(before == after, "{after:?}");
        let none = after.iter().all(|line| !line.contains("not found"));
        ensure!(none, "{after:?}");
        Ok(())
    })
    .await
}

/// What is asked for, and the lines that are shown: of each the cells that are in it, in order.
type Shown<'a> = (&'static str, &'a str, &'static str, Vec<Vec<&'a str>>);

/// What is shown of a job that waits in the LocalQueue `q` behind another one.
fn tables<'a>(ns: &'a str, found: &'a str, local_queue: &'a str) -> Vec<Shown<'a>> {
    vec![
        (
            "localqueues",
            "q",
            "pendingworkloads",
            vec![
                vec![
                    "NAME",
                    "JOB",
                    "LOCAL QUEUE",
                    "PRIORITY",
                    "BEFORE",
                    "WAITING",
                    "REASON",
                ],
                vec![
                    found,
                    "Job/waits",
                    local_queue,
                    "0",
                    "0",
                    "s",
                    "WaitingForQuota",
                ],
            ],
        ),
        (
            "clusterqueues",
            ns,
            "pendingworkloads",
            vec![vec!["NAME", "JOB"], vec![found, "Job/waits"]],
        ),
        (
            "workloads",
            found,
            "estimate",
            vec![
                vec!["NAME", "JOB", "EARLIEST", "LATEST", "REASON"],
                vec![found, "Job/waits"],
            ],
        ),
        (
            "workloads",
            found,
            "explanation",
            vec![
                vec![
                    "NAME",
                    "JOB",
                    "STATE",
                    "REASON",
                    "CLUSTER QUEUE",
                    "BEFORE",
                    "SINCE",
                ],
                vec![
                    found,
                    "Job/waits",
                    "Pending",
                    "WaitingForQuota",
                    ns,
                    "0",
                    "s",
                ],
            ],
        ),
        (
            "clusterqueues",
            ns,
            "tree",
            vec![
                vec![
                    "NAME",
                    "KIND",
                    "WAITING",
                    "RESERVING",
                    "FLAVOR",
                    "RESOURCE",
                    "USED",
                    "QUOTA",
                ],
                vec![ns, "ClusterQueue", "1", "1", ns, "cpu", "1", "1", "0", "0"],
            ],
        ),
    ]
}

#[tokio::test]
async fn kubectl_get_shows_a_table_of_what_is_answered() -> Result<()> {
    let port = free_port()?;
    bed::own_running_with("visibility-tables", options(port), async |bed, scene| {
        register(bed, port).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = |name: &str| Job::new(name).queue("q").cpu("1");
        scene.create(&job("runs").runs_forever().json()).await?;
        scene.see_admitted("runs").await?;
        scene.create(&job("waits").json()).await?;
        let queue = format!("clusterqueues/{}/pendingworkloads", scene.ns);
        let is_told = |found: &Value| found["items"][0]["reason"] == "WaitingForQuota";
        let waiting = see(scene, None, &queue, is_told).await?;
        let workload = waiting["items"][0]["metadata"]["name"].as_str();
        let workload = workload.unwrap_or_default();
        let local_queue = format!("{}/q", scene.ns);
        let (ns, found) = (scene.ns.as_str(), workload);
        for (resource, name, subresource, lines) in tables(ns, found, &local_queue) {
            let resource = format!("{resource}.visibility.sluice.dev");
            let subresource = format!("--subresource={subresource}");
            let args = ["get", &resource, name, &subresource];
            let shown = scene.kubectl(&args, None).await?.ok()?;
            ensure!(shown.lines().count() == lines.len(), "{resource}: {shown}");
            for (line, cells) in shown.lines().zip(lines) {
                let mut rest = line;
                for cell in cells {
                    let (_, behind) = rest.split_once(cell).with_context(|| {
                        format!("{resource}: {cell:?} is not where it belongs in {shown}")
                    })?;
                    rest = behind;
                }
            }
        }
        // By their short names they are what they have always been.
        let shown = scene
            .kubectl(&["get", "localqueues", "q"], None)
            .await?
            .ok()?;
        ensure!(!shown.contains("LOCAL QUEUE"), "{shown}");
        let args = ["get", "localqueues.visibility.sluice.dev", "q"];
        let told = scene.kubectl(&args, None).await?.err()?;
        let expected =
            "Of localqueues.visibility.sluice.dev only subresources are served: pendingworkloads.";
        ensure!(told.contains(expected), "{told}");
        Ok(())
    })
    .await
}
