//! The resources that the model serves, and how requests name them.

/// A resource that is served.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The kind of its objects.
    pub kind: &'static str,
    /// Whether objects are in namespaces.
    pub is_namespaced: bool,
    /// Whether status is written by a subresource of its own.
    pub has_status: bool,
}

const fn resource(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    is_namespaced: bool,
    has_status: bool,
) -> Resource {
    Resource {
        group,
        version,
        plural,
        kind,
        is_namespaced,
        has_status,
    }
}

const OWN: &str = sluice_crds::GROUP;
const OWN_VERSION: &str = sluice_crds::VERSION;

/// All of them.
pub static RESOURCES: [Resource; 18] = [
    resource("", "v1", "pods", "Pod", true, true),
    resource("", "v1", "namespaces", "Namespace", false, true),
    resource("", "v1", "limitranges", "LimitRange", true, false),
    resource("", "v1", "configmaps", "ConfigMap", true, false),
    resource("batch", "v1", "jobs", "Job", true, true),
    resource(
        "node.k8s.io",
        "v1",
        "runtimeclasses",
        "RuntimeClass",
        false,
        false,
    ),
    resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        false,
        false,
    ),
    resource("coordination.k8s.io", "v1", "leases", "Lease", true, false),
    resource("events.k8s.io", "v1", "events", "Event", true, false),
    resource(
        OWN,
        OWN_VERSION,
        "resourceflavors",
        "ResourceFlavor",
        false,
        false,
    ),
    resource(OWN, OWN_VERSION, "cohorts", "Cohort", false, true),
    resource(
        OWN,
        OWN_VERSION,
        "clusterqueues",
        "ClusterQueue",
        false,
        true,
    ),
    resource(OWN, OWN_VERSION, "localqueues", "LocalQueue", true, true),
    resource(
        OWN,
        OWN_VERSION,
        "workloadpriorityclasses",
        "WorkloadPriorityClass",
        false,
        false,
    ),
    resource(OWN, OWN_VERSION, "jobkinds", "JobKind", false, true),
    resource(OWN, OWN_VERSION, "gates", "Gate", false, true),
    resource(OWN, OWN_VERSION, "workloads", "Workload", true, true),
    resource("apps", "v1", "replicasets", "ReplicaSet", true, true),
];

impl Resource {
    /// The resource of a kind, by the name of the kind alone: no two groups here have the same.
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.kind == kind)
    }

    /// The resource with this group, version and plural.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| {
            (resource.group, resource.version, resource.plural) == (group, version, plural)
        })
    }

    /// `v1`, or `batch/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `jobs.batch`, or `pods`, as messages have it.
    pub fn qualified(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Of which resource.
    pub resource: &'static Resource,
    /// In which namespace; empty for objects without.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Place {
    /// A place by the kind of its object.
    ///
    /// # Panics
    /// No such kind is served.
    pub fn of(kind: &str, namespace: &str, name: &str) -> Self {
        let resource = Resource::of_kind(kind);
        #[allow(clippy::expect_used, reason = "kinds are written in the code")]
        let resource = resource.expect("a kind that is served");
        Self {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}
