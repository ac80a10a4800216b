//! The priority of what is queued, and what is so of a Workload whose class is gone. Which class a job or pod names is
//! found out elsewhere (`controller/planning/priorities.rs`).

use sluice_crds::{PRIORITY_CLASS_LABEL, PriorityClassRef};

use crate::cache::WorkloadRecord;
use crate::plan::outcome::Note;

/// A priority and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority.
    pub value: i32,
    /// The class, if there is one.
    pub class: Option<PriorityClassRef>,
}

/// Which classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassKind {
    /// WorkloadPriorityClasses, which a label names.
    Workloads,
    /// PriorityClasses, which pod templates name.
    Pods,
}

/// There is no class of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingClass {
    /// Which classes.
    pub kind: ClassKind,
    /// The name.
    pub name: String,
}

impl MissingClass {
    /// What is told of a job or pod that names it.
    pub fn note(&self) -> Note {
        let name = &self.name;
        let message = match self.kind {
            ClassKind::Workloads => format!(
                "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {PRIORITY_CLASS_LABEL}"
            ),
            ClassKind::Pods => format!(
                "Can't be queued: there is no PriorityClass {name:?}, so that none of its pods could be made; create it, or change the priorityClassName of its pods"
            ),
        };
        Note::warning("PriorityClassNotFound", message)
    }
}

/// The priority of a job or group. What was queued before its class was deleted keeps what that class said, as
/// in Kueue.
///
/// # Errors
/// It is not queued with this class, and there is none.
pub fn or_recorded(
    found: Result<Priority, MissingClass>,
    record: Option<&WorkloadRecord>,
) -> Result<Priority, MissingClass> {
    found.or_else(|missing| {
        let record = record.ok_or_else(|| missing.clone())?;
        let class = record.spec.priority_class_ref.clone();
        let is_same = class.as_ref().is_some_and(|class| {
            let is_of_pods = class.group != sluice_crds::GROUP;
            class.name == missing.name && is_of_pods == (missing.kind == ClassKind::Pods)
        });
        if !is_same {
            return Err(missing);
        }
        Ok(Priority {
            value: record.spec.priority,
            class,
        })
    })
}
