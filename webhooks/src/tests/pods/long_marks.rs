//! Annotations that tell the groups a controller makes pods by, and that are longer than a JobKind can say it.

use rstest::rstest;
use serde_json::{Value, json};

use crate::review::mutate;
use crate::tests::*;

const BY_LABELS: &str = "sluice.dev/pod-group-labels";
const BY_TOTAL: &str = "sluice.dev/pod-group-total-from";
const MANAGED: (&str, &str) = ("sluice.dev/managed", "true");

fn long(bytes: usize) -> String {
    "a".repeat(bytes)
}

fn too_long(key: &str) -> String {
    format!("metadata.annotations[{key}]: Too long: may not be more than 1280 bytes")
}

#[rstest]
fn no_new_pod_has_one(#[values(BY_LABELS, BY_TOTAL)] key: &str) {
    let pod = |bytes| mk_pod(&[(QUEUE, "a")], &[(key, &long(bytes))], &[]);
    let verdict = |pod: &Value| mutate(&mk_request(USER, None, pod), &mk_policy()).message();
    assert_eq!(verdict(&pod(1280)), "");
    assert_eq!(verdict(&pod(1281)), too_long(key));
    let of_set = owned(pod(1281), "apps/v1", "StatefulSet");
    assert_eq!(verdict(&of_set), too_long(key));
}

#[rstest]
fn no_template_gets_one(#[values(BY_LABELS, BY_TOTAL)] key: &str) {
    let object = |object: Value, bytes| {
        let metadata = json!({"annotations": {key: long(bytes)}});
        with(object, "/spec/template/metadata", metadata)
    };
    for kind in [
        mk_job(&[(QUEUE, "a")], &[], false),
        mk_deployment(&[(QUEUE, "a")], &[]),
    ] {
        let told = |old: Option<&Value>, new: &Value| {
            validate_held(USER, old, new, &mk_policy()).message()
        };
        let (right, wrong) = (object(kind.clone(), 1280), object(kind, 1281));
        let refused = format!("spec.template.{}", too_long(key));
        assert_eq!(told(None, &right), "");
        assert_eq!(told(None, &wrong), refused);
        // What was stored before blocks no other edit.
        let labelled = with(wrong.clone(), "/metadata/labels/x", json!("y"));
        assert!(!told(Some(&wrong), &labelled).contains("Too long"));
    }
}

/// The API server can't look at so many labels one by one.
#[test]
fn a_pod_that_has_one_keeps_all_labels() {
    let long = vec!["acme.io/gang"; 200].join(",");
    let old = mk_pod(&[(QUEUE, "a"), MANAGED], &[(BY_LABELS, &long)], &[GATE]);
    let new = with(old.clone(), "/metadata/labels/x", json!("y"));
    let told = validate(USER, Some(&old), &new).message();
    assert_eq!(told, "metadata.labels: Forbidden: is immutable");
    let ended = with(old.clone(), "/status", json!({"phase": "Succeeded"}));
    assert_eq!(validate(USER, Some(&old), &ended).message(), "");
}
