//! Who may lift a gate that has owners: whoever may `lift` its Gate in the namespace of the object. The rights that
//! an edit needs are found by a pure function; whether its author has them, the API server says.
//!
//! An edit lifts the gates that it takes out of the annotations, and also those that it leaves there on an object
//! that it gives to another controller: the gates of that one's owner count from then on.

use std::collections::BTreeMap;

use sluice_crds::Lifting;
use sluice_kinds::gates::{self, GATES_MAX, Gate};
use sluice_kinds::metadata::{controller, controller_uid, group_and_kind, is_being_deleted};
use sluice_kinds::problem::{Problem, fill};

use crate::admission::access::Permission;
use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::{NoRight, Verdict};
use crate::rules::author::Author;
use crate::rules::queue_label::queue_of;

/// The rule for a gate that has owners: the gate, the user, the Gate and the namespace.
pub(crate) const BY_ITS_OWNERS: &str =
    "only its owners may lift the gate {}: user {} cannot lift gates.sluice.dev {} in namespace {}";
/// The rule for an edit after which the Gate of a gate applies: the Gate, the gate, the user, the Gate and the namespace.
const WOULD_APPLY: &str = "Gate {} applies to the object after this edit, and its gate {} can be set only at creation; user {} cannot lift gates.sluice.dev {} in namespace {}: delete the object and create it again";
/// The rule for a template whose pods the Gate applies to: the kind, the Gate, the gate, the user, the Gate and the
/// namespace.
pub(crate) const MADE: &str = "names a queue for pods of a {}, to which Gate {} applies: the gate {} can't hold these pods, and user {} cannot lift gates.sluice.dev {} in namespace {}; create the pods with an object of a kind that Sluice manages, such as a Deployment";
/// What is added if it is not clear whether the Gate applies: why.
const NOT_CLEAR: &str = " (it can't be determined whether it applies: {})";
/// What it ends with if the Gate says whom to ask.
pub(crate) const ASK: &str = "; ask {}";
/// What it ends with for the gate of objects without a queue.
pub(crate) const NAME_A_QUEUE: &str = "; set metadata.labels[sluice.dev/queue-name], and Sluice lifts it, or create the object anew with that label";
/// What is told if it can't be found out: the user, the Gate, the namespace, and why.
const UNKNOWN: &str = "can't find out whether user {} may \"lift\" gates.sluice.dev {} in namespace {}: {}; try again";

/// Most rights that one edit may need: those for two full lists. Each is a question to the API server.
const RIGHTS_MAX: usize = 2 * GATES_MAX;
/// What is told of an edit that needs more, which only values that break the rules make possible.
const TOO_MANY: &str =
    "needs the right to lift {} gates that are lifted by their owners; lift at most {} at a time";

/// The right to lift a gate, which the author of a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NeededRight {
    /// The gate.
    pub(crate) gate: Gate,
    /// The name of its Gate.
    pub(crate) object: String,
    /// Whom to ask.
    pub(crate) contact: Option<String>,
    /// Where the gate is lifted, or what makes its Gate apply.
    pub(crate) field: String,
    /// What it is needed for.
    pub(crate) cause: Cause,
}

/// What a right to lift a gate is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The edit lifts the gate.
    Lifts,
    /// The Gate applies to the object as edited, and did not before. Says why that is not clear, if so.
    Applies(Option<String>),
    /// The Gate applies to the pods that an object of this kind makes. Says why that is not clear, if so.
    AppliesToMade(&'static str, Option<String>),
    /// The edit lets an object run without a queue where one is required: what is told of that.
    RunsWithoutQueue(Problem),
}

/// The gates that `edit` lifts, each with the field by which it does.
pub(crate) fn lifted(edit: &Edit<'_>) -> BTreeMap<Gate, String> {
    let Some(old) = edit.old else {
        return BTreeMap::new();
    };
    let before = gates::gate_annotations(old);
    let after = gates::gate_annotations(edit.new);
    let owner = controller_uid(edit.new);
    let gets_controller = owner.is_some() && owner != controller_uid(old);
    if before == after && !gets_controller {
        return BTreeMap::new();
    }
    let left = gates::named(&after);
    let named = before.iter().flat_map(|(key, value)| {
        let annotation = BTreeMap::from([(key.clone(), value.clone())]);
        let gates = gates::named(&annotation).into_iter();
        gates.map(move |gate| (gate, gates::field_of(key)))
    });
    let mut lifted = BTreeMap::new();
    for (gate, field) in named {
        if !left.contains(&gate) {
            lifted.insert(gate, field);
        } else if gets_controller {
            lifted.insert(gate, "metadata.ownerReferences".to_owned());
        }
    }
    lifted
}

/// The rights that the author of `request` needs besides those to edit the object.
pub(crate) fn needed(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Vec<NeededRight> {
    if is_free(request, edit, policy) {
        return Vec::new();
    }
    // It has a queue now, which is what that gate is for.
    let has_queue = queue_of(edit.new, policy.queue_labels()).is_some();
    let lifted = lifted(edit).into_iter();
    let lifted = lifted.filter(|(gate, _)| !(gate.is_queue_required() && has_queue));
    let owned = lifted.filter_map(|(gate, field)| {
        let spec = policy.gate(&gate)?;
        match spec.lifting {
            Lifting::Owners => Some(NeededRight {
                object: gate.object_name()?,
                contact: spec.contact.clone().filter(|contact| !contact.is_empty()),
                gate,
                field,
                cause: Cause::Lifts,
            }),
            Lifting::Anyone => None,
        }
    });
    owned.collect()
}

/// What follows from the answers about the rights that `request` needs, in the same order.
pub(crate) fn verdict(request: &Request, answers: &[(NeededRight, Permission)]) -> Verdict {
    let missing = answers.iter().filter_map(|(right, answer)| match answer {
        Permission::Allowed => None,
        Permission::Denied => Some(NoRight::Denied(denied(request, right))),
        Permission::Unknown(why) => Some(NoRight::Unknown(unknown(request, right, why))),
    });
    Verdict::of_missing(missing)
}

/// That an edit needs more rights than are asked about.
pub(crate) fn too_many(rights: &[NeededRight]) -> Option<Problem> {
    let first = rights.first().filter(|_| RIGHTS_MAX < rights.len())?;
    let counts = [rights.len(), RIGHTS_MAX].map(|count| count.to_string());
    let detail = fill(TOO_MANY, &counts.each_ref().map(String::as_str));
    Some(Problem::forbidden(first.field.as_str(), detail))
}

/// Whether whoever may edit the object may lift its gates.
///
/// So does Sluice, and whoever edits a pod that is being deleted: no scheduler gives it a node. The gates of a pod with a controller came down from its
/// owner, and hold nothing. Those of another object that a controller made came down too: its maker, whom a JobKind
/// names, keeps it as its owner is.
fn is_free(request: &Request, edit: &Edit<'_>, policy: &Policy) -> bool {
    let Some(old) = edit.old else {
        return true;
    };
    let is_over = request.is_pod() && is_being_deleted(edit.new);
    if is_over || policy.is_sluice(&request.user_info.username) {
        return true;
    }
    if controller(old).is_none() {
        return false;
    }
    let is_made = |(group, kind)| Author::of(request).is_named_maker(group, kind, policy);
    request.is_pod() || group_and_kind(old).is_some_and(is_made)
}

fn denied(request: &Request, right: &NeededRight) -> Problem {
    let gate = &format!("{:?}", right.gate.as_str());
    let user = &format!("{:?}", request.user_info.username);
    let object = &format!("{:?}", right.object);
    let namespace = &format!("{:?}", request.namespace);
    let unclear = |why: &Option<String>| {
        let unclear = why.as_ref().map(|why| fill(NOT_CLEAR, &[why]));
        unclear.unwrap_or_default()
    };
    let mut detail = match &right.cause {
        Cause::Lifts => fill(BY_ITS_OWNERS, &[gate, user, object, namespace]),
        Cause::Applies(why) => {
            fill(WOULD_APPLY, &[object, gate, user, object, namespace]) + &unclear(why)
        }
        Cause::AppliesToMade(kind, why) => {
            fill(MADE, &[kind, object, gate, user, object, namespace]) + &unclear(why)
        }
        Cause::RunsWithoutQueue(problem) => return problem.clone(),
    };
    if right.gate.is_queue_required() {
        detail.push_str(NAME_A_QUEUE);
    }
    if let Some(contact) = &right.contact {
        detail.push_str(&fill(ASK, &[&contact.replace('\n', " ")]));
    }
    Problem::forbidden(right.field.as_str(), detail)
}

fn unknown(request: &Request, right: &NeededRight, why: &str) -> Problem {
    let detail = fill(
        UNKNOWN,
        &[
            &format!("{:?}", request.user_info.username),
            &format!("{:?}", right.object),
            &format!("{:?}", request.namespace),
            why,
        ],
    );
    Problem::forbidden(right.field.as_str(), detail)
}
