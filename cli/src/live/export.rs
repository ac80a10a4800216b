//! The queues and Workloads of a cluster as documents, for the simulation to play.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use serde_json::Value;
use sluice_crds::{
    ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Workload, WorkloadPriorityClass,
};

use super::outcome::LiveError;
use crate::cluster::{Cluster, Connection, answer};
use crate::input::Document;

/// Objects that are asked for at a time.
const PAGE: u32 = 500;

/// All queues, classes, namespaces and Workloads of a cluster.
///
/// # Errors
/// The API server refuses one of them, or does not answer.
pub fn export(connection: &Connection) -> Result<Vec<Document>, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LiveError::NoRuntime)?;
    let exported = runtime.block_on(async {
        let cluster = Cluster::connect(connection).await?;
        let resources = [
            ApiResource::erase::<ResourceFlavor>(&()),
            ApiResource::erase::<Cohort>(&()),
            ApiResource::erase::<ClusterQueue>(&()),
            ApiResource::erase::<LocalQueue>(&()),
            ApiResource::erase::<WorkloadPriorityClass>(&()),
            ApiResource::erase::<PriorityClass>(&()),
            ApiResource::erase::<Namespace>(&()),
            ApiResource::erase::<Workload>(&()),
        ];
        let mut documents = Vec::new();
        for resource in resources {
            add(&cluster, &resource, &mut documents).await?;
        }
        Ok(documents)
    });
    // A credential plugin that hangs must not keep the process.
    runtime.shutdown_background();
    exported
}

async fn add(
    cluster: &Cluster,
    resource: &ApiResource,
    documents: &mut Vec<Document>,
) -> Result<(), LiveError> {
    let api = Api::<DynamicObject>::all_with(cluster.client.clone(), resource);
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let what = format!("list {}", resource.plural);
        let page = answer(what, api.list(&params)).await?;
        for (object, number) in page.items.into_iter().zip(1..) {
            let value = serde_json::to_value(object);
            let mut value = value.map_err(|error| LiveError::Unprintable(error.to_string()))?;
            if let Value::Object(fields) = &mut value {
                fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
                fields.insert("kind".to_owned(), resource.kind.clone().into());
            }
            documents.push(Document {
                file: "the cluster".to_owned(),
                place: format!("object {number}"),
                value,
            });
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
