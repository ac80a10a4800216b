//! What the patches change, and what holds of them for any object.

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
fn release_and_eviction_leave_the_template_as_it_was_but_for_the_marks() {
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
