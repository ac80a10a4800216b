//! An object that is being created and names no queue, where one is required: it gets the label, or the gate, or is
//! refused.

use std::collections::{BTreeMap, BTreeSet};

use json_patch::PatchOperation;
use serde_json::Value;
use sluice_crds::{GATE_FAILURES_ANNOTATION, QUEUE_NAME_LABEL};
use sluice_gates::{Enforced, Unlabelled};
use sluice_kinds::gates::{self, Gate, GateState};
use sluice_kinds::metadata::{annotation_text, controller};
use sluice_kinds::patch::{gate_object_patch, label_object_patch};
use sluice_kinds::problem::Problem;

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::admission::verdict::Verdict;
use crate::rules::enforcement::required::{field, refused, required, warning};
use crate::rules::patched::patched;
use crate::rules::reapplied::{gates_never_named, is_by_manifest, is_replaced};

/// The rule for a pod that names a controller.
pub(crate) const OWNED: &str = "gates do not hold a pod with a controller, which only controllers may name; name a queue, or create the pod without the owner reference";
/// What is told of an object that is to have the label or the gate and lacks it.
pub(crate) const NOT_SET: &str = "the object has neither a queue nor the gate sluice.dev/queue-required: it, or its namespace, was changed meanwhile; try again";

/// What becomes of an object that is being created.
#[derive(Debug, Default)]
pub(crate) struct Enforcement {
    /// The object afterwards, if it is changed.
    pub(crate) object: Option<Value>,
    /// What that changes in the object.
    pub(crate) patch: Vec<PatchOperation>,
    /// What its author is told.
    pub(crate) warnings: Vec<String>,
    /// What was done, or reported.
    pub(crate) enforced: Option<Enforced>,
}

/// Gives an object that is being created what its namespace requires.
///
/// # Errors
/// It is refused, or can't be judged yet.
pub(crate) fn set(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Enforcement, Verdict> {
    if let Some(old) = edit.old {
        return Ok(kept(request, old, edit, policy).unwrap_or_default());
    }
    let Some(enforced) = judged(request, edit, policy)? else {
        return Ok(Enforcement::default());
    };
    let told = Enforcement {
        enforced: Some(enforced),
        ..Enforcement::default()
    };
    let warnings = vec![warning(request, enforced, policy)];
    if enforced.is_dry_run {
        return Ok(Enforcement { warnings, ..told });
    }
    let patch = match enforced.unlabelled {
        Unlabelled::Refuse => {
            return Err(Verdict {
                enforced: Some(enforced),
                ..Verdict::of(vec![refused(request)])
            });
        }
        Unlabelled::Ignore => return Ok(Enforcement::default()),
        Unlabelled::Default => {
            let queue = policy.managed_namespaces().default_local_queue();
            label_object_patch(edit.new, &label(queue)).0
        }
        Unlabelled::Hold => match gate(request, edit.new)? {
            Some(patch) => patch,
            None => return Ok(Enforcement::default()),
        },
    };
    Ok(Enforcement {
        object: Some(patched(edit.new, &patch)),
        patch,
        warnings,
        ..told
    })
}

/// What is wrong with an object that is being created and has not got what its namespace requires: another plugin of the
/// API server has changed it since, or the namespace has changed.
pub(crate) fn check(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Verdict {
    let enforced = match judged(request, edit, policy) {
        Ok(Some(enforced)) if !enforced.is_dry_run => enforced,
        Ok(_) => return Verdict::allowed(),
        Err(verdict) => return verdict,
    };
    match enforced.unlabelled {
        Unlabelled::Refuse => Verdict::of(vec![refused(request)]),
        Unlabelled::Hold if is_gated(edit.new) => Verdict::allowed(),
        Unlabelled::Hold | Unlabelled::Default => {
            Verdict::early(Problem::forbidden(field(), NOT_SET))
        }
        Unlabelled::Ignore => Verdict::allowed(),
    }
}

/// What would be done about an object that is being created, where that is only reported.
pub(crate) fn report(request: &Request, edit: &Edit<'_>, policy: &Policy) -> Option<String> {
    let enforced = judged(request, edit, policy).ok()??;
    (enforced.is_dry_run).then(|| warning(request, enforced, policy))
}

fn judged(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Option<Enforced>, Verdict> {
    if edit.old.is_some() || !request.sub_resource.is_empty() {
        return Ok(None);
    }
    let is_known = policy
        .surroundings()
        .namespaces
        .contains_key(&request.namespace);
    // One with gates waits anyway. It is asked about in all namespaces, also in those that were made a moment ago.
    if !is_known && !gates::gate_annotations(edit.new).is_empty() {
        return Ok(None);
    }
    required(request, edit.new, policy)
}

/// The patch that gives `object` the gate. None: it has it, or is refused for its gates.
fn gate(request: &Request, object: &Value) -> Result<Option<Vec<PatchOperation>>, Verdict> {
    let annotations = gates::gate_annotations(object);
    if is_gated(object) || matches!(gates::read(&annotations), GateState::Invalid(_)) {
        return Ok(None);
    }
    let refuse = |problem| Verdict::of(vec![problem]);
    if request.is_pod() && controller(object).is_some() {
        let problem = Problem::forbidden("metadata.ownerReferences", OWNED);
        return Err(refuse(problem));
    }
    let patch = gate_object_patch(object, [&Gate::queue_required()], "");
    Ok(Some(patch.map_err(refuse)?.0))
}

/// What puts the gate back that a manifest drops, as the manifest never named it. Whoever takes the gate out on purpose
/// writes to the annotation in another way, and is asked for his right to.
fn kept(request: &Request, old: &Value, edit: &Edit<'_>, policy: &Policy) -> Option<Enforcement> {
    let is_lost = is_gated(old)
        && !is_gated(edit.new)
        && request.sub_resource.is_empty()
        && !policy.is_sluice(&request.user_info.username);
    let is_dropped = || {
        let keys = gates::GATE_ANNOTATIONS;
        let is_applied =
            |key: &&str| is_by_manifest(request, edit, &["metadata", "annotations", key]);
        let unnamed = || gates_never_named(request, edit, BTreeSet::new);
        is_replaced(request)
            || keys.iter().any(is_applied)
            || unnamed().contains(&Gate::queue_required())
    };
    if !is_lost || !is_dropped() {
        return None;
    }
    let enforced = required(request, edit.new, policy).ok()??;
    let failures = annotation_text(old, GATE_FAILURES_ANNOTATION).unwrap_or_default();
    let patch = gate_object_patch(edit.new, [&Gate::queue_required()], failures).ok()?;
    (!enforced.is_dry_run).then(|| Enforcement {
        object: Some(patched(edit.new, &patch.0)),
        patch: patch.0,
        warnings: vec![warning(request, enforced, policy)],
        enforced: None,
    })
}

fn is_gated(object: &Value) -> bool {
    gates::read(&gates::gate_annotations(object)).require_queue()
}

fn label(queue: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(QUEUE_NAME_LABEL.to_owned(), queue.to_owned())])
}
