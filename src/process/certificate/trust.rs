//! Which webhook configurations trust which CA, and the patches that have them trust another one.

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::Value;
use sluice_webhooks::manifests::{self, CONFIGURATION, DECLARED, FIELD_MANAGER};
use tracing::info;

/// Whether the webhook configurations trust what is served.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// They do.
    InPlace,
    /// They did not, and have just been told: API servers may not know it yet.
    Mended,
    /// One of those that are shipped isn't there.
    Missing,
    /// They trust another CA, and the leader has not mended that yet.
    Stale,
}

pub(super) type Bundles = Vec<(String, String)>;

pub(super) fn bundles(webhooks: impl Iterator<Item = (String, Option<ByteString>)>) -> Bundles {
    webhooks
        .map(|(name, bundle)| {
            (
                name,
                bundle
                    .map(|b| String::from_utf8_lossy(&b.0).into_owned())
                    .unwrap_or_default(),
            )
        })
        .collect()
}

/// The patches for the configurations of one kind that don't trust `bundle`, by their names. None if the shipped one is
/// not there: then Sluice's own may not be written, and goes.
pub(super) async fn patches<K>(
    api: &Api<K>,
    bundles: impl Fn(K) -> Bundles,
    bundle: &str,
) -> Result<Option<Vec<(&'static str, Value)>>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let Some(shipped) = api.get_opt(CONFIGURATION).await? else {
        return Ok(None);
    };
    // Sluice's own may not be made yet.
    let own = api.get_opt(DECLARED).await?;
    let found = [(CONFIGURATION, Some(shipped)), (DECLARED, own)];
    let patches = found.into_iter().filter_map(|(name, found)| {
        let patch = patch(&bundles(found?), bundle)?;
        Some((name, patch))
    });
    Ok(Some(patches.collect()))
}

/// The patch for the webhooks that don't trust `bundle`.
fn patch(found: &Bundles, bundle: &str) -> Option<Value> {
    let stale: Vec<&str> = found
        .iter()
        .filter(|(_, known)| known != bundle)
        .map(|(name, _)| name.as_str())
        .collect();
    (!stale.is_empty()).then(|| manifests::ca_bundle_patch(&stale, bundle))
}

pub(super) async fn trust_in<K>(api: &Api<K>, name: &str, patch: &Value) -> Result<()>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug + kube::Resource<DynamicType = ()>,
{
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patched = api.patch(name, &params, &Patch::Strategic(patch)).await;
    let configuration = patched.context("put the CA into the webhook configuration")?;
    info!(kind = %K::kind(&()), name = %configuration.name_any(), "put the CA into the webhook configuration");
    Ok(())
}
