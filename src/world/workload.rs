//! What is kept of a Workload.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use sluice_crds::{POD_GROUP_LABEL, Workload, WorkloadSpec, WorkloadStatus};
use sluice_kinds::metadata::group_version;

use super::{Revision, Uid};
use crate::conditions::{self, Type};

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
    pub group_kind: (String, String),
    /// The name.
    pub name: String,
    /// The UID. Names are not trusted (design, section 8, 10).
    pub uid: Uid,
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
    /// The job. None for an object that a user made: it counts for nothing.
    pub job: Option<Owner>,
    /// `spec`.
    pub spec: WorkloadSpec,
    /// `status`.
    pub status: WorkloadStatus,
}

impl WorkloadRecord {
    /// Reads `object`.
    ///
    /// # Errors
    /// What does not fit the type.
    pub fn read(object: DynamicObject) -> Result<(WorkloadKey, Self), serde_json::Error> {
        let revision = Revision::of(&object);
        let workload: Workload = object.try_parse().map_err(serde::de::Error::custom)?;
        let metadata = workload.metadata;
        let name: Arc<str> = metadata.name.unwrap_or_default().into();
        let owner = metadata
            .owner_references
            .unwrap_or_default()
            .into_iter()
            .find(|o| o.controller == Some(true));
        let namespace: Arc<str> = metadata.namespace.unwrap_or_default().into();
        let group = metadata.labels.unwrap_or_default().remove(POD_GROUP_LABEL);
        let job = match (owner, group) {
            // No UID has a slash: such an owner would pass for a group of another namespace.
            (Some(owner), _) if owner.uid.contains('/') => None,
            (Some(owner), _) => (*name == *workload_name(&owner.name, &owner.uid)).then(|| Owner {
                group_kind: (group_version(&owner.api_version).0.to_owned(), owner.kind),
                name: owner.name,
                uid: owner.uid.into(),
            }),
            (None, Some(group)) => (*name == *group_workload_name(&group)).then(|| Owner {
                group_kind: (String::new(), "Pod".to_owned()),
                uid: group_uid(&namespace, &group),
                name: group,
            }),
            (None, None) => None,
        };
        let key = WorkloadKey { namespace, name };
        let record = Self {
            uid: metadata.uid.unwrap_or_default().into(),
            revision,
            generation: metadata.generation,
            created: metadata.creation_timestamp.map(|t| t.0),
            deleting: metadata.deletion_timestamp.is_some(),
            job,
            spec: workload.spec,
            status: workload.status.unwrap_or_default(),
        };
        Ok((key, record))
    }

    /// When it waits in its queue again.
    pub fn requeue_at(&self) -> Option<Timestamp> {
        let state = self.status.requeue_state.as_ref()?;
        state.requeue_at.as_ref().map(|at| at.0)
    }

    /// How many pods of a set have ended for good, so that their quota is free.
    pub fn reclaimed(&self, pod_set: &str) -> u32 {
        let mut sets = self.status.reclaimable_pods.iter();
        let set = sets.find(|set| set.name == pod_set);
        set.map_or(0, |set| u32::try_from(set.count).unwrap_or_default())
    }

    /// Whether it holds quota and is on its way out.
    pub fn is_evicting(&self) -> bool {
        self.status.admission.is_some() && self.is(Type::Evicted)
    }

    /// Whether its job has ended.
    pub fn is_finished(&self) -> bool {
        self.is(Type::Finished)
    }

    fn is(&self, kind: Type) -> bool {
        conditions::is_true(&self.status.conditions, kind)
    }
}

/// The name of the Workload of a job: the job's name, so that people find it, and 64 bits of its
/// UID, so that a job that is deleted and made again gets another one.
pub fn workload_name(job: &str, uid: &str) -> String {
    /// 253 that a name may have, less 16 digits and a dash.
    const PREFIX_MAX: usize = 236;
    let digits: String = uid
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let prefix = job
        .get(..PREFIX_MAX)
        .unwrap_or(job)
        .trim_end_matches(['-', '.']);
    format!("{prefix}-{digits}")
}

/// The name of the Workload of a group of pods.
pub fn group_workload_name(group: &str) -> String {
    /// 253 that a name may have, less the suffix.
    const PREFIX_MAX: usize = 243;
    let prefix = group.get(..PREFIX_MAX).unwrap_or(group);
    format!("{}-pod-group", prefix.trim_end_matches(['-', '.']))
}

/// What stands for the UID of a group of pods, which has no object. No UID has a slash.
pub fn group_uid(namespace: &str, group: &str) -> Uid {
    format!("pod-group/{namespace}/{group}").into()
}

/// The namespace and name of the group that `uid` stands for.
pub fn group_key(uid: &str) -> Option<(Arc<str>, Arc<str>)> {
    let (namespace, group) = uid.strip_prefix("pod-group/")?.split_once('/')?;
    Some((namespace.into(), group.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_by_uid_and_fit() {
        let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert_eq!(workload_name("train", uid), "train-0f8fad5bd9cb469f");
        assert_eq!(workload_name(&"x".repeat(253), uid).len(), 253);
    }
}
