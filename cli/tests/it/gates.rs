//! `kubectl sluice gates` without a cluster: wrong usage, and clusters that can't be asked.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code, standard output and standard error.
pub(crate) type Run = (Option<i32>, String, String);

/// Runs the plugin.
pub(crate) fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn gates(arguments: &[&str], kubeconfig: &Path) -> Run {
    run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
        .arg("gates")
        .args(arguments)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", "/nonexistent")
        .env_remove("KUBERNETES_SERVICE_HOST"))
}

/// A kubeconfig for a server on this port.
pub(crate) fn kubeconfig(name: &str, port: u16) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: here, \
          clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}], \
          users: [{{name: u, user: {{}}}}], \
          contexts: [{{name: here, context: {{cluster: c, user: u, namespace: team}}}}]}}"
    );
    fs::write(&path, text).unwrap();
    path
}

/// As in `kubectl sluice status 2>&1 | true`.
#[test]
fn nobody_need_read_what_is_wrong() {
    let kubeconfig = Path::new("/nonexistent/kubeconfig");
    for command in ["status", "explain job/a", "uninstall --dry-run", "audit"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
            .args(command.split(' '))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .status();
        assert_eq!(status.unwrap().code(), Some(2), "{command}");
    }
}

#[test]
fn wrong_usage_is_found_before_a_cluster_is_asked() {
    let gate = "acme.io/budget";
    let long = format!("acme.io/{}", "x".repeat(60));
    let cases: Vec<(Vec<&str>, &str)> = vec![
        (
            vec!["lift", gate],
            "error: say which object: KIND/NAME, or --all\n",
        ),
        (
            vec!["lift", gate, "train"],
            "error: \"train\" names no object: say KIND/NAME, as in job/train\n",
        ),
        (
            vec!["lift", gate, "job/a/b"],
            "error: \"job/a/b\" names no object: say KIND/NAME, as in job/train\n",
        ),
        (
            vec!["lift", gate, "job/a", "-A"],
            "error: -A goes with --all: an object is in one namespace\n",
        ),
        (
            vec!["lift", gate, "job/a", "--all"],
            "error: the argument '[KIND/NAME]' cannot be used with '--all'\n",
        ),
        (
            vec!["lift", gate, "--all", "-A", "-n", "x"],
            "error: the argument '--all-namespaces' cannot be used with '--namespace <NAME>'\n",
        ),
        (
            vec!["lift", gate, "job/a", "--dry-run=client"],
            "error: invalid value 'client' for '--dry-run[=<server>]'\n",
        ),
        (
            vec!["lift", "budget", "job/a"],
            "error: \"budget\" names no gate: say acme.io/budget, or budget.acme.io as its Gate is named\n",
        ),
        (
            vec!["lift", &long, "job/a"],
            "error: GATE: Too long: may not be more than 63 bytes\n",
        ),
        (
            vec!["lift", "acme.io/a.b", "--all"],
            "error: acme.io/a.b has no Gate, as its path is no DNS label, and so no label by which its objects are found\n",
        ),
        (
            vec!["show", "Acme.io/x"],
            "error: GATE: Invalid value: \"Acme.io\": ",
        ),
        (
            vec!["list", "-o", "table"],
            "error: invalid value 'table' for '--output <FORMAT>'\n",
        ),
    ];
    for (arguments, expected) in cases {
        let (code, stdout, stderr) = gates(&arguments, Path::new("/nonexistent/kubeconfig"));
        assert!(stderr.starts_with(expected), "{arguments:?}: {stderr}");
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
    }
}

#[test]
fn a_cluster_that_can_not_be_asked_is_told() {
    // A port on which nobody listens any more.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = kubeconfig("gates-nobody.yaml", port);
    let missing = Path::new("/nonexistent/kubeconfig");
    let cases: [(&[&str], &Path, &str); 5] = [
        (&["list"], missing, "error: can't read the kubeconfig: "),
        (
            &["list", "--context", "there"],
            &nobody,
            "error: can't read the kubeconfig: ",
        ),
        (&["list"], &nobody, "error: can't list Gates: "),
        (
            &["show", "acme.io/budget"],
            &nobody,
            "error: can't read the Gate: ",
        ),
        (
            &["lift", "acme.io/budget", "--all", "-n", "no/where"],
            &nobody,
            "error: --namespace \"no/where\": must be a lowercase RFC 1123 subdomain\n",
        ),
    ];
    for (arguments, kubeconfig, expected) in cases {
        let (code, stdout, stderr) = gates(arguments, kubeconfig);
        assert!(stderr.starts_with(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{arguments:?}");
    }
    let (.., stderr) = gates(&["list"], &nobody);
    assert!(stderr.contains("onnection refused"), "{stderr}");
}

/// As in `kubectl sluice version && deploy`.
#[test]
fn a_version_without_an_answer_is_an_error() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let nobody = kubeconfig("version-nobody.yaml", port);
    for kubeconfig in [nobody.as_path(), Path::new("/nonexistent/kubeconfig")] {
        let (code, stdout, stderr) = run(Command::new(env!("CARGO_BIN_EXE_kubectl-sluice"))
            .args(["version", "--kubeconfig"])
            .arg(kubeconfig));
        let version = format!("Client:  {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!((code, stdout), (Some(2), version), "{stderr}");
        assert!(stderr.starts_with("error: can't "), "{stderr}");
    }
}

#[test]
fn a_gate_that_can_have_no_object_is_shown_without_a_cluster() {
    let (code, stdout, stderr) = gates(&["show", "acme.io/a.b"], Path::new("/nonexistent"));
    assert!(
        stdout.contains("a gate like this can't have a Gate"),
        "{stdout}"
    );
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
}

#[test]
fn help_tells_the_exit_codes() {
    for command in ["list", "show", "lift"] {
        let (code, stdout, _) = gates(&[command, "--help"], Path::new("/nonexistent"));
        assert!(stdout.contains("Exit codes:\n  0  done\n"), "{stdout}");
        let usage = format!("Usage: kubectl sluice gates {command} ");
        assert!(stdout.contains(&usage), "{stdout}");
        assert_eq!(code, Some(0));
    }
}
