//! The pods that make up a group: which of them count, whether all exist and can be admitted, and what pod sets they are.
//! What follows from that is planned in `plan/group.rs`.

use std::collections::{BTreeMap, BTreeSet};

use sluice_kinds::pod::PodPhase;
use sluice_kinds::problem::{Problem, summarize};
use sluice_kinds::view::PodSetView;
use thiserror::Error;

use crate::cache::{PodKey, PodRecord, WorkloadRecord};
use crate::plan::workload;

/// How many pods of a group exist, and how many it has.
pub fn present(pods: &[(&PodKey, &PodRecord)], record: &WorkloadRecord) -> (usize, usize) {
    let recorded = || {
        let counts = record.spec.pod_sets.iter().map(|set| i64::from(set.count));
        u32::try_from(counts.sum::<i64>()).unwrap_or_default()
    };
    let first = pods.first().and_then(|(_, first)| first.group());
    let total = first.map_or_else(recorded, |group| group.total);
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let present = counted(pods, total).into_iter();
    (present.filter(|(_, pod)| !pod.deleting).count(), total)
}

/// Whether the group can be admitted: it is complete, is what its Workload says, and no other gate
/// is left on any of its pods.
pub fn is_ready(pods: &[(&PodKey, &PodRecord)], record: &WorkloadRecord) -> bool {
    let Some(group) = pods.first().and_then(|(_, first)| first.group()) else {
        return false;
    };
    let total = usize::try_from(group.total).unwrap_or(usize::MAX);
    let counted = counted(pods, total);
    let is_free = counted
        .iter()
        .all(|(_, pod)| !pod.is_gated_elsewhere() && !pod.deleting);
    counted.len() == total && is_free && asks_for(pods, total, record)
}

/// The pods that make up the group, as many as its oldest pod says.
pub fn members<'a>(pods: &[(&'a PodKey, &'a PodRecord)]) -> impl Iterator<Item = &'a PodRecord> {
    let group = pods.first().and_then(|(_, first)| first.group());
    let total = group.map_or(0, |group| {
        usize::try_from(group.total).unwrap_or(usize::MAX)
    });
    counted(pods, total).into_iter().map(|(_, pod)| pod)
}

/// The gates of others on the pods that make up the group: while there are some, it can't be admitted.
pub fn gates_left<'a>(pods: &[(&'a PodKey, &'a PodRecord)]) -> BTreeSet<&'a str> {
    let gated = members(pods).filter(|pod| pod.is_gated_elsewhere());
    let gates = gated.flat_map(|pod| &pod.other_gates);
    gates.map(|gate| &**gate).collect()
}

/// Whether the pods ask for just what the Workload says.
pub(super) fn asks_for(
    pods: &[(&PodKey, &PodRecord)],
    total: usize,
    record: &WorkloadRecord,
) -> bool {
    pod_sets(pods, total).is_ok_and(|sets| workload::covers(record, &sets, workload::Fit::Exact))
}

/// The pods that make up the group: the oldest that have not failed.
pub(super) fn counted<'a>(
    pods: &[(&'a PodKey, &'a PodRecord)],
    total: usize,
) -> Vec<(&'a PodKey, &'a PodRecord)> {
    pods.iter()
        .filter(|(_, pod)| pod.phase != PodPhase::Failed)
        .take(total)
        .copied()
        .collect()
}

/// Why a group has no pod sets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum MemberError {
    #[error("Pod {pod}: {}", summarize(.problems))]
    Unreadable { pod: String, problems: Vec<Problem> },
    #[error(
        "Pod {pod}: requests, nodeSelector, tolerations and node affinity must equal those of pod {first}, as both play the role {role:?}"
    )]
    Differs {
        pod: String,
        first: String,
        role: String,
    },
}

/// The pod sets of a group: pods that ask for the same play the same role.
pub(super) fn pod_sets(
    pods: &[(&PodKey, &PodRecord)],
    total: usize,
) -> Result<Vec<PodSetView>, MemberError> {
    pod_sets_by(pods, total, role_of)
}

/// The same where `role_of` names the pod set of a pod. That name is a short digest of what users write, so that they can
/// have pods which ask for something else come to the same one.
fn pod_sets_by(
    pods: &[(&PodKey, &PodRecord)],
    total: usize,
    role_of: impl Fn(&PodRecord) -> String,
) -> Result<Vec<PodSetView>, MemberError> {
    // Released pods also ask for what flavors put into them: what those ask for that wait counts.
    let (waiting, released): (Vec<_>, Vec<_>) =
        (counted(pods, total).into_iter()).partition(|(_, pod)| pod.queue_gate.is_some());
    let mut sets: BTreeMap<String, (&str, PodSetView)> = BTreeMap::new();
    for (key, pod) in waiting.into_iter().chain(released) {
        let asks = pod
            .asks
            .as_ref()
            .as_ref()
            .map_err(|problems| MemberError::Unreadable {
                pod: key.name.to_string(),
                problems: problems.clone(),
            })?;
        let role = role_of(pod);
        let (first, set) = sets.entry(role.clone()).or_insert_with(|| {
            let set = PodSetView {
                name: role.as_str().into(),
                count: 0,
                ..asks.clone()
            };
            (&*key.name, set)
        });
        if pod.queue_gate.is_some() && !asks.asks_for_the_same(set) {
            return Err(MemberError::Differs {
                pod: key.name.to_string(),
                first: (*first).to_owned(),
                role,
            });
        }
        set.count = set.count.saturating_add(1);
    }
    Ok(sets.into_values().map(|(_, set)| set).collect())
}

/// The name of the pod set of a pod in a group: a digest of what it asks for. A pod that was released
/// may ask for more by what its flavors put into it; it carries the name that it was released by.
pub fn role_of(pod: &PodRecord) -> String {
    match (&pod.queue_gate, &pod.pod_set, pod.asks.as_ref()) {
        (None, Some(role), _) => role.to_string(),
        (_, _, Ok(asks)) => asks.role(),
        (_, _, Err(_)) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::{mk_pod, release};

    /// The pod sets of these pods, where all of them play one role.
    fn of_one_role(pods: &[(PodKey, PodRecord)]) -> Result<Vec<PodSetView>, MemberError> {
        let pods: Vec<_> = pods.iter().map(|(key, pod)| (key, pod)).collect();
        pod_sets_by(&pods, pods.len(), |_| "r".to_owned())
    }

    #[test]
    fn pods_that_ask_for_something_else_have_no_common_role() {
        let pod = |name: &str, at: &str, value: &serde_json::Value| {
            mk_pod(name, 0, &[], |pod| {
                if let Some((map, key)) = at.rsplit_once('/') {
                    pod.pointer_mut(map).unwrap()[key] = value.clone();
                }
            })
        };
        let like_first = || pod("a", "", &json!(null));
        let same = of_one_role(&[like_first(), like_first()]).unwrap();
        assert_eq!(same.iter().map(|set| set.count).collect::<Vec<_>>(), [2]);
        let terms = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
        let others = [
            ("/spec/containers/0/resources/requests/cpu", json!("64")),
            ("/spec/nodeSelector", json!({"pool": "a"})),
            (
                "/spec/tolerations",
                json!([{"key": "a", "operator": "Exists"}]),
            ),
            ("/spec/affinity", terms),
        ];
        for (at, value) in others {
            assert_eq!(
                of_one_role(&[like_first(), like_first(), pod("b", at, &value)])
                    .unwrap_err()
                    .to_string(),
                "Pod b: requests, nodeSelector, tolerations and node affinity must equal those of pod a, as both play the role \"r\"",
                "{at}"
            );
        }
    }

    #[test]
    fn what_flavors_put_into_a_pod_is_not_what_its_set_asks_for() {
        let placed = mk_pod("a", 0, &[], |pod| {
            release(pod);
            pod["spec"]["nodeSelector"] = json!({"spot": "true"});
            pod["status"]["phase"] = json!("Succeeded");
        });
        let waits = mk_pod("b", 1, &[], |_| ());
        let sets = of_one_role(&[placed, waits]).unwrap();
        assert_eq!(sets[0].count, 2);
        assert!(sets[0].placement.is_empty());
    }
}
