//! Nodes that only what belongs to one test may use, and what must run there. Without their taint pods of
//! other tests would run there too, and be gone when the test takes its nodes away.

use serde_json::{Value, json};
use sluice_testbed::NodeSpec;

use super::Scene;
use super::objects::Job;
use super::pods::Pod;

/// The label and the taint of such nodes; the value is the namespace.
const OWN: &str = "tests/nodes";

/// A node of this test.
pub fn own_node(scene: &Scene<'_>, name: &str) -> NodeSpec {
    NodeSpec::new(scene.name(name))
        .label(OWN, &scene.ns)
        .taint(OWN, &scene.ns, "NoSchedule")
}

/// A pod for the nodes of this test.
pub fn pod_for_own_nodes(scene: &Scene<'_>, pod: Pod) -> Pod {
    pod.with(&["spec", "nodeSelector"], selector(scene))
        .with(&["spec", "tolerations"], tolerations())
}

/// A job whose pods are for the nodes of this test.
pub fn job_for_own_nodes(scene: &Scene<'_>, job: Job) -> Job {
    let template = |field| ["spec", "template", "spec", field];
    job.with(&template("nodeSelector"), selector(scene))
        .with(&template("tolerations"), tolerations())
}

fn selector(scene: &Scene<'_>) -> Value {
    json!({ (OWN): scene.ns })
}

fn tolerations() -> Value {
    json!([{ "key": OWN, "operator": "Exists" }])
}
