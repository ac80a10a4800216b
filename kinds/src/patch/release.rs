//! Which patch holds an object, releases it, or takes out again what was put in. JSON patches only:
//! fields that Sluice does not know survive. When to send them is decided elsewhere.

use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Value, json};
use sluice_crds::{HELD_ANNOTATION, MANAGED_LABEL, POD_SET_ANNOTATION};

use crate::field::location::Location;
use crate::jobkind::kind::CompiledKind;
use crate::read::place::Place;
use crate::read::suspension::{self, HeldMark, MarkAt};
use crate::read::template::Placement;
use crate::read::view::{Mark, PodSetView, TemplateMarks};

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{batch_job, deployment, deployment_kind, job_kind};
    use crate::read::requests::PodDefaults;

    fn spot() -> Placement {
        Placement::read(
            &json!({"nodeSelector": {"spot": "true"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}),
            "spec",
        )
        .unwrap()
    }

    #[test]
    fn holding_twice_is_holding_once() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        let patch = kind.hold_patch(&job);
        json_patch::patch(&mut job, &patch).unwrap();
        assert_eq!(job["spec"]["suspend"], json!(true));
        assert_eq!(job["metadata"]["annotations"]["sluice.dev/held"], "true");
        assert!(kind.hold_patch(&job).is_empty());
    }

    #[test]
    fn what_its_user_created_suspended_is_not_marked() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        job["spec"]["suspend"] = json!(true);
        assert!(kind.hold_patch(&job).is_empty());
    }

    fn set(kind: &CompiledKind, job: &Value) -> PodSetView {
        kind.pod_sets(job, &PodDefaults::default())
            .unwrap()
            .remove(0)
    }

    #[test]
    fn letting_go_and_taking_back_leaves_the_template_as_it_was_but_for_the_marks() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        job["metadata"]["generation"] = json!(3);
        job["spec"]["suspend"] = json!(true);
        job["spec"]["template"]["spec"]["nodeSelector"] = json!({"disk": "ssd"});
        job["spec"]["template"]["spec"]["unknownToUs"] = json!([1, 2]);
        let before = job.clone();
        let target = Target {
            uid: "u1",
            generation: Some(3),
        };
        let clean = set(&kind, &job);
        let placed = clean.placement.with(&spot());

        let placing = Placing {
            set: &clean,
            to: placed.clone(),
            count: 2,
        };
        json_patch::patch(
            &mut job,
            &kind.release_patch(target, &[placing], MarkAt::Annotations),
        )
        .unwrap();
        assert_eq!(job["spec"]["suspend"], json!(false));
        assert_eq!(set(&kind, &job).placement, placed);

        job["spec"]["suspend"] = json!(true);
        let placing = Placing {
            set: &set(&kind, &job),
            to: clean.placement,
            count: 2,
        };
        json_patch::patch(&mut job, &kind.place_patch(target, &[placing])).unwrap();
        let marks = json!({
            "labels": {"sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/pod-set": "main"},
        });
        let mut expected = before;
        expected["metadata"]["annotations"] = json!({"sluice.dev/held": "false"});
        expected["spec"]["template"]["metadata"] = marks;
        assert_eq!(job, expected);
    }

    #[test]
    fn as_many_pods_as_are_admitted_are_released_and_taking_back_brings_back_the_others() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        job["spec"]["suspend"] = json!(true);
        job["spec"]["template"]["metadata"] = json!({
            "labels": {"sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/pod-set": "main"},
        });
        let before = job.clone();
        let target = Target {
            uid: "u1",
            generation: None,
        };
        let placing = |set, count| Placing {
            set,
            to: Placement::default(),
            count,
        };
        let whole = set(&kind, &job);
        let released = kind.release_patch(target, &[placing(&whole, 1)], MarkAt::Annotations);
        json_patch::patch(&mut job, &released).unwrap();
        let mut expected = before.clone();
        expected["metadata"]["annotations"] = json!({"sluice.dev/held": "false"});
        expected["spec"]["suspend"] = json!(false);
        expected["spec"]["parallelism"] = json!(1);
        assert_eq!(job, expected);

        job["spec"]["suspend"] = json!(true);
        let reduced = set(&kind, &job);
        let restored = kind.place_patch(target, &[placing(&reduced, 2)]);
        json_patch::patch(&mut job, &restored).unwrap();
        expected["spec"] = before["spec"].clone();
        assert_eq!(job, expected);
    }

    #[test]
    fn the_marks_leave_other_metadata_alone() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let target = Target {
            uid: "u1",
            generation: None,
        };
        let cases = [
            ("none", Value::Null),
            ("empty", json!({})),
            ("null maps", json!({"labels": null, "annotations": null})),
            ("labels alone", json!({"labels": {"a": "b"}})),
            (
                "all",
                json!({"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}}),
            ),
            (
                "other values",
                json!({"labels": {"sluice.dev/managed": "false"}, "annotations": {"sluice.dev/pod-set": "x"}}),
            ),
        ];
        for (name, metadata) in cases {
            let mut job = batch_job();
            job["spec"]["suspend"] = json!(true);
            job["spec"]["template"]["metadata"] = metadata.clone();
            let release = |job: &mut Value| {
                let set = set(&kind, job);
                let placing = Placing {
                    set: &set,
                    to: set.placement.clone(),
                    count: set.count,
                };
                let patch = kind.release_patch(target, &[placing], MarkAt::Annotations);
                json_patch::patch(job, &patch).unwrap();
                patch
            };
            release(&mut job);
            let got = &job["spec"]["template"]["metadata"];
            assert_eq!(got["labels"]["sluice.dev/managed"], "true", "{name}");
            assert_eq!(got["annotations"]["sluice.dev/pod-set"], "main", "{name}");
            for (map, key) in [("labels", "a"), ("annotations", "c")] {
                let was = metadata.pointer(&format!("/{map}/{key}"));
                assert_eq!(got.pointer(&format!("/{map}/{key}")), was, "{name}");
            }
            job["spec"]["suspend"] = json!(true);
            // The UID, that it is suspended, and that it no longer is, by Sluice's doing.
            assert_eq!(release(&mut job).len(), 4, "{name}: once is enough");
        }
    }

    #[test]
    fn a_kind_that_cannot_be_suspended_is_not_patched() {
        let kind = CompiledKind::compile(&deployment_kind()).unwrap();
        let deployment = deployment();
        let set = set(&kind, &deployment);
        let placing = Placing {
            set: &set,
            to: spot(),
            count: 1,
        };
        let target = Target {
            uid: "u1",
            generation: None,
        };
        assert!(kind.hold_patch(&deployment).is_empty());
        assert!(
            kind.release_patch(target, std::slice::from_ref(&placing), MarkAt::Annotations)
                .is_empty()
        );
        assert!(kind.place_patch(target, &[placing]).is_empty());
    }

    #[test]
    fn a_patch_for_another_object_or_another_spec_fails() {
        let kind = CompiledKind::compile(&job_kind()).unwrap();
        let mut job = batch_job();
        job["metadata"]["generation"] = json!(3);
        job["spec"]["suspend"] = json!(true);
        for target in [
            Target {
                uid: "u2",
                generation: Some(3),
            },
            Target {
                uid: "u1",
                generation: Some(2),
            },
        ] {
            let mut patched = job.clone();
            assert!(
                json_patch::patch(
                    &mut patched,
                    &kind.release_patch(target, &[], MarkAt::Annotations)
                )
                .is_err()
            );
        }
        job["spec"]["suspend"] = json!(false);
        let target = Target {
            uid: "u1",
            generation: Some(3),
        };
        assert!(
            json_patch::patch(
                &mut job.clone(),
                &kind.release_patch(target, &[], MarkAt::Annotations)
            )
            .is_err()
        );
    }
}
