//! The names that a cluster has, with the caller's rights. What can't be had is left out.
//!
//! Must not know what is typed, but of a name whose kind says where to look.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use sluice_crds::{ClusterQueue, Cohort, Gate as GateObject, LocalQueue, POD_GROUP_LABEL};
use sluice_kinds::gates::Gate;
use sluice_kinds::names;

use super::candidate::Candidate;
use super::words::{Names, Scope};
use crate::cluster::{Cluster, Connection, POD_GROUP, Served, declared, run};
use crate::rules::shipped;

/// Objects that are asked for, as no more are offered.
const OBJECTS_MAX: u32 = 500;

/// The names.
pub fn live(asked: &Names, scope: &Scope, current: &str) -> Vec<Candidate> {
    let connection = Connection::new(scope.kubeconfig.as_deref(), scope.context.as_deref());
    let found = if *asked == Names::Contexts {
        connection.contexts()
    } else {
        let names = async {
            let cluster = Cluster::connect(&connection).await.ok()?;
            let namespace = scope.namespace.as_deref();
            let namespace = namespace.unwrap_or_else(|| cluster.default_namespace());
            // It becomes part of a URL.
            if !names::subdomain(namespace, "").is_empty() {
                return None;
            }
            of_cluster(&cluster, asked, namespace, current).await
        };
        run(names).ok().flatten().unwrap_or_default()
    };
    found.into_iter().map(Candidate::new).collect()
}

async fn of_cluster(
    cluster: &Cluster,
    asked: &Names,
    namespace: &str,
    current: &str,
) -> Option<Vec<String>> {
    let all = |resource: ApiResource| Api::all_with(cluster.client.clone(), &resource);
    match asked {
        Names::Contexts => None,
        Names::Namespaces => listed(&all(ApiResource::erase::<Namespace>(&())), "").await,
        Names::ClusterQueues => listed(&all(ApiResource::erase::<ClusterQueue>(&())), "").await,
        Names::Cohorts => listed(&all(ApiResource::erase::<Cohort>(&())), "").await,
        Names::Gates => {
            let objects = listed(&all(ApiResource::erase::<GateObject>(&())), "").await?;
            let gates = objects.iter().filter_map(|name| Gate::of_object(name));
            Some(gates.map(|gate| gate.as_str().to_owned()).collect())
        }
        Names::LocalQueues => {
            let resource = ApiResource::erase::<LocalQueue>(&());
            let api = Api::namespaced_with(cluster.client.clone(), namespace, &resource);
            listed(&api, "").await
        }
        Names::Objects { others, gate } => {
            let Some((kind, _)) = current.split_once('/') else {
                return kinds(cluster, others).await;
            };
            let found = objects(cluster, kind, gate.as_deref(), namespace).await?;
            let named = found.into_iter().map(|name| format!("{kind}/{name}"));
            Some(named.collect())
        }
    }
}

/// The words for the kinds of jobs that are served, and `others`, each with a slash.
async fn kinds(cluster: &Cluster, others: &[&str]) -> Option<Vec<String>> {
    let served = Served::ask(&cluster.client).await.ok()?;
    let declared = declared(&cluster.client, &served).await;
    let names: BTreeSet<String> = match declared {
        Ok(declared) => declared
            .into_iter()
            .map(|kind| kind.resource.name)
            .collect(),
        // Who may not list JobKinds has jobs all the same.
        Err(_) => shipped::compiled()
            .filter_map(|kind| served.of_kind(&kind.group, &kind.version, &kind.kind))
            .map(|resource| resource.name)
            .collect(),
    };
    let mut words: Vec<String> = others.iter().map(|word| format!("{word}/")).collect();
    for name in &names {
        let (kind, _) = name.split_once('.').unwrap_or((name, ""));
        // What the short word means to the API server may be another kind of that name.
        let is_meant = served.named(kind).is_ok_and(|found| found.name == *name);
        words.push(format!("{}/", if is_meant { kind } else { name }));
    }
    Some(words)
}

/// The names of the objects of a kind; with a gate, of those that it holds.
async fn objects(
    cluster: &Cluster,
    kind: &str,
    gate: Option<&str>,
    namespace: &str,
) -> Option<Vec<String>> {
    if kind.eq_ignore_ascii_case(POD_GROUP) {
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
        let params = ListParams::default()
            .labels(POD_GROUP_LABEL)
            .limit(OBJECTS_MAX);
        let found = pods.list_metadata(&params).await.ok()?;
        let groups = found.items.iter();
        let groups = groups.filter_map(|pod| pod.labels().get(POD_GROUP_LABEL).cloned());
        return Some(groups.collect());
    }
    let resource = Served::ask(&cluster.client).await.ok()?.named(kind).ok()?;
    let label = gate.and_then(held_by).unwrap_or_default();
    listed(&resource.objects(&cluster.client, Some(namespace)), &label).await
}

/// The label of what a gate holds.
fn held_by(gate: &str) -> Option<String> {
    let gate = if gate.contains('/') {
        Gate::parse(gate, "").ok()
    } else {
        Gate::of_object(gate)
    };
    gate?.held_by_label()
}

/// The names of objects with this label, or of all.
async fn listed(api: &Api<DynamicObject>, label: &str) -> Option<Vec<String>> {
    let params = ListParams::default().labels(label).limit(OBJECTS_MAX);
    let found = api.list_metadata(&params).await.ok()?;
    Some(
        found
            .items
            .iter()
            .map(kube::ResourceExt::name_any)
            .collect(),
    )
}
