//! Pods behind gates: as users write them, and whether they kept the rules at every revision.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};
use sluice_crds::{
    POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION, PRIORITY_CLASS_LABEL, PROPAGATED_GATES_ANNOTATION,
    QUEUE_GATE, QUEUE_NAME_LABEL, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_testbed::{EXIT, RUN_SECONDS, eventually};

use super::history::Revision;
use super::objects::{condition, name_of, revision_of, set, with};
use super::queues::nanos;
use super::{DEADLINE, Scene};

/// A bare pod with 1 cpu that runs until it is deleted.
#[derive(Clone, Debug)]
pub struct Pod(Value);

impl Pod {
    pub fn new(name: &str) -> Self {
        Self(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": name, "labels": {}, "annotations": {} },
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": "example.com/none",
                    "resources": { "requests": { "cpu": "1" } },
                }],
            },
        }))
    }

    /// Waits in this LocalQueue.
    pub fn queue(self, queue: &str) -> Self {
        self.label(QUEUE_NAME_LABEL, queue)
    }

    /// Asks to be admitted by itself.
    pub fn opted_in(self) -> Self {
        self.annotation(QUEUE_GATE, "true")
    }

    pub fn priority_class(self, name: &str) -> Self {
        self.label(PRIORITY_CLASS_LABEL, name)
    }

    /// One of as many pods that are admitted together.
    pub fn group(self, name: &str, total: u32) -> Self {
        self.label(POD_GROUP_LABEL, name)
            .annotation(POD_GROUP_TOTAL_ANNOTATION, &total.to_string())
    }

    /// If it fails, nobody takes its place in the group.
    pub fn not_retriable(self) -> Self {
        self.annotation(RETRIABLE_IN_GROUP_ANNOTATION, "false")
    }

    /// A scheduling gate of somebody else.
    pub fn scheduling_gate(mut self, name: &str) -> Self {
        let gate = json!({ "name": name });
        match self.0["spec"]["schedulingGates"].as_array_mut() {
            Some(gates) => gates.push(gate),
            None => self.0["spec"]["schedulingGates"] = json!([gate]),
        }
        self
    }

    pub fn cpu(self, cpu: &str) -> Self {
        self.requests(json!({ "cpu": cpu }))
    }

    /// All that it requests.
    pub fn requests(mut self, requests: Value) -> Self {
        // What is counted in whole devices has to be limited too.
        let limits: Map<String, Value> = requests
            .as_object()
            .unwrap()
            .iter()
            .filter(|(resource, _)| resource.contains('/'))
            .map(|(resource, amount)| (resource.clone(), amount.clone()))
            .collect();
        let container = &mut self.0["spec"]["containers"][0];
        container["resources"] = json!({ "requests": requests, "limits": limits });
        self
    }

    /// How long it runs: seconds, or `forever`.
    pub fn runs(self, seconds: &str) -> Self {
        self.annotation(RUN_SECONDS, seconds)
    }

    pub fn fails(self) -> Self {
        self.annotation(EXIT, "fail")
    }

    pub fn label(self, key: &str, value: &str) -> Self {
        self.with(&["metadata", "labels", key], json!(value))
    }

    pub fn annotation(self, key: &str, value: &str) -> Self {
        self.with(&["metadata", "annotations", key], json!(value))
    }

    /// Sets a field, and makes the objects above it.
    pub fn with(mut self, path: &[&str], value: Value) -> Self {
        set(&mut self.0, path, value);
        self
    }

    pub fn json(&self) -> Value {
        self.0.clone()
    }

    /// Its metadata and spec, as the template of something that makes such pods.
    pub fn template(&self) -> Value {
        let mut template = self.0.clone();
        let fields = template.as_object_mut().unwrap();
        fields.remove("apiVersion");
        fields.remove("kind");
        template["metadata"].as_object_mut().unwrap().remove("name");
        // The only one that these templates may have.
        template["spec"]["restartPolicy"] = json!("Always");
        template
    }
}

/// A Deployment, ReplicaSet or StatefulSet of group `apps` with so many replicas of a pod.
pub fn replicated(kind: &str, name: &str, replicas: u32, pod: Pod) -> Value {
    let pod = pod.label("app", name);
    let mut spec = json!({
        "replicas": replicas,
        "selector": { "matchLabels": { "app": name } },
        "template": pod.template(),
    });
    if kind == "StatefulSet" {
        spec["serviceName"] = json!(name);
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": { "name": name, "labels": {}, "annotations": {} },
        "spec": spec,
    })
}

/// In the LocalQueue `q`.
pub fn queued(object: Value) -> Value {
    with(
        object,
        "/metadata/labels",
        json!({ (QUEUE_NAME_LABEL): "q" }),
    )
}

/// The names of its scheduling gates, in order.
pub fn gates(pod: &Value) -> Vec<&str> {
    let gates = pod["spec"]["schedulingGates"].as_array();
    let names = gates.into_iter().flatten().map(|gate| &gate["name"]);
    names.filter_map(Value::as_str).collect()
}

pub fn has_queue_gate(pod: &Value) -> bool {
    gates(pod).contains(&QUEUE_GATE)
}

/// Whether it has not ended.
pub fn is_live(pod: &Value) -> bool {
    let phase = &pod["status"]["phase"];
    phase != "Succeeded" && phase != "Failed"
}

/// Whether it has not ended and has no gate.
pub fn is_released(pod: &Value) -> bool {
    is_live(pod) && gates(pod).is_empty()
}

pub fn is_running(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}

pub fn is_terminating(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// The reason for which the scheduler has not bound it.
pub fn unscheduled_for(pod: &Value) -> Option<&str> {
    condition(pod, "PodScheduled")
        .filter(|(status, ..)| *status == "False")
        .map(|(_, reason, _)| reason)
}

pub fn is_scheduling_gated(pod: &Value) -> bool {
    unscheduled_for(pod) == Some("SchedulingGated")
}

pub fn is_unschedulable(pod: &Value) -> bool {
    unscheduled_for(pod) == Some("Unschedulable")
}

/// The names of these pods, sorted.
pub fn names(pods: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = pods.iter().map(name_of).collect();
    names.sort_unstable();
    names
}

/// What a pod requests of a resource, in nano-units. Each counts as one of `pods`.
pub fn request_of(pod: &Value, resource: &str) -> i128 {
    if resource == "pods" {
        return nanos(&json!(1));
    }
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let requests = containers
        .iter()
        .map(|container| &container["resources"]["requests"][resource]);
    requests.map(nanos).sum()
}

/// Checks that in no revision pods use more than there is. A pod has usage from when
/// Sluice's gate goes until it has ended or is gone. Returns the most that was used.
pub fn check_usage(
    history: &[Revision],
    resource: &str,
    most: &str,
    of: impl Fn(&Value) -> bool,
) -> Result<i128> {
    let limit = nanos(&json!(most));
    let mut used: BTreeMap<&str, i128> = BTreeMap::new();
    let mut highest = 0;
    for revision in history.iter().filter(|r| of(&r.object)) {
        let pod = &revision.object;
        if revision.is_deleted || !is_live(pod) || has_queue_gate(pod) {
            used.remove(name_of(pod));
        } else {
            used.insert(name_of(pod), request_of(pod, resource));
        }
        let total: i128 = used.values().sum();
        highest = highest.max(total);
        ensure!(
            total <= limit,
            "revision {}: {total} of {limit} of {resource} is in use: {used:?}",
            revision.number
        );
    }
    Ok(highest)
}

/// Checks the gates of every revision: none is added to a pod that is there, the queue gate goes last,
/// and only Sluice's and those that stand for an annotation go at revisions that are not in `lifted`,
/// which are the test's own.
pub fn check_gates(history: &[Revision], lifted: &BTreeSet<u128>) -> Result<()> {
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for revision in history {
        let pod = &revision.object;
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let now: BTreeSet<&str> = gates(pod).into_iter().collect();
        let Some(before) = known.insert(uid, now.clone()) else {
            continue;
        };
        ensure!(now.is_subset(&before), "gates came: {before:?}, then {pod}");
        let propagated = pod["metadata"]["annotations"][PROPAGATED_GATES_ANNOTATION]
            .as_str()
            .unwrap_or_default();
        for gone in before.difference(&now) {
            ensure!(
                *gone == QUEUE_GATE
                    || propagated.split(',').any(|name| name == *gone)
                    || lifted.contains(&revision.number),
                "somebody's gate {gone} is gone at {}: {pod}",
                revision.number
            );
        }
        ensure!(
            now.is_empty() || now.contains(QUEUE_GATE) || !before.contains(QUEUE_GATE),
            "released early, with {now:?} left: {pod}"
        );
    }
    Ok(())
}

/// The names of the pods in the order in which they lost the queue gate.
pub fn order_of_going(history: &[Revision]) -> Vec<String> {
    let mut waited: BTreeSet<&str> = BTreeSet::new();
    let mut order = Vec::new();
    for Revision { object: pod, .. } in history {
        if has_queue_gate(pod) {
            waited.insert(name_of(pod));
        } else if waited.remove(name_of(pod)) {
            order.push(name_of(pod).to_owned());
        }
    }
    order
}

/// The revision at which a pod lost the queue gate.
pub fn released_at(history: &[Revision], name: &str) -> Option<u128> {
    let of_pod = || history.iter().filter(|r| name_of(&r.object) == name);
    let waited = of_pod().any(|r| has_queue_gate(&r.object));
    let gone = of_pod().find(|r| !has_queue_gate(&r.object) && !r.is_deleted);
    gone.filter(|_| waited).map(|r| r.number)
}

/// What a queue says of a resource in its first flavor: total, allocated and reserved.
pub fn account<'a>(queue: &'a Value, resource: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let resources = queue["status"]["flavorsUsage"][0]["resources"].as_array()?;
    let usage = resources.iter().find(|usage| usage["name"] == resource)?;
    let text = |field: &str| usage[field].as_str().unwrap_or_default();
    Some((text("total"), text("allocated"), text("reserved")))
}

impl Scene<'_> {
    /// Waits until as many pods of the namespace are so as are wanted, and returns them.
    /// Asks for other requests of a pod that runs, for tests of what the API server answers.
    pub async fn resize(&self, pod: &str, cpu: &str) -> kube::Result<Value> {
        // Without this, Kubernetes thinks of a node that is too old to resize.
        self.show_resources(pod, "1").await?;
        let (api, params) = (self.api("Pod"), PatchParams::default());
        let asked = json!({"spec": {"containers": [
            { "name": "main", "resources": { "requests": { "cpu": cpu } } },
        ]}});
        let asked = Patch::Strategic(asked);
        let answer = api.patch_subresource("resize", pod, &params, &asked).await;
        answer.map(super::into_value)
    }

    /// Shows what the node of a pod gives to it, as its kubelet does.
    pub async fn show_resources(&self, pod: &str, cpu: &str) -> kube::Result<()> {
        let shown = json!({"status": {"containerStatuses": [
            { "name": "main", "resources": { "requests": { "cpu": cpu } } },
        ]}});
        let api = self.api("Pod");
        api.patch_status(pod, &PatchParams::default(), &Patch::Strategic(shown))
            .await?;
        Ok(())
    }

    pub async fn see_so_many(
        &self,
        what: &str,
        count: usize,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Vec<Value>> {
        eventually(
            &format!("{count} pods to be {what}"),
            DEADLINE,
            async || {
                let all = self.list("Pod").await.map_err(|e| format!("{e:#}"))?;
                let (so, others): (Vec<Value>, Vec<Value>) = all.into_iter().partition(&is_so);
                if so.len() == count {
                    Ok(so)
                } else {
                    Err(format!("{}; the others: {}", so.len(), states(&others)))
                }
            },
        )
        .await
    }

    /// Waits until the namespace's ClusterQueue and its LocalQueue `q` have this account of a
    /// resource: total, allocated and reserved; and until so many wait.
    pub async fn see_account(
        &self,
        resource: &str,
        amounts: (&str, &str, &str),
        pending: u32,
    ) -> Result<()> {
        let what = format!("of account {resource} {amounts:?}, {pending} pending");
        for (kind, name) in [("ClusterQueue", self.ns.as_str()), ("LocalQueue", "q")] {
            self.see(kind, name, &what, |queue| {
                account(queue, resource) == Some(amounts)
                    && queue["status"]["pendingWorkloads"] == pending
            })
            .await?;
        }
        Ok(())
    }

    /// Removes one scheduling gate of a pod as its owner would: by name. Returns the revision.
    pub async fn open_gate(&self, pod: &str, gate: &str) -> Result<u128> {
        let patch = json!({"spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}});
        let params = PatchParams::default();
        let (api, patch) = (self.api("Pod"), Patch::Strategic(patch));
        let patched =
            super::persist::persist(async || api.patch(pod, &params, &patch).await).await?;
        Ok(revision_of(&super::into_value(patched)))
    }

    /// Ends a running pod.
    pub async fn end(&self, pod: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {(RUN_SECONDS): "0"}}});
        self.merge("Pod", pod, patch).await.map(drop)
    }
}

/// How many pods are in which state.
fn states(pods: &[Value]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pod in pods {
        let mut state = pod["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        for gate in gates(pod) {
            let _ = write!(state, " {gate}");
        }
        if let Some(reason) = unscheduled_for(pod) {
            let _ = write!(state, " ({reason})");
        }
        *counts.entry(state).or_default() += 1;
    }
    format!("{counts:?}")
}
