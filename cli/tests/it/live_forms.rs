//! What the commands that look at a cluster print, in each form that they have: the table, the wide one, JSON and YAML;
//! and again, when they watch.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::{Value, json};
use sluice_testbed::ControlPlane;
use tokio::io::AsyncBufReadExt as _;

use crate::live_cluster::{own, set_status, sluice};

/// The commands, with what is not the same in each run.
const COMMANDS: &[&str] = &[
    "status",
    "status -A",
    "list",
    "list --start --duration 1m",
    "explain job/waits",
    "explain job/runs",
    "explain workload/urgent-1",
    "top",
    "top --by namespace",
    "top --by cluster-queue",
    "gates list",
    "gates show budget.example.com",
    "audit",
    "check",
    "version",
];

/// In each form, whatever the exit code, which is that of the table.
pub(crate) async fn all(cp: &ControlPlane, admin: &Path, ns: &str) -> Result<()> {
    let gate = own(
        "Gate",
        &json!({"name": "budget.example.com"}),
        &json!({"description": "Waits for the budget", "contact": "#finance"}),
    );
    let args = ["apply", "-f", "-"];
    cp.kubectl(args, Some(&gate.to_string())).await?.ok()?;
    let mut all = Vec::new();
    for command in COMMANDS {
        let everywhere = command.contains("-A") || command.starts_with("gates");
        let command = match command.split_once(' ') {
            _ if everywhere || ["check", "version"].contains(command) => (*command).to_owned(),
            _ => format!("{command} -n {ns}"),
        };
        let (code, table, _) = sluice(admin, &command);
        let in_form = |form: &str| -> Result<String> {
            let (found, stdout, stderr) = sluice(admin, &format!("{command} -o {form}"));
            ensure!(found == code, "{command} -o {form}: {stderr}");
            ensure!(!stdout.is_empty(), "{command} -o {form}: {stderr}");
            Ok(stdout)
        };
        let json: Value = serde_json::from_str(&in_form("json")?).context(command.clone())?;
        let yaml: Value = serde_saphyr::from_str(&in_form("yaml")?).context(command.clone())?;
        assert_eq!(steady(json), steady(yaml), "{command}");
        let wide = in_form("wide")?;
        let command = command.replace(ns, "NAMESPACE");
        // What it finds follows from all roles and kinds that are shipped, and is looked at in `live_cluster.rs`.
        if command == "check" {
            continue;
        }
        let (table, wide) = (redacted(&table, ns), redacted(&wide, ns));
        all.push(format!("$ kubectl sluice {command}\n{table}"));
        if wide != table {
            all.push(format!("$ kubectl sluice {command} -o wide\n{wide}"));
        }
    }
    assert_snapshot!("each_command_in_each_form", all.join("\n"));
    watched(cp, admin, ns).await
}

/// Without what ticks from one look to the next.
fn steady(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !name.to_lowercase().ends_with("seconds"));
            fields
                .values_mut()
                .for_each(|field| *field = steady(field.take()));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = steady(item.take())),
        _ => {}
    }
    value
}

/// The words of each line, without ages, times and names that differ in each run.
fn redacted(text: &str, ns: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches([',', ')', ';']);
        let digits = bare.trim_end_matches(['s', 'm', 'h', 'd']);
        let is_age = digits.len() < bare.len()
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && digits
                .chars()
                .all(|c| c.is_ascii_digit() || "smhd".contains(c));
        let is_time = bare.len() == 20 && bare.ends_with('Z') && bare.starts_with("20");
        match (is_age, is_time) {
            (true, _) => word.replace(bare, "[age]"),
            (_, true) => word.replace(bare, "[time]"),
            _ => word.to_owned(),
        }
    };
    let lines = text.lines().map(|line| {
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        format!("{indent}{}\n", words.join(" "))
    });
    let text = lines.collect::<String>();
    text.replace(ns, "NAMESPACE")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

/// A command that watches, and ends with this.
struct Watch(Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What has changed is printed again, and nothing else.
async fn watched(cp: &ControlPlane, admin: &Path, ns: &str) -> Result<()> {
    let arguments = ["list", "-n", ns, "-w", "-o", "json", "--kubeconfig"];
    let child = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .args(arguments)
        .arg(admin)
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut watch = Watch(child);
    let stdout = watch.0.stdout.take().context("no output")?;
    let (send, mut printed) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines.map_while(|line| send.send(line).ok()).for_each(drop);
    });
    let mut document = async || -> Result<Value> {
        let mut text = String::new();
        let read = async {
            while let Some(line) = printed.recv().await {
                text += &line;
                if line == "]" {
                    return Ok(());
                }
            }
            anyhow::bail!("it has ended")
        };
        tokio::time::timeout(crate::live_cluster::DEADLINE, read).await??;
        Ok(serde_json::from_str(&text)?)
    };
    let message = |found: &Value| found[1]["message"].clone();
    ensure!(message(&document().await?) == "3 more cpu is needed");
    let waits = json!({"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
        "message": "2 more cpu is needed", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set_status(cp, ns, "workload/waits-1", &json!({"conditions": [waits]})).await?;
    let again = document().await?;
    ensure!(message(&again) == "2 more cpu is needed", "{again}");
    let before = json!({"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
        "message": "3 more cpu is needed", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    set_status(cp, ns, "workload/waits-1", &json!({"conditions": [before]})).await?;
    unread(admin, ns).await
}

/// As in `kubectl sluice list -w | head -1`: nothing changes, so that nothing more is written, and it ends all the same.
async fn unread(admin: &Path, ns: &str) -> Result<()> {
    let mut watch = tokio::process::Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .args(["list", "-n", ns, "-w", "--kubeconfig"])
        .arg(admin)
        .env_remove("KUBECONFIG")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = watch.stdout.take().context("no output")?;
    let mut lines = tokio::io::BufReader::new(stdout).lines();
    ensure!(lines.next_line().await?.is_some(), "nothing was printed");
    drop(lines);
    let ended = tokio::time::timeout(crate::live_cluster::DEADLINE, watch.wait());
    ensure!(ended.await??.code() == Some(0));
    Ok(())
}
