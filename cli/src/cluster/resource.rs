//! Which resource a word of the user, or a JobKind, means: by what the API server says it serves. Pure.

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::core::discovery::v2::{
    ACCEPT_AGGREGATED_DISCOVERY_V2, APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery,
};
use serde_json::Value;
use sluice_crds::GROUP;
use sluice_kinds::names;
use thiserror::Error;

use super::connection::{ClusterError, answer};

/// A resource that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// How it is asked for.
    pub api: ApiResource,
    /// What one object is called: `job.batch`.
    pub name: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

/// What the API server serves, in its order of preference.
pub struct Served(Vec<APIGroupDiscovery>);

/// A resource that is not served.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the server doesn't have a resource type {0:?}")]
pub struct UnknownResource(String);

/// What a group of pods is called, which is no object: its name is the value of a label.
pub const POD_GROUP: &str = "PodGroup";

/// The kind and the name of `KIND/NAME`. The name of an object becomes part of a URL, so it must be one.
pub fn object_name(argument: &str) -> Option<(&str, &str)> {
    let (kind, name) = argument.split_once('/')?;
    let is_name = if kind.eq_ignore_ascii_case(POD_GROUP) {
        !name.is_empty() && !name.contains('/')
    } else {
        names::subdomain(name, "").is_empty()
    };
    (!kind.is_empty() && is_name).then_some((kind, name))
}

impl Resource {
    /// What a role calls it, with its group: `jobs.batch`.
    pub fn plural(&self) -> String {
        let ApiResource { group, plural, .. } = &self.api;
        match group.as_str() {
            "" => plural.clone(),
            group => format!("{plural}.{group}"),
        }
    }

    /// The objects of a namespace, or of all; of a resource without namespaces, all.
    pub fn objects(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.is_namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.api),
            None => Api::all_with(client.clone(), &self.api),
        }
    }
}

impl Served {
    /// Asks the API server.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn ask(client: &Client) -> Result<Self, ClusterError> {
        let core = groups(client, "/api").await?;
        let others = groups(client, "/apis").await?;
        Ok(Self(core.into_iter().chain(others).collect()))
    }

    /// The resource that is called so, as kubectl takes it: plural, singular, kind or short name, then its group, or
    /// its version and group. A word without a group is Sluice's own kind if there is one: beside Kueue, whose group the
    /// API server lists first, `clusterqueue` would be Kueue's.
    ///
    /// # Errors
    /// There is none.
    pub fn named(&self, word: &str) -> Result<Resource, UnknownResource> {
        let lower = word.to_lowercase();
        let (name, qualifier) = match lower.split_once('.') {
            Some((name, qualifier)) => (name, Some(qualifier)),
            None => (lower.as_str(), None),
        };
        let called = || {
            let found = self.all().filter(|(group, version, resource)| {
                is_called(resource, name)
                    && qualifier.is_none_or(|qualifier| is_qualified(qualifier, group, version))
            });
            found.filter_map(|(group, version, resource)| resource_of(group, version, resource))
        };
        let own = called().find(|found| qualifier.is_none() && found.api.group == GROUP);
        own.or_else(|| called().next())
            .ok_or_else(|| UnknownResource(word.to_owned()))
    }

    /// The resource of a kind: in this version if it is served, else in the one that the API server prefers.
    pub fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Resource> {
        let of_kind = |(found, _, resource): &(&str, &str, &APIResourceDiscovery)| {
            *found == group && kind_of(resource) == Some(kind)
        };
        let exactly = self.all().filter(of_kind).find(|(_, v, _)| *v == version);
        let (group, version, resource) = exactly.or_else(|| self.all().find(of_kind))?;
        resource_of(group, version, resource)
    }

    /// All resources, with group and version.
    fn all(&self) -> impl Iterator<Item = (&str, &str, &APIResourceDiscovery)> {
        self.0.iter().flat_map(|group| {
            let metadata = group.metadata.as_ref();
            let name = metadata.and_then(|metadata| metadata.name.as_deref());
            let name = name.unwrap_or_default();
            group.versions.iter().flat_map(move |served| {
                let version = served.version.as_deref().unwrap_or_default();
                let resources = served.resources.iter();
                resources.map(move |resource| (name, version, resource))
            })
        })
    }
}

/// Whether `qualifier` is the group, or the version and the group: `batch`, `v1.batch`, `v1` of the core group.
fn is_qualified(qualifier: &str, group: &str, version: &str) -> bool {
    let behind = qualifier.strip_prefix(version);
    let is_versioned = behind.is_some_and(|behind| match behind.strip_prefix('.') {
        Some(named) => named == group,
        None => behind.is_empty() && group.is_empty(),
    });
    qualifier == group || is_versioned
}

/// The groups that are listed at a path.
async fn groups(client: &Client, path: &str) -> Result<Vec<APIGroupDiscovery>, ClusterError> {
    let what = "find out which resources there are";
    let unread = |error: &dyn std::error::Error| ClusterError::Unanswered {
        what: what.to_owned(),
        detail: error.to_string(),
    };
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, ACCEPT_AGGREGATED_DISCOVERY_V2)
        .body(Vec::new())
        .map_err(|error| unread(&error))?;
    let list = answer(what, client.request::<Value>(request)).await?;
    let list: APIGroupDiscoveryList =
        serde_json::from_value(without_nulls(list)).map_err(|error| unread(&error))?;
    Ok(list.items)
}

/// The API server writes `null` for a list of verbs of what has subresources only, as in visibility.sluice.dev, where kube
/// expects a list or nothing.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            fields
                .map(|(name, value)| (name, without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn is_called(resource: &APIResourceDiscovery, name: &str) -> bool {
    let names = [&resource.resource, &resource.singular_resource];
    let is_short = resource.short_names.iter().any(|short| short == name);
    let is_kind = kind_of(resource).is_some_and(|kind| kind.to_lowercase() == name);
    is_short || is_kind || names.iter().any(|known| known.as_deref() == Some(name))
}

fn kind_of(resource: &APIResourceDiscovery) -> Option<&str> {
    resource.response_kind.as_ref()?.kind.as_deref()
}

/// None if the API server does not say enough.
fn resource_of(group: &str, version: &str, resource: &APIResourceDiscovery) -> Option<Resource> {
    let kind = kind_of(resource)?;
    let singular = kind.to_lowercase();
    let (api_version, name) = if group.is_empty() {
        (version.to_owned(), singular)
    } else {
        (format!("{group}/{version}"), format!("{singular}.{group}"))
    };
    Some(Resource {
        api: ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version,
            kind: kind.to_owned(),
            plural: resource.resource.clone()?,
        },
        name,
        is_namespaced: resource.scope.as_deref() == Some("Namespaced"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn served() -> Served {
        let resource = |plural: &str, kind: &str, short: &[&str], scope: &str| {
            json!({
                "resource": plural, "singularResource": kind.to_lowercase(), "shortNames": short,
                "responseKind": {"kind": kind}, "scope": scope, "verbs": ["get"],
            })
        };
        let group = |name: &str, versions: &[(&str, Value)]| {
            let versions = versions.iter();
            let versions: Vec<_> = versions
                .map(|(version, resource)| json!({"version": version, "resources": [resource]}))
                .collect();
            json!({"metadata": {"name": name}, "versions": versions})
        };
        let job = resource("jobs", "Job", &[], "Namespaced");
        let queue = resource("queues", "Queue", &["q"], "Namespaced");
        let cluster_queue = resource("clusterqueues", "ClusterQueue", &["cq"], "Cluster");
        Served(
            serde_json::from_value(json!([
                group(
                    "",
                    &[("v1", resource("pods", "Pod", &["po"], "Namespaced"))]
                ),
                group("batch", &[("v1", job.clone()), ("v1beta1", job.clone())]),
                group("batch.volcano.sh", &[("v1alpha1", job)]),
                group("a.io", &[("v1", resource("teams", "Team", &[], "Cluster"))]),
                group("b.io", &[("v2", queue.clone()), ("v1", queue)]),
                group("kueue.x-k8s.io", &[("v1beta1", cluster_queue.clone())]),
                group("sluice.dev", &[("v1alpha1", cluster_queue)]),
            ]))
            .unwrap(),
        )
    }

    #[test]
    fn a_resource_is_called_as_kubectl_calls_it() {
        let cases = [
            ("pod", Some("v1 pods")),
            ("po", Some("v1 pods")),
            ("pods.v1", Some("v1 pods")),
            ("pods.v1.", Some("v1 pods")),
            ("Job", Some("batch/v1 jobs")),
            ("jobs", Some("batch/v1 jobs")),
            ("job.batch", Some("batch/v1 jobs")),
            ("jobs.v1beta1.batch", Some("batch/v1beta1 jobs")),
            (
                "job.batch.volcano.sh",
                Some("batch.volcano.sh/v1alpha1 jobs"),
            ),
            (
                "jobs.v1alpha1.batch.volcano.sh",
                Some("batch.volcano.sh/v1alpha1 jobs"),
            ),
            ("q", Some("b.io/v2 queues")),
            ("queue.v1.b.io", Some("b.io/v1 queues")),
            ("team", Some("a.io/v1 teams")),
            ("clusterqueue", Some("sluice.dev/v1alpha1 clusterqueues")),
            ("cq", Some("sluice.dev/v1alpha1 clusterqueues")),
            (
                "clusterqueue.kueue.x-k8s.io",
                Some("kueue.x-k8s.io/v1beta1 clusterqueues"),
            ),
            (
                "ClusterQueue.v1beta1.kueue.x-k8s.io",
                Some("kueue.x-k8s.io/v1beta1 clusterqueues"),
            ),
            ("job.bat", None),
            ("pods.batch", None),
            ("pods.", Some("v1 pods")),
            ("jobs.v1", None),
            ("jobs.v1beta.batch", None),
            ("", None),
            (".", None),
        ];
        for (word, expected) in cases {
            let found = served().named(word);
            let found =
                found.map(|found| format!("{} {}", found.api.api_version, found.api.plural));
            let expected = expected.map(str::to_owned);
            assert_eq!(
                found,
                expected.ok_or(UnknownResource(word.to_owned())),
                "{word}"
            );
        }
        assert!(!served().named("team").unwrap().is_namespaced);
        assert_eq!(served().named("po").unwrap().name, "pod");
        assert_eq!(served().named("jobs").unwrap().name, "job.batch");
        assert_eq!(
            served().named("x/y").unwrap_err().to_string(),
            "the server doesn't have a resource type \"x/y\""
        );
    }

    #[test]
    fn a_kind_is_found_in_another_version_too() {
        let found = |group: &str, version: &str, kind: &str| {
            let found = served().of_kind(group, version, kind)?;
            Some(found.api.api_version)
        };
        assert_eq!(found("batch", "v1", "Job").as_deref(), Some("batch/v1"));
        assert_eq!(found("b.io", "v1", "Queue").as_deref(), Some("b.io/v1"));
        assert_eq!(found("b.io", "v3", "Queue").as_deref(), Some("b.io/v2"));
        assert_eq!(found("", "v1", "Pod").as_deref(), Some("v1"));
        assert_eq!(found("ray.io", "v1", "RayJob"), None);
    }

    #[test]
    fn a_resource_without_verbs_of_its_own_is_read() {
        let listed = json!({"items": [{"metadata": {"name": "visibility.sluice.dev"}, "versions": [{
            "version": "v1alpha1",
            "resources": [{"resource": "workloads", "verbs": null, "subresources": [
                {"subresource": "explanation", "verbs": ["get"]},
            ]}],
        }]}]});
        assert!(serde_json::from_value::<APIGroupDiscoveryList>(listed.clone()).is_err());
        let read: APIGroupDiscoveryList = serde_json::from_value(without_nulls(listed)).unwrap();
        let resource = &read.items[0].versions[0].resources[0];
        assert_eq!(resource.resource.as_deref(), Some("workloads"));
        assert!(resource.verbs.is_empty() && resource.subresources.len() == 1);
    }

    #[test]
    fn an_object_is_a_kind_and_a_name() {
        let cases = [
            ("job/train", Some(("job", "train"))),
            (
                "jobset.jobset.x-k8s.io/a.b",
                Some(("jobset.jobset.x-k8s.io", "a.b")),
            ),
            ("train", None),
            ("job/", None),
            ("/train", None),
            ("job/train/status", None),
            ("job/..", None),
            ("job/a?b", None),
            ("podgroup/My_Group", Some(("podgroup", "My_Group"))),
            ("podgroup/a/b", None),
        ];
        for (argument, expected) in cases {
            assert_eq!(object_name(argument), expected, "{argument}");
        }
    }
}
