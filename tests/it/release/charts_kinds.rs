//! Which of the shipped JobKinds the chart installs: the others have no right, and no rule of a webhook.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::ROOT;
use super::charts::{refused, rendered};

/// The names of the shipped JobKinds.
fn shipped() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(Path::new(ROOT).join("config/jobkinds"))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix("-role.yaml").map(str::to_owned);
        names.extend(name);
    }
    ensure!(names.contains("job") && names.len() > 10, "{names:?}");
    Ok(names)
}

/// What is named so of a kind: what comes behind this prefix.
fn names(objects: &[Value], kind: &str, prefix: &str) -> BTreeSet<String> {
    let of_kind = objects.iter().filter(|object| object["kind"] == kind);
    let names = of_kind.filter_map(|object| object["metadata"]["name"].as_str());
    let names = names.filter_map(|name| name.strip_prefix(prefix));
    names.map(str::to_owned).collect()
}

/// The resources that the webhooks for jobs ask about, one list for each of them.
fn asked(objects: &[Value]) -> Vec<Value> {
    let webhooks = objects
        .iter()
        .filter_map(|object| object["webhooks"].as_array());
    let of_jobs = webhooks.flatten().filter(|webhook| {
        let name = webhook["name"].as_str().unwrap_or_default();
        name.ends_with(".jobs.sluice.dev")
    });
    let rules = of_jobs.map(|webhook| webhook["rules"].as_array().into_iter().flatten());
    rules
        .map(|rules| rules.map(|rule| rule["resources"][0].clone()).collect())
        .collect()
}

#[test]
fn all_of_them_are_known_by_name() -> Result<()> {
    let all: Vec<String> = shipped()?.into_iter().collect();
    let named = rendered(&[&format!("--set=jobKinds={{{}}}", all.join(","))])?;
    assert_eq!(named, rendered(&[])?);
    Ok(())
}

#[test]
fn others_than_those_that_are_named_are_left_out() -> Result<()> {
    let all = rendered(&[])?;
    assert_eq!(names(&all, "JobKind", ""), shipped()?);
    let every = json!(["jobs", "deployments", "statefulsets"]);
    assert_eq!(asked(&all), [every.clone(), every]);
    for (flag, kinds, resources) in [
        ("{job,jobset}", &["job", "jobset"][..], json!(["jobs"])),
        ("{deployment}", &["deployment"], json!(["deployments"])),
        ("{rayjob}", &["rayjob"], json!([])),
    ] {
        let made = rendered(&[&format!("--set=jobKinds={flag}")])?;
        let kinds: BTreeSet<String> = kinds.iter().map(|&kind| kind.to_owned()).collect();
        assert_eq!(names(&made, "JobKind", ""), kinds, "{flag}");
        let rights = names(&made, "ClusterRole", "sluice-jobkind-");
        assert_eq!(rights, kinds, "{flag}");
        assert_eq!(asked(&made), [resources.clone(), resources], "{flag}");
        // Everything else is there.
        let others = |objects: &[Value]| {
            let is_of_kind = |object: &&Value| {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                object["kind"] == "JobKind" || name.starts_with("sluice-jobkind-")
            };
            objects.iter().filter(|object| !is_of_kind(object)).count()
        };
        assert_eq!(others(&made), others(&all), "{flag}");
    }
    Ok(())
}

#[test]
fn what_can_not_be_left_out_is_refused() -> Result<()> {
    refused(
        &["--set=jobKinds={jobs}"],
        "at '/jobKinds/0': value must be one of ",
    )?;
    // It reads templates out of the JobSet.
    refused(&["--set=jobKinds={trainjob}"], "at '/jobKinds': ")?;
    rendered(&["--set=jobKinds={trainjob,jobset}"]).context("with jobset")?;
    // Policies hold what nobody would release.
    refused(
        &["--set=variant=policies,jobKinds={job}"],
        "jobKinds: Forbidden: the policies of the chart hold objects of all shipped kinds",
    )?;
    rendered(&["--set=variant=policies"]).map(drop)
}
