//! Which namespace Sluice is in: that of the account to which its rights are bound.
//!
//! Must not know what is done there.

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use serde_json::Value;

use super::connection::{ClusterError, answer};

/// Where the manifests put Sluice.
pub const NAMESPACE: &str = "sluice-system";
/// The binding of the account's rights.
const BINDING: &str = "sluice";

/// The namespace that Sluice is in; [`NAMESPACE`] if nothing says another.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn home(client: &Client) -> Result<String, ClusterError> {
    let resource = ApiResource::erase::<k8s_openapi::api::rbac::v1::ClusterRoleBinding>(&());
    let bindings = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let binding = answer("find Sluice's account", bindings.get_opt(BINDING)).await?;
    let account = binding.as_ref().and_then(|binding| {
        let namespace = binding.data.pointer("/subjects/0/namespace");
        namespace.and_then(Value::as_str)
    });
    Ok(account.unwrap_or(NAMESPACE).to_owned())
}
