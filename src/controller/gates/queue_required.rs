//! The gate of objects without a queue, in namespaces that require one: lifted once the object names a queue, or its
//! namespace requires none any more. Who gets the gate is decided by the webhooks and policies.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::QUEUE_REQUIRED_GATE;
use sluice_kinds::gates::Gate;
use sluice_kinds::view::LabelledQueue;

use crate::cache::gates::GateObject;
use crate::cache::kept_gates::KeptGates;
use crate::cache::{PodRecord, Subject};
use crate::controller::Controller;
use crate::plan::gates::action::GateNow;

/// An object that is younger is not freed: a webhook may have seen a label of its namespace that the watch of the leader
/// has not shown yet.
const YOUNG: SignedDuration = SignedDuration::from_secs(5);
/// Why the gate is lifted, in the record of the object.
const NAMED: &str = "the object names a LocalQueue";
const FREE: &str = "its namespace requires no queue";
/// Why it is not.
const REQUIRED: &str = "its namespace requires a queue: set the label sluice.dev/queue-name to the name of a LocalQueue, or create the object anew with it";
const UNKNOWN: &str = "its namespace is not known yet";

impl Controller {
    /// What is said of the gate now.
    pub(super) fn look_at_queue(&self, subject: &Subject, namespace: &str) -> GateNow {
        let object = self.cluster.gates.get(&Gate::queue_required());
        let spec = object.map_or_else(Arc::default, |object| object.spec.clone());
        let gated = self.objects.gates_of(subject);
        let queue = gated.map(|gated| gated.queue);
        let is_young = gated.is_none_or(|gated| self.is_young(gated.exists_since));
        let (opened, closed) = match (queue, self.cluster.enforced(namespace)) {
            (Some(LabelledQueue::Named(_)), _) => (Some(NAMED), None),
            (_, None) => (None, Some(UNKNOWN)),
            (_, Some(enforced)) if enforced.requires_queue() => (None, Some(REQUIRED)),
            (_, Some(_)) if is_young => (None, Some(UNKNOWN)),
            (_, Some(_)) => (Some(FREE), None),
        };
        GateNow {
            spec,
            deadline: object.and_then(GateObject::deadline),
            opened: opened.map(Into::into),
            closed: closed.map(str::to_owned),
            failed: None,
        }
    }

    /// Has those objects planned that need no queue any more.
    pub(in crate::controller) fn look_after_queues(&mut self) {
        let gate = Gate::queue_required();
        let held = self.objects.held_by(&gate);
        let free = held.filter(|held| {
            let enforced = self.cluster.enforced(&held.namespace);
            !self.is_young(held.exists_since) && enforced.is_some_and(|it| !it.requires_queue())
        });
        let free: Vec<Subject> = free.map(|held| held.subject.clone()).collect();
        self.agenda.plan_all(free);
    }

    fn is_young(&self, exists_since: Option<Timestamp>) -> bool {
        exists_since.is_some_and(|since| self.now.wall.duration_since(since) < YOUNG)
    }

    /// Whether a pod that waits in no queue needs none: it was born behind the queue gate for lack of a queue, and its
    /// gate was lifted from it, or from the object that it belongs to, for another reason than that it got one.
    pub(in crate::controller) fn needs_no_queue(
        &self,
        pod: &PodRecord,
        namespace: &Arc<str>,
    ) -> bool {
        if pod.queue != LabelledQueue::None {
            return false;
        }
        if pod.owner.is_none() {
            return self.was_let_off(&pod.gate_record, &pod.uid, namespace);
        }
        self.job_of_pod(pod, namespace).is_some_and(|job| {
            job.queue == LabelledQueue::None
                && !job.is_held()
                && self.was_let_off(&job.gate_record, &job.uid, namespace)
        })
    }

    fn was_let_off(&self, kept: &KeptGates, uid: &str, namespace: &str) -> bool {
        let enforced = self.cluster.enforced(namespace);
        let is_free = enforced.is_some_and(|enforced| !enforced.requires_queue());
        let mut lifted = kept.lifted_from(uid);
        lifted.any(|lifted| {
            lifted.gate == QUEUE_REQUIRED_GATE && (is_free || lifted.reason.is_none())
        })
    }
}
