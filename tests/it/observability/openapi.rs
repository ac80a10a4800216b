//! visibility.sluice.dev for kubectl, through the API server: what its OpenAPI documents say.

use anyhow::{Result, ensure};
use sluice_testbed::eventually;

use crate::support::DEADLINE;
use crate::support::bed::{self, Bed};
use crate::support::objects::quota;
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
