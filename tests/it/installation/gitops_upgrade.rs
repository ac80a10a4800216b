//! From a version that kept the rules of declared kinds in the shipped webhook configurations: at no moment is a declared
//! kind not judged.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::installation::gitops::{apply, declare, see_born_held};
use crate::support::bed::{self, BINARY, Bed};
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene};
use sluice_testbed::SluiceOptions;

const KINDS: [(&str, &str); 2] = [
    (
        "validatingwebhookconfiguration",
        "validate.jobkinds.sluice.dev",
    ),
    ("mutatingwebhookconfiguration", "mutate.jobkinds.sluice.dev"),
];
/// The page that says what to do before, and under which heading.
const PAGE: &str = include_str!("../../../docs/installing.md");
const HEADING: &str = "### From versions without `sluice-declared`";

/// The configuration of this kind and name, as it is stored.
async fn get(scene: &Scene<'_>, kind: &str, name: &str) -> Result<Value> {
    let args = ["get", kind, name, "-o", "json"];
    Ok(serde_json::from_str(
        &scene.kubectl(&args, None).await?.ok()?,
    )?)
}

/// Whether a webhook asks about widgets.
fn names_widgets(webhook: &Value, widgets: &Widgets<'_>) -> bool {
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    rules.any(|rule| rule["apiGroups"] == json!([widgets.group]))
}

/// Makes the configurations what a leader of an earlier version leaves: its rules stand in the shipped ones, with a webhook
/// of a Gate, and there are no others.
async fn as_an_earlier_version_has_them(scene: &Scene<'_>, widgets: &Widgets<'_>) -> Result<()> {
    for (kind, name) in KINDS {
        let own = get(scene, kind, "sluice-declared").await?;
        let mut webhooks = own["webhooks"].as_array().into_iter().flatten();
        let declared = webhooks.find(|webhook| webhook["name"] == name);
        let rule = &declared.context("no webhook for declared kinds")?["rules"][0];
        let mut of_gate = get(scene, kind, "sluice").await?["webhooks"][0].clone();
        of_gate["name"] = json!("old.example.com.gates.sluice.dev");
        let patch = json!([
            {"op": "add", "path": "/webhooks/0/rules/-", "value": rule},
            {"op": "add", "path": "/webhooks/-", "value": of_gate},
        ]);
        let args = [
            "patch",
            kind,
            "sluice",
            "--type=json",
            // It is recorded as who has written the rules.
            "--field-manager=sluice",
            "-p",
            &patch.to_string(),
        ];
        scene.kubectl(&args, None).await?.ok()?;
        scene
            .kubectl(&["delete", kind, "sluice-declared"], None)
            .await?
            .ok()?;
    }
    see_born_held(scene, widgets, "the earlier rules to count").await
}

/// Says in the Lease that this process holds it, or nobody.
async fn write_lease(bed: &Bed, holder: &str) -> Result<()> {
    let now = format!("{:.6}", Timestamp::now());
    let spec =
        json!({"spec": {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": 15}});
    let lease = [
        "-n",
        "sluice-system",
        "patch",
        "lease",
        "sluice",
        "--type=merge",
        "-p",
    ];
    let spec = spec.to_string();
    let args = [&lease[..], &[spec.as_str()]].concat();
    bed.cp.kubectl(args, None).await?.ok().map(drop)
}

/// Leads as an earlier version: it renews its Lease, and writes nothing any more. Never ends.
async fn lead_as_an_earlier_version(bed: &Bed) -> Result<()> {
    loop {
        write_lease(bed, "earlier").await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

/// Creates widgets that are not suspended, all the time. Ends if one is not held.
async fn create_widgets(widgets: &Widgets<'_>, created: &std::cell::Cell<u32>) -> Result<()> {
    loop {
        let name = format!("widget-{}", created.get());
        let widget = widgets.create_running(&name, true).await?;
        ensure!(widget["spec"]["halted"] == true, "not held: {widget}");
        created.set(created.get() + 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Runs the commands of the page.
async fn copy_before(bed: &Bed) -> Result<()> {
    let (_, section) = PAGE.split_once(HEADING).context("no such heading")?;
    let (_, block) = section.split_once("```console\n").context("no block")?;
    let (block, _) = block.split_once("\n```").context("no end of the block")?;
    let lines = block
        .lines()
        .map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let script: Vec<&str> = lines.collect();
    let mut command = tokio::process::Command::new("sh");
    command.args(["-e", "-c", &script.join("\n")]);
    command.env("PATH", bed.cp.path()?);
    command.env("KUBECONFIG", bed.cp.kubeconfig());
    let output = tokio::time::timeout(DEADLINE, command.output()).await??;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script:#?}: {stderr}");
    Ok(())
}

/// Waits until the rules are where they belong.
async fn see_moved(scene: &Scene<'_>, widgets: &Widgets<'_>) -> Result<()> {
    eventually("the rules to be moved", DEADLINE, async || {
        for (kind, name) in KINDS {
            let shipped = get(scene, kind, "sluice").await?;
            let webhooks = shipped["webhooks"].as_array().context("no webhooks")?;
            ensure!(!names_widgets(&webhooks[0], widgets), "{shipped}");
            ensure!(
                webhooks
                    .iter()
                    .all(|webhook| !webhook["name"].to_string().contains("gates")),
                "{shipped}"
            );
            let own = get(scene, kind, "sluice-declared").await?;
            let webhooks = own["webhooks"].as_array().context("no webhooks")?;
            ensure!(
                webhooks[0]["name"] == name && names_widgets(&webhooks[0], widgets),
                "{own}"
            );
            let owner = &own["metadata"]["ownerReferences"][0]["uid"];
            assert_eq!(owner, &shipped["metadata"]["uid"]);
        }
        Ok(())
    })
    .await
}

/// Plays with a Sluice that waits for the Lease of an earlier version, while widgets are created.
async fn upgraded(
    prefix: &str,
    upgrade: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>,
) -> Result<()> {
    bed::own_unsupervised(
        prefix,
        SluiceOptions::new(BINARY),
        async |bed: &Bed, scene: &Scene<'_>| {
            let widgets = declare(scene).await?;
            bed.sluice.stop().await?;
            // Before it starts: else it would lead again, and end when it loses the Lease.
            write_lease(bed, "earlier").await?;
            let created = std::cell::Cell::new(0);
            tokio::select! {
                failed = lead_as_an_earlier_version(bed) => failed?,
                prepared = async {
                    bed.sluice.start_again().await?;
                    as_an_earlier_version_has_them(scene, &widgets).await
                } => prepared?,
            }
            tokio::select! {
                failed = create_widgets(&widgets, &created) => failed?,
                upgraded = async {
                    tokio::select! {
                        failed = lead_as_an_earlier_version(bed) => failed?,
                        upgraded = upgrade(bed, scene) => upgraded?,
                    }
                    write_lease(bed, "").await?;
                    see_moved(scene, &widgets).await
                } => upgraded?,
            }
            ensure!(
                created.get() > 20,
                "only {} widgets were created",
                created.get()
            );
            scene
                .see_condition("JobKind", &scene.ns, "Ready", "True", "Watched")
                .await?;
            let manifests = bed.sluice.manifests(&bed.cp).await?;
            let changed = apply(bed, &manifests).await?;
            ensure!(changed.is_empty(), "{changed:#?}");
            Ok(())
        },
    )
    .await
}

/// What the page says, and then the manifests, which take the rules of the earlier version away.
#[tokio::test]
async fn with_a_copy_the_manifests_take_nothing_away() -> Result<()> {
    upgraded("upgrade-copy", async |bed, _| {
        copy_before(bed).await?;
        let manifests = bed.sluice.manifests(&bed.cp).await?;
        let changed = apply(bed, &manifests).await?;
        ensure!(
            changed.len() == 2,
            "both webhook configurations: {changed:#?}"
        );
        Ok(())
    })
    .await
}

/// Where the process is upgraded before the manifests: the shipped configurations keep the rules until Sluice's own are
/// known.
#[tokio::test]
async fn rules_are_moved_before_they_are_taken_away() -> Result<()> {
    upgraded("upgrade-move", async |_, _| Ok(())).await
}
