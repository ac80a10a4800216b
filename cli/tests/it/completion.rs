//! Completion: of the command line without a cluster, and of live names on a real control plane, by the plugin, by bash
//! and by kubectl.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use insta::assert_snapshot;
use serde_json::json;
use sluice_testbed::{Assets, Component, ControlPlane, Options};

use crate::gates::{kubeconfig, run};
use crate::live_cluster::{own, setting};

const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-sluice");

/// What completes the last word of a command line.
fn complete(kubeconfig: &Path, line: &str) -> String {
    let mut plugin = Command::new(PLUGIN);
    plugin
        .arg("__complete")
        .args(line.split(' '))
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", "/nonexistent")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let (code, stdout, stderr) = run(&mut plugin);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{line}");
    stdout
}

/// The candidates without what is told of them, and the directive.
fn values(kubeconfig: &Path, line: &str) -> Vec<String> {
    let told = complete(kubeconfig, line);
    let values = told.lines().map(|line| line.split('\t').next().unwrap());
    values.map(str::to_owned).collect()
}

#[test]
fn the_command_line_is_completed_without_a_cluster() {
    let nowhere = Path::new("/nonexistent/kubeconfig");
    assert_snapshot!(complete(nowhere, "re"), @r"
    reactivate	Queue a job again that was evicted with this plugin, or that has backed off too often
    resume	Let a queue admit again, or a job be queued again
    :4
    ");
    assert_snapshot!(complete(nowhere, "top --b"), @r"
    --by	Add up by queue, namespace or cluster-queue
    :4
    ");
    assert_snapshot!(complete(nowhere, "top --by "), @r"
    cluster-queue
    namespace
    queue
    :4
    ");
    for (line, expected) in [
        ("gates l", &["lift", "list", ":4"][..]),
        ("create local-queue --cl", &["--cluster-queue", ":4"]),
        ("completion ", &["bash", "fish", "kubectl", "zsh", ":4"]),
        // Files, which the shell knows.
        ("what-if -f ", &[":0"]),
        ("status --kubeconfig=", &[":0"]),
        // Names that can't be had, and what nothing is known of.
        ("list -n ", &[":4"]),
        ("explain job/", &[":4"]),
        ("create flavor ", &[":4"]),
        ("lost ", &[":4"]),
    ] {
        assert_eq!(values(nowhere, line), expected, "{line}");
    }
    let told = kubeconfig("completion-contexts", 1);
    assert_eq!(values(&told, "status --context h"), ["here", ":4"]);
}

/// Somebody waits.
#[test]
fn a_cluster_that_does_not_answer_is_not_waited_for() -> Result<()> {
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let told = kubeconfig("completion-silent", silent.local_addr()?.port());
    let began = std::time::Instant::now();
    assert_eq!(values(&told, "list -q "), [":4"]);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    Ok(())
}

/// A folder with the plugin and what kubectl runs, as on a PATH.
fn on_the_path() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("completion");
    std::fs::create_dir_all(&folder)?;
    let link = folder.join("kubectl-sluice");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(PLUGIN, &link)?;
    let (_, script, _) = run(Command::new(PLUGIN).args(["completion", "kubectl"]));
    let file = folder.join("kubectl_complete-sluice");
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

#[tokio::test]
async fn live_names_are_completed_with_the_rights_of_the_caller() -> Result<()> {
    let options = Options {
        without: vec![Component::Scheduler, Component::Kwok],
        ..Options::with_crds()?
    };
    let cp = ControlPlane::start(options).await?;
    let ns = cp.create_namespace("names").await?;
    setting(&cp, &ns).await?;
    let kind = json!({"group": "batch", "version": "v1", "kind": "Job", "suspend": ".spec.suspend", "active": "false",
        "podSets": [{"name": "main", "template": ".spec.template"}]});
    let gate = json!({"description": "Costs money", "lifting": "Owners"});
    let items = json!([
        own("JobKind", &json!({"name": "job"}), &kind),
        own("Gate", &json!({"name": "budget.acme.io"}), &gate),
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    cp.kubectl(["apply", "-f", "-"], Some(&list)).await?.ok()?;
    let labelled = [
        "label",
        "job",
        "waits",
        "-n",
        &ns,
        "gate.sluice.dev/budget.acme.io=",
    ];
    cp.kubectl(labelled, None).await?.ok()?;
    let admin = cp.kubeconfig();
    for (line, expected) in [
        (
            "explain ",
            &["job/", "pod/", "podgroup/", "workload/", ":6"][..],
        ),
        ("hold ", &["clusterqueue/", "job/", "localqueue/", ":6"]),
        ("hold clusterqueue/", &["clusterqueue/team-a", ":4"]),
        (
            "explain -n NS job/",
            &["job/free", "job/runs", "job/urgent", "job/waits", ":4"],
        ),
        ("explain -n NS job/r", &["job/runs", ":4"]),
        ("evict --namespace=NS podgroup/", &["podgroup/gang", ":4"]),
        ("evict -n NS workload/ru", &["workload/runs-1", ":4"]),
        ("resume -n NS localqueue/", &["localqueue/main", ":4"]),
        ("list -n NS --queue=", &["main", ":4"]),
        ("gates lift ", &["acme.io/budget", ":4"]),
        ("gates lift acme.io/budget -n NS job/", &["job/waits", ":4"]),
        ("create cluster-queue x --cohort ", &[":4"]),
        ("explain train/", &[":4"]),
    ] {
        let line = line.replace("NS", &ns);
        assert_eq!(values(admin, &line), expected, "{line}");
    }
    assert!(values(admin, "list -n na").contains(&ns));

    // Who may see less is offered less, and is told nothing else.
    let tenant = cp.service_account_kubeconfig(&ns, "tenant").await?;
    let limit = std::time::Duration::from_mins(1);
    sluice_testbed::eventually("the rights to be known", limit, async || {
        let found = values(&tenant, &format!("list -n {ns} -q "));
        anyhow::ensure!(found == ["main", ":4"], "{found:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    assert_eq!(values(&tenant, "list -n "), [":4"]);
    assert_eq!(values(&tenant, &format!("explain -n {ns} job/")), [":4"]);

    by_others(admin, &ns)
}

/// As bash and kubectl complete it.
fn by_others(admin: &Path, ns: &str) -> Result<()> {
    let folder = on_the_path()?;
    let path = std::env::var("PATH").context("there is a PATH")?;
    let path = format!("{}:{path}", folder.display());
    let mut kubectl = Command::new(Assets::ensure()?.binary("kubectl")?);
    kubectl
        .args(["__complete", "sluice", "explain", "-n", ns, "job/u"])
        .env("PATH", &path)
        .env("KUBECONFIG", admin);
    let (_, stdout, stderr) = run(&mut kubectl);
    assert_eq!(stdout, "job/urgent\n:4\n", "{stderr}");

    let (_, script, _) = run(Command::new(PLUGIN).args(["completion", "bash"]));
    for (line, expected) in [
        (
            format!("kubectl-sluice explain -n {ns} job/"),
            "job/free job/runs job/urgent job/waits",
        ),
        (format!("kubectl-sluice list -n {ns} --queue="), "main"),
        ("kubectl-sluice react".to_owned(), "reactivate"),
    ] {
        let mut bash = Command::new("bash");
        let ask = format!(
            "compopt() {{ :; }}; {script}\nCOMP_LINE='{line}' COMP_POINT={} _kubectl_sluice; echo \"${{COMPREPLY[*]}}\"",
            line.len()
        );
        bash.args(["-c", &ask])
            .env("PATH", &path)
            .env("KUBECONFIG", admin);
        let (_, stdout, stderr) = run(&mut bash);
        assert_eq!(stdout.trim_end(), expected, "{line}: {stderr}");
    }
    Ok(())
}
