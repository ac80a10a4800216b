//! visibility.sluice.dev behind the API server of a test: how it is registered, and asked.

use anyhow::{Result, ensure};
use serde_json::Value;
pub use sluice_testbed::free_port;
use sluice_testbed::{SluiceOptions, eventually, register_visibility};

use super::bed::{BINARY, Bed};
use super::{DEADLINE, Scene};

/// Where the API is.
pub const ROOT: &str = "/apis/visibility.sluice.dev/v1alpha1";

/// A Sluice that serves the API on a port of this machine.
pub fn options(port: u16) -> SluiceOptions {
    SluiceOptions::new(BINARY).with_visibility(port)
}

/// Has the API server pass requests on to that port.
pub async fn register(bed: &Bed, port: u16) -> Result<()> {
    register_visibility(&bed.cp, port).await
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
