//! The demo on a cluster that is there: it touches the context that it is given and no other, tells its story to the
//! end, and takes everything away again.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use anyhow::{Result, ensure};
use sluice_testbed::{ControlPlane, Options, eventually};

use super::ROOT;
use crate::support::DEADLINE;
use crate::support::bed::BINARY;

/// A minute, as the README says; the rest is for a loaded machine and a debug build.
const DEMO_DEADLINE: Duration = Duration::from_mins(6);

async fn demo(cp: &ControlPlane, context: &str) -> Result<Output> {
    let mut demo = tokio::process::Command::new(Path::new(ROOT).join("tests/demo.sh"));
    demo.env("CONTEXT", context)
        .env("KUBECONFIG", cp.kubeconfig());
    demo.env("PATH", cp.path()?).env("HOME", cp.dir());
    // The folder of the program under test, without its `debug`.
    let target = Path::new(BINARY).ancestors().nth(2);
    demo.env("CARGO_TARGET_DIR", target.unwrap_or(Path::new("target")));
    demo.kill_on_drop(true);
    Ok(tokio::time::timeout(DEMO_DEADLINE, demo.output()).await??)
}

#[tokio::test]
async fn the_demo_leaves_nothing_on_the_cluster_of_its_context() -> Result<()> {
    let cp = ControlPlane::start(Options::default()).await?;
    let crds = async || {
        let args = ["get", "crds,namespaces,clusterroles", "-o", "name"];
        cp.kubectl(args, None).await?.ok()
    };
    let before = crds().await?;
    let other = demo(&cp, "production").await?;
    let told = String::from_utf8_lossy(&other.stderr);
    ensure!(
        !other.status.success() && told.contains("the kubeconfig has no context production"),
        "{told}"
    );
    ensure!(crds().await? == before, "it has touched another context");

    let context = cp
        .kubectl(["config", "current-context"], None)
        .await?
        .ok()?;
    let told = demo(&cp, context.trim()).await?;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&told.stdout),
        String::from_utf8_lossy(&told.stderr),
    );
    ensure!(told.status.success(), "{stdout}\n{stderr}");
    ensure!(stdout.contains("The budget is approved"), "{stdout}");
    // Namespaces take a moment to go.
    eventually("everything to be as before", DEADLINE, async || {
        let left = crds().await?;
        ensure!(left == before, "{left}");
        Ok(())
    })
    .await
}
