//! Credential plugins, and when they have to answer.

use serde_json::{Value, json};

use super::*;
use crate::cluster::runtime::run;

/// Why there is no client with this credential plugin, within a moment; none if there is one.
fn told(command: &str, arguments: &[&str], mode: &str) -> Option<String> {
    let exec: Value = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": command,
        "args": arguments, "interactiveMode": mode});
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    config.auth_info.exec = serde_json::from_value(exec).unwrap();
    // As in a command: what still runs keeps nobody.
    let made = run(client(config, Duration::from_secs(1))).unwrap();
    made.err().map(|error| error.to_string())
}

#[test]
fn a_credential_plugin_has_a_deadline_unless_it_may_ask() {
    let late =
        "can't get credentials from the plugin \"sleep\" of the kubeconfig: no answer within 1 s";
    assert_eq!(told("sleep", &["30"], "Never").as_deref(), Some(late));
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": "t"}});
    let slow = format!("sleep 2; echo '{credential}'");
    assert_eq!(told("sh", &["-c", &slow], "IfAvailable"), None);
    let fails = told("false", &[], "Never").unwrap();
    assert!(fails.starts_with("can't connect: "), "{fails}");
}
