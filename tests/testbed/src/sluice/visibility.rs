//! visibility.sluice.dev behind the API server of a run: how a Sluice serves it here, and how it is registered.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{NAMESPACE, SluiceOptions};
use crate::controlplane::ControlPlane;
use crate::programs::assets;

/// What registers it.
const SERVICE: &str = "config/visibility/api-service.yaml";

impl SluiceOptions {
    /// The same, serving visibility.sluice.dev on a port of this machine.
    #[must_use]
    pub fn with_visibility(mut self, port: u16) -> Self {
        let bind = format!("--visibility-bind=127.0.0.1:{port}");
        self.args.push(bind);
        self
    }
}

/// Has the API server pass requests for visibility.sluice.dev on to that port, by the APIService that is shipped. A Service
/// is given no loopback address, but an external name may lead to one.
///
/// # Errors
/// When kubectl refuses a manifest, or what is shipped names no port.
pub async fn register_visibility(control_plane: &ControlPlane, port: u16) -> Result<()> {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "sluice-visibility", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let shipped = std::fs::read_to_string(assets::repository()?.join(SERVICE))?;
    let here = shipped.replace("    port: 443\n", &format!("    port: {port}\n"));
    ensure!(here != shipped, "{SERVICE} names no port 443");
    for manifest in [service.to_string(), here] {
        let applied = control_plane.kubectl(["apply", "-f", "-"], Some(&manifest));
        applied.await?.ok()?;
    }
    Ok(())
}
