//! Two tenants with a LocalQueue each and one ClusterQueue: whatever one of them writes, the other waits no
//! longer than its turn.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::support::objects::{self, GATED, GATES, Job, quota, with};
use crate::support::pods::Pod;
use crate::support::scale::scaled;
use crate::support::{Scene, bed};

/// What a tenant may leave behind, each of which comes before the other's jobs and can't run, now or ever.
fn nuisances() -> Vec<(&'static str, Vec<Value>)> {
    let job = |name: &str| Job::new(name).queue("q");
    let gates = json!([{"name": "example.com/mine"}]);
    let template_gates = ["spec", "template", "spec", "schedulingGates"];
    let finalizers = ["metadata", "finalizers"];
    // More than anybody looks at one by one.
    let many = scaled(200);
    let flood = (0..many).map(|n| job(&format!("flood-{n}")).cpu("3").json());
    let pods = (0..many).map(|n| Pod::new(&format!("pod-{n}")).queue("q").cpu("3").json());
    let groups = (0..many).map(|n| {
        let pod = Pod::new(&format!("member-{n}")).queue("q");
        pod.group(&format!("crew-{n}"), 2).json()
    });
    let claims = json!([{"name": "gpu", "resourceClaimTemplateName": "nowhere"}]);
    vec![
        ("more than there is", vec![job("large").cpu("3").json()]),
        (
            "more than can be counted in sum",
            vec![job("huge").cpu("1e18").pods(100_000).json()],
        ),
        (
            "a resource that nobody has",
            vec![job("foreign").request("example.com/none", "1").json()],
        ),
        (
            "a priority that is not there",
            vec![job("class").priority_class("nowhere").json()],
        ),
        (
            "a queue that is not there",
            vec![Job::new("lost").queue("nowhere").json()],
        ),
        (
            "a gate that nobody lifts",
            vec![
                job("gated").annotation(GATED, "example.com/never").json(),
                job("gates")
                    .annotation(GATES, "example.com/a,example.com/b")
                    .json(),
            ],
        ),
        (
            "pods with a gate that nobody lifts",
            vec![
                job("pods-gated").with(&template_gates, gates).json(),
                Pod::new("pod-gated")
                    .queue("q")
                    .scheduling_gate("example.com/mine")
                    .json(),
            ],
        ),
        (
            "a group that never is complete",
            vec![Pod::new("lonely").queue("q").group("crew", 5).json()],
        ),
        (
            "an owner that is not there",
            vec![with(
                job("orphan").cpu("3").json(),
                "/metadata/ownerReferences",
                json!([{"apiVersion": "no.example.com/v1", "kind": "Nothing", "name": "x",
                    "uid": "00000000-0000-4000-8000-000000000000", "controller": true}]),
            )],
        ),
        (
            "one that waits, is deleted and does not go",
            vec![
                job("stays")
                    .cpu("3")
                    .with(&finalizers, json!(["example.com/keep"]))
                    .json(),
            ],
        ),
        (
            "devices by a template that is not there",
            vec![
                job("claims")
                    .with(&["spec", "template", "spec", "resourceClaims"], claims)
                    .json(),
            ],
        ),
        ("a flood of jobs", flood.collect()),
        ("a flood of pods", pods.collect()),
        ("a flood of groups", groups.collect()),
    ]
}

/// Another tenant, who takes from the same ClusterQueue.
async fn neighbour(scene: &Scene<'static>) -> Result<Scene<'static>> {
    let other = Scene {
        cp: scene.cp,
        client: scene.client.clone(),
        ns: scene.cp.create_namespace("neighbour").await?,
    };
    other
        .create(&objects::local_queue("q", &scene.ns))
        .await
        .map(|_| other)
}

async fn nobody_waits_for_what_another_tenant_writes(strategy: &str) -> Result<()> {
    bed::shared("tenant", async |scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
        let queue = with(queue, "/spec/queueingStrategy", json!(strategy));
        scene.queue_like(queue).await?;
        let other = neighbour(scene).await?;
        for (index, (what, objects)) in nuisances().into_iter().enumerate() {
            scene
                .create_all(&objects)
                .await
                .with_context(|| what.to_owned())?;
            if what.contains("is deleted") {
                scene.see_workload("stays", "there", |_| true).await?;
                scene.delete("Job", "stays").await?;
            }
            let name = format!("fair-{index}");
            other
                .create(&Job::new(&name).queue("q").cpu("2").json())
                .await?;
            other
                .see_complete(&name)
                .await
                .with_context(|| what.to_owned())?;
        }
        let freed = json!({"metadata": {"finalizers": null}});
        scene.merge("Job", "stays", freed).await?;
        other.delete("Namespace", &other.ns).await
    })
    .await
}

#[tokio::test]
async fn best_effort_fifo_is_fair_to_tenants() -> Result<()> {
    nobody_waits_for_what_another_tenant_writes("BestEffortFIFO").await
}

#[tokio::test]
async fn strict_fifo_is_fair_to_tenants() -> Result<()> {
    nobody_waits_for_what_another_tenant_writes("StrictFIFO").await
}
