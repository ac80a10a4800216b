//! `OwnFields` and `NoFinalizer`: of a tenant's object Sluice changes nothing but what it says it changes,
//! and leaves no finalizer on it. What it does not know of survives: the stored objects are compared whole.

use std::collections::BTreeSet;

use serde_json::Value;

use super::cluster::{Cluster, gates_of, job_of, list, pod_gates};
use crate::history::Kind;

/// Fields that the API server keeps itself.
const KEPT_BY_THE_SERVER: [&str; 4] = [
    "/metadata/generation",
    "/metadata/managedFields",
    "/metadata/deletionTimestamp",
    "/metadata/deletionGracePeriodSeconds",
];
/// What Sluice may write of a Job. How many pods there are only where the job asks for it.
const OF_A_JOB: [&str; 5] = [
    "/spec/suspend",
    "/spec/parallelism",
    "/spec/template/spec/nodeSelector",
    "/spec/template/spec/tolerations",
    "/spec/template/spec/schedulingGates",
];
/// What Sluice may write of a Pod.
const OF_A_POD: [&str; 3] = [
    "/spec/nodeSelector",
    "/spec/tolerations",
    "/spec/schedulingGates",
];
/// Where labels and annotations are, of which those of Sluice's own domain are Sluice's.
const METADATA: [&str; 4] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/template/metadata/labels",
    "/spec/template/metadata/annotations",
];
/// Sluice's domain, as a JSON pointer has it.
const DOMAIN: &str = "sluice.dev~1";

/// Labels and annotations of Sluice's domain that are the user's all the same.
const OF_THE_USER: [&str; 3] = ["queue-name", "priority-class", "admission"];

/// The fields that a write of Sluice changed and may not.
pub(super) fn forbidden_fields(kind: Kind, before: &Value, after: &Value) -> Vec<String> {
    let allowed: &[&str] = match kind {
        Kind::Job => &OF_A_JOB,
        Kind::Pod => &OF_A_POD,
        Kind::Workload | Kind::ClusterQueue | Kind::Cohort | Kind::Lease => return Vec::new(),
    };
    let mut changed = BTreeSet::new();
    compare(before, after, String::new(), &mut changed);
    let is_allowed = |path: &String| {
        KEPT_BY_THE_SERVER
            .iter()
            .chain(allowed)
            .any(|field| is_below(path, field))
            || is_own_mark(path)
    };
    changed
        .into_iter()
        .filter(|path| !is_allowed(path))
        .collect()
}

/// The gates of others that a write of Sluice took from a pod while they stand.
pub(super) fn foreign_gates_lifted(before: &Value, pod: &Value, cluster: &Cluster) -> Vec<String> {
    let job = cluster.by_uid(Kind::Job, job_of(pod));
    let standing = job.map(gates_of).unwrap_or_default();
    let (was, is) = (pod_gates(before), pod_gates(pod));
    let lifted = was.difference(&is).filter(|gate| standing.contains(*gate));
    lifted
        .map(|gate| format!("Sluice took gate {gate} away, which still stands"))
        .collect()
}

/// A finalizer of Sluice.
pub(super) fn finalizer(object: &Value) -> Option<String> {
    let mut finalizers = list(object, "/metadata/finalizers").filter_map(Value::as_str);
    let ours = finalizers.find(|name| name.contains("sluice"));
    ours.map(|name| format!("it carries the finalizer {name}"))
}

/// The paths of everything that differs.
fn compare(before: &Value, after: &Value, path: String, changed: &mut BTreeSet<String>) {
    match (before, after) {
        (Value::Object(was), Value::Object(is)) => {
            for name in was.keys().chain(is.keys()) {
                let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                let field = |object: &serde_json::Map<String, Value>| {
                    object.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&field(was), &field(is), path, changed);
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                compare(was, is, format!("{path}/{index}"), changed);
            }
        }
        // An empty map is as good as none.
        (Value::Null, Value::Object(is)) | (Value::Object(is), Value::Null) => {
            for name in is.keys() {
                changed.insert(format!(
                    "{path}/{}",
                    name.replace('~', "~0").replace('/', "~1")
                ));
            }
        }
        (was, is) if was != is => {
            changed.insert(path);
        }
        _ => {}
    }
}

fn is_below(path: &str, field: &str) -> bool {
    path.strip_prefix(field)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_own_mark(path: &str) -> bool {
    let marks = METADATA.iter().filter_map(|place| path.strip_prefix(place));
    let mut marks = marks.filter_map(|key| key.strip_prefix('/')?.strip_prefix(DOMAIN));
    marks.any(|name| !OF_THE_USER.contains(&name))
}
