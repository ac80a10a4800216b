//! Values as long as the API server takes them, on pods that nobody is asked about at their creation: the status of such
//! a pod is written all the same, or it would hold what it has for ever.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sluice_crds::{MANAGED_LABEL, POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::enforcement::{Fate, enforce};
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATES, Job, quota, with};
use crate::support::persist::persist;
use crate::support::pods::Pod;
use crate::support::{Scene, into_value, refusal};

/// The annotations of an object have 256 KiB together.
const LONG: usize = 200_000;

both_ways!(
    a_status_is_written_whatever_is_on_the_pod,
    what_tells_a_group_is_not_longer_than_a_jobkind_can_say_it,
);

async fn see_status_written(scene: &Scene<'_>, pod: &str) -> Result<()> {
    let (api, params) = (scene.api("Pod"), PatchParams::default());
    let patch = Patch::Merge(json!({"status": {"message": "written"}}));
    let stored = persist(async || api.patch_status(pod, &params, &patch).await).await;
    let stored = into_value(stored.with_context(|| pod.to_owned())?);
    ensure!(stored["status"]["message"] == "written", "{pod}");
    Ok(())
}

async fn a_status_is_written_whatever_is_on_the_pod(admission: Admission) -> Result<()> {
    play(admission, "long-values", async |scene| {
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "above"}});
        let owner = scene.create(&owner).await?;
        let commas = ",".repeat(LONG);
        let grouped = Pod::new("grouped").annotation(POD_GROUP_LABELS_ANNOTATION, &commas);
        let managed = json!({(MANAGED_LABEL): "true"});
        scene
            .create(&with(grouped.json(), "/metadata/labels", managed))
            .await?;
        let gated = Pod::new("gated").annotation(GATES, &commas).json();
        let owners = controlled_by(&owner);
        scene
            .create(&with(gated, "/metadata/ownerReferences", owners))
            .await?;
        enforce(scene, Some("Hold"), Fate::Held).await?;
        see_status_written(scene, "grouped").await?;
        see_status_written(scene, "gated").await
    })
    .await
}

async fn what_tells_a_group_is_not_longer_than_a_jobkind_can_say_it(
    admission: Admission,
) -> Result<()> {
    play(admission, "long-marks", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for key in [POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION] {
            let pod = Pod::new("p").queue("q").annotation(key, &"a".repeat(1281));
            let told = refusal(scene.try_create(&pod.json()).await)?;
            let rule = format!("annotations[{key}]: Too long: may not be more than 1280 bytes");
            ensure!(told.contains(&format!("metadata.{rule}")), "{told}");
            let job = Job::new("j").queue("q").with(
                &["spec", "template", "metadata", "annotations", key],
                json!("a".repeat(1281)),
            );
            let told = refusal(scene.try_create(&job.json()).await)?;
            ensure!(
                told.contains(&format!("spec.template.metadata.{rule}")),
                "{told}"
            );
            scene
                .create(&with(
                    pod.annotation(key, &"a".repeat(1280)).json(),
                    "/metadata/name",
                    json!(format!("p-{}", key.len())),
                ))
                .await?;
        }
        Ok(())
    })
    .await
}
