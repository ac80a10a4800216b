//! The policies that `sluice config policies` makes of a configuration, for those without webhooks; and what the shipped
//! policies report.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use sluice_testbed::eventually;

use crate::support::admission::{Admission, own_with_policies, play};
use crate::support::bed::BINARY;
use crate::support::enforcement::{Fate, cron_job, enforce, fate_of, see_fate};
use crate::support::objects::{Job, is_suspended};
use crate::support::pods::{Pod, gates};
use crate::support::{DEADLINE, Scene};

const HEADER: &str = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\n";

/// What the command prints for these fields, and what it tells besides; and whether it ends well.
fn policies(fields: &str) -> Result<(bool, String, String)> {
    let job_kinds = concat!(env!("CARGO_MANIFEST_DIR"), "/config/jobkinds");
    let mut command = Command::new(BINARY);
    command.args(["config", "policies", "--jobkinds", job_kinds, "-"]);
    let mut command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = command.stdin.take().context("no input")?;
    std::io::Write::write_all(&mut input, format!("{HEADER}{fields}").as_bytes())?;
    drop(input);
    let output = command.wait_with_output()?;
    let [printed, told] = [output.stdout, output.stderr].map(String::from_utf8);
    Ok((output.status.success(), printed?, told?))
}

#[test]
fn the_shipped_policies_are_those_of_the_default_configuration() -> Result<()> {
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/config/policies/manifests.yaml"
    );
    let (is_made, printed, told) = policies("")?;
    ensure!(is_made && printed == std::fs::read_to_string(shipped)?);
    ensure!(told.is_empty(), "{told}");
    Ok(())
}

#[test]
fn what_policies_can_not_do_is_told() -> Result<()> {
    let (is_made, printed, told) =
        policies("managedNamespaces: {exceptions: [{users: [a]}, {when: 'pods == 1'}]}\n")?;
    ensure!(!is_made && printed.is_empty(), "{printed}");
    let expected = "managedNamespaces.exceptions[1].when: Invalid value: \"pods == 1\": policies can't evaluate it, as they know no requests, pods and priority";
    ensure!(told.starts_with(expected), "{told}");
    let (is_made, printed, told) = policies("aliasPresets: [Volcano]\n")?;
    ensure!(is_made && printed.starts_with("# "), "{told}");
    let expected = "Warning: queueAnnotationAliases, aliasPresets: policies don't read annotations that name a queue (scheduling.volcano.sh/queue-name): where a queue is required, an object needs the label\n";
    ensure!(told == expected, "{told}");
    Ok(())
}

async fn label(scene: &Scene<'_>, key: &str, value: Option<&str>) -> Result<()> {
    let labels = json!({"metadata": {"labels": {key: value}}});
    scene.merge("Namespace", &scene.ns, labels).await?;
    Ok(())
}

#[tokio::test]
async fn policies_go_by_the_configuration_that_they_are_made_of() -> Result<()> {
    let fields = "
queueLabelAliases: [acme.io/queue]
managedNamespaces:
  selector: {matchLabels: {team: a}, matchExpressions: [{key: env, operator: NotIn, values: [dev]}]}
  unlabelled: Default
  defaultLocalQueue: batch
  exceptions:
  - users: [ann]
  - groups: [tests:probers]
    when: \"user != 'eve'\"
  - when: \"object.metadata.name.startsWith('debug-')\"
  - users: ['system:serviceaccount:kube-system:cronjob-controller']
";
    own_with_policies("enf-made", async |bed, scene| {
        let (is_made, manifests, told) = policies(fields)?;
        ensure!(is_made, "{told}");
        let apply = ["apply", "-f", "-"];
        bed.cp.kubectl(apply, Some(&manifests)).await?.ok()?;
        label(scene, "team", Some("a")).await?;
        see_fate(scene, Fate::Defaulted).await?;
        let stored = scene.create(&Job::new("j").json()).await?;
        let queue = &stored["metadata"]["labels"]["sluice.dev/queue-name"];
        ensure!(queue == "batch" && is_suspended(&stored), "{stored}");
        // The API server hears of one policy after the other, within a second.
        let pod = Pod::new("p").json().to_string();
        eventually("a pod to be given its queue", DEADLINE, async || {
            let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
            let stored = scene.kubectl(&args, Some(&pod)).await?.ok()?;
            let stored = serde_json::from_str(&stored)?;
            ensure!(
                fate_of(&stored) == Fate::Defaulted && !gates(&stored).is_empty(),
                "{stored}"
            );
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        // An alias names a queue.
        let aliased = Job::new("aliased").label("acme.io/queue", "other");
        let stored = scene.create(&aliased.json()).await?;
        ensure!(
            fate_of(&stored) == Fate::Left && is_suspended(&stored),
            "{stored}"
        );
        // The label of the namespace goes before the configuration, and its exceptions count there too.
        enforce(scene, Some("Refuse"), Fate::Refused).await?;
        see_exceptions(scene).await?;
        enforce(scene, Some("Ignore"), Fate::Left).await?;
        enforce(scene, None, Fate::Defaulted).await?;
        label(scene, "env", Some("dev")).await?;
        see_fate(scene, Fate::Left).await
    })
    .await
}

/// Who, and what, needs no queue.
async fn see_exceptions(scene: &Scene<'_>) -> Result<()> {
    let stored = scene.create(&Job::new("debug-1").json()).await?;
    ensure!(fate_of(&stored) == Fate::Left, "{stored}");
    // Its Jobs are covered, whoever makes it.
    let cron = cron_job("c", json!({}), &Job::new("")).to_string();
    scene
        .kubectl(&["create", "-f", "-"], Some(&cron))
        .await?
        .ok()?;
    for user in ["ann", "bob", "eve"] {
        scene.let_edit(user).await?;
    }
    let create = async |name: &str, who: &[&str]| {
        let job = Job::new(name).manifest();
        let args = [&["create", "-f", "-"], who].concat();
        scene.kubectl(&args, Some(&job)).await
    };
    create("of-ann", &["--as=ann"]).await?.ok()?;
    create("of-bob", &["--as=bob", "--as-group=tests:probers"])
        .await?
        .ok()?;
    for who in [&["--as=bob"][..], &["--as=eve", "--as-group=tests:probers"]] {
        let told = create("refused", who).await?.err()?;
        ensure!(told.contains("requires a queue"), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_dry_run_warns_without_webhooks() -> Result<()> {
    play(Admission::Policies, "enf-dry-policies", async |scene| {
        label(scene, "sluice.dev/enforcement", Some("DryRun")).await?;
        let warning = format!(
            "namespace \"{}\" will require a queue: this object would be held; set metadata.labels[sluice.dev/queue-name] to the name of a LocalQueue of the namespace",
            scene.ns
        );
        let queued = Job::new("queued").queue("q").manifest();
        for (manifest, is_told) in [
            (Job::new("j").manifest(), true),
            (Pod::new("p").json().to_string(), true),
            (queued, false),
        ] {
            eventually("a warning", DEADLINE, async || {
                let args = ["create", "-f", "-", "--dry-run=server"];
                let output = scene.kubectl(&args, Some(&manifest)).await?;
                ensure!(output.code == 0, "{}", output.stderr);
                ensure!(output.stderr.contains(&warning) == is_told, "{}", output.stderr);
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        see_fate(scene, Fate::Left).await
    })
    .await
}
