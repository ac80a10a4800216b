//! Which patch holds an object, releases it, or takes out again what was put in. JSON patches only:
//! fields that Sluice does not know survive. When to send them, and which node
//! selectors and tolerations a release writes, is decided by the caller.

use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, MANAGED_LABEL, POD_SET_ANNOTATION};

use crate::field::location::Location;
use crate::jobkind::kind::CompiledKind;
use crate::read::place::Place;
use crate::read::suspension::{self, HeldMark, MarkAt};
use crate::read::template::Placement;
use crate::read::view::{Mark, PodSetView, TemplateMarks};

#[cfg(test)]
mod tests;

/// The object that a patch is meant for. A patch does nothing to an object of the same name with
/// another UID.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.generation` that the patch was planned from: if the spec has changed since, the
    /// patch fails. `None` where the patch is right for any spec.
    pub generation: Option<i64>,
}

/// What is to be said of a pod set from now on.
#[derive(Debug, Clone)]
pub struct Placing<'a> {
    /// The pod set as it is today.
    pub set: &'a PodSetView,
    /// What its template is to say.
    pub to: Placement,
    /// How many pods there are to be. Nothing is written where there are as many, or where the kind
    /// doesn't say where that would be.
    pub count: u32,
}

impl CompiledKind {
    /// Suspends `object`, and marks it as suspended by Sluice. Empty if it is suspended, which is then
    /// its user's doing, or can't be.
    pub fn hold_patch(&self, object: &Value) -> Patch {
        match self.suspend_path() {
            Some(path) if path.get(object) != Some(&Value::Bool(true)) => {
                let suspend = Location::default().below(path).set(object, json!(true));
                let mark = suspension::mark(object, HeldMark::Held);
                Patch(std::iter::once(suspend).chain(mark).collect())
            }
            Some(_) | None => Patch(Vec::new()),
        }
    }

    /// Has `object` run on that an edit suspends. Empty if it can't be suspended.
    pub fn run_on_patch(&self, object: &Value) -> Patch {
        let path = self.suspend_path();
        let run_on = path.map(|path| Location::default().below(path).set(object, json!(false)));
        Patch(run_on.into_iter().collect())
    }

    /// Marks `object` with what was last done to its suspend field. Empty if it says so.
    pub fn mark_patch(&self, object: &Value, mark: HeldMark) -> Patch {
        Patch(suspension::mark(object, mark).into_iter().collect())
    }

    /// The merge patch that suspends an object with this UID, and marks it as suspended by Sluice. None
    /// for a kind that has no suspend field.
    pub fn suspend_patch(&self, uid: &str) -> Option<Value> {
        let mut patch = json!({"metadata": {
            "uid": uid,
            "annotations": {HELD_ANNOTATION: HeldMark::Held.value()},
        }});
        // A merge patch makes the objects above the field where they are missing.
        self.suspend_path()?.merge_into(&mut patch, json!(true));
        Some(patch)
    }

    /// Lets the object go with its templates placed, and marked so that Sluice knows their pods, in
    /// one patch; what suspends it from now on is not Sluice's doing, and the mark at `mark` says so.
    /// Fails on an object that is no longer suspended. Empty for a kind that has no suspend field: its
    /// pods are released instead.
    pub fn release_patch(
        &self,
        target: Target<'_>,
        placings: &[Placing<'_>],
        mark: MarkAt<'_>,
    ) -> Patch {
        let mut patch = self.prepare_patch(target, placings);
        if let Some(suspend) = self.suspend_location() {
            patch.0.extend(mark.write(HeldMark::Released));
            patch.0.push(add(suspend.pointer(&[]), json!(false)));
        }
        patch
    }

    /// Places and marks the templates of a suspended object and leaves it suspended: the one whose
    /// pods they are of releases it. Empty for a kind that has no suspend field.
    pub fn prepare_patch(&self, target: Target<'_>, placings: &[Placing<'_>]) -> Patch {
        let Patch(mut operations) = self.place_patch(target, placings);
        if !operations.is_empty() {
            for placing in placings.iter().filter(|placing| !placing.set.is_assumed) {
                operations.extend(mark(placing.set));
            }
        }
        Patch(operations)
    }

    /// Places the templates of a suspended object and leaves it suspended. Empty for a kind that has
    /// no suspend field.
    pub fn place_patch(&self, target: Target<'_>, placings: &[Placing<'_>]) -> Patch {
        let Some(suspend) = self.suspend_location() else {
            return Patch(Vec::new());
        };
        let mut operations = tests(target);
        operations.push(test(suspend.pointer(&[]), json!(true)));
        operations.extend(missing_infos(placings));
        for placing in placings.iter().filter(|placing| !placing.set.is_assumed) {
            operations.extend(place(placing));
        }
        Patch(operations)
    }

    /// The patch of the subresource `status` that makes a suspended object one that has not started, so that its
    /// templates can be written to. None for a kind that has no suspend field.
    pub fn clear_start_time_patch(&self, uid: &str) -> Option<Patch> {
        let suspend = self.suspend_location()?;
        let target = Target {
            uid,
            generation: None,
        };
        let mut operations = tests(target);
        operations.push(test(suspend.pointer(&[]), json!(true)));
        let path = pointer(&["status", "startTime"]);
        operations.push(PatchOperation::Remove(RemoveOperation { path }));
        Some(Patch(operations))
    }

    fn suspend_location(&self) -> Option<Location> {
        self.suspend_path()
            .map(|suspend| Location::default().below(suspend))
    }
}

/// Makes the lists that are to hold what concerns pods whose templates can't be changed.
fn missing_infos(placings: &[Placing<'_>]) -> Vec<PatchOperation> {
    let mut made: Vec<&Location> = Vec::new();
    let mut operations = Vec::new();
    for placing in placings {
        if let Place::Info {
            list,
            len,
            is_there: false,
            ..
        } = &placing.set.place
            && !made.contains(&list)
        {
            made.push(list);
            operations.push(add(list.pointer(&[]), json!(vec![json!({}); *len])));
        }
    }
    operations
}

/// Writes where the pods of a set may go, and how many there are to be.
fn place(placing: &Placing<'_>) -> Vec<PatchOperation> {
    let (set, to) = (placing.set, &placing.to);
    let count_at = set.count_at.as_ref();
    let count = count_at
        .filter(|_| set.count != placing.count)
        .map(|at| add(at.pointer(&[]), json!(placing.count)));
    let nothing = Placement::default();
    let beneath = match &set.place {
        Place::Info { beneath, .. } => beneath,
        Place::Template(_) | Place::Metadata(_) => &nothing,
    };
    let (from, to) = (set.placement.without(beneath), to.without(beneath));
    let changes = [
        (
            "nodeSelector",
            from.node_selector != to.node_selector,
            to.node_selector.is_empty(),
            json!(to.node_selector),
        ),
        (
            "tolerations",
            from.tolerations != to.tolerations,
            to.tolerations.is_empty(),
            json!(to.tolerations),
        ),
    ];
    let changed = changes.into_iter().filter(|(_, changed, ..)| *changed);
    let changed = changed.filter_map(|(field, _, is_empty, value)| {
        let path = set.place.spec(&[field])?;
        Some(if is_empty {
            PatchOperation::Remove(RemoveOperation { path })
        } else {
            add(path, value)
        })
    });
    changed.chain(count).collect()
}

/// Puts the marks on the template of `set`: the label by which its pods are watched, the annotation
/// that names their set.
fn mark(set: &PodSetView) -> Vec<PatchOperation> {
    let TemplateMarks {
        has_metadata,
        managed,
        pod_set,
    } = set.marks;
    let marks = [
        (managed, "labels", MANAGED_LABEL, json!("true")),
        (
            pod_set,
            "annotations",
            POD_SET_ANNOTATION,
            json!(&*set.name),
        ),
    ];
    let mut operations = Vec::new();
    if !has_metadata {
        operations.push(add(set.place.metadata(&[]), json!({})));
    }
    for (mark, map, key, value) in marks {
        match mark {
            Mark::Set => {}
            Mark::Unset => operations.push(add(set.place.metadata(&[map, key]), value)),
            Mark::NoMap => operations.push(add(set.place.metadata(&[map]), json!({key: value}))),
        }
    }
    operations
}

fn tests(target: Target<'_>) -> Vec<PatchOperation> {
    let mut operations = vec![test(pointer(&["metadata", "uid"]), json!(target.uid))];
    if let Some(generation) = target.generation {
        operations.push(test(
            pointer(&["metadata", "generation"]),
            json!(generation),
        ));
    }
    operations
}

fn pointer(tokens: &[&str]) -> json_patch::jsonptr::PointerBuf {
    json_patch::jsonptr::PointerBuf::from_tokens(tokens.iter().copied())
}

fn test(path: json_patch::jsonptr::PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path, value })
}

fn add(path: json_patch::jsonptr::PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}
