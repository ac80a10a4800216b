//! The cluster that the page shows: queues, jobs and gates of one tenant, and of another that he must not see. There is no
//! Sluice: statuses are written by hand.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::{Component, ControlPlane, Options};

use crate::live_cluster::{job, own, set_status, setting, workload};

/// A control plane with two tenants.
pub(super) struct Cluster {
    pub(super) cp: ControlPlane,
    /// The namespace of the one who looks.
    pub(super) own: String,
    /// The namespace of the other one.
    pub(super) other: String,
    /// The one who looks.
    pub(super) tenant: PathBuf,
}

impl Cluster {
    pub(super) async fn start() -> Result<Self> {
        let options = Options {
            without: vec![Component::Scheduler, Component::Kwok],
            ..Options::with_crds()?
        };
        let cp = ControlPlane::start(options).await?;
        let own = cp.create_namespace("blue").await?;
        let other = cp.create_namespace("red").await?;
        setting(&cp, &own).await?;
        gates(&cp, &own).await?;
        hidden(&cp, &other).await?;
        let tenant = cp.service_account_kubeconfig(&own, "tenant").await?;
        Ok(Self {
            cp,
            own,
            other,
            tenant,
        })
    }
}

async fn apply(cp: &ControlPlane, items: &Value) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let apply = ["apply", "--server-side", "-f", "-"];
    cp.kubectl(apply, Some(&list.to_string()))
        .await?
        .ok()
        .map(drop)
}

/// A gate that holds a job of the tenant, one that he has lifted, and texts that are no markup.
async fn gates(cp: &ControlPlane, ns: &str) -> Result<()> {
    let mut held = job(ns, "held");
    held["metadata"]["annotations"] =
        json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/budget"});
    let spec = json!({"description": "<img src=x> & <b>no markup</b>", "contact": "#finops",
        "deadline": {"seconds": 3600, "onExpiry": "Notify"}});
    apply(
        cp,
        &json!([own("Gate", &json!({"name": "budget.acme.io"}), &spec), held]),
    )
    .await?;
    let object = json!({"kind": "Job.batch", "namespace": ns, "name": "held", "since": "2026-01-01T00:00:00Z"});
    let status = json!({"held": 1, "oldestSince": "2026-01-01T00:00:00Z", "oldest": [object], "conditions": []});
    set_status(cp, ns, "gate/budget.acme.io", &status).await?;
    let gated = json!({"kind": "Job.batch", "name": "held", "gates": ["acme.io/budget"], "since": "2026-01-01T00:00:00Z"});
    set_status(
        cp,
        ns,
        "localqueue/main",
        &json!({"gatedWorkloads": 1, "oldestGated": [gated]}),
    )
    .await?;
    let uid = [
        "get",
        "job",
        "runs",
        "-n",
        ns,
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    let uid = cp.kubectl(uid, None).await?.ok()?;
    let lifted = json!([{"gate": "acme.io/budget", "by": "jane", "at": "2026-01-01T00:00:00Z", "uid": uid.trim()}]);
    let annotation = format!("sluice.dev/lifted-gates={lifted}");
    let annotate = ["annotate", "job", "runs", "-n", ns, &annotation];
    cp.kubectl(annotate, None).await?.ok().map(drop)
}

/// The same of the other tenant, in the same ClusterQueue, and with names that are found in any answer.
async fn hidden(cp: &ControlPlane, ns: &str) -> Result<()> {
    let queue = json!({"clusterQueue": "team-a"});
    let queue = own(
        "LocalQueue",
        &json!({"name": "hidden-queue", "namespace": ns}),
        &queue,
    );
    let cluster_queue = own(
        "ClusterQueue",
        &json!({"name": "hidden-cluster"}),
        &json!({"resourceGroups": []}),
    );
    apply(
        cp,
        &json!([
            queue,
            cluster_queue,
            job(ns, "hidden-job"),
            job(ns, "hidden-gated")
        ]),
    )
    .await?;
    let uid = [
        "get",
        "job",
        "hidden-job",
        "-n",
        ns,
        "-o",
        "jsonpath={.metadata.uid}",
    ];
    let uid = cp.kubectl(uid, None).await?.ok()?;
    let mut waits = workload(ns, "hidden-job", uid.trim(), 0);
    waits["spec"]["queueName"] = json!("hidden-queue");
    apply(cp, &json!([waits])).await?;
    let gated = json!({"kind": "Job.batch", "name": "hidden-gated", "gates": ["acme.io/hidden"],
        "since": "2026-01-01T00:00:00Z"});
    let status = json!({"gatedWorkloads": 1, "pendingWorkloads": 1, "oldestGated": [gated]});
    set_status(cp, ns, "localqueue/hidden-queue", &status).await
}
