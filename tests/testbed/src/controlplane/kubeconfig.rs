//! Kubeconfig files: one for each user of the control plane, by certificate or by token.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// How a user proves who they are.
pub(crate) enum Credentials<'a> {
    /// A certificate file and its key file.
    Certificate(&'a Path, &'a Path),
    /// A bearer token.
    Token(&'a str),
}

/// Writes a kubeconfig that speaks to `server` and trusts the CA in `ca`.
pub(crate) fn write(
    path: &Path,
    server: &str,
    ca: &Path,
    namespace: &str,
    credentials: &Credentials<'_>,
) -> Result<()> {
    write_for("testbed", path, server, ca, namespace, credentials)
}

/// Writes a kubeconfig by which API servers authenticate to all webhooks.
pub(crate) fn write_for_webhooks(
    path: &Path,
    ca: &Path,
    credentials: &Credentials<'_>,
) -> Result<()> {
    // The API server takes the credentials of the name `*` for every webhook, wherever it is served.
    write_for("*", path, "https://127.0.0.1", ca, "default", credentials)
}

fn write_for(
    user_name: &str,
    path: &Path,
    server: &str,
    ca: &Path,
    namespace: &str,
    credentials: &Credentials<'_>,
) -> Result<()> {
    let user = match credentials {
        Credentials::Certificate(certificate, key) => {
            json!({ "client-certificate": certificate, "client-key": key })
        }
        Credentials::Token(token) => json!({ "token": token }),
    };
    let config: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "testbed",
        "clusters": [{
            "name": "testbed",
            "cluster": { "server": server, "certificate-authority": ca },
        }],
        "contexts": [{
            "name": "testbed",
            "context": { "cluster": "testbed", "user": user_name, "namespace": namespace },
        }],
        "users": [{ "name": user_name, "user": user }],
    });
    // JSON is YAML: every reader of kubeconfigs takes it.
    std::fs::write(path, serde_json::to_string_pretty(&config)?)
        .with_context(|| format!("writing {}", path.display()))
}
