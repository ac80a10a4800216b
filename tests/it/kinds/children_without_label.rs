//! Children of queued objects that name no queue, as most operators make them: they draw on what their owner was
//! admitted with like those that do, and are found after a restart too.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, RUN_SECONDS, SluiceOptions};

use super::owners::mk_kinds;
use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{Job, is_suspended, quota, with};
use crate::support::{Scene, bed};

/// A Job in no queue that names `owner` as its controller, with one pod of 250m.
fn mk_part(name: &str, owner: &Value) -> Value {
    let mut part = with(
        Job::new(name).json(),
        "/metadata/ownerReferences",
        controlled_by(owner),
    );
    let pod = &mut part["spec"]["template"];
    pod["metadata"]["annotations"] = json!({ RUN_SECONDS: "forever" });
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("250m");
    part["spec"]["completions"] = json!(8);
    part
}

/// Waits until a part is suspended that was grown to so many pods.
async fn see_held(scene: &Scene<'_>, part: &str, root: &str) -> Result<()> {
    scene.see("Job", part, "held", is_suspended).await?;
    let told = scene.see_event(part, "ExceedsOwner").await?;
    assert_eq!(
        told,
        format!(
            "Suspended: it requests cpu 2, and {root}, to which it belongs, holds quota for 1; increase the requests of that object, or create this object without the owner reference, so that it is queued by itself"
        )
    );
    Ok(())
}

#[tokio::test]
async fn a_part_without_the_label_runs_on_what_its_owner_was_admitted_with() -> Result<()> {
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own(
        "owner-unlabelled",
        sluice,
        Options::default(),
        async |bed, scene| {
            bed.sluice.start().await?;
            bed::see_leading(scene).await?;
            scene.queue(&[quota("cpu", "3")]).await?;
            let (crew, _) = mk_kinds(scene).await?;
            let fleet = MadeUp::new(scene, "Fleet").makes(&crew.group, "Crew");
            fleet.install(scene).await?;

            let first = crew.create(scene, &crew.queued("first")).await?;
            crew.see_released(scene, "first").await?;
            let top = fleet.create(scene, &fleet.queued("top")).await?;
            fleet.see_released(scene, "top").await?;
            let middle = with(
                crew.object("middle"),
                "/metadata/ownerReferences",
                controlled_by(&top),
            );
            let middle = crew.create(scene, &middle).await?;
            let alone = crew.create(scene, &crew.object("alone")).await?;
            let parts = [
                ("direct", &first),
                ("below", &middle),
                ("later", &first),
                ("free", &alone),
            ];
            for (name, owner) in parts {
                scene.create(&mk_part(name, owner)).await?;
            }
            scene.see_pods("Running", 4).await?;

            let grown = json!({"spec": {"parallelism": 8}});
            for (name, root) in [("direct", "Crew \"first\""), ("below", "Fleet \"top\"")] {
                scene.merge("Job", name, grown.clone()).await?;
                see_held(scene, name, root).await?;
            }
            // Nothing above it is queued.
            scene.merge("Job", "free", grown.clone()).await?;
            scene.see_pods("Running", 9).await?;

            bed.sluice.kill();
            scene.merge("Job", "later", grown).await?;
            bed.sluice.start_again().await?;
            see_held(scene, "later", "Crew \"first\"").await?;
            ensure!(!is_suspended(&scene.get("Job", "free").await?));
            Ok(())
        },
    )
    .await
}
