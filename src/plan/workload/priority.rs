//! The priority of a job, a pod or a group: what the class says that counts, and what is so of a Workload whose class is
//! gone. Which class counts is decided in `kinds`, for the plugin too; what becomes of a job without a priority, not here.

use std::collections::BTreeMap;

use sluice_crds::not_queued::{PRIORITY_CLASS_NOT_ALLOWED, PRIORITY_CLASS_NOT_FOUND};
use sluice_crds::{PRIORITY_CLASS_LABEL, PriorityClassRef, QueuePriorityClasses};
use sluice_kinds::priority_classes::{
    ClassKind, DisallowedClass, NoPriorityClass, PriorityClasses, PriorityFrom,
};

use crate::cache::{JobRecord, PodRecord, WorkloadRecord};
use crate::plan::writes::plan_and_notes::Note;

/// A priority and where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Priority {
    /// The priority.
    pub value: i32,
    /// The class, if there is one.
    pub class: Option<PriorityClassRef>,
}

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
                PRIORITY_CLASS_NOT_FOUND,
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {PRIORITY_CLASS_LABEL}"
                ),
            ),
            Self::Missing(ClassKind::Pods, name) => (
                PRIORITY_CLASS_NOT_FOUND,
                format!(
                    "Can't be queued: there is no PriorityClass {name:?}, so that none of its pods could be made; create it, or change the priorityClassName of its pods"
                ),
            ),
            Self::MissingDefault {
                name,
                cluster_queue,
            } => (
                PRIORITY_CLASS_NOT_FOUND,
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}, the default of ClusterQueue {cluster_queue:?}; create it, or name another class in the label {PRIORITY_CLASS_LABEL}"
                ),
            ),
            Self::NotAllowed(class) => (
                PRIORITY_CLASS_NOT_ALLOWED,
                format!("Can't be queued: {class}"),
            ),
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

/// The classes that there are, and what a ClusterQueue says of those of its jobs.
#[derive(Debug, Clone, Copy)]
pub struct Classes<'a> {
    /// The values of the WorkloadPriorityClasses.
    pub of_workloads: &'a BTreeMap<String, i32>,
    /// The PriorityClasses.
    pub of_pods: &'a PriorityClasses,
    /// What the ClusterQueue says, with its name; if anything.
    pub allowed: Option<(&'a str, &'a QueuePriorityClasses)>,
}

impl Classes<'_> {
    /// The priority of a job: that of its WorkloadPriorityClass, or of its pods' PriorityClass, or of the default of
    /// its ClusterQueue, or of the global default, or 0.
    ///
    /// # Errors
    /// It can't be queued.
    pub fn of_job(&self, job: &JobRecord) -> Result<Priority, NoPriority> {
        let pod_sets = job
            .reading
            .as_ref()
            .ok()
            .and_then(|r| r.pod_sets.as_ref().ok());
        let sets = pod_sets.into_iter().flat_map(|sets| sets.iter());
        let classes = sets.filter_map(|set| set.priority_class.as_deref());
        let class = match self.from(job.priority_class.as_deref(), classes)? {
            Ok(priority) => return Ok(priority),
            Err(of_pods) => of_pods,
        };
        let found = self.of_pods.of_template(class);
        let (class, value) =
            found.map_err(|NoPriorityClass(name)| NoPriority::Missing(ClassKind::Pods, name))?;
        Ok(Priority {
            value,
            class: class.map(pod_class_ref),
        })
    }

    /// The priority of the group that these pods make up: that of its oldest. The classes of all must be allowed, if that
    /// one has no WorkloadPriorityClass: the scheduler goes by the class of each pod.
    ///
    /// # Errors
    /// It can't be queued.
    pub fn of_group(
        &self,
        oldest: &PodRecord,
        members: &[&PodRecord],
    ) -> Result<Priority, NoPriority> {
        let label = oldest.priority_class_label.as_deref();
        let classes = members.iter().filter_map(|pod| class_of(pod));
        self.from(label, classes).map(drop)?;
        self.of_pod(oldest)
    }

    /// The priority of a pod: its WorkloadPriorityClass, or what the API server gave it, or the default of its
    /// ClusterQueue. One that was admitted by itself keeps what it had then.
    ///
    /// # Errors
    /// It can't be queued.
    pub fn of_pod(&self, pod: &PodRecord) -> Result<Priority, NoPriority> {
        let admitted = match (&pod.queue_gate, &pod.admitted) {
            (None, Some(Ok(admitted))) => Some(admitted),
            _ => None,
        };
        let kept = admitted.and_then(|admitted| admitted.priority);
        match (kept, &pod.priority_class_label) {
            (None, Some(_)) => self.of_pod_class(pod, pod.priority_class_label.as_deref()),
            (None, None) if admitted.is_none() => self.of_pod_class(pod, None),
            (kept, _) => Ok(Priority {
                value: kept.unwrap_or(pod.priority),
                class: None,
            }),
        }
    }

    /// The name of the class that an admitted pod counts under: that of its priority, or of what it names if that is gone.
    pub fn class_name_of_pod(&self, pod: &PodRecord) -> Option<String> {
        let label = pod.priority_class_label.as_deref();
        let named = || label.or_else(|| class_of(pod)).map(str::to_owned);
        let found = self.of_pod_class(pod, label);
        found.map_or_else(
            |_| named(),
            |priority| priority.class.map(|class| class.name),
        )
    }

    /// The priority of a pod that may run or wait without having one: not that of a class that is not allowed.
    pub fn value_of_pod(&self, pod: &PodRecord) -> i32 {
        let found = self.of_pod(pod).or_else(|_| self.of_pod_class(pod, None));
        found.map_or(pod.priority.min(0), |priority| priority.value)
    }

    /// The priority of a pod with this label, if with any.
    fn of_pod_class(&self, pod: &PodRecord, label: Option<&str>) -> Result<Priority, NoPriority> {
        let found = self.from(label, class_of(pod))?;
        Ok(found.unwrap_or_else(|class| Priority {
            value: pod.priority,
            class: class.map(pod_class_ref),
        }))
    }

    /// The priority of the WorkloadPriorityClass that counts, or else the class that the pods name.
    fn from<'a>(
        &'a self,
        label: Option<&'a str>,
        of_pods: impl IntoIterator<Item = &'a str>,
    ) -> Result<Result<Priority, Option<&'a str>>, NoPriority> {
        let found = (self.of_pods)
            .priority_from(label, of_pods, self.allowed)
            .map_err(NoPriority::NotAllowed)?;
        let (name, missing) = match found {
            PriorityFrom::Label(name) => {
                let missing = NoPriority::Missing(ClassKind::Workloads, name.to_owned());
                (name, missing)
            }
            PriorityFrom::QueueDefault {
                name,
                cluster_queue,
            } => {
                let missing = NoPriority::MissingDefault {
                    name: name.to_owned(),
                    cluster_queue: cluster_queue.to_owned(),
                };
                (name, missing)
            }
            PriorityFrom::Pods(class) => return Ok(Err(class)),
        };
        self.class_priority(name).map(Ok).ok_or(missing)
    }

    /// The priority of a WorkloadPriorityClass, if it is there.
    fn class_priority(&self, name: &str) -> Option<Priority> {
        let value = self.of_workloads.get(name)?;
        Some(Priority {
            value: *value,
            class: Some(PriorityClassRef {
                group: sluice_crds::GROUP.to_owned(),
                kind: "WorkloadPriorityClass".to_owned(),
                name: name.to_owned(),
            }),
        })
    }
}

fn pod_class_ref(name: &str) -> PriorityClassRef {
    PriorityClassRef {
        group: "scheduling.k8s.io".to_owned(),
        kind: "PriorityClass".to_owned(),
        name: name.to_owned(),
    }
}

/// The PriorityClass of a pod.
fn class_of(pod: &PodRecord) -> Option<&str> {
    let asks = pod.asks.as_ref().as_ref().ok();
    asks.and_then(|asks| asks.priority_class.as_deref())
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
pub(super) fn to_record(
    found: &Result<Priority, NoPriority>,
    record: Option<&WorkloadRecord>,
) -> Result<Priority, NoPriority> {
    match (found, record) {
        (Err(NoPriority::NotAllowed(_)), None) => Ok(Priority::default()),
        (found, _) => found.clone(),
    }
}
