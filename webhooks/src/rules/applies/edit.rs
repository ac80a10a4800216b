//! An edit after which a Gate applies to an object that it did not apply to before. Gates are set at creation only, so
//! who may not lift the gate has to create the object anew.

use serde_json::Value;
use sluice_crds::{Lifting, PRIORITY_CLASS_LABEL};
use sluice_kinds::gates::{self, Gate};
use sluice_kinds::metadata::{is_being_deleted, label};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::applies::requested_object::own_gates;
use crate::rules::applies::which::{applying, is_judged};
use crate::rules::lifting::lift::{Cause, NeededRight};
use crate::rules::lifting::marks::lifted_from;
use crate::rules::queue_label::{QueueLabel, queue_of};

/// The rights that the author of an edit needs because it makes Gates apply.
///
/// Not of a gate that the object has, or once had: it was lifted from the object, whatever that asks for now.
///
/// # Errors
/// The edit can't be judged yet.
pub(crate) fn needed(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Vec<NeededRight>, Verdict> {
    let Some(old) = edit.old else {
        return Ok(Vec::new());
    };
    if is_being_deleted(edit.new) || !is_judged(request, edit.new, policy) {
        return Ok(Vec::new());
    }
    let after = applying(request, edit.new, policy)?;
    if after.is_empty() {
        return Ok(Vec::new());
    }
    let before = applying(request, old, policy)?;
    let named = gates::named(&own_gates(request, old));
    let lifted = lifted_from(old);
    let field = field(old, edit.new, policy);
    let touches = touches_what_gates_ask(old, edit.new, policy);
    let new = after.into_iter().filter(|(gate, _)| {
        let has_applied = match before.get(gate) {
            Some(None) => true,
            // It may be that it did not apply before: what is not clear frees no edit of what Gates ask about.
            Some(Some(_)) => !touches,
            None => false,
        };
        !has_applied && !named.contains(gate) && !lifted.contains(gate)
    });
    Ok(rights(new, policy, &field, Cause::Applies))
}

/// The rights to lift those of these gates that have owners.
pub(super) fn rights<'a>(
    gates: impl Iterator<Item = (&'a Gate, Option<String>)>,
    policy: &Policy,
    field: &str,
    cause: impl Fn(Option<String>) -> Cause,
) -> Vec<NeededRight> {
    let rights = gates.filter_map(|(gate, why)| {
        let spec = policy.gate(gate)?;
        (spec.lifting == Lifting::Owners).then_some(())?;
        Some(NeededRight {
            object: gate.object_name()?,
            contact: spec.contact.clone().filter(|contact| !contact.is_empty()),
            gate: gate.clone(),
            field: field.to_owned(),
            cause: cause(why),
        })
    });
    rights.collect()
}

/// Whether the edit touches what Gates ask about: what the webhooks are asked about for their sake.
fn touches_what_gates_ask(old: &Value, new: &Value, policy: &Policy) -> bool {
    let queue =
        |object| queue_of(object, policy.queue_labels()).map(|label| label.queue.to_owned());
    let class = |object| label(object, PRIORITY_CLASS_LABEL).map(str::to_owned);
    old.get("spec") != new.get("spec") || queue(old) != queue(new) || class(old) != class(new)
}

/// What of the object the edit changes.
fn field(old: &Value, new: &Value, policy: &Policy) -> String {
    let before = queue_of(old, policy.queue_labels());
    let after = queue_of(new, policy.queue_labels());
    if before.map(|label| label.queue) != after.map(|label| label.queue) {
        return after
            .or(before)
            .map_or_else(String::new, |label| QueueLabel::field(&label));
    }
    let field = if old.get("spec") == new.get("spec") {
        "metadata"
    } else {
        "spec"
    };
    field.to_owned()
}
