//! The merge patches for a Workload. What is left out of a merge patch stays as it was, so every field is named, also
//! those of objects in it. Lists are replaced as they are.

use serde_json::{Value, json};
use sluice_crds::{Admission, RequeueState, WorkloadSpec, WorkloadStatus};

use crate::cache::Revision;

/// The whole spec of a Workload.
pub(super) fn spec_patch(revision: Revision, spec: WorkloadSpec) -> Value {
    let WorkloadSpec {
        queue_name,
        pod_sets,
        priority,
        priority_class_ref,
        active,
        job_creation_timestamp,
    } = spec;
    json!({
        "metadata": {"resourceVersion": revision.0.to_string()},
        "spec": {
            "queueName": queue_name,
            "podSets": pod_sets,
            "priority": priority,
            "priorityClassRef": priority_class_ref,
            "active": active,
            "jobCreationTimestamp": job_creation_timestamp,
        },
    })
}

/// The whole status of a Workload.
pub(super) fn status_patch(revision: Revision, status: WorkloadStatus) -> Value {
    let WorkloadStatus {
        conditions,
        admission,
        requeue_state,
        makes_room_for,
        reclaimable_pods,
    } = status;
    let admission = admission.map(|admission| {
        let Admission {
            cluster_queue,
            cohort_name,
            term,
            pod_set_assignments,
        } = admission;
        json!({
            "clusterQueue": cluster_queue,
            "cohortName": cohort_name,
            "term": term,
            "podSetAssignments": pod_set_assignments,
        })
    });
    let requeue_state = requeue_state.map(|state| {
        let RequeueState { count, requeue_at } = state;
        json!({"count": count, "requeueAt": requeue_at})
    });
    json!({
        "metadata": {"resourceVersion": revision.0.to_string()},
        "status": {
            "conditions": conditions,
            "admission": admission,
            "requeueState": requeue_state,
            "makesRoomFor": makes_room_for,
            "reclaimablePods": reclaimable_pods,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a Workload is that had this and gets that.
    fn merged(before: Value, patch: &Value) -> Value {
        let mut workload = before;
        json_patch::merge(&mut workload, patch);
        workload
    }

    #[test]
    fn nothing_is_left_of_a_former_status() {
        let assignment = json!({"name": "main", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}});
        let full = json!({
            "conditions": [], "makesRoomFor": "ns/a",
            "admission": {"clusterQueue": "q", "cohortName": "c", "term": "1-u",
                "podSetAssignments": [assignment]},
            "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"},
            "reclaimablePods": [{"name": "main", "count": 1}],
        });
        let next = json!({
            "admission": {"clusterQueue": "q", "podSetAssignments": [assignment]},
            "requeueState": {"count": 2},
        });
        for (before, after) in [(&full, &next), (&next, &full), (&full, &json!({}))] {
            let status: WorkloadStatus = serde_json::from_value(after.clone()).unwrap();
            let patch = status_patch(Revision(1), status.clone());
            let left = merged(json!({"status": before}), &patch);
            let left: WorkloadStatus = serde_json::from_value(left["status"].clone()).unwrap();
            assert_eq!(left, status);
        }
    }

    #[test]
    fn nothing_is_left_of_a_former_spec() {
        let full = json!({"queueName": "q", "podSets": [], "priority": 1, "active": false,
            "priorityClassRef": {"group": "sluice.dev", "kind": "WorkloadPriorityClass", "name": "high"},
            "jobCreationTimestamp": "2026-01-01T00:00:00Z"});
        let next = json!({"queueName": "r", "podSets": [], "priority": 0});
        for (before, after) in [(&full, &next), (&next, &full)] {
            let spec: WorkloadSpec = serde_json::from_value(after.clone()).unwrap();
            let patch = spec_patch(Revision(1), spec.clone());
            let left = merged(json!({"spec": before}), &patch);
            let left: WorkloadSpec = serde_json::from_value(left["spec"].clone()).unwrap();
            assert_eq!(left, spec);
        }
    }
}
