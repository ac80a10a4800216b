//! The kinds that JobKinds declare, as the cluster serves them.
//!
//! Must not know what is done with their objects.

use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use sluice_crds::JobKind;
use sluice_kinds::CompiledKind;

use super::connection::ClusterError;
use super::pages;
use super::resource::{Resource, Served};

/// A kind that a JobKind declares.
#[derive(Debug)]
pub struct Declared {
    /// Where its objects are.
    pub resource: Resource,
    /// How its objects are read; None if the JobKind can't be used.
    pub rules: Option<CompiledKind>,
}

/// The kinds that JobKinds declare, each once. One that is not served is left out.
///
/// # Errors
/// The API server refuses or does not answer.
pub async fn declared(client: &Client, served: &Served) -> Result<Vec<Declared>, ClusterError> {
    let resource = ApiResource::erase::<JobKind>(&());
    let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let listed = pages::list("list JobKinds", &api, ListParams::default()).await?;
    let mut found: Vec<Declared> = Vec::new();
    for object in listed {
        let text = |field: &str| {
            let field = object.data.get("spec").and_then(|spec| spec.get(field));
            field
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
        };
        let (group, version, kind) = (text("group"), text("version"), text("kind"));
        let Some(resource) = served.of_kind(group, version, kind) else {
            continue;
        };
        if found.iter().any(|one| one.resource.name == resource.name) {
            continue;
        }
        let rules = object.clone().try_parse::<JobKind>().ok();
        let rules = rules.and_then(|kind| CompiledKind::compile(&kind).ok());
        found.push(Declared { resource, rules });
    }
    Ok(found)
}
