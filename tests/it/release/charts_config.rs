//! The configuration as a value of the chart: it becomes the file, and what Sluice would refuse Helm refuses before.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::charts::{one, refused, rendered};

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

/// An account of users may be called as the shipped namespace is: another one would be excepted.
#[test]
fn the_configuration_is_taken_literally() -> Result<()> {
    let account = "system:serviceaccount:sluice-system-ci:deployer";
    let exception = format!("--set=config.managedNamespaces.exceptions[0].users={{{account}}}");
    let objects = rendered(&["--namespace=batch-infra", &exception])?;
    let map = one(&objects, "ConfigMap")?;
    assert_eq!(map["metadata"]["namespace"], "batch-infra");
    let text = map["data"]["config.yaml"].as_str().context("no text")?;
    ensure!(text.contains(&format!("- {account}\n")), "{text}");
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
        (
            "managedNamespaces.unlabelled=hold",
            "at '/config/managedNamespaces/unlabelled': value must be one of 'Default', 'Hold', 'Ignore', 'Refuse'",
        ),
        (
            "managedNamespaces.selector.matchExpressions[0].operator=Is",
            "/matchExpressions/0/operator': value must be one of 'In', 'NotIn', 'Exists', 'DoesNotExist'",
        ),
    ] {
        refused(&[&format!("--set=config.{flag}")], told)?;
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

/// What policies would pass over is refused, all of it at once.
#[test]
fn policies_take_no_configuration_that_only_webhooks_know() -> Result<()> {
    let aliases = "Forbidden: the policies of the chart don't know aliases; use variant: webhooks";
    let managed = "Forbidden: policies know only the label sluice.dev/enforcement of a namespace";
    for (flag, field, told) in [
        ("aliasPresets={Kueue}", "aliasPresets", aliases),
        ("queueLabelAliases={a.io/b}", "queueLabelAliases", aliases),
        (
            "queueAnnotationAliases={a.io/b}",
            "queueAnnotationAliases",
            aliases,
        ),
        ("queueGateAliases={a.io/b}", "queueGateAliases", aliases),
        (
            "priorityClassLabelAliases={a.io/b}",
            "priorityClassLabelAliases",
            aliases,
        ),
        (
            "minParallelismAnnotationAliases={a.io/b}",
            "minParallelismAnnotationAliases",
            aliases,
        ),
        (
            "podGroupNameLabelAliases={a.io/b}",
            "podGroupNameLabelAliases",
            aliases,
        ),
        (
            "podGroupTotalCountAnnotationAliases={a.io/b}",
            "podGroupTotalCountAnnotationAliases",
            aliases,
        ),
        (
            "retriableInGroupAnnotationAliases={a.io/b}",
            "retriableInGroupAnnotationAliases",
            aliases,
        ),
        (
            "managedNamespaces.selector.matchLabels.team=a",
            "managedNamespaces.selector",
            managed,
        ),
        (
            "managedNamespaces.unlabelled=Refuse",
            "managedNamespaces.unlabelled",
            managed,
        ),
        (
            "managedNamespaces.dryRun=true",
            "managedNamespaces.dryRun",
            managed,
        ),
        (
            "managedNamespaces.exceptions[0].users={ann}",
            "managedNamespaces.exceptions",
            managed,
        ),
        (
            "managedNamespaces.defaultLocalQueue=batch",
            "managedNamespaces.defaultLocalQueue",
            managed,
        ),
    ] {
        let flag = format!("--set=config.{flag}");
        refused(
            &["--set=variant=policies", &flag],
            &format!("config.{field}: {told}"),
        )?;
        rendered(&[&flag])?;
    }
    // An empty selector selects all namespaces.
    for (flag, told) in [
        (
            "managedNamespaces={\"selector\":{}}",
            "config.managedNamespaces.selector: ",
        ),
        ("aliasPresets=[\"Volcano\"]", "config.aliasPresets: "),
    ] {
        let flag = format!("--set-json=config.{flag}");
        let also = "--set=config.managedNamespaces.dryRun=true";
        refused(&["--set=variant=policies", &flag, also], told)?;
        let told = "config.managedNamespaces.dryRun: ";
        refused(&["--set=variant=policies", &flag, also], told)?;
    }
    // Defaults that are written out change nothing.
    let shipped = "--set-json=config={\"aliasPresets\":[],\"queueLabelAliases\":[],\"managedNamespaces\":\
        {\"dryRun\":false,\"exceptions\":[],\"unlabelled\":\"Hold\",\"defaultLocalQueue\":\"default\"}}";
    rendered(&["--set=variant=policies", shipped]).map(drop)
}
