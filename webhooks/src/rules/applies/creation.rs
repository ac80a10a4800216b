//! An object that is being created gets the gates of the Gates that apply to it, as if it had named them itself. So
//! it is judged and held by its annotations alone from then on.

use std::collections::BTreeSet;

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_crds::GATE_FAILURES_ANNOTATION;
use sluice_kinds::gates::{self, Gate, GateState};
use sluice_kinds::metadata::annotation_text;
use sluice_kinds::patch::gate_object_patch;
use sluice_kinds::problem::{Problem, fill};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::applies::requested_object::is_owned_pod;
use crate::rules::applies::which::{Applying, applying, is_judged};
use crate::rules::patched::patched;
use crate::rules::reapplied::gates_never_named;

/// The rule for a pod with a controller, which gates do not hold, named or not: the gate and its Gate.
pub(crate) const HAS_CONTROLLER: &str = "gate {} is set by Gate {}, and would not hold a pod with a controller, which only its controller may name; create the pod without the owner reference, or declare the kind of the owner in a JobKind";
/// What is told of an object that lacks a gate after all: the gate and its Gate.
const NOT_SET: &str = "gate {} is missing, which Gate {} sets: the object or the Gate was changed meanwhile; try again";
/// What is told of a gate that a manifest takes away by not naming it.
const NOT_NAMED: &str = "held by gate {}, which was set when the object was created: a manifest that never named the gate does not lift it";
/// Longest description of a Gate in a warning, in characters: API servers cut long warnings.
const DESCRIPTION_CHARS_MAX: usize = 120;

/// What becomes of an object that is being created.
#[derive(Debug, Default)]
pub(crate) struct Born {
    /// The object with its gates, if it got any.
    pub(crate) object: Option<Value>,
    /// What that changes in the object.
    pub(crate) patch: Vec<PatchOperation>,
    /// What its author is told.
    pub(crate) warnings: Vec<String>,
}

/// Sets the gates of the Gates that apply to an object that is being created.
///
/// # Errors
/// It can't be created so, or can't be judged yet.
pub(crate) fn set(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Result<Born, Verdict> {
    if !is_birth(request, edit) {
        return Ok(kept(request, edit, policy).unwrap_or_default());
    }
    let applying = if is_judged(request, edit.new, policy) {
        applying(request, edit.new, policy)?
    } else {
        Applying::new()
    };
    if let Some(problem) = check_has_no_controller(request, edit.new, &applying) {
        return Err(Verdict::of(vec![problem]));
    }
    let annotations = gates::gate_annotations(edit.new);
    // Refused for that: nothing is added to what can't be read.
    if matches!(gates::read(&annotations), GateState::Invalid(_)) {
        return Ok(Born::default());
    }
    let missing = gates::missing(&annotations, applying.keys().copied());
    let patch = gate_object_patch(edit.new, missing.iter().copied(), &failures(&applying))
        .map_err(|problem| Verdict::of(vec![problem]))?
        .0;
    if patch.is_empty() {
        return Ok(Born::default());
    }
    Ok(Born {
        object: Some(patched(edit.new, &patch)),
        patch,
        warnings: warnings(&missing, &applying, policy),
    })
}

/// What is wrong with an object that is being created and lacks the gate of a Gate that applies to it: another
/// plugin of the API server has changed it since, or the Gate is new.
pub(crate) fn check_set(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    if !is_birth(request, edit) || !is_judged(request, edit.new, policy) {
        return Verdict::allowed();
    }
    let applying = match applying(request, edit.new, policy) {
        Ok(applying) => applying,
        Err(verdict) => return verdict,
    };
    if let Some(problem) = check_has_no_controller(request, edit.new, &applying) {
        return Verdict::of(vec![problem]);
    }
    let annotations = gates::gate_annotations(edit.new);
    let missing = gates::missing(&annotations, applying.keys().copied());
    let Some(gate) = missing.first() else {
        return Verdict::allowed();
    };
    let field = gates::field_of(gates::ADMISSION_GATED_BY);
    Verdict::early(Problem::forbidden(field, about(NOT_SET, gate)))
}

/// What puts the gates back that a manifest drops, as it never named them. Whoever takes one out on purpose writes to the
/// annotation in another way, and is asked for his right to.
fn kept(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<Born> {
    let old = edit.old?;
    if !request.sub_resource.is_empty() || policy.is_sluice(&request.user_info.username) {
        return None;
    }
    let set = || {
        let applying = applying(request, edit.new, policy).unwrap_or_default();
        applying.into_keys().cloned().collect()
    };
    let mut lost = gates_never_named(request, edit, set);
    // It has rules of its own.
    lost.retain(|gate| !gate.is_queue_required());
    if lost.is_empty() {
        return None;
    }
    let failures = annotation_text(old, GATE_FAILURES_ANNOTATION).unwrap_or_default();
    let patch = gate_object_patch(edit.new, &lost, failures).ok()?.0;
    let told = lost.iter().map(|gate| fill(NOT_NAMED, &[gate.as_str()]));
    Some(Born {
        object: Some(patched(edit.new, &patch)),
        patch,
        warnings: told.collect(),
    })
}

fn is_birth(request: &Request, edit: &Edit<'_>) -> bool {
    edit.old.is_none() && request.sub_resource.is_empty()
}

/// A pod with a controller is refused where a Gate applies, also if it names the gate: the gates of such a pod are those
/// of its owner, and hold nothing by themselves.
fn check_has_no_controller(
    request: &Request,
    object: &Value,
    applying: &Applying<'_>,
) -> Option<Problem> {
    let (gate, _) = applying.first_key_value()?;
    is_owned_pod(request, object)
        .then(|| Problem::forbidden("metadata.ownerReferences", about(HAS_CONTROLLER, gate)))
}

fn about(rule: &str, gate: &Gate) -> String {
    let object = gate.object_name().unwrap_or_default();
    fill(
        rule,
        &[&format!("{:?}", gate.as_str()), &format!("{object:?}")],
    )
}

/// Which gates are set because it is not clear whether they apply, and why.
fn failures(applying: &Applying<'_>) -> String {
    let unclear = applying.iter().filter_map(|(gate, why)| {
        let why = why.as_ref()?;
        Some(format!("{gate}: {why}"))
    });
    unclear.collect::<Vec<_>>().join("; ")
}

/// What the author of an object is told of each gate that it gets: whose it is, and whom to ask.
fn warnings(missing: &BTreeSet<&Gate>, applying: &Applying<'_>, policy: &Policy) -> Vec<String> {
    let said = |of: Option<&String>| of.filter(|text| !text.is_empty()).cloned();
    let one = |gate: &&Gate| {
        let object = gate.object_name().unwrap_or_default();
        let why = applying.get(*gate).cloned().flatten();
        let why = why.map_or_else(String::new, |why| {
            format!(", as it can't be determined whether it applies ({why})")
        });
        let spec = policy.gate(gate);
        let description = said(spec.and_then(|spec| spec.description.as_ref()));
        let description = description.map_or_else(String::new, |description| {
            let short: String = description.chars().take(DESCRIPTION_CHARS_MAX).collect();
            format!(": {short}")
        });
        let contact = said(spec.and_then(|spec| spec.contact.as_ref()));
        let contact = contact.map_or_else(String::new, |contact| format!("; ask {contact}"));
        let text =
            format!("held by gate {gate}, which Gate {object:?} sets{why}{description}{contact}");
        // A warning is one line.
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    missing.iter().map(one).collect()
}
