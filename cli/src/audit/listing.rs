//! What is asked of the cluster: its namespaces, the kinds whose objects need a queue, and their objects.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use sluice_configuration::Configuration;
use sluice_crds::WorkloadPriorityClass;
use sluice_webhooks::Surroundings;

use super::finding::{CountingLabel, Kind, NamespaceLabels};
use crate::cluster::{ClusterError, Served, answer, declared, pages};

/// Kinds of Kubernetes that make jobs or pods, with the path of the metadata of what they make.
const MAKERS: [(&str, &str, &str); 3] = [
    ("batch", "CronJob", "/spec/jobTemplate/metadata"),
    ("apps", "ReplicaSet", "/spec/template/metadata"),
    ("", "ReplicationController", "/spec/template/metadata"),
];

/// This namespace, or all.
pub(super) async fn namespaces(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<Namespace>, ClusterError> {
    let all = Api::<Namespace>::all(client.clone());
    if let Some(name) = namespace {
        let found = answer(format!("get namespace {name}"), all.get(name)).await?;
        return Ok(vec![found]);
    }
    let found = answer("list namespaces", all.list(&ListParams::default())).await?;
    Ok(found.items)
}

/// The kinds that are looked at: those that JobKinds declare, pods, and what makes either.
pub(super) async fn kinds(client: &Client) -> Result<Vec<Kind>, ClusterError> {
    let served = Served::ask(client).await?;
    let declared = declared(client, &served).await?.into_iter();
    let mut kinds: Vec<Kind> = declared
        .map(|kind| Kind {
            resource: kind.resource,
            counts: CountingLabel::Own,
            rules: kind.rules.map(Arc::new),
        })
        .collect();
    for (group, kind, path) in MAKERS {
        let is_declared = (kinds.iter().map(|kind| &kind.resource.api))
            .any(|known| known.group == group && known.kind == kind);
        if let Some(resource) = served.of_kind(group, "v1", kind).filter(|_| !is_declared) {
            kinds.push(Kind {
                resource,
                counts: CountingLabel::OfTemplate(path),
                rules: None,
            });
        }
    }
    if let Some(resource) = served.of_kind("", "v1", "Pod") {
        kinds.push(Kind {
            resource,
            counts: CountingLabel::OfPod,
            rules: None,
        });
    }
    Ok(kinds)
}

/// What exceptions may ask about around an object, and what can't be listed of that.
pub(super) async fn surroundings(
    client: &Client,
    namespaces: &NamespaceLabels,
    configuration: &Configuration,
) -> (Surroundings, Vec<String>) {
    let mut known = Surroundings {
        namespaces: namespaces.clone(),
        ..Surroundings::default()
    };
    if !configuration.managed_namespaces().reads_priority() {
        return (known, Vec::new());
    }
    let mut missing = Vec::new();
    let mut listed = async |name: &str, resource: ApiResource| {
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let found = pages::list(&format!("list {name}"), &api, ListParams::default()).await;
        found.unwrap_or_else(|error| {
            missing.push(format!(
                "can't list {name}: {error}; exceptions that read priority cover nothing that depends on them"
            ));
            Vec::new()
        })
    };
    let resource = ApiResource::erase::<WorkloadPriorityClass>(&());
    for class in listed("WorkloadPriorityClasses", resource).await {
        let value = class.data.get("value").and_then(serde_json::Value::as_i64);
        if let Some(value) = value.and_then(|value| value.try_into().ok()) {
            known.workload_priorities.insert(class.name_any(), value);
        }
    }
    let resource = ApiResource::erase::<PriorityClass>(&());
    for class in listed("PriorityClasses", resource).await {
        known
            .priority_classes
            .put(&class.name_any(), Some(&class.data));
    }
    (known, missing)
}

/// The objects of a kind; of pods only those that have not ended.
pub(super) async fn objects(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Vec<DynamicObject>, ClusterError> {
    let api = kind.resource.objects(client, namespace);
    let mut params = ListParams::default();
    if kind.counts == CountingLabel::OfPod {
        params = params.fields("status.phase!=Succeeded,status.phase!=Failed");
    }
    pages::list(&format!("list {}", kind.resource.name), &api, params).await
}
