//! The names that a cluster has, with the caller's rights. What can't be had is left out.
//!
//! Must not know what is typed, but of a name whose kind says where to look.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, PartialObjectMeta};
use sluice_crds::{ClusterQueue, Cohort, Gate as GateObject, LocalQueue, POD_GROUP_LABEL};
use sluice_kinds::gates::Gate;
use sluice_kinds::names;
use tokio::time::{Instant, timeout_at};

use super::candidate::Candidate;
use super::words::{Names, Scope};
use crate::cluster::{Cluster, Connection, POD_GROUP, Served, declared, run};
use crate::rules::shipped;

/// Objects that are asked for at a time.
const PAGE: u32 = 500;
/// Names that are looked for, as no more are offered.
const NAMES_MAX: usize = 500;
/// Until when further pages are asked for: what the first ones have is offered before the deadline of all names.
const PAGES_DEADLINE: Duration = Duration::from_millis(1500);

/// What is read of an object.
type Metadata = PartialObjectMeta<DynamicObject>;

/// Which names are looked for, and for how long.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    /// How they begin.
    prefix: &'a str,
    /// When no further page is asked for.
    until: Instant,
}

/// The names.
pub fn live(asked: &Names, scope: &Scope, current: &str) -> Vec<Candidate> {
    let until = Instant::now() + PAGES_DEADLINE;
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
            let wanted = Wanted {
                prefix: current,
                until,
            };
            of_cluster(&cluster, asked, namespace, wanted).await
        };
        run(names).ok().flatten().unwrap_or_default()
    };
    found.into_iter().map(Candidate::new).collect()
}

async fn of_cluster(
    cluster: &Cluster,
    asked: &Names,
    namespace: &str,
    wanted: Wanted<'_>,
) -> Option<Vec<String>> {
    let all = |resource: ApiResource| Api::all_with(cluster.client.clone(), &resource);
    match asked {
        Names::Contexts => None,
        Names::Namespaces => {
            let api = all(ApiResource::erase::<Namespace>(&()));
            listed(&api, "", wanted, own_name).await
        }
        Names::ClusterQueues => {
            let api = all(ApiResource::erase::<ClusterQueue>(&()));
            listed(&api, "", wanted, own_name).await
        }
        Names::Cohorts => {
            let api = all(ApiResource::erase::<Cohort>(&()));
            listed(&api, "", wanted, own_name).await
        }
        Names::Gates => {
            let api = all(ApiResource::erase::<GateObject>(&()));
            let gate = |object: &Metadata| {
                let gate = Gate::of_object(&object.name_any())?;
                Some(gate.as_str().to_owned())
            };
            listed(&api, "", wanted, gate).await
        }
        Names::LocalQueues => {
            let resource = ApiResource::erase::<LocalQueue>(&());
            let api = Api::namespaced_with(cluster.client.clone(), namespace, &resource);
            listed(&api, "", wanted, own_name).await
        }
        Names::Objects { others, gate } => {
            let Some((kind, prefix)) = wanted.prefix.split_once('/') else {
                return kinds(cluster, others).await;
            };
            let wanted = Wanted { prefix, ..wanted };
            let found = objects(cluster, (kind, gate.as_deref()), namespace, wanted).await?;
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
    (kind, gate): (&str, Option<&str>),
    namespace: &str,
    wanted: Wanted<'_>,
) -> Option<Vec<String>> {
    if kind.eq_ignore_ascii_case(POD_GROUP) {
        let resource = ApiResource::erase::<Pod>(&());
        let pods = Api::namespaced_with(cluster.client.clone(), namespace, &resource);
        let group = |pod: &Metadata| pod.labels().get(POD_GROUP_LABEL).cloned();
        return listed(&pods, POD_GROUP_LABEL, wanted, group).await;
    }
    let resource = Served::ask(&cluster.client).await.ok()?.named(kind).ok()?;
    let label = gate.and_then(held_by).unwrap_or_default();
    let objects = resource.objects(&cluster.client, Some(namespace));
    listed(&objects, &label, wanted, own_name).await
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

#[expect(
    clippy::unnecessary_wraps,
    reason = "not every object has a name of the other sorts"
)]
fn own_name(object: &Metadata) -> Option<String> {
    Some(object.name_any())
}

/// The first names that are wanted of those that objects with this label, or all, have. None if they can't be listed.
async fn listed(
    api: &Api<DynamicObject>,
    label: &str,
    wanted: Wanted<'_>,
    name: impl Fn(&Metadata) -> Option<String>,
) -> Option<Vec<String>> {
    let mut params = ListParams::default().labels(label).limit(PAGE);
    let mut found = BTreeSet::new();
    let mut page = api.list_metadata(&params).await.ok()?;
    loop {
        let names = page.items.iter().filter_map(&name);
        found.extend(names.filter(|name| name.starts_with(wanted.prefix)));
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        let goes_on = found.len() < NAMES_MAX && Instant::now() < wanted.until;
        let Some(token) = next.filter(|_| goes_on) else {
            break;
        };
        params = params.continue_token(&token);
        match timeout_at(wanted.until, api.list_metadata(&params)).await {
            Ok(Ok(next)) => page = next,
            // It is late, or the list is too old: what is known is offered.
            Ok(Err(_)) | Err(_) => break,
        }
    }
    Some(found.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// Objects whose names begin with `a`, in as many pages; then one with `z` on the last.
    fn pages(count: usize) -> Api<DynamicObject> {
        let answering = tower::service_fn(move |request: Request<Body>| async move {
            let query = request.uri().query().unwrap_or_default();
            let token = query
                .split('&')
                .find_map(|part| part.strip_prefix("continue="));
            let number: usize = token.map_or(0, |token| token.parse().unwrap());
            let names = (0..PAGE).map(|index| format!("a-{number}-{index:03}"));
            let mut names: Vec<String> = names.collect();
            let is_last = number + 1 == count;
            if is_last {
                names.push("z".to_owned());
            }
            let items = names.iter().map(|name| json!({"metadata": {"name": name}}));
            let items: Vec<_> = items.collect();
            let next = if is_last {
                String::new()
            } else {
                (number + 1).to_string()
            };
            let list = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"continue": next}, "items": items});
            Ok::<_, Infallible>(Response::new(Body::from(list.to_string().into_bytes())))
        });
        let client = Client::new(answering, "default");
        Api::all_with(client, &ApiResource::erase::<ClusterQueue>(&()))
    }

    #[tokio::test]
    async fn names_are_looked_for_on_later_pages_while_there_is_time() {
        let objects = pages(3);
        let found = async |prefix, until| {
            let wanted = Wanted { prefix, until };
            listed(&objects, "", wanted, own_name).await.unwrap()
        };
        let now = Instant::now();
        let later = now + Duration::from_mins(1);
        assert_eq!(found("z", later).await, ["z"]);
        assert_eq!(found("a-1-49", later).await.len(), 10);
        // As many as are offered are on the first page.
        assert_eq!(found("a", later).await.len(), NAMES_MAX);
        assert_eq!(found("z", now).await, Vec::<String>::new());
    }
}
