//! The configuration file: checked without a cluster, changed under a running controller, and rolled out.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use sluice_testbed::{SluiceOptions, eventually};

use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY};
use crate::support::objects::{self, Job, quota};

const VALID: &str = "\nsluice_config_last_reload_successful 1\n";
const NO_RESTART: &str = "\nsluice_config_restart_required 0\n";

/// What `sluice config check -` says to this text.
fn check(text: &str, args: &[&str]) -> Result<Output> {
    let mut process = Command::new(BINARY)
        .args(["config", "check", "-"])
        .args(args)
        .env_remove("SLUICE_CONFIG")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    process
        .stdin
        .take()
        .context("no stdin")?
        .write_all(text.as_bytes())?;
    Ok(process.wait_with_output()?)
}

/// The console block of the page is what the command prints.
#[test]
fn a_bad_file_is_refused_with_a_line_for_each_problem() -> Result<()> {
    let file = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\nfairShare: {}\n\
        undeclaredResources: Allow\nadmissionFairSharing: {usageHalfLifeTime: a week}\n";
    let output = check(file, &[])?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    let told = String::from_utf8(output.stdout)?;
    let page = include_str!("../../../docs/configuration.md");
    let (_, shown) = page
        .split_once("$ sluice config check config.yaml\n")
        .context("no example")?;
    let (shown, _) = shown.split_once("```").context("no end")?;
    assert_eq!(told, shown);
    Ok(())
}

#[test]
fn a_good_file_is_shown_with_its_defaults() -> Result<()> {
    let file = "apiVersion: config.sluice.dev/v1alpha1\nkind: Configuration\nfairSharing: {}\n";
    let output = check(file, &[])?;
    ensure!(output.status.success(), "{output:?}");
    assert_eq!(
        String::from_utf8(output.stdout)?,
        "the configuration is valid\n"
    );
    let output = check(file, &["--print"])?;
    ensure!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout)?;
    for line in [
        "kind: Configuration\n",
        "  usageHalfLifeTime: 168h\n",
        "undeclaredResources: Block\n",
        "LessThanInitialShare",
    ] {
        ensure!(printed.contains(line), "no {line:?} in {printed}");
    }
    let again = check(&printed, &["--print"])?;
    assert_eq!(String::from_utf8(again.stdout)?, printed);
    Ok(())
}

#[test]
fn a_controller_does_not_start_with_a_bad_file() -> Result<()> {
    let path = std::env::temp_dir().join(format!("sluice-config-{}.yaml", std::process::id()));
    std::fs::write(&path, "queueLabelAliases: [a b]\n")?;
    let output = Command::new(BINARY).arg("--config").arg(&path).output()?;
    std::fs::remove_file(&path)?;
    ensure!(!output.status.success(), "it started");
    let told = String::from_utf8(output.stderr)?;
    for text in [
        "apiVersion: Required value: ",
        "kind: Required value: ",
        "queueLabelAliases[0]: Invalid value: \"a b\": must be the key of a label",
    ] {
        ensure!(told.contains(text), "no {text:?} in {told}");
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_file_takes_effect_and_a_bad_one_changes_nothing() -> Result<()> {
    let options = SluiceOptions {
        config: Some("ignoredResources: []\n".to_owned()),
        ..SluiceOptions::new(BINARY)
    };
    bed::own_running_with("config", options, async |bed, scene| {
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "4")]);
        scene.queue_like(queue).await?;
        let job = Job::new("a").queue("q").request("example.com/licence", "1");
        scene.create(&job.json()).await?;
        let told = format!(
            "ClusterQueue {:?} has no quota for resource \"example.com/licence\"",
            scene.ns
        );
        scene.see_waiting("a", "NoMatchingFlavor", &told).await?;
        let see = async |lines: [&str; 2]| {
            eventually("the metrics of the configuration", DEADLINE, async || {
                let metrics = bed.sluice.metrics().await?;
                for line in lines {
                    ensure!(metrics.contains(line), "no {line:?} in {metrics}");
                }
                Ok(())
            })
            .await
        };
        see([VALID, NO_RESTART]).await?;

        // Nothing of a bad file counts, and what was in force stays.
        bed.sluice
            .configure("undeclaredResources: Ignore\nfairSharing: 1\n")?;
        see(["\nsluice_config_last_reload_successful 0\n", NO_RESTART]).await?;
        let log = bed.sluice.log_tail();
        ensure!(
            log.contains("fairSharing: Invalid value: \\\"1\\\": must be a map of fields")
                || log.contains("fairSharing: Invalid value: \"1\": must be a map of fields"),
            "{log}"
        );
        scene.see_waiting("a", "NoMatchingFlavor", &told).await?;

        // What goes into the webhooks waits for a restart; the rest does not.
        bed.sluice.configure(
            "ignoredResources: [example.com/licence]\nqueueLabelAliases: [acme.io/queue]\n",
        )?;
        see([VALID, "\nsluice_config_restart_required 1\n"]).await?;
        scene.see_admitted("a").await?;
        let log = bed.sluice.log_tail();
        ensure!(log.contains("queueLabelAliases"), "{log}");
        bed.sluice.stop().await?;
        bed.sluice.start_again().await?;
        see([VALID, NO_RESTART]).await?;
        Ok(())
    })
    .await
}

/// The Deployment names the ConfigMap by the hash of the file.
#[tokio::test]
async fn an_edited_file_rolls_out_new_pods() -> Result<()> {
    bed::shared("rollout", async |scene| {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let overlay = std::env::temp_dir().join(format!("sluice-overlay-{}", std::process::id()));
        std::fs::create_dir_all(&overlay)?;
        let base = overlay.join("base");
        copy(&root.join("config/manager"), &base)?;
        let mut names = Vec::new();
        for fields in ["", "fairSharing: {}\n"] {
            let file = base.join("config.yaml");
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, text + fields)?;
            let path = base.to_string_lossy().into_owned();
            let built = scene.kubectl(&["kustomize", &path], None).await?.ok()?;
            let names_in = |prefix: &str| {
                let lines = built.lines().map(str::trim);
                let found = lines.filter_map(|line| line.strip_prefix("name: "));
                let found = found.filter(|name| name.starts_with(prefix));
                found.map(str::to_owned).collect::<Vec<_>>()
            };
            let found = names_in("sluice-config-");
            ensure!(found.len() == 2 && found[0] == found[1], "{built}");
            names.extend(found.into_iter().take(1));
        }
        std::fs::remove_dir_all(&overlay)?;
        ensure!(names[0] != names[1], "{names:?}");
        Ok(())
    })
    .await
}

fn copy(from: &std::path::Path, to: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
