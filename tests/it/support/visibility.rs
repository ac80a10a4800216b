//! visibility.sluice.dev behind the API server of a test: how it is registered, and asked.

use std::net::TcpListener;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, SluiceOptions, eventually};

use super::bed::{BINARY, Bed};
use super::{DEADLINE, Scene};

/// Where the API is.
pub const ROOT: &str = "/apis/visibility.sluice.dev/v1alpha1";
/// Where it is.
const SERVICE: &str = "config/visibility/api-service.yaml";

/// A port that is free at the moment.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// A Sluice that serves the API on a port of this machine.
pub fn options(port: u16) -> SluiceOptions {
    SluiceOptions {
        args: vec![format!("--visibility-bind=127.0.0.1:{port}")],
        ..SluiceOptions::new(BINARY)
    }
}

/// Has the API server pass requests on to that port, by the APIService that is shipped. A Service is given no loopback
/// address, but an external name may lead to one.
pub async fn register(bed: &Bed, port: u16) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "sluice-visibility", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(SERVICE);
    let shipped = std::fs::read_to_string(shipped)?;
    let here = shipped.replace("    port: 443\n", &format!("    port: {port}\n"));
    ensure!(here != shipped, "{SERVICE} names no port 443");
    for manifest in [service.to_string(), here] {
        let applied = bed
            .cp
            .kubectl(["apply", "-f", "-"], Some(&manifest))
            .await?;
        applied.ok()?;
    }
    Ok(())
}

/// What the API server answers to a user, or to an administrator.
pub async fn get(scene: &Scene<'_>, user: Option<&str>, path: &str) -> Result<kube::Result<Value>> {
    let client = scene.cp.client_as(user)?;
    let request = http::Request::get(format!("{ROOT}/{path}")).body(Vec::new())?;
    Ok(client.request(request).await)
}

/// The answer when it is the one that is waited for.
pub async fn see(
    scene: &Scene<'_>,
    user: Option<&str>,
    path: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Result<Value> {
    eventually("the API to answer so", DEADLINE, async || {
        let answer = get(scene, user, path).await?;
        let answer = answer.map_err(|error| anyhow::anyhow!("{error}"))?;
        ensure!(is_so(&answer), "{answer}");
        Ok(answer)
    })
    .await
}
