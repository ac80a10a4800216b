//! Which patch holds an object, lets it go, or takes out again what was put in. JSON patches only:
//! fields that Sluice does not know survive. When to send them is decided elsewhere.

use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, TestOperation};
use serde_json::{Value, json};

use crate::jobkind::CompiledKind;
use crate::template::Placement;

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

/// What a pod template is to say from now on.
#[derive(Debug, Clone)]
pub struct Placing<'a> {
    /// The name of the pod set.
    pub pod_set: &'a str,
    /// What its template says today.
    pub from: &'a Placement,
    /// What it is to say.
    pub to: Placement,
}

impl CompiledKind {
    /// Suspends `object`. Empty if it is suspended.
    pub fn hold_patch(&self, object: &Value) -> Patch {
        if self.suspend_path().get(object) == Some(&Value::Bool(true)) {
            return Patch(Vec::new());
        }
        Patch(vec![self.suspend_path().set(object, json!(true))])
    }

    /// Lets the object go with its templates placed, in one patch. Fails on an object that is no
    /// longer suspended.
    pub fn release_patch(&self, target: Target<'_>, placings: &[Placing<'_>]) -> Patch {
        let mut operations = self.place(target, placings);
        operations.push(add(self.suspend_path().pointer(&[]), json!(false)));
        Patch(operations)
    }

    /// Places the templates of a suspended object and leaves it suspended.
    pub fn place_patch(&self, target: Target<'_>, placings: &[Placing<'_>]) -> Patch {
        Patch(self.place(target, placings))
    }

    fn place(&self, target: Target<'_>, placings: &[Placing<'_>]) -> Vec<PatchOperation> {
        let mut operations = tests(target);
        operations.push(test(self.suspend_path().pointer(&[]), json!(true)));
        for placing in placings {
            let Some(template) = self.template_of(placing.pod_set) else {
                continue;
            };
            let Placement {
                node_selector,
                tolerations,
            } = &placing.to;
            let changes = [
                (
                    "nodeSelector",
                    placing.from.node_selector != *node_selector,
                    node_selector.is_empty(),
                    json!(node_selector),
                ),
                (
                    "tolerations",
                    placing.from.tolerations != *tolerations,
                    tolerations.is_empty(),
                    json!(tolerations),
                ),
            ];
            for (field, changed, is_empty, value) in changes {
                let path = template.pointer(&["spec", field]);
                match (changed, is_empty) {
                    (false, _) => {}
                    (true, false) => operations.push(add(path, value)),
                    (true, true) => {
                        operations.push(PatchOperation::Remove(RemoveOperation { path }));
                    }
                }
            }
        }
        operations
    }
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
    use crate::fixtures::{batch_job, job_kind};
    use crate::requests::PodDefaults;

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
        assert!(kind.hold_patch(&job).is_empty());
    }

    #[test]
    fn letting_go_and_taking_back_leaves_the_template_as_it_was() {
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
        let clean = kind.pod_sets(&job, &PodDefaults::default()).unwrap()[0]
            .placement
            .clone();
        let placed = clean.with(&spot());

        let placing = Placing {
            pod_set: "main",
            from: &clean,
            to: placed.clone(),
        };
        json_patch::patch(&mut job, &kind.release_patch(target, &[placing])).unwrap();
        assert_eq!(job["spec"]["suspend"], json!(false));
        assert_eq!(
            kind.pod_sets(&job, &PodDefaults::default()).unwrap()[0].placement,
            placed
        );

        job["spec"]["suspend"] = json!(true);
        let placing = Placing {
            pod_set: "main",
            from: &placed,
            to: clean,
        };
        json_patch::patch(&mut job, &kind.place_patch(target, &[placing])).unwrap();
        assert_eq!(job, before);
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
            assert!(json_patch::patch(&mut patched, &kind.release_patch(target, &[])).is_err());
        }
        job["spec"]["suspend"] = json!(false);
        let target = Target {
            uid: "u1",
            generation: Some(3),
        };
        assert!(json_patch::patch(&mut job.clone(), &kind.release_patch(target, &[])).is_err());
    }
}
