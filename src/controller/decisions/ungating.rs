//! Pods that are ungated, as their job or group is admitted. That something is evicted, and that its pods are deleted
//! then, is said in `evictions.rs`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sluice_crds::Admission;
use sluice_crds::reasons::event;
use sluice_kinds::pod::{PodAdmission, PodPhase};

use crate::cache::{PodRecord, Subject, Uid, WorkloadRecord};
use crate::controller::Controller;
use crate::controller::wakes::Wake;
use crate::plan::pod::{self as plan, Member, PodsWaiting, pod_set_of};
use crate::plan::{Note, Write, workload};

/// Pods that replace others wait for a moment; those that wait longer than this may do so for ever.
const WAIT_TOLD_AFTER: Duration = Duration::from_secs(30);

const REQUESTS_EXCEEDED: &str = "This pod requests more than the pods that its job was admitted with: it waits until the job is queued again with the new requests";
const REQUESTS_DIFFER: &str = "This pod does not request the same as the pods that its group was admitted with: it waits until it is deleted; create one that requests the same as the pod that it replaces, or delete all pods of the group to have it queued with other requests";
const REQUESTS_DIFFER_AGAIN: &str = "This pod does not request the same as the pods that its group was admitted with: it waits until all pods of the group are there; then the group is queued again with the new requests";

/// Whether an admission covers a pod: none of a job that requests more, and none of a group that requests something else.
fn is_covered(
    subject: &Subject,
    record: &WorkloadRecord,
    admission: &Admission,
    pod: &PodRecord,
) -> bool {
    // What runs already is not looked at again each time.
    if !pod.waits_for_quota_alone() {
        return true;
    }
    let set = pod_set_of(pod, subject).unwrap_or_default();
    let Ok(asks) = pod.asks.as_ref() else {
        return false;
    };
    if let Subject::Group(_) = subject {
        let mut sets = admission.pod_set_assignments.iter();
        return sets.any(|assigned| *assigned.name == *set)
            && workload::covers_member(record, &set, asks);
    }
    workload::covers_pod(record, &set, asks)
}

impl Controller {
    /// Ungates the pods of an admitted job or group, or deletes them when it is evicted.
    pub(in crate::controller) fn ungate_pods(&mut self, subject: &Subject) {
        // What is being written may take the admission back.
        if self.writes.of(subject).is_some() {
            return;
        }
        let Some((_, record)) = self.objects.workload_of(subject) else {
            return self.take_back_lost_pods(subject);
        };
        // It is not admitted.
        let (Some(admission), false) = (record.status.admission.clone(), record.is_finished())
        else {
            return;
        };
        if record.is_evicting() {
            return self.take_back_pods(subject);
        }
        let job = self.objects.job_of(subject);
        if subject.job().is_some() && job.is_none_or(|(_, job)| job.deleting) {
            return;
        }
        let (pods, misfits): (Vec<_>, Vec<_>) = (self.objects.pods_of(subject).into_iter())
            .partition(|(_, pod)| is_covered(subject, record, &admission, pod));
        let misfits: Vec<Uid> = misfits.iter().map(|(_, pod)| pod.uid.clone()).collect();
        let is_made_again = record.is_made_again;
        let sets: Vec<Arc<str>> = pods
            .iter()
            .map(|(_, pod)| pod_set_of(pod, subject).unwrap_or_else(|| "".into()))
            .collect();
        let members: Vec<Member<'_>> = pods
            .iter()
            .zip(&sets)
            .map(|((key, pod), pod_set)| Member {
                key,
                pod,
                pod_set,
                is_busy: self.is_pod_busy(pod),
                is_leaving: self.writes.may_be_released(&pod.uid),
            })
            .collect();
        let used_up = |set: &str| self.used_up(subject, record, &members, set);
        let releases = plan::releases(&members, &admission, used_up);
        let waiting = plan::waiting(&members, &releases);
        let at = Time(self.now.wall);
        let writes: Vec<(Uid, Write)> = releases
            .into_iter()
            .filter_map(|(member, assignment)| {
                let of_pod = PodAdmission {
                    term: None,
                    cluster_queue: admission.cluster_queue.clone(),
                    cohort: admission.cohort_name.clone(),
                    flavors: assignment.flavors.clone(),
                    at: at.clone(),
                    priority: None,
                    job: subject.job().map(ToString::to_string),
                    group: match subject {
                        Subject::Group(group) => Some(group.name.to_string()),
                        Subject::Job(_) | Subject::Pod(_) => None,
                    },
                };
                let write = plan::release(member.key, member.pod, &of_pod, assignment)?;
                Some((member.pod.uid.clone(), write))
            })
            .collect();
        for (pod, write) in writes {
            self.send_for_pods(Subject::Pod(pod), write, Vec::new());
        }
        if let Some(waiting) = waiting {
            self.tell_waiting(subject, waiting);
        }
        self.tell_misfits(subject, misfits, is_made_again);
    }

    /// How many places of a pod set nobody takes any more. What has succeeded in a group has done its part, and what a
    /// job says has ended for good has given its quota away. A pod that was taken from the job and runs on keeps its
    /// place.
    fn used_up(
        &self,
        subject: &Subject,
        record: &WorkloadRecord,
        members: &[Member<'_>],
        set: &str,
    ) -> usize {
        let is_group = matches!(subject, Subject::Group(_));
        let done = members.iter().filter(|member| {
            is_group && member.pod_set == set && member.pod.phase == PodPhase::Succeeded
        });
        let away = self.detached_pods(subject);
        let away = away.filter(|(_, pod)| pod.pod_set.as_deref() == Some(set));
        let reclaimed = usize::try_from(record.reclaimed(set)).unwrap_or(usize::MAX);
        let used_up = done.count().saturating_add(away.count());
        reclaimed.saturating_add(used_up)
    }

    /// Tells pods that the admission of their job or group does not cover them.
    fn tell_misfits(&mut self, subject: &Subject, misfits: Vec<Uid>, is_made_again: bool) {
        let (reason, text) = match subject {
            Subject::Group(_) if is_made_again => (event::REQUESTS_DIFFER, REQUESTS_DIFFER_AGAIN),
            Subject::Group(_) => (event::REQUESTS_DIFFER, REQUESTS_DIFFER),
            Subject::Job(_) | Subject::Pod(_) => (event::REQUESTS_EXCEEDED, REQUESTS_EXCEEDED),
        };
        for pod in misfits {
            let note = Note::warning(reason, text);
            self.tell_about(&Subject::Pod(pod), note);
        }
    }

    /// Tells that pods of an admitted job or group wait until others are gone, if they do so for long.
    fn tell_waiting(&mut self, subject: &Subject, waiting: PodsWaiting) {
        let waits_since = waiting.since.unwrap_or(self.now.wall);
        let waited = self.now.wall.duration_since(waits_since);
        let waited = Duration::try_from(waited).unwrap_or_default();
        match WAIT_TOLD_AFTER.checked_sub(waited) {
            Some(left) if !left.is_zero() => self.wake_after(left, Wake::Plan(subject.clone())),
            Some(_) | None => {
                let when = match subject {
                    Subject::Group(_) => "has failed or was deleted",
                    Subject::Job(_) | Subject::Pod(_) => {
                        "is gone; a rolling update needs maxUnavailable of 1 or more, or the strategy Recreate"
                    }
                };
                let waiting = match waiting.count {
                    1 => "1 pod waits".to_owned(),
                    count => format!("{count} pods wait"),
                };
                let text = format!(
                    "{waiting}: as many pods run as were admitted; a waiting pod is ungated when a running one {when}"
                );
                self.tell_about(subject, Note::warning(event::PODS_WAITING, text));
            }
        }
    }

    /// Whether a write for a pod is in flight, or has failed a moment ago.
    pub(super) fn is_pod_busy(&self, pod: &PodRecord) -> bool {
        let subject = Subject::Pod(pod.uid.clone());
        self.writes.is_busy(&subject)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sluice_kinds::devices::DeviceClasses;

    use super::*;
    use crate::cache::GroupKey;
    use crate::plan::fixtures::{mk_group_workload, mk_pod};
    use crate::plan::group::{is_ready, role_of};

    /// The names of pod sets are digests of what users write: another pod may come to the same one.
    #[test]
    fn a_pod_of_a_group_is_covered_by_a_set_that_asks_for_the_same() {
        let (_, pod) = mk_pod("a", 0, &[], |pod| {
            pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = json!("g");
            pod["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("1");
        });
        let group = GroupKey {
            namespace: "blue".into(),
            name: "g".into(),
        };
        let subject = Subject::Group(group);
        let is_covered = |change: serde_json::Value| {
            let role = role_of(&pod);
            let mut set = json!({"name": role, "count": 1, "requests": {"cpu": "1"}});
            if let (Some(set), Some(change)) = (set.as_object_mut(), change.as_object()) {
                set.extend(change.clone());
            }
            let status = json!({"admission": {"clusterQueue": "cq", "podSetAssignments": [
                {"name": role, "count": 1, "flavors": {}}]}});
            let (_, record) = mk_group_workload(&json!([set]), &status);
            let admission = record.status.admission.clone().unwrap();
            is_covered(&subject, &record, &admission, &pod)
        };
        assert!(is_covered(json!({})));
        assert!(is_covered(json!({"count": 2})));
        for other in [
            json!({"requests": {"cpu": "1m"}}),
            json!({"requests": {"cpu": "2"}}),
            json!({"nodeSelector": {"pool": "a"}}),
            json!({"tolerations": [{"key": "a", "operator": "Exists"}]}),
            json!({"requiredNodeAffinity": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}),
            json!({"name": "another"}),
        ] {
            assert!(!is_covered(other.clone()), "{other}");
        }
    }

    /// As a group was admitted before the class of its devices was counted.
    #[test]
    fn a_pod_of_a_group_is_covered_by_devices_that_were_recorded_by_the_name_of_their_class() {
        let name = "deviceclass.resource.kubernetes.io/gpu";
        let (key, mut pod) = mk_pod("a", 0, &[], |pod| {
            pod["metadata"]["labels"]["sluice.dev/pod-group-name"] = json!("g");
            pod["metadata"]["annotations"]["sluice.dev/pod-group-total-count"] = json!("1");
            pod["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1", name: "2"});
        });
        let role = role_of(&pod);
        let classes = [("gpu".to_owned(), "example.com/gpu".to_owned())];
        pod.count_requested_devices(&DeviceClasses::new(classes));
        assert_eq!(role_of(&pod), role, "it is stored");
        let subject = Subject::Group(GroupKey {
            namespace: "blue".into(),
            name: "g".into(),
        });
        let is_covered = |requests: serde_json::Value| {
            let set = json!({"name": role, "count": 1, "requests": requests});
            let status = json!({"admission": {"clusterQueue": "cq", "podSetAssignments": [
                {"name": role, "count": 1, "flavors": {}}]}});
            let (_, record) = mk_group_workload(&json!([set]), &status);
            let admission = record.status.admission.clone().unwrap();
            is_covered(&subject, &record, &admission, &pod) && is_ready(&[(&key, &pod)], &record)
        };
        assert!(is_covered(json!({"cpu": "1", name: "2"})));
        assert!(is_covered(json!({"cpu": "1", "example.com/gpu": "2"})));
        assert!(!is_covered(json!({"cpu": "1", name: "1"})));
    }
}
