//! Parts of other projects in the test bed: their CRDs, and their real operators without Sluice.

use anyhow::Result;
use sluice_testbed::{ControlPlane, Crds, Options};

#[tokio::test]
async fn crds_of_other_projects_are_served() -> Result<()> {
    // Its own: those of the MPI operator don't go with others.
    let cp = ControlPlane::start(Options {
        nodes: 0,
        manifests: Crds::manifests(&Crds::TOGETHER)?,
        ..Options::default()
    })
    .await?;
    let get = async |resource: &str| cp.kubectl(["get", resource, "-A"], None).await?.ok();
    for resource in [
        "pytorchjobs.v1.kubeflow.org",
        "tfjobs.v1.kubeflow.org",
        "mpijobs.v1.kubeflow.org",
        "trainjobs.trainer.kubeflow.org",
        "clustertrainingruntimes.trainer.kubeflow.org",
        "jobsets.jobset.x-k8s.io",
        "rayjobs.ray.io",
        "rayclusters.ray.io",
        "appwrappers.workload.codeflare.dev",
        "leaderworkersets.leaderworkerset.x-k8s.io",
        "workflows.argoproj.io",
        "sparkapplications.sparkoperator.k8s.io",
    ] {
        get(resource).await?;
    }
    cp.kubectl(["delete", "crd", "mpijobs.kubeflow.org"], None)
        .await?
        .ok()?;
    cp.install_crds(&[Crds::MpiOperator]).await?;
    get("mpijobs.v2beta1.kubeflow.org").await?;
    Ok(())
}
