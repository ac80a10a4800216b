//! A new object that brings what Sluice kept on an earlier one: it was made of a backup, or of what `kubectl get -o yaml`
//! says. It has no history yet, so that is taken away, and so are the gates in its templates that were lifted then.

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation};
use serde_json::Value;
use sluice_crds::{
    ADMITTED_ANNOTATION, DEACTIVATED_BY_ANNOTATION, EXPIRED_GATES_ANNOTATION,
    LIFTED_GATES_ANNOTATION, RELEASED_ANNOTATION,
};
use sluice_kinds::metadata::{annotation, controller};

use crate::admission::edit::Edit;
use crate::admission::policy::Policy;
use crate::admission::request::Request;
use crate::rules::lifting::marks;
use crate::rules::patched::patched;

/// What Sluice keeps on objects of their history.
pub(crate) const RECORDS: [&str; 5] = [
    RELEASED_ANNOTATION,
    LIFTED_GATES_ANNOTATION,
    EXPIRED_GATES_ANNOTATION,
    DEACTIVATED_BY_ANNOTATION,
    ADMITTED_ANNOTATION,
];

/// The object of a request without such a history, if it brings any, and what that changes in it. What has a controller is
/// left as it is: controllers copy annotations of the owner.
pub(crate) fn forgotten(
    request: &Request,
    edit: &Edit<'_>,
    policy: &Policy,
) -> (Option<Value>, Vec<PatchOperation>) {
    let is_new = edit.old.is_none() && request.sub_resource.is_empty();
    if !is_new || controller(edit.new).is_some() {
        return (None, Vec::new());
    }
    let mut patch = Vec::new();
    if let Some(kind) = policy.kind(&request.kind.group, &request.kind.kind) {
        patch.extend(
            kind.unlifted_patch(edit.new, &marks::ever_lifted(edit.new))
                .0,
        );
    }
    let brought = RECORDS
        .iter()
        .filter(|key| annotation(edit.new, key).is_some());
    patch.extend(brought.map(|key| {
        PatchOperation::Remove(RemoveOperation {
            path: PointerBuf::from_tokens(["metadata", "annotations", key]),
        })
    }));
    if patch.is_empty() {
        return (None, patch);
    }
    (Some(patched(edit.new, &patch)), patch)
}
