//! The plugin as it serves the page, and requests to it as a browser, or somebody else, may write them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sluice_testbed::send_signal;

/// Longer than any answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);

/// A plugin that serves. It ends when this is dropped.
pub(super) struct Served {
    child: Child,
    /// `127.0.0.1` and the port.
    pub(super) host: String,
    pub(super) token: String,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The lines of its head, in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl Served {
    /// Serves as the user of `kubeconfig`.
    pub(super) fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        Self::of(plugin(kubeconfig).arg("--no-open").args(arguments))
    }

    /// The same, and opens the browser by a program in the folder `programs`.
    pub(super) fn opening(kubeconfig: &Path, programs: &Path) -> Result<Self> {
        Self::of(plugin(kubeconfig).arg("--open").env("PATH", programs))
    }

    fn of(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("Serving on http://");
        let address = address.and_then(|address| address.split_once("/#token="));
        let Some((host, token)) = address else {
            let output = child.wait_with_output()?;
            anyhow::bail!("{line:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        Ok(Self {
            host: host.to_owned(),
            token: token.to_owned(),
            child,
        })
    }

    /// The address that it printed.
    pub(super) fn address(&self) -> String {
        format!("http://{}/#token={}", self.host, self.token)
    }

    /// The answer to a request with these headers and no others.
    pub(super) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Answer> {
        ask(&self.host, method, path, headers)
    }

    /// The answer to the page itself.
    pub(super) fn get(&self, path: &str) -> Result<Answer> {
        let token = format!("Bearer {}", self.token);
        self.ask(
            "GET",
            path,
            &[("Host", &self.host), ("Authorization", &token)],
        )
    }

    /// What the page gets.
    pub(super) fn json(&self, path: &str) -> Result<Value> {
        let answer = self.get(path)?;
        ensure!(
            answer.status == 200,
            "{path}: {} {}",
            answer.status,
            answer.body
        );
        Ok(serde_json::from_str(&answer.body)?)
    }

    /// The next line that it tells besides.
    pub(super) fn told(&mut self) -> Result<String> {
        let stderr = self.child.stderr.as_mut().context("no standard error")?;
        let (mut line, mut byte) = (Vec::new(), [0]);
        while !line.ends_with(b"\n") && stderr.read(&mut byte)? == 1 {
            line.extend(byte);
        }
        Ok(String::from_utf8(line)?)
    }

    /// Ends it as Ctrl-C does.
    pub(super) fn end(mut self) -> Result<ExitStatus> {
        send_signal(self.child.id(), "INT")?;
        Ok(self.child.wait()?)
    }
}

/// The answer of a server to a request with these headers and no others.
pub(super) fn ask(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Answer> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    stream.write_all(format!("{request}\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer {
        status,
        head: head.to_lowercase(),
        body: body.to_owned(),
    })
}

fn plugin(kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"));
    command.args(["web", "--kubeconfig"]).arg(kubeconfig);
    command.env_remove("KUBECONFIG");
    command
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
