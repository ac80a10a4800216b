//! The objects of the tests, as a user would write them.

use serde_json::{Map, Value, json};
use sluice_crds::{PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::{EXIT, RUN_SECONDS};

/// The annotation for one gate.
pub const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
/// The annotation for a list of gates.
pub const GATES: &str = "kueue.x-k8s.io/admission-gated-by";

/// A batch Job of one pod with 1 cpu that succeeds at once.
#[derive(Clone, Debug)]
pub struct Job(Value);

impl Job {
    pub fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": name, "labels": {}, "annotations": {} },
            "spec": {
                "backoffLimit": 0,
                "parallelism": 1,
                "completions": 1,
                "template": {
                    "metadata": { "annotations": {} },
                    "spec": {
                        "restartPolicy": "Never",
                        "containers": [{
                            "name": "main",
                            "image": "example.com/none",
                            "resources": { "requests": { "cpu": "1" } },
                        }],
                    },
                },
            },
        }))
    }

    pub fn queue(self, queue: &str) -> Self {
        self.label(QUEUE_NAME_LABEL, queue)
    }

    pub fn priority_class(self, name: &str) -> Self {
        self.label(PRIORITY_CLASS_LABEL, name)
    }

    pub fn label(self, key: &str, value: &str) -> Self {
        self.with(&["metadata", "labels", key], json!(value))
    }

    /// Held by one gate.
    pub fn gate(self, gate: &str) -> Self {
        self.annotation(GATED, gate)
    }

    /// Held by a list of gates.
    pub fn gates(self, gates: &str) -> Self {
        self.annotation(GATES, gates)
    }

    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.with(&["metadata", "annotations", key], json!(value))
    }

    /// What each pod requests of cpu.
    pub fn cpu(self, cpu: &str) -> Self {
        self.request("cpu", cpu)
    }

    /// What each pod requests of a resource.
    pub fn request(mut self, resource: &str, amount: &str) -> Self {
        let resources = &mut self.0["spec"]["template"]["spec"]["containers"][0]["resources"];
        resources["requests"][resource] = json!(amount);
        // The API server takes no extended resource without the same limit.
        if resource.contains('/') {
            resources["limits"][resource] = json!(amount);
        }
        self
    }

    /// How many pods, all at the same time.
    pub fn pods(self, count: u32) -> Self {
        self.with(&["spec", "parallelism"], json!(count))
            .with(&["spec", "completions"], json!(count))
    }

    /// How long each pod runs: seconds, or `forever`.
    pub fn runs(self, seconds: &str) -> Self {
        let path = ["spec", "template", "metadata", "annotations", RUN_SECONDS];
        self.with(&path, json!(seconds))
    }

    pub fn runs_forever(self) -> Self {
        self.runs("forever")
    }

    pub fn fails(self) -> Self {
        let path = ["spec", "template", "metadata", "annotations", EXIT];
        self.with(&path, json!("fail"))
    }

    /// Sets a field, and makes the objects above it.
    pub fn with(mut self, path: &[&str], value: Value) -> Self {
        set(&mut self.0, path, value);
        self
    }

    pub fn json(&self) -> Value {
        self.0.clone()
    }

    /// The text of a manifest. (JSON is YAML.)
    pub fn manifest(&self) -> String {
        self.0.to_string()
    }
}

/// Sets a field of an object, and makes the objects above it.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut here = object;
    for name in path {
        here = &mut here[*name];
    }
    *here = value;
}

/// The quota of one resource in one flavor.
#[derive(Clone, Copy, Debug)]
pub struct Quota<'a> {
    pub resource: &'a str,
    pub nominal: &'a str,
    pub borrowing_limit: Option<&'a str>,
    pub lending_limit: Option<&'a str>,
}

/// Quota of which any free amount may be borrowed and lent.
pub fn quota<'a>(resource: &'a str, nominal: &'a str) -> Quota<'a> {
    Quota {
        resource,
        nominal,
        borrowing_limit: None,
        lending_limit: None,
    }
}

impl<'a> Quota<'a> {
    pub fn borrow(self, limit: &'a str) -> Self {
        Self {
            borrowing_limit: Some(limit),
            ..self
        }
    }

    pub fn lend(self, limit: &'a str) -> Self {
        Self {
            lending_limit: Some(limit),
            ..self
        }
    }

    fn json(&self) -> Value {
        let mut quota = json!({ "name": self.resource, "nominalQuota": self.nominal });
        if let Some(limit) = self.borrowing_limit {
            quota["borrowingLimit"] = json!(limit);
        }
        if let Some(limit) = self.lending_limit {
            quota["lendingLimit"] = json!(limit);
        }
        quota
    }
}

/// The resourceGroups of one group with one flavor.
pub fn groups(flavor: &str, quotas: &[Quota<'_>]) -> Value {
    let covered: Vec<_> = quotas.iter().map(|q| q.resource).collect();
    let resources: Vec<_> = quotas.iter().map(Quota::json).collect();
    json!([{
        "coveredResources": covered,
        "flavors": [{ "name": flavor, "resources": resources }],
    }])
}

/// A ClusterQueue that selects all namespaces.
pub fn cluster_queue(name: &str, flavor: &str, quotas: &[Quota<'_>]) -> Value {
    own(
        "ClusterQueue",
        name,
        json!({ "namespaceSelector": {}, "resourceGroups": groups(flavor, quotas) }),
    )
}

pub fn local_queue(name: &str, cluster_queue: &str) -> Value {
    own("LocalQueue", name, json!({ "clusterQueue": cluster_queue }))
}

/// A flavor that stands for any node.
pub fn flavor(name: &str) -> Value {
    own("ResourceFlavor", name, json!({}))
}

pub fn cohort(name: &str, parent: Option<&str>) -> Value {
    let mut spec = Map::new();
    if let Some(parent) = parent {
        spec.insert("parentName".to_owned(), json!(parent));
    }
    own("Cohort", name, Value::Object(spec))
}

pub fn priority_class(name: &str, value: i32) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": "WorkloadPriorityClass",
        "metadata": { "name": name },
        "value": value,
    })
}

/// A gate of a namespace's own, and the name of its Gate.
pub fn own_gate(namespace: &str, path: &str) -> (String, String) {
    (
        format!("{namespace}.test/{path}"),
        format!("{path}.{namespace}.test"),
    )
}

/// An object of group `sluice.dev`.
pub fn own(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "sluice.dev/v1alpha1",
        "kind": kind,
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A selector of this namespace alone: others share the control plane, and their queues may have the same names.
pub fn here(ns: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": ns}})
}

/// `object` with the field at the JSON pointer set.
pub fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
    object
}

/// The condition of this type: status, reason and message.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|c| c["type"] == kind)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    Some((text("status"), text("reason"), text("message")))
}

/// Whether the condition of this type is True.
pub fn is(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|(status, ..)| status == "True")
}

pub fn is_admitted(workload: &Value) -> bool {
    workload["status"]["admission"].is_object()
}

/// Whether this Workload holds quota: admitted and not finished.
pub fn holds_quota(workload: &Value) -> bool {
    is_admitted(workload) && !is(workload, "Finished")
}

pub fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// `metadata.resourceVersion`, which can be compared.
pub fn revision_of(object: &Value) -> u128 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

pub fn is_suspended(job: &Value) -> bool {
    job["spec"]["suspend"] == true
}

pub fn is_complete(job: &Value) -> bool {
    is(job, "Complete")
}
