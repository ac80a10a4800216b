//! A log that nobody reads: the process goes on, and ends when it is told to.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use sluice_testbed::{eventually, free_port, send_signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
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

/// What is answered on this port, if it is within a moment.
async fn answer(port: u16, path: &str) -> Result<String> {
    let asked = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), asked)
        .await
        .context("no answer")?
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
        let told = answer(health, "/healthz").await?;
        ensure!(told.starts_with("HTTP/1.0 200"), "{told}");
        Ok(())
    })
    .await?;
    let told = answer(metrics, "/metrics").await?;
    ensure!(told.contains("sluice_log_lines_dropped_total"), "{told}");
    send_signal(child.id().context("it has ended")?, "TERM")?;
    let ended = tokio::time::timeout(DEADLINE, child.wait()).await;
    ended.context("it did not end")??;
    drop(reader);
    Ok(())
}
