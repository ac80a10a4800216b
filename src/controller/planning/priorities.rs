//! The priority of a job, a pod or a group, by the classes that are known. How it follows from these is told in
//! `plan/workload/priority.rs`.

use std::sync::Arc;

use sluice_engine::LocalQueueKey;
use sluice_kinds::view::LabelledQueue;

use crate::cache::{JobRecord, PodKey, PodRecord, Subject, WorkloadRecord};
use crate::controller::Controller;
use crate::plan::group;
use crate::plan::workload::priority::{Classes, NoPriority, Priority, or_recorded};

impl Controller {
    /// The priority of a job.
    pub(in crate::controller) fn priority(
        &self,
        namespace: &Arc<str>,
        job: &JobRecord,
    ) -> Result<Priority, NoPriority> {
        self.classes_in(namespace, &job.queue).of_job(job)
    }

    /// The priority of the group of these pods, whose oldest this is.
    pub(in crate::controller) fn group_priority(
        &self,
        namespace: &Arc<str>,
        oldest: &PodRecord,
        pods: &[(&PodKey, &PodRecord)],
    ) -> Result<Priority, NoPriority> {
        let members: Vec<_> = group::members(pods).collect();
        let classes = self.classes_in(namespace, &oldest.queue);
        classes.of_group(oldest, &members)
    }

    /// The priority of a pod.
    pub(in crate::controller) fn pod_priority(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> Result<Priority, NoPriority> {
        self.classes_in(namespace, &pod.queue).of_pod(pod)
    }

    /// The priority of a pod that may run or wait without having one.
    pub(in crate::controller) fn pod_priority_value(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> i32 {
        self.classes_in(namespace, &pod.queue).value_of_pod(pod)
    }

    /// The name of the class that an admitted pod counts under.
    pub(in crate::controller) fn pod_class_name(
        &self,
        namespace: &Arc<str>,
        pod: &PodRecord,
    ) -> Option<String> {
        self.classes_in(namespace, &pod.queue)
            .class_name_of_pod(pod)
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
            first.map(|(_, oldest)| self.group_priority(&key.namespace, oldest, &pods))
        } else {
            let job = self.objects.job_of(subject);
            job.map(|(key, job)| self.priority(&key.namespace, job))
        };
        or_recorded(found?, Some(workload)).err()
    }

    /// The classes for what names this queue.
    fn classes_in(&self, namespace: &Arc<str>, queue: &LabelledQueue) -> Classes<'_> {
        let allowed = match queue {
            LabelledQueue::Named(queue) => {
                let key = LocalQueueKey::new(namespace.clone(), queue.as_str());
                self.cluster.classes_of(&key)
            }
            LabelledQueue::None | LabelledQueue::Invalid(_) => None,
        };
        Classes {
            of_workloads: &self.cluster.workload_priorities,
            of_pods: &self.cluster.priority_classes,
            allowed,
        }
    }
}
