//! The kubectl plugin, as users run it.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Result, ensure};
use sluice_testbed::ControlPlane;
use tokio::process::Command;
use tokio::time::timeout;

use super::DEADLINE;
use super::bed::{BINARY, Bed};

/// The plugin, which cargo builds beside Sluice.
pub fn plugin() -> Result<PathBuf> {
    let plugin = PathBuf::from(BINARY).with_file_name("kubectl-sluice");
    ensure!(
        plugin.exists(),
        "build it first: cargo build --bin kubectl-sluice"
    );
    Ok(plugin)
}

/// Exit code, standard output and standard error of the plugin, run by the administrator.
pub async fn run(bed: &Bed, arguments: &str) -> Result<(i32, String, String)> {
    run_on(&bed.cp, arguments).await
}

/// The same on a control plane.
pub async fn run_on(cp: &ControlPlane, arguments: &str) -> Result<(i32, String, String)> {
    let mut command = Command::new(plugin()?);
    command.args(arguments.split(' '));
    command.arg("--kubeconfig").arg(cp.kubeconfig());
    command.stdin(Stdio::null());
    let output = timeout(DEADLINE, command.output()).await??;
    Ok((
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    ))
}
