//! Objects that make pods and that no JobKind declares (`makers`). Nothing can hold them, and a gate does not hold a pod with a controller. So where the template names a queue, whoever
//! writes it needs the right to lift the gate of each Gate that would apply to such a pod.

use serde_json::{Value, json};
use sluice_kinds::gates::Gate;
use sluice_kinds::metadata::{controller, is_being_deleted};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::{GroupVersionKind, Request};
use crate::admission::verdict::Verdict;
use crate::rules::applies::edit::rights;
use crate::rules::applies::makers::Maker;
use crate::rules::applies::requested_object::RequestedObject;
use crate::rules::applies::which::applying_to;
use crate::rules::author::{Author, is_made_by_controller};
use crate::rules::lifting::lift::{Cause, NeededRight};
use crate::rules::queue_label::queue_of_pods;

/// The rights that the author of a maker needs for the pods of its template. Each pod is judged by itself, as one without
/// a controller is. A controller needs none that is one of Kubernetes, or that a JobKind names for such objects: Gates
/// were asked about what it makes the object for.
///
/// # Errors
/// It can't be judged yet.
pub(crate) fn needed(
    maker: &Maker,
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> Result<Vec<NeededRight>, Verdict> {
    let author = Author::of(request);
    let is_made = controller(edit.new).is_some()
        && (author.is_kubernetes() || is_made_by_controller(edit.new, author, policy));
    let is_judged = request.sub_resource.is_empty()
        && !policy.is_sluice(&request.user_info.username)
        && !is_made
        && !is_being_deleted(edit.new);
    let (old, new) = (edit.old.map(pod), pod(edit.new));
    if !is_judged || old.as_ref() == Some(&new) {
        return Ok(Vec::new());
    }
    let queue = |pod: &Value| {
        let metadata = pod.get("metadata")?;
        let (key, queue) = queue_of_pods(metadata, policy)?;
        Some((key, queue.to_owned()))
    };
    let Some((key, _)) = queue(&new) else {
        return Ok(Vec::new());
    };
    let asks = Request {
        kind: GroupVersionKind {
            kind: "Pod".to_owned(),
            version: "v1".to_owned(),
            ..GroupVersionKind::default()
        },
        object: None,
        old_object: None,
        ..request.clone()
    };
    let applying = |pod: &Value| {
        let (_, queue) = queue(pod)?;
        let applicant = RequestedObject::new(&asks, pod, policy, Some(&queue));
        Some(applying_to(
            std::iter::once(applicant),
            policy,
            &asks.namespace,
        ))
    };
    let before = old
        .as_ref()
        .and_then(applying)
        .transpose()?
        .unwrap_or_default();
    let after = applying(&new).transpose()?.unwrap_or_default();
    // It may be that it did not apply before: what is not clear frees no edit of the template.
    let has_applied = |gate: &Gate| before.get(gate).is_some_and(Option::is_none);
    let gates = after.into_iter().filter(|(gate, _)| !has_applied(gate));
    let (map, key) = key.parts();
    let field = format!("{}.metadata.{map}[{key}]", maker.template);
    let cause = |why| Cause::AppliesToMade(maker.kind, why);
    Ok(rights(gates, policy, &field, cause))
}

/// A pod as the template has it.
fn pod(object: &Value) -> Value {
    let part = |name: &str| {
        let part = object.pointer(&format!("/spec/template/{name}"));
        part.cloned().unwrap_or_else(|| json!({}))
    };
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": part("metadata"), "spec": part("spec")})
}
