//! What the writes to a job say: one patch releases it, and what suspends it also marks it.

use super::*;

#[test]
fn a_release_is_one_patch_that_fails_on_any_other_spec() {
    let case = Case {
        job: queued(true),
        workload: Some(admitted()),
    };
    let Some(Write::PatchJob {
        patch: JobPatch::Json(patch),
        ..
    }) = planned(&case).write
    else {
        panic!("no JSON patch");
    };
    assert_eq!(
        serde_json::to_value(patch).unwrap(),
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "11111111-2222-3333"},
            {"op": "test", "path": "/metadata/generation", "value": 1},
            {"op": "test", "path": "/spec/suspend", "value": true},
            {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"disk": "ssd", "spot": "true"}},
            {"op": "add", "path": "/spec/template/metadata", "value": {}},
            {"op": "add", "path": "/spec/template/metadata/labels", "value": {"sluice.dev/managed": "true"}},
            {"op": "add", "path": "/spec/template/metadata/annotations", "value": {"sluice.dev/pod-set": "main"}},
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/metadata/annotations", "value": {"sluice.dev/held": "false"}},
            {"op": "add", "path": "/spec/suspend", "value": false},
        ])
    );
}

#[test]
fn what_is_suspended_is_marked_by_the_write_that_suspends_it() {
    let gated = mk_job(json!({}), json!({GATE: "acme.io/x"}), false);
    let cases = [
        ("gated", gated, None),
        ("in a queue", queued(false), None),
        ("evicted", queued(false), Some(evicting())),
    ];
    for (name, job, workload) in cases {
        let Some(Write::PatchJob {
            patch: JobPatch::Merge(patch),
            ..
        }) = planned(&Case { job, workload }).write
        else {
            panic!("{name}: no merge patch");
        };
        assert_eq!(patch["spec"], json!({"suspend": true}), "{name}");
        assert_eq!(
            patch["metadata"]["annotations"],
            json!({"sluice.dev/held": "true"}),
            "{name}"
        );
    }
}
