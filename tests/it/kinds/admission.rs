//! A JobKind is held against the published schema of its kind when it is applied, so that a typo is
//! told before any object is misread.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gates::kubectl::kubectl_answered;
use crate::support::objects::with;
use crate::support::persist::answered;
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene, bed, by_objects_webhook, refusal};

/// Waits until the JobKind is refused, and returns the words: the schema of a CRD is published a
/// moment after the CRD is established. Where it can't be looked up in time, the JobKind is taken with a
/// warning.
async fn see_refused(scene: &Scene<'_>, kind: &Value) -> Result<String> {
    let manifest = kind.to_string();
    let args = ["create", "--dry-run=server", "-f", "-"];
    eventually("the JobKind to be refused", DEADLINE, async || {
        let output = kubectl_answered(async || scene.kubectl(&args, Some(&manifest)).await);
        output.await?.err()
    })
    .await
}

/// Waits until the JobKind would be taken with such words: where its schema can't be looked up in time, the
/// words are others.
async fn see_taken(
    scene: &Scene<'_>,
    kind: &Value,
    are_right: impl Fn(&str) -> bool,
) -> Result<()> {
    let manifest = kind.to_string();
    let args = ["create", "--dry-run=server", "-f", "-"];
    eventually("the JobKind to be taken", DEADLINE, async || {
        let output = scene.kubectl(&args, Some(&manifest)).await?;
        let told = output.stderr.clone();
        output.ok()?;
        ensure!(are_right(&told), "{told}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_does_not_fit_the_schema_is_refused() -> Result<()> {
    bed::shared("schema-refused", async |scene| {
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        let kind = widgets.job_kind();
        let table = [
            (
                "/spec/suspend",
                ".spec.paused",
                "spec.suspend: Invalid value: \".spec.paused\": there is no field \"paused\" in .spec: \
                 there are halted, size, template",
            ),
            (
                "/spec/suspend",
                ".spec.size",
                "spec.suspend: Invalid value: \".spec.size\": must name a boolean field: this one is an \
                 integer",
            ),
            (
                "/spec/podSets/0/template",
                ".spec.size",
                "spec.podSets[0].template: Invalid value: \".spec.size\": must name a pod template: \
                 this field has no spec.containers",
            ),
            (
                "/spec/podSets/0/count",
                "object.spec.sise",
                "spec.podSets[0].count: Invalid value: \"object.spec.sise\": there is no field \"sise\" in \
                 .spec: there are halted, size, template at 1:1",
            ),
        ];
        for (pointer, value, problem) in table {
            let told = see_refused(scene, &with(kind.clone(), pointer, json!(value))).await?;
            let refused = by_objects_webhook(problem);
            ensure!(told.contains(&refused), "{told}");
        }
        // The same by an edit, and what is right is taken without a word.
        see_taken(scene, &kind, |told| !told.contains("Warning")).await?;
        scene.create(&kind).await?;
        let edit = Patch::Merge(json!({"spec": {"suspend": ".spec.paused"}}));
        let dry_run = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let api = scene.api("JobKind");
        let told = eventually("the edit to be refused", DEADLINE, async || {
            refusal(answered(async || api.patch(&scene.ns, &dry_run, &edit).await).await?)
        })
        .await?;
        assert_eq!(told, by_objects_webhook(table[0].2));
        scene.delete("JobKind", &scene.ns).await?;
        widgets.delete_crd().await
    })
    .await
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_taken_with_a_warning() -> Result<()> {
    bed::shared("schema-warned", async |scene| {
        let widgets = Widgets::new(scene);
        let kind = with(
            widgets.job_kind(),
            "/spec/suspend",
            json!(".spec.paused"),
        );
        let warning = format!(
            "Warning: Widget of {}/v1 is not served yet, so no path was checked; the condition Ready becomes true when it is watched",
            widgets.group
        );
        see_taken(scene, &kind, |told| told.contains(&warning)).await?;
        scene.create(&kind).await?;
        // What nobody could tell then is told when the CRD comes.
        widgets.serve().await?;
        let told = scene
            .see_condition("JobKind", &scene.ns, "Ready", "False", "SchemaMismatch")
            .await?;
        ensure!(told.contains("there is no field \"paused\""), "{told}");
        scene.delete("JobKind", &scene.ns).await?;
        widgets.delete_crd().await
    })
    .await
}
