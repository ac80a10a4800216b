//! The priority of what is queued, and what is so of a Workload whose class is gone. Which class a job or pod names is
//! found out elsewhere (`controller/planning/priorities.rs`).

use sluice_crds::{PRIORITY_CLASS_LABEL, PriorityClassRef};
use sluice_kinds::priority_classes::{ClassKind, DisallowedClass};

use crate::cache::WorkloadRecord;
use crate::plan::plan_and_notes::Note;

/// A priority and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority.
    pub value: i32,
    /// The class, if there is one.
    pub class: Option<PriorityClassRef>,
}

/// The event, and the reason of the condition, of what names a class that its ClusterQueue does not allow.
pub const NOT_ALLOWED: &str = "PriorityClassNotAllowed";
const NOT_FOUND: &str = "PriorityClassNotFound";

/// Why a job or pod has no priority: it can't be queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPriority {
    /// There is no class of this name, which it names.
    Missing(ClassKind, String),
    /// There is no class of this name, which its ClusterQueue names for what names none.
    MissingDefault {
        /// The WorkloadPriorityClass.
        name: String,
        /// The ClusterQueue.
        cluster_queue: String,
    },
    /// Its ClusterQueue does not allow the class that it names.
    NotAllowed(DisallowedClass),
}

impl NoPriority {
    /// What is told of a job or pod of which this is so.
    pub fn note(&self) -> Note {
        let (reason, message) = self.told();
        Note::warning(reason, message)
    }

    /// The reason and the message.
    pub fn told(&self) -> (&'static str, String) {
        match self {
            Self::Missing(ClassKind::Workloads, name) => (
                NOT_FOUND,
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {PRIORITY_CLASS_LABEL}"
                ),
            ),
            Self::Missing(ClassKind::Pods, name) => (
                NOT_FOUND,
                format!(
                    "Can't be queued: there is no PriorityClass {name:?}, so that none of its pods could be made; create it, or change the priorityClassName of its pods"
                ),
            ),
            Self::MissingDefault {
                name,
                cluster_queue,
            } => (
                NOT_FOUND,
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}, the default of ClusterQueue {cluster_queue:?}; create it, or name another class in the label {PRIORITY_CLASS_LABEL}"
                ),
            ),
            Self::NotAllowed(class) => (NOT_ALLOWED, format!("Can't be queued: {class}")),
        }
    }

    /// The kind and name of the class that is missing.
    fn missing(&self) -> Option<(ClassKind, &str)> {
        match self {
            Self::Missing(kind, name) => Some((*kind, name)),
            Self::MissingDefault { name, .. } => Some((ClassKind::Workloads, name)),
            Self::NotAllowed(_) => None,
        }
    }
}

/// The priority of a job or group. What was queued before its class was deleted keeps what that class said, as
/// in Kueue.
///
/// # Errors
/// It is not queued with this class, and there is none; or its ClusterQueue does not allow the class.
pub fn or_recorded(
    found: Result<Priority, NoPriority>,
    record: Option<&WorkloadRecord>,
) -> Result<Priority, NoPriority> {
    found.or_else(|refused| {
        let recorded = record.filter(|record| {
            let class = record.spec.priority_class_ref.as_ref();
            class
                .zip(refused.missing())
                .is_some_and(|(class, (kind, name))| {
                    let is_of_pods = class.group != sluice_crds::GROUP;
                    class.name == name && is_of_pods == (kind == ClassKind::Pods)
                })
        });
        let spec = &recorded.ok_or(refused)?.spec;
        Ok(Priority {
            value: spec.priority,
            class: spec.priority_class_ref.clone(),
        })
    })
}

/// The priority that the Workload of a job or group is written with. One whose class is not allowed gets a Workload too,
/// without that priority: the Workload says why it waits.
///
/// # Errors
/// The job is told why it has no priority, and its Workload stays as it is.
pub fn to_record(
    found: &Result<Priority, NoPriority>,
    record: Option<&WorkloadRecord>,
) -> Result<Priority, NoPriority> {
    match (found, record) {
        (Err(NoPriority::NotAllowed(_)), None) => Ok(Priority::default()),
        (found, _) => found.clone(),
    }
}
