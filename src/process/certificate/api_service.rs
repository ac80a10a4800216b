//! The APIService of `visibility.sluice.dev`: has the API server trust Sluice's certificate. The certificate is made
//! beside this.

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use sluice_webhooks::manifests::FIELD_MANAGER;
use tracing::info;

/// The APIService.
const NAME: &str = "v1alpha1.visibility.sluice.dev";
/// The service that it leads to. One that leads elsewhere is not Sluice's.
const SERVICE: &str = "sluice-visibility";

/// Has the APIService trust `bundle`, if there is one.
///
/// # Errors
/// It can't be read, or not be written to.
pub async fn trust(client: &Client, bundle: &str) -> Result<()> {
    let api: Api<APIService> = Api::all(client.clone());
    let found = api.get_opt(NAME).await;
    let found = found.with_context(|| format!("get APIService {NAME}"))?;
    let spec = found.and_then(|found| found.spec);
    let is_stale = spec.is_some_and(|spec| {
        let leads_here = spec.service.and_then(|service| service.name);
        let is_own = leads_here.as_deref() == Some(SERVICE);
        let known = spec.ca_bundle.map(|known| known.0);
        is_own && known.as_deref() != Some(bundle.as_bytes())
    });
    if !is_stale {
        return Ok(());
    }
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = json!({"spec": {"caBundle": ByteString(bundle.as_bytes().to_vec())}});
    api.patch(NAME, &params, &Patch::Merge(patch))
        .await
        .with_context(|| format!("put the CA into APIService {NAME}"))?;
    info!("put the CA into the APIService");
    Ok(())
}
