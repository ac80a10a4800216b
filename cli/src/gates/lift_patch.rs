//! An object with gates: the patch that lifts one of them, what is left, and how the patch is sent. The patch tests
//! what it changes, so it never takes effect on an object that has changed, or was made again.

use std::collections::BTreeMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{PatchOperation, RemoveOperation, ReplaceOperation, TestOperation};
use kube::api::{Api, DynamicObject, ObjectMeta, Patch};
use kube::core::Status;
use serde_json::Value;
use sluice_crds::DEACTIVATED_BY_ANNOTATION;
use sluice_kinds::gates::{self, Gate, GateRecord, GateState};
use sluice_kinds::problem;

use crate::cluster::{ClusterError, DryRun, answer, patch_params};

/// One attempt, and another one if the object has changed in between.
const TRIES: usize = 2;

/// The annotations of an object.
type Annotations = BTreeMap<String, String>;

/// What became of a gate of one object.
#[derive(Debug)]
pub enum LiftOutcome {
    /// It is lifted; what the object's annotations are now.
    Lifted(Annotations),
    /// The object does not have it; what its annotations are.
    NotThere(Annotations),
    /// The object was changed, or made again, while each attempt was under way.
    Changed,
    /// The object is gone.
    Gone(Box<Status>),
    /// The API server refuses, or does not answer.
    Failed(ClusterError),
}

/// Lifts `gate` from the object with this name. `metadata` is what is known of it already.
pub async fn lift(
    objects: &Api<DynamicObject>,
    name: &str,
    metadata: Option<ObjectMeta>,
    gate: &Gate,
    dry_run: DryRun,
) -> LiftOutcome {
    match attempts(objects, name, metadata, gate, dry_run).await {
        Ok(outcome) => outcome,
        Err(ClusterError::Refused(status)) if status.is_not_found() => LiftOutcome::Gone(status),
        Err(error) => LiftOutcome::Failed(error),
    }
}

async fn attempts(
    objects: &Api<DynamicObject>,
    name: &str,
    mut metadata: Option<ObjectMeta>,
    gate: &Gate,
    dry_run: DryRun,
) -> Result<LiftOutcome, ClusterError> {
    let params = patch_params(dry_run);
    for _ in 0..TRIES {
        let metadata = match metadata.take() {
            Some(metadata) => metadata,
            None => read(objects, name).await?,
        };
        let annotations = metadata.annotations.unwrap_or_default();
        let operations = patch(metadata.uid.as_deref(), &annotations, gate);
        if operations.is_empty() {
            return Ok(LiftOutcome::NotThere(annotations));
        }
        let patch = Patch::Json::<()>(json_patch::Patch(operations));
        let lifted = answer(
            "lift the gate",
            objects.patch_metadata(name, &params, &patch),
        )
        .await;
        match lifted {
            Ok(object) => {
                let annotations = object.metadata.annotations.unwrap_or_default();
                return Ok(LiftOutcome::Lifted(annotations));
            }
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(LiftOutcome::Changed)
}

async fn read(objects: &Api<DynamicObject>, name: &str) -> Result<ObjectMeta, ClusterError> {
    let object = answer("read the object", objects.get_metadata(name)).await?;
    Ok(object.metadata)
}

/// The JSON patch that lifts `gate` from the object with these annotations, and from no other. Empty if the object
/// does not have the gate.
fn patch(uid: Option<&str>, annotations: &Annotations, gate: &Gate) -> Vec<PatchOperation> {
    let test = |path: PointerBuf, value: &str| {
        let value = Value::from(value);
        PatchOperation::Test(TestOperation { path, value })
    };
    let changes = gates::without(annotations, gate);
    let mut operations: Vec<PatchOperation> = Vec::new();
    if let Some(uid) = uid.filter(|_| !changes.is_empty()) {
        operations.push(test(PointerBuf::from_tokens(["metadata", "uid"]), uid));
    }
    for (key, value) in changes {
        let path = PointerBuf::from_tokens(["metadata", "annotations", key]);
        if let Some(before) = annotations.get(key) {
            operations.push(test(path.clone(), before));
        }
        operations.push(match value.map(Value::from) {
            Some(value) => PatchOperation::Replace(ReplaceOperation { path, value }),
            None => PatchOperation::Remove(RemoveOperation { path }),
        });
    }
    operations
}

/// What still holds an object with these annotations.
pub fn left(annotations: &Annotations) -> String {
    let gates = match gates::read(annotations) {
        GateState::None => "no gate is left".to_owned(),
        GateState::Invalid(problems) => format!(
            "the remaining annotation is invalid and still holds it: {}",
            problem::summarize(&problems)
        ),
        GateState::Held(gates) => {
            let names: Vec<&str> = gates.iter().map(Gate::as_str).collect();
            let (count, names) = (names.len(), names.join(", "));
            let are = if count == 1 { "gate is" } else { "gates are" };
            format!("{count} {are} left: {names}")
        }
    };
    match GateRecord::read(annotations).deactivated_by {
        None => gates,
        Some(by) => format!(
            "{gates}; {by} has deactivated it: it stays held until its annotation {DEACTIVATED_BY_ANNOTATION} is removed"
        ),
    }
}

#[cfg(test)]
mod tests;
