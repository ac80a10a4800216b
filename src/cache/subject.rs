//! Who is admitted as one: a job, a pod group, or a pod; and how a subject is written as text, for the engine and for
//! `status.makesRoomFor`. What is known of a subject lies in the files beside this.

use std::fmt;
use std::sync::Arc;

use sluice_crds::{POD_GROUP_PREFIX, POD_PREFIX};
use sluice_engine::WorkloadId;

/// A UID, shared.
pub type Uid = Arc<str>;

/// The namespace and name of an object.
pub type NamespacedName = (Arc<str>, Arc<str>);

/// The namespace and name of a ResourceClaimTemplate.
pub type Template = NamespacedName;

/// Whatever is admitted as one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A job, by its UID.
    Job(Uid),
    /// A pod group, which has no object.
    Group(GroupKey),
    /// A pod, by its UID.
    Pod(Uid),
}

/// Where a pod group is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Subject {
    /// The name of the subject in the engine.
    pub fn id(&self) -> WorkloadId {
        match self {
            Self::Job(uid) => WorkloadId::new(uid.clone()),
            Self::Group(_) | Self::Pod(_) => WorkloadId::from(self.to_string()),
        }
    }

    /// The UID of a job.
    pub fn job(&self) -> Option<&Uid> {
        match self {
            Self::Job(uid) => Some(uid),
            Self::Group(_) | Self::Pod(_) => None,
        }
    }

    /// The UID of a pod.
    pub fn pod(&self) -> Option<&Uid> {
        match self {
            Self::Pod(uid) => Some(uid),
            Self::Job(_) | Self::Group(_) => None,
        }
    }
}

impl From<&WorkloadId> for Subject {
    fn from(id: &WorkloadId) -> Self {
        Self::from(id.as_str())
    }
}

impl From<&str> for Subject {
    fn from(text: &str) -> Self {
        let group = text
            .strip_prefix(POD_GROUP_PREFIX)
            .and_then(|key| key.split_once('/'));
        match (text.strip_prefix(POD_PREFIX), group) {
            (Some(uid), _) => Self::Pod(uid.into()),
            (None, Some((namespace, name))) => Self::Group(GroupKey {
                namespace: namespace.into(),
                name: name.into(),
            }),
            (None, None) => Self::Job(text.into()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(uid) => write!(f, "{uid}"),
            Self::Group(GroupKey { namespace, name }) => {
                write!(f, "{POD_GROUP_PREFIX}{namespace}/{name}")
            }
            Self::Pod(uid) => write!(f, "{POD_PREFIX}{uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_gives_back_the_subject_that_it_was_told() {
        let uid: Uid = "0f8fad5b-d9cb-469f-a165-70867728950e".into();
        let group = GroupKey {
            namespace: "blue".into(),
            name: "g".into(),
        };
        let texts = [
            (Subject::Job(uid.clone()), uid.to_string()),
            (Subject::Group(group), "pod-group/blue/g".to_owned()),
            (Subject::Pod(uid.clone()), format!("pod/{uid}")),
        ];
        for (subject, text) in texts {
            assert_eq!(subject.id().as_str(), text);
            assert_eq!(Subject::from(&subject.id()), subject);
        }
    }
}
