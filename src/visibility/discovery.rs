//! What the API says of itself, for the API server and its clients to find.

use serde_json::{Value, json};

/// The API group.
pub const GROUP: &str = "visibility.sluice.dev";
/// Its only version.
pub const VERSION: &str = "v1alpha1";

/// A resource of which subresources are served, and nothing else. It is in discovery without a verb, so that kubectl
/// can ask for its subresources. By its short name it goes on to mean what it means elsewhere: those groups come first.
#[derive(Debug, Clone, Copy)]
pub struct Resource {
    /// The name in paths.
    pub name: &'static str,
    /// The kind: no two resources have the same one, as clients find the resource by it.
    pub kind: &'static str,
    /// Whether it is in namespaces.
    pub is_namespaced: bool,
    /// What is served.
    pub subresources: &'static [Subresource],
}

/// What is served of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Subresource {
    /// The name in paths.
    pub name: &'static str,
    /// What is answered.
    pub kind: &'static str,
    /// Whether `limit` and `offset` choose a part of it.
    pub has_pages: bool,
}

const PENDING: Subresource = Subresource {
    name: "pendingworkloads",
    kind: "PendingWorkloadsSummary",
    has_pages: true,
};
const TREE: Subresource = Subresource {
    name: "tree",
    kind: "QuotaTree",
    has_pages: false,
};
const EXPLANATION: Subresource = Subresource {
    name: "explanation",
    kind: "WorkloadExplanation",
    has_pages: false,
};

const ESTIMATE: Subresource = Subresource {
    name: "estimate",
    kind: "StartEstimate",
    has_pages: false,
};

/// All resources.
pub const RESOURCES: [Resource; 5] = [
    Resource {
        name: "clusterqueues",
        kind: "ClusterQueue",
        is_namespaced: false,
        subresources: &[PENDING, TREE],
    },
    Resource {
        name: "cohorts",
        kind: "Cohort",
        is_namespaced: false,
        subresources: &[TREE],
    },
    Resource {
        name: "localqueues",
        kind: "LocalQueue",
        is_namespaced: true,
        subresources: &[PENDING],
    },
    Resource {
        name: "pods",
        kind: "Pod",
        is_namespaced: true,
        subresources: &[ESTIMATE, EXPLANATION],
    },
    Resource {
        name: "workloads",
        kind: "Workload",
        is_namespaced: true,
        subresources: &[ESTIMATE, EXPLANATION],
    },
];

/// The path of the version. All objects are below it.
pub fn root() -> String {
    format!("/apis/{GROUP}/{VERSION}")
}

impl Resource {
    /// The path of one of its objects, as a pattern of paths.
    pub fn path(&self) -> String {
        let namespace = if self.is_namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        format!("{}{namespace}/{}/{{name}}", root(), self.name)
    }
}

/// What is said of a resource.
pub fn only_subresources(resource: &Resource) -> String {
    let names = resource.subresources.iter().map(|one| one.name);
    let names = names.collect::<Vec<_>>().join(" and ");
    format!(
        "Of {}.{GROUP} only subresources are served: {names}.",
        resource.name
    )
}

/// `/apis`.
pub fn groups() -> Value {
    let mut group = group();
    if let Value::Object(fields) = &mut group {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
}

/// `/apis/visibility.sluice.dev`.
pub fn group() -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": GROUP,
        "versions": [version],
        "preferredVersion": version,
    })
}

/// `/apis/visibility.sluice.dev/v1alpha1`.
pub fn resources() -> Value {
    let listed = RESOURCES.iter().flat_map(|resource| {
        let own = json!({
            "name": resource.name,
            "singularName": resource.kind.to_lowercase(),
            "namespaced": resource.is_namespaced,
            "kind": resource.kind,
            "verbs": [],
        });
        let subresources = resource.subresources.iter().map(|subresource| {
            json!({
                "name": format!("{}/{}", resource.name, subresource.name),
                "singularName": "",
                "namespaced": resource.is_namespaced,
                "kind": subresource.kind,
                "verbs": ["get"],
            })
        });
        std::iter::once(own).chain(subresources)
    });
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"),
        "resources": listed.collect::<Vec<_>>(),
    })
}
