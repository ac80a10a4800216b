//! What is kept of a Workload.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use sluice_crds::{
    Admission, ConditionType, JOB_UID_LABEL, POD_GROUP_LABEL, PODS_MADE_BY_ANNOTATION, PodSet,
    Workload, WorkloadSpec, WorkloadStatus, group_workload_name, workload_name,
};
use sluice_engine::{Borrowing, LocalQueueKey};
use sluice_gates::GroupKind;
use sluice_kinds::metadata::group_version;
use sluice_kinds::problem::summarize;

use super::revisions::Revision;
use super::subject::Uid;
use super::subject::{GroupKey, Subject};
use crate::cache::conditions;
use crate::process::recorded_times::{RecordedTimes, Sight};

/// Where a Workload is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// The job that a Workload stands for, by its owner reference; or the group of pods, by its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The API group and kind.
    pub group_kind: GroupKind,
    /// The name.
    pub name: String,
    /// Who it is. Names are not trusted: an object may be deleted, and another one made by its name.
    pub subject: Subject,
}

impl Owner {
    /// Whether nothing but its UID is known.
    pub fn is_nameless(&self) -> bool {
        self.name.is_empty()
    }
}

/// The job of a Workload without a reference to it: only its UID is known, which is in the label and the
/// name.
fn of_job(workload: &str, uid: Option<String>) -> Option<Owner> {
    let uid = uid.filter(|uid| !uid.contains('/'))?;
    let digits = workload_name("", &uid);
    let is_its_name = 1 < digits.len() && workload.ends_with(&digits);
    is_its_name.then(|| Owner {
        group_kind: GroupKind::new("", ""),
        name: String::new(),
        subject: Subject::Job(uid.into()),
    })
}

/// What is kept of a Workload.
#[derive(Debug, Clone)]
pub struct WorkloadRecord {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The job or group. None for an object that a user made: it counts for nothing.
    pub owner: Option<Owner>,
    /// Whether a controller makes the pods again that it stands for, if it stands for a group of pods.
    pub is_made_again: bool,
    /// `spec`, or what of it can be read.
    pub spec: WorkloadSpec,
    /// What is wrong with the spec, if it can't be read or counted.
    pub unreadable: Option<String>,
    /// `status`, as far as it counts.
    pub status: WorkloadStatus,
    /// What the times in `status`, and those of its creation and its place, say on this process's clock.
    pub times: RecordedTimes,
    /// Since when it had waited for the admission that it has, if this process has seen that. Its conditions say so no
    /// more.
    waited_since: Option<Timestamp>,
    /// An admission that does not count: its leader's term had ended when it came in, and the present
    /// leader has not taken it over.
    pub of_ended_term: Option<Admission>,
}

impl WorkloadRecord {
    /// Reads `object`.
    ///
    /// A spec that does not fit its type hurts itself: the quota that the status says is held all the same.
    ///
    /// # Errors
    /// What of the rest does not fit the type.
    pub fn read(object: DynamicObject) -> Result<(WorkloadKey, Self), serde_json::Error> {
        let revision = Revision::of(&object);
        let (workload, unreadable) = parse(object)?;
        let unreadable = unreadable.or_else(|| {
            let counted = sluice_translate::pod_sets(&workload.spec, Borrowing::Allowed);
            counted.err().map(|problems| summarize(&problems))
        });
        let metadata = workload.metadata;
        let name: Arc<str> = metadata.name.unwrap_or_default().into();
        let owner = metadata
            .owner_references
            .unwrap_or_default()
            .into_iter()
            .find(|o| o.controller == Some(true));
        let namespace: Arc<str> = metadata.namespace.unwrap_or_default().into();
        let mut labels = metadata.labels.unwrap_or_default();
        let (group, job_uid) = (labels.remove(POD_GROUP_LABEL), labels.remove(JOB_UID_LABEL));
        let owner = match (owner, group) {
            // No UID has a slash: the text of such a subject would be that of a pod or a group.
            (Some(owner), _) if owner.uid.contains('/') => None,
            (Some(owner), _) => (*name == *workload_name(&owner.name, &owner.uid)).then(|| Owner {
                group_kind: GroupKind::new(group_version(&owner.api_version).0, owner.kind),
                name: owner.name,
                subject: Subject::Job(owner.uid.into()),
            }),
            (None, Some(group)) => (*name == *group_workload_name(&group)).then(|| Owner {
                group_kind: GroupKind::new("", "Pod"),
                subject: Subject::Group(GroupKey {
                    namespace: namespace.clone(),
                    name: group.as_str().into(),
                }),
                name: group,
            }),
            // The garbage collector takes the reference to a job that is deleted and orphans what it
            // owns.
            (None, None) => of_job(&name, job_uid),
        };
        let key = WorkloadKey { namespace, name };
        let record = Self {
            uid: metadata.uid.unwrap_or_default().into(),
            revision,
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|t| t.0),
            deleting: metadata.deletion_timestamp.is_some(),
            owner,
            is_made_again: metadata
                .annotations
                .is_some_and(|annotations| annotations.contains_key(PODS_MADE_BY_ANNOTATION)),
            spec: workload.spec,
            unreadable,
            status: workload.status.unwrap_or_default(),
            times: RecordedTimes::default(),
            waited_since: None,
            of_ended_term: None,
        };
        Ok((key, record))
    }

    /// The term of the admission that counts, if there is one. Empty for one that names none.
    pub fn admitted_in(&self) -> Option<&str> {
        let admission = self.status.admission.as_ref()?;
        Some(admission.term.as_deref().unwrap_or_default())
    }

    /// Its place in its queue, if it says so.
    pub fn recorded_place(&self) -> Option<Timestamp> {
        let recorded = self.spec.job_creation_timestamp.as_ref();
        recorded.map(|at| at.0)
    }

    /// When it takes its place in its queue, where its job was created at this time. A Workload of a job that is not
    /// there, and that does not say so, is as old as itself.
    pub fn place(&self, created: Option<Timestamp>) -> Option<Timestamp> {
        match self.recorded_place() {
            Some(recorded) => Some(recorded).max(created),
            None => created.or(self.created),
        }
    }

    /// Notes what its times say on this process's clock; `known` is what was known of it before. Those in its status are
    /// seen as `sight` says.
    pub fn see_times(&mut self, known: Option<&Self>, sight: Sight) {
        let conditions = self.status.conditions.iter();
        let recorded = conditions.map(|condition| condition.last_transition_time.0);
        let state = self.status.requeue_state.as_ref();
        let requeue_at = state.and_then(|state| state.requeue_at.as_ref());
        let recorded = recorded.chain(requeue_at.map(|at| at.0));
        let times = known.map(|known| &known.times);
        let created = self.created.into_iter().chain(self.recorded_place());
        let created = RecordedTimes::see(created, times, Sight::of_server(sight.now));
        self.times = RecordedTimes::see(recorded, times, sight).and(created);
        let is_admitted = |record: &Self| record.status.admission.is_some();
        self.waited_since = known.filter(|_| is_admitted(self)).and_then(|known| {
            if is_admitted(known) {
                known.waited_since
            } else {
                known.waits_since()
            }
        });
    }

    /// Since when it exists, on this process's clock.
    pub fn exists_since(&self) -> Option<Timestamp> {
        self.created.map(|created| self.times.since(created))
    }

    /// Since when its job has its place in its queue, on this process's clock.
    pub fn queued_since(&self) -> Option<Timestamp> {
        let place = self.recorded_place().or(self.created);
        place.map(|place| self.times.since(place))
    }

    /// The LocalQueue that it names.
    pub fn local_queue(&self, key: &WorkloadKey) -> LocalQueueKey {
        LocalQueueKey::new(key.namespace.clone(), self.spec.queue_name.as_str())
    }

    /// Since when it waits, or had waited before its admission: since it was made, or since its last eviction. If it was
    /// evicted and admitted again before this process began, since that admission.
    pub fn waits_since(&self) -> Option<Timestamp> {
        let waits_since = || self.since(ConditionType::Evicted).max(self.exists_since());
        self.waited_since.or_else(waits_since)
    }

    /// When it waits in its queue again, where it backs off for no longer than `longest`.
    pub fn requeue_at(&self, longest: SignedDuration) -> Option<Timestamp> {
        let state = self.status.requeue_state.as_ref()?;
        let recorded = state.requeue_at.as_ref()?.0;
        Some(self.times.until(recorded, longest))
    }

    /// Since when the condition `kind` is True, if it is.
    pub fn true_since(&self, kind: ConditionType) -> Option<Timestamp> {
        let condition = conditions::find(&self.status.conditions, kind);
        self.changed_at(condition.filter(|condition| condition.status == "True"))
    }

    /// When the condition `kind` became what it is.
    pub fn since(&self, kind: ConditionType) -> Option<Timestamp> {
        self.changed_at(conditions::find(&self.status.conditions, kind))
    }

    fn changed_at(&self, condition: Option<&Condition>) -> Option<Timestamp> {
        condition.map(|condition| self.times.since(condition.last_transition_time.0))
    }

    /// How many pods of a set have ended for good, so that their quota is free.
    pub fn reclaimed(&self, pod_set: &str) -> u32 {
        let mut sets = self.status.reclaimable_pods.iter();
        let set = sets.find(|set| set.name == pod_set);
        // The schema allows no negative number; one that was there frees nothing.
        set.map_or(0, |set| u32::try_from(set.count).unwrap_or_default())
    }

    /// Whether it is evicted and still holds quota.
    pub fn is_evicting(&self) -> bool {
        self.status.admission.is_some() && self.is(ConditionType::Evicted)
    }

    /// Whether it is admitted and has not finished. One that is evicted is so until its pods are gone.
    pub fn holds_quota(&self) -> bool {
        self.status.admission.is_some() && !self.is_finished()
    }

    /// Whether it is neither admitted nor finished.
    pub fn waits(&self) -> bool {
        self.status.admission.is_none() && !self.is_finished()
    }

    /// Whether it was evicted, or its job is deleted with its pods, and it has not given its quota back in time: nobody
    /// is kept waiting for it.
    pub fn is_stalled(&self) -> bool {
        self.status.admission.is_some() && self.is(ConditionType::Stalled)
    }

    /// Whether its job has ended.
    pub fn is_finished(&self) -> bool {
        self.is(ConditionType::Finished)
    }

    fn is(&self, kind: ConditionType) -> bool {
        conditions::is_true(&self.status.conditions, kind)
    }
}

/// The Workload, and what is wrong with its spec, of which the rest is taken then.
fn parse(mut object: DynamicObject) -> Result<(Workload, Option<String>), serde_json::Error> {
    let mut take = |field| object.data.get_mut(field).map(Value::take);
    let (spec, status) = (take("spec").unwrap_or_default(), take("status"));
    let status: Option<WorkloadStatus> = status.map(serde_json::from_value).transpose()?;
    let (spec, unreadable) = match WorkloadSpec::deserialize(&spec) {
        Ok(spec) => (spec, None),
        Err(error) => (legible(&spec, status.as_ref()), Some(error.to_string())),
    };
    let workload = Workload {
        metadata: object.metadata,
        spec,
        status,
    };
    Ok((workload, unreadable))
}

/// What of a spec can be read that does not fit its type, with the pod sets that were admitted.
fn legible(spec: &Value, status: Option<&WorkloadStatus>) -> WorkloadSpec {
    let admission = status.and_then(|status| status.admission.as_ref());
    let admitted = admission
        .into_iter()
        .flat_map(|admission| &admission.pod_set_assignments);
    let pod_sets = admitted.map(|set| PodSet {
        name: set.name.clone(),
        count: set.count,
        ..PodSet::default()
    });
    let queue_name = spec.get("queueName").and_then(Value::as_str);
    let priority = spec.get("priority").and_then(Value::as_i64);
    WorkloadSpec {
        queue_name: queue_name.unwrap_or_default().to_owned(),
        priority: priority
            .and_then(|value| value.try_into().ok())
            .unwrap_or_default(),
        active: spec.get("active").and_then(Value::as_bool).unwrap_or(true),
        pod_sets: pod_sets.collect(),
        ..WorkloadSpec::default()
    }
}
