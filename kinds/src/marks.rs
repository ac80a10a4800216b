//! What nobody but Sluice writes on pods and pod templates, because Sluice acts by it: which gates it
//! removes, which pods it watches, whose quota they take. Which pods and objects are judged is
//! decided elsewhere.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{
    ADMITTED_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION,
};

use crate::gates;
use crate::hold::Hold;
use crate::jobkind::CompiledKind;
use crate::metadata::{self, annotation, label};
use crate::problem::Problem;
use crate::queue_gates::propagated;

/// The rule for what is Sluice's to write.
pub const BY_SLUICE_ALONE: &str = "is set by Sluice alone";

/// A request by somebody else than Sluice, whose outcome is judged.
#[derive(Debug, Clone, Copy)]
pub struct Marking<'a> {
    /// The object as it was; absent when it is being created.
    pub old: Option<&'a Value>,
    /// The object as it shall be.
    pub new: &'a Value,
    /// How it is held; none if nothing holds it.
    pub hold: Option<Hold>,
}

/// One pod template of the object.
struct Template<'a> {
    at: String,
    set: &'a str,
    old: &'a Value,
    new: &'a Value,
    /// The scheduling gates that stand for the gate annotations of the object.
    own: &'a BTreeSet<String>,
}

/// What is wrong with the list of propagated gates of a `pod` that is being created: one without a
/// controller lists those of its own gate annotations and no others.
pub fn check_list_of_pod(pod: &Value) -> Option<Problem> {
    if metadata::controller(pod).is_some() {
        return None;
    }
    let own = gates::read(&metadata::gate_annotations(pod)).scheduling_gates();
    let is_wrong = propagated(pod).any(|name| !own.contains(name));
    is_wrong.then(|| {
        Problem::forbidden(
            gates::field_of(PROPAGATED_GATES_ANNOTATION),
            BY_SLUICE_ALONE,
        )
    })
}

impl CompiledKind {
    /// What is wrong with the record of an admission in the pod templates of `new`: there is none.
    pub fn check_no_record(&self, old: Option<&Value>, new: &Value) -> Vec<Problem> {
        self.templates(new)
            .filter_map(|(_, path, template)| {
                let record = annotation(template?, ADMITTED_ANNOTATION)?;
                let before = old.and_then(|old| annotation(path.get(old)?, ADMITTED_ANNOTATION));
                (before != Some(record)).then(|| {
                    let at = format!(
                        "{}.metadata.annotations[{ADMITTED_ANNOTATION}]",
                        path.field()
                    );
                    Problem::forbidden(at, BY_SLUICE_ALONE)
                })
            })
            .collect()
    }

    /// What is wrong with the marks in the pod templates. What the webhook itself writes there is
    /// right: it does so at each edit of an object that can't be suspended.
    pub fn check_marks(&self, marking: Marking<'_>) -> Vec<Problem> {
        let own = gates::read(&metadata::gate_annotations(marking.new)).scheduling_gates();
        self.templates(marking.new)
            .flat_map(|(set, path, template)| {
                let old = marking.old.and_then(|old| path.get(old));
                let template = Template {
                    at: path.field(),
                    set,
                    old: old.unwrap_or(&Value::Null),
                    new: template.unwrap_or(&Value::Null),
                    own: &own,
                };
                let mut problems: Vec<_> = template.check_list().into_iter().collect();
                if marking.hold == Some(Hold::Pods) {
                    problems.extend(template.check_no_group());
                }
                if marking.old.is_some() {
                    problems.extend(self.check_managed(&template, marking.hold));
                    problems.extend(self.check_pod_set(&template, marking.hold));
                    problems.extend(self.check_queue_gate(&template, marking.hold));
                }
                problems
            })
            .collect()
    }

    fn check_managed(&self, template: &Template<'_>, hold: Option<Hold>) -> Option<Problem> {
        let (old, new) = (
            label(template.old, MANAGED_LABEL),
            label(template.new, MANAGED_LABEL),
        );
        let expected = hold
            .filter(|_| self.suspend_path().is_none())
            .map(|_| "true");
        let may_be =
            new == old || new.is_some() && new == expected || new.is_none() && hold.is_none();
        (!may_be).then(|| template.forbidden(&format!("metadata.labels[{MANAGED_LABEL}]")))
    }

    fn check_pod_set(&self, template: &Template<'_>, hold: Option<Hold>) -> Option<Problem> {
        let of = |template| metadata::annotation_text(template, POD_SET_ANNOTATION);
        let (old, new) = (of(template.old), of(template.new));
        let expected = hold
            .filter(|hold| self.suspend_path().is_none() && *hold == Hold::Pods)
            .map(|_| template.set);
        let may_be =
            new == old || new.is_some() && new == expected || new.is_none() && hold.is_none();
        (!may_be).then(|| template.forbidden(&gates::field_of(POD_SET_ANNOTATION)))
    }

    /// The queue gate in a template says that the pods wait, and that the object may be let go by
    /// hand. Its pods are those that it had at its creation.
    fn check_queue_gate(&self, template: &Template<'_>, hold: Option<Hold>) -> Option<Problem> {
        self.suspend_path()?;
        hold?;
        let gate = self.queue_gates().carried(template.new)?;
        self.queue_gates().carried(template.old).is_none().then(|| {
            Problem::forbidden(
                format!("{}.spec.schedulingGates", template.at),
                format!(
                    "the gate {gate:?} may only be set at creation: it says how the object is held"
                ),
            )
        })
    }
}

impl Template<'_> {
    fn check_list(&self) -> Option<Problem> {
        let before: BTreeSet<&str> = propagated(self.old).collect();
        let is_wrong =
            propagated(self.new).any(|name| !before.contains(name) && !self.own.contains(name));
        is_wrong.then(|| self.forbidden(&gates::field_of(PROPAGATED_GATES_ANNOTATION)))
    }

    /// An admitted pod that says that it belongs to a group is read as a member of that.
    fn check_no_group(&self) -> Option<Problem> {
        let is_member = |template| {
            label(template, POD_GROUP_LABEL).is_some()
                && annotation(template, POD_GROUP_TOTAL_ANNOTATION).is_some()
        };
        (is_member(self.new) && !is_member(self.old)).then(|| {
            Problem::forbidden(
                format!("{}.metadata.labels[{POD_GROUP_LABEL}]", self.at),
                "the pods of this object are admitted with it, not with a group",
            )
        })
    }

    fn forbidden(&self, field: &str) -> Problem {
        Problem::forbidden(format!("{}.{field}", self.at), BY_SLUICE_ALONE)
    }
}

#[cfg(test)]
mod tests;
