//! A log that nobody reads: the process goes on, and ends when it is told to.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use sluice_testbed::{eventually, free_port, http_get, send_signal};
use tokio::process::{Child, Command};

use crate::support::DEADLINE;
use crate::support::bed::BINARY;

/// What a pipe of Linux takes before its writers have to wait (pipe(7)).
const PIPE: usize = 65_536;

/// A pipe that is full. Writers wait as long as the reader is there, which does not read.
fn full_pipe() -> Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = std::io::pipe()?;
    writer.write_all(&vec![b'.'; PIPE])?;
    Ok((reader, writer))
}

/// The way to an API server that is not there.
fn kubeconfig() -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nowhere.kubeconfig");
    let text = "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], \
                clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}], users: [{name: u, user: {token: t}}]}";
    std::fs::write(&path, text)?;
    Ok(path)
}

/// A Sluice that logs all it can into this pipe, and its ports for health and metrics.
fn start(log: PipeWriter) -> Result<(Child, u16, u16)> {
    let (webhooks, health, metrics) = (free_port()?, free_port()?, free_port()?);
    let child = Command::new(BINARY)
        .arg(format!("--webhook-bind=127.0.0.1:{webhooks}"))
        .arg(format!("--health-bind=127.0.0.1:{health}"))
        .arg(format!("--metrics-bind=127.0.0.1:{metrics}"))
        .env("KUBECONFIG", kubeconfig()?)
        .env("RUST_LOG", "trace")
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, health, metrics))
}

#[tokio::test]
async fn nobody_waits_for_a_log_that_nobody_reads() -> Result<()> {
    let (reader, writer) = full_pipe()?;
    let (mut child, health, metrics) = start(writer)?;
    eventually("the process to be alive", DEADLINE, async || {
        let (status, told) = http_get(health, "/healthz").await?;
        ensure!(status == 200, "{status}: {told}");
        Ok(())
    })
    .await?;
    let (_, told) = http_get(metrics, "/metrics").await?;
    ensure!(told.contains("sluice_log_lines_dropped_total"), "{told}");
    send_signal(child.id().context("it has ended")?, "TERM")?;
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await;
    ended.context("it did not end")??;
    drop(reader);
    Ok(())
}
