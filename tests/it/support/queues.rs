//! Queues of a test, and whether they kept within their quota at every revision.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::Quantity;

use super::Scene;
use super::history::Revision;
use super::objects::{self, Quota, holds_quota, is_admitted, name_of};

impl Scene<'_> {
    /// Makes a LocalQueue `q` that draws from a ClusterQueue with this quota. Both ClusterQueue and
    /// flavor have the namespace's name.
    pub async fn queue(&self, quotas: &[Quota<'_>]) -> Result<()> {
        self.queue_like(objects::cluster_queue(&self.ns, &self.ns, quotas))
            .await
    }

    /// Makes a LocalQueue `q` that draws from this ClusterQueue, and the flavor.
    pub async fn queue_like(&self, cluster_queue: Value) -> Result<()> {
        let local_queue = objects::local_queue("q", name_of(&cluster_queue));
        self.create_all(&[objects::flavor(&self.ns), cluster_queue, local_queue])
            .await
    }

    /// Sets the nominal quota of cpu of the namespace's ClusterQueue.
    pub async fn set_cpu(&self, nominal: &str) -> Result<()> {
        let groups = objects::groups(&self.ns, &[objects::quota("cpu", nominal)]);
        let patch = json!({"spec": {"resourceGroups": groups}});
        self.merge("ClusterQueue", &self.ns, patch).await.map(drop)
    }

    /// Sets the stopPolicy of the namespace's ClusterQueue.
    pub async fn stop(&self, policy: &str) -> Result<()> {
        let patch = json!({"spec": {"stopPolicy": policy}});
        self.merge("ClusterQueue", &self.ns, patch).await.map(drop)
    }
}

/// The most that queues may use of a resource, in nano-units.
pub struct Limits {
    pub resource: &'static str,
    /// For each ClusterQueue: nominal quota and what it may borrow.
    pub queues: BTreeMap<String, i128>,
    /// For all of them together.
    pub total: i128,
}

/// Checks that in no revision more is used than there is. A Workload has usage from the revision
/// that admits it until it is finished, gives its admission back, or is gone; for pods that have ended
/// for good until the revision that says so.
pub fn check_quota(history: &[Revision], limits: &Limits) -> Result<()> {
    let mut used: BTreeMap<&str, (&str, i128)> = BTreeMap::new();
    for revision in history {
        let workload = &revision.object;
        let name = name_of(workload);
        if revision.is_deleted || !holds_quota(workload) {
            used.remove(name);
            continue;
        }
        let queue = workload["status"]["admission"]["clusterQueue"]
            .as_str()
            .unwrap();
        used.insert(name, (queue, usage(workload, limits.resource)));
        let mut total = 0;
        let mut by_queue: BTreeMap<&str, i128> = BTreeMap::new();
        for (queue, amount) in used.values() {
            *by_queue.entry(queue).or_default() += amount;
            total += amount;
        }
        for (queue, amount) in by_queue {
            let most = limits.queues[queue];
            ensure!(
                amount <= most,
                "revision {}: {queue} uses {amount} of {most}: {used:?}",
                revision.number
            );
        }
        let most = limits.total;
        ensure!(
            total <= most,
            "revision {}: the cohort uses {total} of {most}: {used:?}",
            revision.number
        );
    }
    Ok(())
}

/// The usage of a Workload of a resource, in nano-units.
pub fn usage(workload: &Value, resource: &str) -> i128 {
    let assignments = workload["status"]["admission"]["podSetAssignments"].as_array();
    let used = assignments.into_iter().flatten().map(|set| {
        let amount = nanos(&set["resourceUsage"][resource]);
        let count = set["count"].as_i64().unwrap();
        let left = count - reclaimed(workload, set["name"].as_str().unwrap());
        assert!(
            0 <= left,
            "more pods have ended than there were: {workload}"
        );
        if left == count {
            amount
        } else {
            amount / i128::from(count) * i128::from(left)
        }
    });
    used.sum()
}

/// How many pods of a set have ended for good, as a Workload says.
pub fn reclaimed(workload: &Value, pod_set: &str) -> i64 {
    let sets = workload["status"]["reclaimablePods"].as_array();
    let set = sets.into_iter().flatten().find(|s| s["name"] == pod_set);
    set.map_or(0, |set| set["count"].as_i64().unwrap())
}

/// A quantity in nano-units; absent, 0.
pub fn nanos(quantity: &Value) -> i128 {
    match quantity {
        Value::Null => 0,
        Value::String(text) => Quantity(text.clone()).nanos().unwrap(),
        other => Quantity(other.to_string()).nanos().unwrap(),
    }
}

/// The names of the jobs in the order in which they were admitted.
pub fn admission_order(history: &[Revision]) -> Vec<String> {
    let mut admitted: Vec<&str> = Vec::new();
    for revision in history {
        let job = revision.object["metadata"]["ownerReferences"][0]["name"]
            .as_str()
            .unwrap();
        if is_admitted(&revision.object) && !admitted.contains(&job) {
            admitted.push(job);
        }
    }
    admitted.into_iter().map(str::to_owned).collect()
}
