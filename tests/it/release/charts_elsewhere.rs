//! The charts out of this repository: as dependencies of another chart, and copied without the links that they have here.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_testbed::Assets;

use super::{Folder, ROOT, objects, run};

const CHARTS: [&str; 2] = ["sluice", "sluice-crds"];

/// Both charts in another folder, with their links (`-RP`) or what these lead to (`-RL`).
fn copied(how: &str, into: &Path) -> Result<()> {
    let mut copying = Command::new("cp");
    copying.arg(how).arg(Path::new(ROOT).join("charts"));
    run(copying.arg(into)).map(drop)
}

fn template(chart: &Path, flags: &[&str]) -> Result<Command> {
    let mut helm = Command::new(Assets::ensure_helm()?);
    helm.args(["template", "any-name", "--namespace=infra"]);
    helm.arg(chart).args(flags);
    Ok(helm)
}

/// The usual form of such a dependency is a `condition`, which is a value of the chart that it asks for.
#[test]
fn the_charts_can_be_conditional_dependencies() -> Result<()> {
    let folder = Folder::new("umbrella")?;
    let umbrella = folder.path();
    copied("-RL", umbrella)?;
    let dependencies = CHARTS.map(
        |chart| json!({"name": chart, "version": "0.x", "condition": format!("{chart}.enabled")}),
    );
    // YAML has JSON in it.
    let text = json!({"apiVersion": "v2", "name": "umbrella", "version": "1.0.0", "dependencies": dependencies});
    std::fs::write(umbrella.join("Chart.yaml"), text.to_string())?;
    for (flags, kinds) in [
        (&[][..], [true, true]),
        (&["--set=sluice.enabled=true"], [true, true]),
        (&["--set=sluice.enabled=false"], [false, true]),
        (&["--set=sluice-crds.enabled=false"], [true, false]),
    ] {
        let made = objects(&run(&mut template(umbrella, flags)?)?)?;
        let has = |kind: &str| made.iter().any(|object| object["kind"] == kind);
        let found = [has("Deployment"), has("CustomResourceDefinition")];
        assert_eq!(found, kinds, "{flags:?}");
    }
    Ok(())
}

/// Flux leaves links out of what it packs, and Git on Windows makes files of them that have the path.
#[test]
fn charts_without_their_links_are_refused() -> Result<()> {
    let folder = Folder::new("without-links")?;
    copied("-RP", folder.path())?;
    for chart in CHARTS {
        let copy = folder.path().join("charts").join(chart);
        let links = run(Command::new("find").arg(&copy).args(["-type", "l"]))?;
        let links: Vec<&str> = links.lines().collect();
        ensure!(!links.is_empty(), "{chart} has no links");
        let refused = |how: &str| -> Result<()> {
            let output = template(&copy, &[])?.output()?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            let told = format!(
                "without its symbolic links, as by a GitRepository of Flux; use {chart}-N.tgz"
            );
            ensure!(
                !output.status.success() && stderr.contains(&told),
                "{chart}, {how}: {stderr}"
            );
            Ok(())
        };
        for link in &links {
            let target = std::fs::read_link(link)?;
            std::fs::remove_file(link)?;
            std::fs::write(link, target.as_os_str().as_encoded_bytes())?;
        }
        refused("with files in their place")?;
        for link in &links {
            std::fs::remove_file(link)?;
        }
        refused("with nothing in their place")?;
    }
    Ok(())
}
