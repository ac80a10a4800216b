//! The configuration as a value of the chart: it becomes the file, and what Sluice would refuse Helm refuses before.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::charts::{helm, one, rendered};

/// Pods read the configuration when they start, so they start anew with another one.
#[test]
fn the_configuration_is_a_value() -> Result<()> {
    let config = |flags: &[&str]| -> Result<(String, Value)> {
        let objects = rendered(flags)?;
        let text = one(&objects, "ConfigMap")?["data"]["config.yaml"].clone();
        let metadata = &one(&objects, "Deployment")?["spec"]["template"]["metadata"];
        let hash = metadata["annotations"]["checksum/config"].clone();
        Ok((text.as_str().context("no text")?.to_owned(), hash))
    };
    let (text, hash) = config(&["--set=config.undeclaredResources=Ignore"])?;
    ensure!(text.ends_with("undeclaredResources: Ignore\n"), "{text}");
    let (_, other) = config(&["--set=config.undeclaredResources=Block"])?;
    let (_, shipped) = config(&[])?;
    ensure!(
        hash != other && hash != shipped && other != shipped,
        "{hash} {other} {shipped}"
    );
    Ok(())
}

#[test]
fn what_is_no_configuration_is_refused() -> Result<()> {
    for (flag, told) in [
        (
            "fairSharing=1",
            "at '/config/fairSharing': got number, want ",
        ),
        (
            "undeclaredResources=Allow",
            "at '/config/undeclaredResources': value must be one of 'Block', 'Ignore'",
        ),
        (
            "apiVersion=v2",
            "at '/config/apiVersion': value must be 'config.sluice.dev/v1alpha1'",
        ),
        (
            "queueLabels={x}",
            "at '/config': additional properties 'queueLabels' not allowed",
        ),
        (
            "managedNamespaces.selector.matchLabel.a=b",
            "at '/config/managedNamespaces/selector': additional properties 'matchLabel' not allowed",
        ),
    ] {
        let flag = format!("--set=config.{flag}");
        let output = helm(&["template", "x"], "sluice", &[&flag])?.output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.status.success() && stderr.contains(told),
            "{flag}: {stderr}"
        );
    }
    // What is shipped, written out, and a value that is taken away.
    for flag in [
        "--set-json=config={\"fairSharing\":{},\"admissionFairSharing\":{\"usageHalfLifeTime\":\"7d\"}}",
        "--set=config.fairSharing=null",
    ] {
        rendered(&[flag])?;
    }
    Ok(())
}
