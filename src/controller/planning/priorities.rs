//! The priority of a job, a pod or a group: which class it names, and what that class says.

use sluice_crds::PriorityClassRef;

use crate::cache::{JobRecord, PodRecord};
use crate::controller::Controller;
use crate::plan::Note;
use crate::plan::workload::Priority;

impl Controller {
    /// The priority of a job: its WorkloadPriorityClass, or its pods' PriorityClass, or 0.
    pub(in crate::controller) fn priority(&self, job: &JobRecord) -> Result<Priority, Note> {
        if let Some(name) = &job.priority_class {
            return self.class_priority(name);
        }
        let pod_sets = job
            .reading
            .as_ref()
            .ok()
            .and_then(|r| r.pod_sets.as_ref().ok());
        let class = pod_sets
            .into_iter()
            .flat_map(|sets| sets.iter())
            .find_map(|set| set.priority_class.clone());
        let Some((name, value)) = class.and_then(|name| {
            self.cluster
                .pod_priorities
                .get(&name)
                .map(|value| (name, *value))
        }) else {
            return Ok(Priority::default());
        };
        let class = PriorityClassRef {
            group: "scheduling.k8s.io".to_owned(),
            kind: "PriorityClass".to_owned(),
            name,
        };
        Ok(Priority {
            value,
            class: Some(class),
        })
    }

    /// The priority of a pod, or of the group whose oldest it is: its WorkloadPriorityClass, or what the
    /// API server gave it. One that was admitted by itself keeps what it had then.
    pub(in crate::controller) fn pod_priority(&self, pod: &PodRecord) -> Result<Priority, Note> {
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
    fn class_priority(&self, name: &str) -> Result<Priority, Note> {
        let Some(value) = self.cluster.workload_priorities.get(name) else {
            return Err(Note::warning(
                "PriorityClassNotFound",
                format!(
                    "Can't be queued: there is no WorkloadPriorityClass {name:?}; create it, or change the label {}",
                    sluice_crds::PRIORITY_CLASS_LABEL
                ),
            ));
        };
        let class = PriorityClassRef {
            group: sluice_crds::GROUP.to_owned(),
            kind: "WorkloadPriorityClass".to_owned(),
            name: name.to_owned(),
        };
        Ok(Priority {
            value: *value,
            class: Some(class),
        })
    }
}
