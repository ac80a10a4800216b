//! What is asked of the cluster: its namespaces, the kinds whose objects need a queue, and their objects.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use sluice_crds::JobKind;

use super::finding::{Counts, Kind, NamespaceLabels};
use crate::cluster::Served;
use crate::cluster::{ClusterError, answer};

/// Objects that are asked for at a time.
const PAGE: u32 = 500;
/// Kinds of Kubernetes that make jobs or pods, with the path of what they make.
const MAKERS: [(&str, &str, &str); 3] = [
    ("batch", "CronJob", "/spec/jobTemplate/metadata/labels"),
    ("apps", "ReplicaSet", "/spec/template/metadata/labels"),
    (
        "",
        "ReplicationController",
        "/spec/template/metadata/labels",
    ),
];

/// The labels of this namespace, or of all.
pub(super) async fn namespaces(
    client: &Client,
    namespace: Option<&str>,
) -> Result<NamespaceLabels, ClusterError> {
    let all = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    let labels = |found: &k8s_openapi::api::core::v1::Namespace| {
        let labels = found.labels().clone();
        (found.name_any(), labels)
    };
    if let Some(name) = namespace {
        let found = answer(format!("get namespace {name}"), all.get(name)).await?;
        return Ok(BTreeMap::from([labels(&found)]));
    }
    let found = answer("list namespaces", all.list(&ListParams::default())).await?;
    Ok(found.items.iter().map(labels).collect())
}

/// The kinds that are looked at: those that JobKinds declare, pods, and what makes either.
pub(super) async fn kinds(client: &Client) -> Result<Vec<Kind>, ClusterError> {
    let served = Served::ask(client).await?;
    let resource = ApiResource::erase::<JobKind>(&());
    let job_kinds = Api::<DynamicObject>::all_with(client.clone(), &resource);
    let found = answer("list JobKinds", job_kinds.list(&ListParams::default())).await?;
    let text = |object: &DynamicObject, field: &str| {
        let text = object.data.pointer(&format!("/spec/{field}"));
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut declared = BTreeSet::new();
    let mut kinds = Vec::new();
    for object in &found.items {
        let (group, kind) = (text(object, "group"), text(object, "kind"));
        let resource = served.of_kind(&group, &text(object, "version"), &kind);
        if let Some(resource) = resource.filter(|_| declared.insert((group, kind))) {
            kinds.push(Kind {
                resource,
                counts: Counts::Own,
            });
        }
    }
    for (group, kind, path) in MAKERS {
        let is_declared = declared.contains(&(group.to_owned(), kind.to_owned()));
        if let Some(resource) = served.of_kind(group, "v1", kind).filter(|_| !is_declared) {
            kinds.push(Kind {
                resource,
                counts: Counts::OfTemplate(path),
            });
        }
    }
    if let Some(resource) = served.of_kind("", "v1", "Pod") {
        kinds.push(Kind {
            resource,
            counts: Counts::OfPod,
        });
    }
    Ok(kinds)
}

/// The objects of a kind; of pods only those that have not ended.
pub(super) async fn objects(
    client: &Client,
    kind: &Kind,
    namespace: Option<&str>,
) -> Result<Vec<DynamicObject>, ClusterError> {
    let api = kind.resource.objects(client, namespace);
    let mut params = ListParams::default().limit(PAGE);
    if kind.counts == Counts::OfPod {
        params = params.fields("status.phase!=Succeeded,status.phase!=Failed");
    }
    let mut objects = Vec::new();
    loop {
        let what = format!("list {}", kind.resource.name);
        let page = answer(what, api.list(&params)).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params = params.continue_token(&next),
            None => return Ok(objects),
        }
    }
}
