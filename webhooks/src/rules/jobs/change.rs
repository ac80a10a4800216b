//! How an object of a managed kind may be edited: who releases it, what it may not do while it is
//! admitted.

use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, DEACTIVATED_BY_ANNOTATION};
use sluice_kinds::gates;
use sluice_kinds::metadata::annotation_text;
use sluice_kinds::path::FieldPath;
use sluice_kinds::problem::Problem;
use sluice_kinds::{CompiledKind, Hold};

use crate::admission::policy::Policy;
use crate::rules::jobs::growth;
use crate::rules::jobs::reason_to_hold::is_child;
use crate::rules::queue_label::{self, QueueLabel, Running, queue_of};
use crate::rules::unsuspend;
use crate::rules::unsuspend::HeldBy;

/// An edit of an object of a managed kind.
pub(super) struct Change<'a> {
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    pub(super) kind: &'a CompiledKind,
    pub(super) policy: &'a Policy,
    /// Whether the controller edits it that makes such objects for its owner.
    pub(super) is_by_maker: bool,
}

/// Who edits an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditedBy {
    /// Sluice's own account.
    Sluice,
    /// Anybody else.
    Other,
}

impl Change<'_> {
    /// What is wrong with it.
    pub(super) fn problems(&self, by: EditedBy) -> Vec<Problem> {
        match (self.kind.suspend_path(), self.hold()) {
            (Some(suspend), Hold::Suspend) => self.problems_of_suspended(suspend, by),
            (_, Hold::Suspend | Hold::Pods | Hold::EachPod) => {
                let mut problems: Vec<_> = self.problem_of_gated().into_iter().collect();
                if by == EditedBy::Other {
                    problems.extend(self.released_without_gates());
                }
                problems
            }
        }
    }

    fn hold(&self) -> Hold {
        let asked = annotation_text(self.old, ADMISSION_ANNOTATION);
        self.kind.hold(self.old, asked)
    }

    /// Of an object that its templates hold. Its user may suspend it and release it, and make it grow:
    /// no pod of it runs before its own gate is gone. Where it joins a queue with the gate there
    /// already, somebody else put that there, and its pods are not watched.
    fn problem_of_gated(&self) -> Option<Problem> {
        let old_queue = queue_of(self.old, self.policy.queue_labels());
        let new_queue = queue_of(self.new, self.policy.queue_labels());
        if self.kind.is_gated(self.old) {
            // Where it was born to wait for a queue that it is given later, Sluice put that there.
            let may_join = self.hold() == Hold::Pods && self.is_held_for_queue();
            let late = self
                .kind
                .suspend_path()
                .filter(|_| !may_join)
                .and_then(|_| queue_label::check_late_join(old_queue, new_queue));
            queue_label::check_change_of_gated(old_queue, new_queue).or(late)
        } else if self.kind.suspend_path().is_some() {
            queue_label::check_late_join(old_queue, new_queue)
        } else {
            None
        }
    }

    fn is_held_for_queue(&self) -> bool {
        gates::read(&gates::gate_annotations(self.old)).require_queue()
    }

    /// Of an object that its templates hold and that its user releases: all of them must hold it,
    /// before and after, or pods of it run at once.
    fn released_without_gates(&self) -> Option<Problem> {
        let suspend = self.kind.suspend_path()?;
        let suspended = |object| self.kind.suspended(object);
        if suspended(self.old) != Ok(true) || suspended(self.new) != Ok(false) {
            return None;
        }
        let queue = queue_of(self.new, self.policy.queue_labels());
        let is_queued = queue.is_some() && !is_child(self.new, self.policy);
        let are_gated = self.kind.is_gated(self.old) && self.kind.is_gated(self.new);
        let do_wait = self.kind.gates_pods(self.new) && (!is_queued || are_gated);
        let is_held = self.kind.is_suspended_by_gates()
            && (!gates::gate_annotations(self.new).is_empty() || self.deactivated_by().is_some());
        if do_wait && !is_held {
            None
        } else {
            self.started_by_hand(suspend, queue)
        }
    }

    fn problems_of_suspended(&self, suspend: &FieldPath, by: EditedBy) -> Vec<Problem> {
        // A suspend field that could not be read before blocks no edit.
        let Ok(was_suspended) = self.kind.suspended(self.old) else {
            return Vec::new();
        };
        let is_suspended = match self.kind.suspended(self.new) {
            Ok(is_suspended) => is_suspended,
            Err(problem) => return vec![problem],
        };
        let old_queue = queue_of(self.old, self.policy.queue_labels());
        let new_queue = queue_of(self.new, self.policy.queue_labels());
        let left = old_queue.filter(|_| was_suspended && new_queue.is_none());
        let of_child = self.changed_child(by, left);
        // Its pods would wait for the gates of others while they hold its quota.
        let late = queue_label::check_late_join(old_queue, new_queue)
            .filter(|_| is_suspended && !is_child(self.new, self.policy))
            .filter(|_| self.kind.has_gated_template(self.new));
        let problems: Vec<_> = match (was_suspended, is_suspended) {
            (true, true) => Vec::new(),
            (true, false) if by == EditedBy::Sluice => Vec::new(),
            (true, false) => self
                .started_by_hand(suspend, new_queue)
                .into_iter()
                .collect(),
            (false, true) => queue_label::check_change(old_queue, new_queue, Running::Stopping)
                .into_iter()
                .collect(),
            (false, false) => {
                let mut problems: Vec<_> =
                    queue_label::check_change(old_queue, new_queue, Running::Still)
                        .into_iter()
                        .collect();
                if by == EditedBy::Other {
                    problems.extend(self.grown(old_queue));
                }
                problems
            }
        };
        problems.into_iter().chain(late).chain(of_child).collect()
    }

    /// Of an object that runs.
    fn grown(&self, queue: Option<QueueLabel<'_>>) -> Vec<Problem> {
        if queue.is_none() || is_child(self.new, self.policy) {
            return Vec::new();
        }
        growth::check(self.old, self.new, self.kind)
    }

    /// Of a child, whether it runs or not: nobody queues it again, so suspending it first makes no difference. `left` is the
    /// queue label that it loses while it is suspended.
    fn changed_child(&self, by: EditedBy, left: Option<QueueLabel<'_>>) -> Vec<Problem> {
        let is_judged = by == EditedBy::Other && !self.is_by_maker;
        if !is_judged || !is_child(self.new, self.policy) {
            return Vec::new();
        }
        growth::check_child(self.old, self.new, left, self.kind)
    }

    fn started_by_hand(
        &self,
        suspend: &FieldPath,
        queue: Option<QueueLabel<'_>>,
    ) -> Option<Problem> {
        let gates = gates::read(&gates::gate_annotations(self.new));
        let is_child = is_child(self.new, self.policy);
        let held_by = HeldBy {
            gates: &gates,
            deactivated_by: self.deactivated_by(),
            queue: queue.filter(|_| !is_child),
        };
        unsuspend::check(&suspend.field(), &held_by)
    }

    /// The gate that has deactivated the object. What its owner's controller has copied to a child says nothing.
    fn deactivated_by(&self) -> Option<&str> {
        let gate = annotation_text(self.new, DEACTIVATED_BY_ANNOTATION);
        gate.filter(|_| !is_child(self.new, self.policy))
    }
}
