//! The priority of a job, a pod or a group: which class it names, and what that class says. What becomes of a job
//! whose class is missing is not decided here.

use sluice_crds::PriorityClassRef;
use sluice_kinds::priority_classes::NoPriorityClass;

use crate::cache::{JobRecord, PodRecord};
use crate::controller::Controller;
use crate::plan::workload::priority::{ClassKind, MissingClass, Priority};

impl Controller {
    /// The priority of a job: that of its WorkloadPriorityClass, or of its pods' PriorityClass, or of the global default, or 0.
    pub(in crate::controller) fn priority(
        &self,
        job: &JobRecord,
    ) -> Result<Priority, MissingClass> {
        if let Some(name) = &job.priority_class {
            return self.class_priority(name);
        }
        let pod_sets = job
            .reading
            .as_ref()
            .ok()
            .and_then(|r| r.pod_sets.as_ref().ok());
        let mut sets = pod_sets.into_iter().flat_map(|sets| sets.iter());
        let class = sets.find_map(|set| set.priority_class.as_deref());
        let found = self.cluster.priority_classes.of_template(class);
        let (class, value) = found.map_err(|NoPriorityClass(name)| MissingClass {
            kind: ClassKind::Pods,
            name,
        })?;
        Ok(Priority {
            value,
            class: class.map(|name| PriorityClassRef {
                group: "scheduling.k8s.io".to_owned(),
                kind: "PriorityClass".to_owned(),
                name: name.to_owned(),
            }),
        })
    }

    /// The priority of a pod, or of the group whose oldest it is: its WorkloadPriorityClass, or what the
    /// API server gave it. One that was admitted by itself keeps what it had then.
    pub(in crate::controller) fn pod_priority(
        &self,
        pod: &PodRecord,
    ) -> Result<Priority, MissingClass> {
        let kept = match (&pod.queue_gate, &pod.admitted) {
            (None, Some(Ok(admitted))) => admitted.priority,
            _ => None,
        };
        match (kept, &pod.priority_class_label) {
            (None, Some(name)) => self.class_priority(name),
            (kept, _) => Ok(Priority {
                value: kept.unwrap_or(pod.priority),
                class: None,
            }),
        }
    }

    /// The priority of a WorkloadPriorityClass.
    fn class_priority(&self, name: &str) -> Result<Priority, MissingClass> {
        let value = self.cluster.workload_priorities.get(name);
        let value = value.ok_or_else(|| MissingClass {
            kind: ClassKind::Workloads,
            name: name.to_owned(),
        })?;
        Ok(Priority {
            value: *value,
            class: Some(PriorityClassRef {
                group: sluice_crds::GROUP.to_owned(),
                kind: "WorkloadPriorityClass".to_owned(),
                name: name.to_owned(),
            }),
        })
    }
}
