//! Runs kubectl against the control plane and keeps what it said.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// What a run of kubectl gave.
#[derive(Clone, Debug)]
pub struct KubectlOutput {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl KubectlOutput {
    /// The standard output of a run that went well.
    ///
    /// # Errors
    /// When the exit code was not 0: with what it said.
    pub fn ok(self) -> Result<String> {
        if self.code != 0 {
            bail!("kubectl exited with {}: {}", self.code, self.stderr.trim());
        }
        Ok(self.stdout)
    }

    /// The standard error of a run that failed, for tests of what a user is told.
    ///
    /// # Errors
    /// When the exit code was 0.
    pub fn err(self) -> Result<String> {
        if self.code == 0 {
            bail!(
                "kubectl should have failed, but said: {}",
                self.stdout.trim()
            );
        }
        Ok(self.stderr)
    }
}

pub(crate) async fn run<A: AsRef<OsStr>>(
    program: &Path,
    kubeconfig: &Path,
    home: &Path,
    args: impl IntoIterator<Item = A>,
    stdin: Option<&str>,
) -> Result<KubectlOutput> {
    let mut child = Command::new(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", home)
        // It lives for a second: a fifth of its time would go into collecting garbage.
        .env("GOGC", "400")
        .stdin(if stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let pipe = child.stdin.take();
    let feed = async {
        if let (Some(mut pipe), Some(text)) = (pipe, stdin) {
            // kubectl may fail before it has read all: its own message matters then.
            let _ = pipe.write_all(text.as_bytes()).await;
        }
    };
    let ((), output) = tokio::join!(feed, child.wait_with_output());
    let output = output?;
    Ok(KubectlOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
