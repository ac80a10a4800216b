//! The priority of a job, a pod or a group: which class it names, whether its ClusterQueue allows that, and what the
//! class says. What becomes of a job that has no priority is not decided here.

use std::sync::Arc;

use sluice_crds::{PriorityClassRef, QueuePriorityClasses};
use sluice_engine::LocalQueueKey;
use sluice_kinds::priority_classes::{ClassKind, DisallowedClass, NoPriorityClass};
use sluice_kinds::view::QueueName;

use crate::cache::{JobRecord, PodRecord, Subject, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::workload::priority::{NoPriority, Priority, or_recorded};

/// What a ClusterQueue says of the classes of its jobs, with its name.
type Allowed<'a> = Option<(&'a str, &'a QueuePriorityClasses)>;

impl Controller {
    /// The priority of a job: that of its WorkloadPriorityClass, or of its pods' PriorityClass, or of the default of
    /// its ClusterQueue, or of the global default, or 0.
    pub(in crate::controller) fn priority(
        &self,
        namespace: &Arc<str>,
        job: &JobRecord,
    ) -> Result<Priority, NoPriority> {
        let allowed = self.allowed_in(namespace, &job.queue);
        if let Some(name) = &job.priority_class {
            return self.of_named_class(name, allowed);
        }
        let pod_sets = job
            .reading
            .as_ref()
            .ok()
            .and_then(|r| r.pod_sets.as_ref().ok());
        let mut sets = pod_sets.into_iter().flat_map(|sets| sets.iter());
        let class = sets.find_map(|set| set.priority_class.as_deref());
        if let Some(default) = self.default_class(class, allowed) {
            return default;
        }
        let found = self.cluster.priority_classes.of_template(class);
        let (class, value) =
            found.map_err(|NoPriorityClass(name)| NoPriority::Missing(ClassKind::Pods, name))?;
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
    /// API server gave it, or the default of its ClusterQueue. One that was admitted by itself keeps what it had then.
    pub(in crate::controller) fn pod_priority(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> Result<Priority, NoPriority> {
        let admitted = match (&pod.queue_gate, &pod.admitted) {
            (None, Some(Ok(admitted))) => Some(admitted),
            _ => None,
        };
        let kept = admitted.and_then(|admitted| admitted.priority);
        let allowed = self.allowed_in(namespace, &pod.queue);
        match (kept, &pod.priority_class_label) {
            (None, Some(name)) => self.of_named_class(name, allowed),
            (None, None) if admitted.is_none() => self.of_pod_class(pod, allowed),
            (kept, _) => Ok(Priority {
                value: kept.unwrap_or(pod.priority),
                class: None,
            }),
        }
    }

    /// The priority of a pod that may run or wait without having one: not that of a class that is not allowed.
    pub(in crate::controller) fn pod_priority_value(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> i32 {
        let allowed = self.allowed_in(namespace, &pod.queue);
        let found = self.pod_priority(namespace, pod);
        let found = found.or_else(|_| self.of_pod_class(pod, allowed));
        found.map_or(pod.priority.min(0), |priority| priority.value)
    }

    /// Why a job or group has no priority, if that is so. What was queued before its class was deleted has one.
    pub(in crate::controller) fn no_priority(
        &self,
        subject: &Subject,
        workload: &WorkloadRecord,
    ) -> Option<NoPriority> {
        let found = if let Subject::Group(key) = subject {
            let pods = self.objects.pods_by_age(subject);
            let first = pods.first();
            first.map(|(_, pod)| self.pod_priority(&key.namespace, pod))
        } else {
            let job = self.objects.job_of(subject);
            job.map(|(key, job)| self.priority(&key.namespace, job))
        };
        or_recorded(found?, Some(workload)).err()
    }

    /// What the ClusterQueue of a queue says of classes, if anything.
    fn allowed_in(&self, namespace: &Arc<str>, queue: &QueueName) -> Allowed<'_> {
        let QueueName::Named(queue) = queue else {
            return None;
        };
        let key = LocalQueueKey::new(namespace.clone(), queue.as_str());
        self.cluster.classes_of(&key)
    }

    /// The priority of a WorkloadPriorityClass that a label names.
    fn of_named_class(&self, name: &str, allowed: Allowed<'_>) -> Result<Priority, NoPriority> {
        check_allowed(ClassKind::Workloads, name, allowed)?;
        self.class_priority(name)
            .ok_or_else(|| NoPriority::Missing(ClassKind::Workloads, name.to_owned()))
    }

    /// The priority of a pod without such a label.
    fn of_pod_class(&self, pod: &PodRecord, allowed: Allowed<'_>) -> Result<Priority, NoPriority> {
        let class = pod.asks.as_ref().as_ref().ok();
        let class = class.and_then(|asks| asks.priority_class.as_deref());
        let default = self.default_class(class, allowed);
        default.unwrap_or(Ok(Priority {
            value: pod.priority,
            class: None,
        }))
    }

    /// What an object without a label has of its ClusterQueue, whose pods name this class: the priority of the default,
    /// if the pods name no class, or why their class may not be named. The API server names the global default in pods,
    /// so that is taken for none.
    fn default_class(
        &self,
        class: Option<&str>,
        allowed: Allowed<'_>,
    ) -> Option<Result<Priority, NoPriority>> {
        let named = class.filter(|name| !self.cluster.priority_classes.is_default(name));
        if let Some(name) = named {
            let checked = check_allowed(ClassKind::Pods, name, allowed);
            return checked.err().map(Err);
        }
        let (cluster_queue, classes) = allowed?;
        let name = classes.default.as_ref()?;
        let missing = || NoPriority::MissingDefault {
            name: name.clone(),
            cluster_queue: cluster_queue.to_owned(),
        };
        Some(self.class_priority(name).ok_or_else(missing))
    }

    /// The priority of a WorkloadPriorityClass, if it is there.
    fn class_priority(&self, name: &str) -> Option<Priority> {
        let value = self.cluster.workload_priorities.get(name)?;
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

fn check_allowed(kind: ClassKind, name: &str, allowed: Allowed<'_>) -> Result<(), NoPriority> {
    let disallowed = allowed.and_then(|allowed| DisallowedClass::check(kind, name, allowed));
    disallowed.map_or(Ok(()), |class| Err(NoPriority::NotAllowed(class)))
}
