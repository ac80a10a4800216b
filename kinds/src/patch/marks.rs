//! What nobody but Sluice writes on pods and pod templates, because Sluice acts by it: which gates it
//! removes, which pods it watches, whose quota they take. The webhooks decide which pods and
//! objects are judged.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{
    ADMITTED_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, QUEUE_GATE,
};

use crate::field::metadata::{self, annotation, label};
use crate::field::problem::{Problem, fill};
use crate::gates;
use crate::gates::scheduling::{propagated, scheduling_gates};
use crate::jobkind::hold::Hold;
use crate::jobkind::kind::CompiledKind;
use crate::pod_sets::template::Template;
use crate::read::place::Place;
use crate::read::pod_group::{GROUP_MARK_BYTES_MAX, too_long_marks};
use crate::read::pod_hold::MIRROR_ANNOTATION;

/// The rule for what is Sluice's to write.
pub const BY_SLUICE_ALONE: &str = "is set by Sluice alone";

/// Where a gate is lifted that stands on a pod with an owner, or in a template.
pub const OF_OWNER: &str = "the object that the pod belongs to";
/// Where a gate is lifted that stands on a bare pod.
pub const OF_POD: &str = "the pod itself";

/// The rule for a gate that stands for a gate annotation: the gate, and where its annotation is.
pub const STANDS_FOR_ANNOTATION: &str = "the gate {} stands for a gate annotation on {}; remove it from that annotation, and Sluice removes it here";
/// The rule for a gate in a template that comes too late.
pub const LATE_GATE: &str =
    "the gate {} may only be set at creation: it determines how the object is held";
/// The rule for a group in the templates of an object that is admitted as a whole.
pub const NOT_WITH_A_GROUP: &str =
    "the pods of this object are admitted with the object, not with a group";

/// The rule for the annotation by which the pods of an object ask for a queue, where only their metadata is known.
pub const MUST_ASK: &str = "must be \"true\": the pods of this object wait in a queue";

/// Why somebody else than Sluice may not take the propagated `gate` off what lies at `field`; its
/// annotation is on `holder`.
pub fn propagated_gate(field: impl Into<String>, gate: &str, holder: &str) -> Problem {
    Problem::forbidden(
        field,
        fill(STANDS_FOR_ANNOTATION, &[&format!("{gate:?}"), holder]),
    )
}

/// A request by somebody else than Sluice, whose outcome is judged.
#[derive(Debug, Clone, Copy)]
pub struct Marking<'a> {
    /// The object as it was; absent when it is being created.
    pub old: Option<&'a Value>,
    /// The object as it shall be.
    pub new: &'a Value,
    /// How it is held; none if nothing holds it.
    pub hold: Option<Hold>,
    /// Whether a queue holds it.
    pub is_queued: bool,
}

/// One pod template of the object.
struct Marked<'a> {
    place: &'a Place,
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
    let own = gates::read(&gates::gate_annotations(pod)).scheduling_gates();
    let is_wrong = propagated(pod).any(|name| !own.contains(name));
    is_wrong.then(|| {
        Problem::forbidden(
            gates::field_of(PROPAGATED_GATES_ANNOTATION),
            BY_SLUICE_ALONE,
        )
    })
}

/// What is wrong with the label by which a `pod` that is being created is watched: with any other value it would run
/// unseen.
pub fn check_managed_pod(pod: &Value) -> Option<Problem> {
    let field = format!("metadata.labels[{MANAGED_LABEL}]");
    is_hidden(pod).then(|| Problem::forbidden(field, BY_SLUICE_ALONE))
}

/// Whether a new `pod` says of itself that Sluice does not manage it. Some controllers copy labels of their object over
/// those of its template, as KubeRay does since v1.5.
pub(crate) fn is_hidden(pod: &Value) -> bool {
    let value = label(pod, MANAGED_LABEL);
    value.is_some_and(|value| value != "true") && annotation(pod, MIRROR_ANNOTATION).is_none()
}

impl CompiledKind {
    /// What is wrong with the record of an admission in the pod templates of `new`: there is none.
    pub fn check_no_record(&self, old: Option<&Value>, new: &Value) -> Vec<Problem> {
        let before = old.map(|old| self.templates(old)).unwrap_or_default();
        let templates = self.templates(new);
        let recorded = templates.iter().filter_map(|template| {
            let record = annotation(template.pod.as_deref()?, ADMITTED_ANNOTATION)?;
            let old =
                same_set(&before, template).and_then(|old| annotation(old, ADMITTED_ANNOTATION));
            (old != Some(record)).then(|| {
                let metadata = template.place.metadata_field();
                let at = format!("{metadata}.annotations[{ADMITTED_ANNOTATION}]");
                Problem::forbidden(at, BY_SLUICE_ALONE)
            })
        });
        recorded.collect()
    }

    /// What is wrong with what the pod templates of `new` say of the groups that a controller makes pods by, where the edit
    /// brings it in: it is too long.
    pub fn check_group_marks(&self, old: Option<&Value>, new: &Value) -> Vec<Problem> {
        let before = old.map(|old| self.templates(old)).unwrap_or_default();
        let too_long = |template: &Template<'_>| {
            let pod = template.pod.as_deref().unwrap_or(&Value::Null);
            let old = same_set(&before, template);
            let metadata = template.place.metadata_field();
            let brought_in = too_long_marks(pod)
                .filter(|key| old.and_then(|old| annotation(old, key)) != annotation(pod, key));
            let problems = brought_in.map(|key| {
                Problem::too_long(
                    format!("{metadata}.annotations[{key}]"),
                    GROUP_MARK_BYTES_MAX,
                )
            });
            problems.collect::<Vec<_>>()
        };
        self.templates(new).iter().flat_map(too_long).collect()
    }

    /// What is wrong with the marks in the pod templates. What the webhook itself writes there is
    /// right: it does so at each edit of an object that can't be suspended.
    pub fn check_marks(&self, marking: Marking<'_>) -> Vec<Problem> {
        let own = gates::named(&gates::gate_annotations(marking.new));
        let own = own
            .iter()
            .map(|gate| gate.scheduling_gate().into_owned())
            .collect();
        let before = marking
            .old
            .map(|old| self.templates(old))
            .unwrap_or_default();
        let was_gated = marking.old.is_some_and(|old| self.is_gated(old));
        let mut problems = Vec::new();
        for template in &self.templates(marking.new) {
            let template = Marked {
                place: &template.place,
                set: &template.set,
                old: same_set(&before, template).unwrap_or(&Value::Null),
                new: template.pod.as_deref().unwrap_or(&Value::Null),
                own: &own,
            };
            problems.extend(template.check_list(marking));
            if marking.hold == Some(Hold::Pods) {
                problems.extend(template.check_no_group());
            }
            if marking.old.is_some() {
                problems.extend(self.check_managed(&template, marking.hold));
                problems.extend(self.check_pod_set(&template, marking.hold));
                problems.extend(self.check_propagated(&template, marking.hold));
                if !was_gated {
                    problems.extend(self.check_late_gate(&template, marking.hold));
                }
            }
        }
        if was_gated {
            problems.extend(self.check_still_gated(marking));
        }
        problems
    }

    /// What is wrong with an edit of the marks in the templates of a child by somebody else than its owner's controller: they
    /// came down, and its pods are watched by them.
    pub fn check_marks_stay(&self, old: &Value, new: &Value) -> Vec<Problem> {
        let before = self.templates(old);
        let changed = |template: &Template<'_>| {
            let was = same_set(&before, template).unwrap_or(&Value::Null);
            let is = template.pod.as_deref().unwrap_or(&Value::Null);
            let metadata = template.place.metadata_field();
            let label = (label(was, MANAGED_LABEL) != label(is, MANAGED_LABEL))
                .then(|| format!("{metadata}.labels[{MANAGED_LABEL}]"));
            let pod_set = (annotation(was, POD_SET_ANNOTATION)
                != annotation(is, POD_SET_ANNOTATION))
            .then(|| format!("{metadata}.annotations[{POD_SET_ANNOTATION}]"));
            label.into_iter().chain(pod_set)
        };
        let templates = self.templates(new);
        let changed = templates.iter().flat_map(changed);
        changed
            .map(|field| Problem::forbidden(field, BY_SLUICE_ALONE))
            .collect()
    }

    /// Of an object whose pods wait, no template may let them run: not one that lost its gate, and not
    /// one that is new. One that is suspended has none, and waits by that if its gates go; but where only its pods tell what
    /// they ask for, nothing else ever makes them wait: what they waited by stays, and what was stored without it blocks
    /// no other edit. Where templates can be edited freely, the webhook itself puts the gates in.
    fn check_still_gated(&self, marking: Marking<'_>) -> Vec<Problem> {
        let waits = matches!(marking.hold, Some(Hold::Pods | Hold::EachPod));
        let has_pods = |object| self.suspended(object) == Ok(false);
        let has_pods = has_pods(marking.new) && marking.old.is_some_and(has_pods);
        let has_pods = has_pods || self.is_opaque() && marking.is_queued;
        if !waits || !has_pods || self.suspend_path().is_none() {
            return Vec::new();
        }
        let templates = self.templates(marking.new);
        let before = marking.old.map(|old| self.templates(old));
        let did_wait = |template: &Template<'_>| {
            let mut before = before.iter().flatten();
            before.any(|old| old.set == template.set && self.waits(old))
        };
        let ungated = templates.iter().filter(|template| !self.waits(template));
        let ungated = ungated.filter(|template| !self.is_opaque() || did_wait(template));
        ungated
            .map(|template| match &template.place {
                Place::Metadata(_) => Problem::required(
                    format!("{}.annotations[{QUEUE_GATE}]", template.place.metadata_field()),
                    MUST_ASK,
                ),
                Place::Template(_) | Place::Info { .. } => Problem::required(
                    format!("{}.schedulingGates", template.place.spec_field()),
                    format!(
                        "must contain the gate {QUEUE_GATE:?}: the pods of this object wait in a queue"
                    ),
                ),
            })
            .collect()
    }

    fn check_managed(&self, template: &Marked<'_>, hold: Option<Hold>) -> Option<Problem> {
        let (old, new) = (
            label(template.old, MANAGED_LABEL),
            label(template.new, MANAGED_LABEL),
        );
        let expected = hold
            .filter(|_| self.suspend_path().is_none())
            .map(|_| "true");
        let may_be =
            new == old || new.is_some() && new == expected || new.is_none() && hold.is_none();
        (!may_be).then(|| template.forbidden("labels", MANAGED_LABEL))
    }

    fn check_pod_set(&self, template: &Marked<'_>, hold: Option<Hold>) -> Option<Problem> {
        let of = |template| metadata::annotation_text(template, POD_SET_ANNOTATION);
        let (old, new) = (of(template.old), of(template.new));
        let expected = hold
            .filter(|hold| self.suspend_path().is_none() && *hold == Hold::Pods)
            .map(|_| template.set);
        let may_be =
            new == old || new.is_some() && new == expected || new.is_none() && hold.is_none();
        (!may_be).then(|| template.forbidden("annotations", POD_SET_ANNOTATION))
    }

    /// The gates of the object stay in its templates, and in their lists, as long as they are not
    /// lifted. Where templates can be edited freely, the webhook itself puts them back.
    fn check_propagated(&self, template: &Marked<'_>, hold: Option<Hold>) -> Option<Problem> {
        self.suspend_path()?;
        hold.filter(|hold| matches!(hold, Hold::Pods | Hold::EachPod))?;
        let carries = |pod, gate: &str| scheduling_gates(pod).any(|name| name == gate);
        let lists = |pod, gate: &str| propagated(pod).any(|name| name == gate);
        let own = template.own.iter();
        let mut carried = own.filter(|gate| carries(template.old, gate));
        if let Some(gate) = carried.clone().find(|gate| !carries(template.new, gate)) {
            let field = format!("{}.schedulingGates", template.place.spec_field());
            return Some(propagated_gate(field, gate, OF_OWNER));
        }
        let is_unlisted =
            carried.any(|gate| lists(template.old, gate) && !lists(template.new, gate));
        is_unlisted.then(|| template.forbidden("annotations", PROPAGATED_GATES_ANNOTATION))
    }

    /// The queue gate in a template says that the pods wait, and that the object may be released by
    /// hand. Its pods are those that it had at its creation. A gate of others in the template of an object that waits
    /// suspended would hold its pods once it is admitted, and they its quota.
    fn check_late_gate(&self, template: &Marked<'_>, hold: Option<Hold>) -> Option<Problem> {
        self.suspend_path()?;
        let gate = if hold? == Hold::Suspend {
            let before: BTreeSet<&str> = scheduling_gates(template.old).collect();
            scheduling_gates(template.new).find(|gate| !before.contains(gate))
        } else {
            let is_new = self.queue_gates().carried(template.old).is_none();
            let gate = self.queue_gates().carried(template.new);
            gate.filter(|_| is_new)
        }?;
        Some(Problem::forbidden(
            format!("{}.schedulingGates", template.place.spec_field()),
            fill(LATE_GATE, &[&format!("{gate:?}")]),
        ))
    }
}

impl Marked<'_> {
    /// What is created lists no gates where it is held by suspension, so a list that comes later says of its pods that gates
    /// alone held them.
    fn check_list(&self, marking: Marking<'_>) -> Option<Problem> {
        let before: BTreeSet<&str> = propagated(self.old).collect();
        let may_list = marking.old.is_none() || marking.hold != Some(Hold::Suspend);
        let is_own = |name| may_list && self.own.contains(name);
        let is_wrong = propagated(self.new).any(|name| !before.contains(name) && !is_own(name));
        is_wrong.then(|| self.forbidden("annotations", PROPAGATED_GATES_ANNOTATION))
    }

    /// An admitted pod that says that it belongs to a group is read as a member of that.
    fn check_no_group(&self) -> Option<Problem> {
        let is_member = |template| {
            label(template, POD_GROUP_LABEL).is_some()
                && annotation(template, POD_GROUP_TOTAL_ANNOTATION).is_some()
        };
        (is_member(self.new) && !is_member(self.old)).then(|| {
            Problem::forbidden(
                format!("{}.labels[{POD_GROUP_LABEL}]", self.place.metadata_field()),
                NOT_WITH_A_GROUP,
            )
        })
    }

    fn forbidden(&self, map: &str, key: &str) -> Problem {
        let metadata = self.place.metadata_field();
        Problem::forbidden(format!("{metadata}.{map}[{key}]"), BY_SLUICE_ALONE)
    }
}

/// What `before` has of the pod set of `template`.
fn same_set<'a>(before: &'a [Template<'_>], template: &Template<'_>) -> Option<&'a Value> {
    let old = before.iter().find(|old| old.set == template.set)?;
    old.pod.as_deref()
}

#[cfg(test)]
mod tests;
