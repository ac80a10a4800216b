//! Manifests that are applied again, or take the place of an object: what they never said of its gates and of its suspend
//! field is put back.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::AppliesTo;

use crate::review::mutate;
use crate::tests::enforcement::jobs::labelled;
use crate::tests::gates::applies::{budget, gates_of};
use crate::tests::*;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const CLIENT: &str = "kubectl-client-side-apply";
const REQUIRED: &str = "sluice.dev/queue-required";

/// A Job with this list of gates, and the list in the manifest that was applied last, if one was. It may be empty.
fn mk(gates: Option<&str>, last: Option<&str>) -> Value {
    let manifest = last.map(|gates| {
        let annotations = match gates {
            "" => json!({}),
            gates => json!({ GATES: gates }),
        };
        json!({"metadata": {"annotations": annotations}}).to_string()
    });
    let mut annotations = vec![("sluice.dev/held", "true")];
    annotations.extend(gates.map(|gates| (GATES, gates)));
    annotations.extend(manifest.as_deref().map(|manifest| (LAST_APPLIED, manifest)));
    mk_job(&[(QUEUE, "a")], &annotations, true)
}

/// The gates after an edit by this field manager, and what is told.
fn edited(policy: &Policy, manager: &str, old: &Value, new: &Value) -> (String, Vec<String>) {
    let mut request = mk_request(USER, Some(old), new);
    request.options.field_manager = manager.to_owned();
    let verdict = mutate(&request, policy);
    let mut stored = new.clone();
    json_patch::patch(&mut stored, &verdict.patch).unwrap();
    request.object = Some(stored.clone());
    assert_eq!(mutate(&request, policy).patch, vec![], "twice is once");
    (
        gates_of(&stored).unwrap_or_default().to_owned(),
        verdict.warnings,
    )
}

#[rstest]
#[case::names_none(Some(""), None, "acme.io/budget")]
#[case::names_another(Some("acme.io/a"), Some("acme.io/a"), "acme.io/a,acme.io/budget")]
#[case::lifts_its_own(Some("acme.io/a"), None, "acme.io/budget")]
#[case::named_it(Some("acme.io/budget"), None, "")]
#[case::was_not_applied(None, None, "")]
fn a_client_that_applies_a_manifest_lifts_no_gate_that_this_never_named(
    #[case] last: Option<&str>,
    #[case] now: Option<&str>,
    #[case] expected: &str,
) {
    let old = match last {
        Some("acme.io/a") => mk(Some("acme.io/a,acme.io/budget"), last),
        _ => mk(Some("acme.io/budget"), last),
    };
    let new = mk(now, last.map(|_| now.unwrap_or_default()));
    let policy = mk_policy();
    let (gates, told) = edited(&policy, CLIENT, &old, &new);
    assert_eq!(gates, expected);
    assert_eq!(
        told.len(),
        usize::from(expected.contains("budget")),
        "{told:?}"
    );
    if let Some(told) = told.first() {
        assert_eq!(
            told,
            "held by gate acme.io/budget, which was set when the object was created: a manifest that never named the gate does not lift it"
        );
    }
    // Somebody who edits the object means it.
    let (gates, _) = edited(&policy, "kubectl-edit", &old, &new);
    assert_eq!(gates, now.unwrap_or_default());
}

#[rstest]
#[case::something_was_added(&["Update"], &["Apply"], true, "acme.io/a,acme.io/budget")]
#[case::no_gate_applies(&["Update"], &["Apply"], false, "acme.io/a")]
#[case::as_it_was_applied(&["Apply"], &["Apply"], true, "acme.io/a,acme.io/budget")]
#[case::patched(&["Update"], &["Update"], true, "acme.io/a")]
fn whoever_applies_on_the_server_lifts_no_gate_that_was_added(
    #[case] owned: &[&str],
    #[case] owns: &[&str],
    #[case] applies: bool,
    #[case] expected: &str,
) {
    let fields = json!({"f:metadata": {"f:annotations": {format!("f:{GATES}"): {}}}});
    let with_owner = |mut job: Value, operations: &[&str]| {
        let entry = |operation: &&str| json!({"manager": "argo", "operation": operation, "fieldsV1": fields});
        job["metadata"]["managedFields"] = operations.iter().map(entry).collect();
        job
    };
    let old = with_owner(mk(Some("acme.io/a,acme.io/budget"), None), owned);
    let new = with_owner(mk(Some("acme.io/a"), None), owns);
    let policy = if applies {
        budget(AppliesTo::default())
    } else {
        mk_policy()
    };
    assert_eq!(edited(&policy, "argo", &old, &new).0, expected);
}

/// Other gates that are left, or go, change nothing of the gate of objects without a queue.
#[rstest]
#[case::another_is_left(Some("acme.io/a"))]
#[case::another_goes(None)]
fn the_gate_of_objects_without_a_queue_is_put_back_beside_others(#[case] now: Option<&str>) {
    let gated = |gates: Option<&str>, last: Option<&str>| {
        let mut job = mk(gates, Some(last.unwrap_or_default()));
        job["metadata"]["labels"] = json!({});
        job
    };
    let both = format!("acme.io/a,{REQUIRED}");
    let old = gated(Some(&both), Some("acme.io/a"));
    let new = gated(now, now);
    for manager in [CLIENT, "kubectl-replace"] {
        let (gates, told) = edited(&labelled("Hold"), manager, &old, &new);
        let expected = now.map_or(REQUIRED.to_owned(), |_| both.clone());
        assert_eq!(gates, expected, "{manager}");
        assert!(
            told.iter().any(|told| told.starts_with("held, as")),
            "{told:?}"
        );
    }
}

#[test]
fn a_manifest_that_takes_the_place_of_a_job_releases_nothing() {
    let old = mk(None, None);
    let new = mk_job(&[(QUEUE, "a")], &[], false);
    let mut request = mk_request(USER, Some(&old), &new);
    request.options.field_manager = "kubectl-replace".to_owned();
    let verdict = mutate(&request, &mk_policy());
    let mut stored = new;
    json_patch::patch(&mut stored, &verdict.patch).unwrap();
    assert_eq!(stored["spec"]["suspend"], true);
    assert_eq!(stored["metadata"]["annotations"]["sluice.dev/held"], "true");
    assert!(
        verdict.warnings[0].starts_with("spec.suspend: false from the manifest is ignored"),
        "{verdict:?}"
    );
}
