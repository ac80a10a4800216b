//! Pods and Workloads to plan with.

use serde_json::{Value, json};
use sluice_crds::QUEUE_GATE;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;

use crate::cache::{PodKey, PodRecord, WorkloadKey, WorkloadRecord};

/// A pod called `name` behind `gates` and the queue gate, made in the `minute`th minute of 2026,
/// changed by `change`.
pub fn mk_pod(
    name: &str,
    minute: u32,
    gates: &[&str],
    change: impl FnOnce(&mut Value),
) -> (PodKey, PodRecord) {
    let names = gates.iter().chain([&QUEUE_GATE]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "blue", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
            "labels": {"sluice.dev/managed": "true", "sluice.dev/queue-name": "main"},
            "annotations": {},
        },
        "spec": {
            "schedulingGates": names.map(|name| json!({"name": name})).collect::<Vec<_>>(),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        },
        "status": {"phase": "Pending"},
    });
    change(&mut pod);
    let object = serde_json::from_value(pod).unwrap();
    let key = PodKey {
        namespace: "blue".into(),
        name: name.into(),
    };
    let record = PodRecord::read(object, &QueueLabels::default(), &QueueGates::default());
    (key, record)
}

/// Takes all gates off a pod.
pub fn release(pod: &mut Value) {
    pod["spec"]["schedulingGates"] = json!([]);
}

/// The Workload of the group `g` with these pod sets and this status.
pub fn mk_group_workload(pod_sets: &Value, status: &Value) -> (WorkloadKey, WorkloadRecord) {
    let object = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {
            "name": "g-pod-group", "namespace": "blue", "uid": "w1", "resourceVersion": "9",
            "labels": {"sluice.dev/pod-group-name": "g"},
        },
        "spec": {
            "queueName": "main", "priority": 0, "podSets": pod_sets,
            "jobCreationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": status,
    });
    WorkloadRecord::read(serde_json::from_value(object).unwrap()).unwrap()
}
