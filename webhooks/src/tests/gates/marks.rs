//! What an edit that lifts gates leaves on the object, and who may write that.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};
use sluice_crds::{
    DEACTIVATED_BY_ANNOTATION, LIFTED_GATES_ANNOTATION, MANAGED_LABEL, PROPAGATED_GATES_ANNOTATION,
};
use sluice_kinds::gates::Lifted;
use sluice_kinds::gates::record::lifted_value;

use crate::review::mutate;
use crate::tests::*;

const A: &str = "gate.sluice.dev/a.acme.io";
const B: &str = "gate.sluice.dev/b.acme.io";
const AT: &str = "2026-11-01T08:00:00Z";

fn at() -> Timestamp {
    AT.parse().unwrap()
}

/// A held object with these gates and labels.
fn held(gates: &[(&str, &str)], labels: &[(&str, &str)], kind: &str) -> Value {
    let object = match kind {
        "Pod" => mk_pod(labels, gates, &[]),
        _ => mk_job(labels, gates, true),
    };
    with(object, "/metadata/uid", json!("u1"))
}

fn request(user: &str, old: Option<&Value>, new: &Value) -> Request {
    Request {
        received: Some(at()),
        ..mk_request(user, old, new)
    }
}

/// The object as it is stored after the edit.
fn edited(user: &str, old: Option<&Value>, new: &Value) -> Value {
    let change = |object: &Value| {
        let verdict = mutate(&request(user, old, object), &mk_policy());
        assert!(verdict.is_allowed(), "{}", verdict.message());
        let mut object = object.clone();
        json_patch::patch(&mut object, &verdict.patch).unwrap();
        object
    };
    let once = change(new);
    assert_eq!(change(&once), once, "asked twice");
    once
}

fn refusal(old: &Value, new: &Value) -> String {
    crate::review::validate(&request(USER, Some(old), new), &mk_policy()).message()
}

fn record(object: &Value) -> Value {
    let text = object["metadata"]["annotations"][LIFTED_GATES_ANNOTATION].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

#[rstest]
#[case::job("Job")]
#[case::pod("Pod")]
fn a_lifted_gate_is_kept_with_who_lifted_it_and_its_label_goes(#[case] kind: &str) {
    let gates = "acme.io/a, acme.io/b";
    let old = edited(USER, None, &held(&[(GATES, gates)], &[], kind));
    assert_eq!(old["metadata"]["labels"][A], "true");
    assert_eq!(old["metadata"]["labels"][B], "true");
    assert_eq!(record(&old), Value::Null);
    let mut new = old.clone();
    new["metadata"]["annotations"][GATES] = json!("acme.io/b");
    let new = edited(USER, Some(&old), &new);
    assert_eq!(new["metadata"]["labels"].get(A), None);
    assert_eq!(new["metadata"]["labels"][B], "true");
    assert_eq!(
        record(&new),
        json!([{"gate": "acme.io/a", "by": "ann", "at": AT, "uid": "u1"}])
    );
    assert_eq!(refusal(&old, &new), "");
    // The next one, by somebody else, takes the annotation away.
    let mut last = new.clone();
    last["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(GATES);
    let last = edited("bob", Some(&new), &last);
    assert_eq!(last["metadata"]["labels"].get(B), None);
    assert_eq!(record(&last)[0], record(&new)[0]);
    assert_eq!(record(&last)[1]["by"], "bob");
}

/// Whoever replaces an object by its manifest names no UID.
#[rstest]
#[case::job("Job")]
#[case::pod("Pod")]
fn a_manifest_that_replaces_the_object_is_kept_with_its_author(#[case] kind: &str) {
    let old = held(&[(GATES, "acme.io/a")], &[(A, "true")], kind);
    let mut new = with(old.clone(), "/metadata/annotations", json!({}));
    new["metadata"].as_object_mut().unwrap().remove("uid");
    let after = edited(USER, Some(&old), &new);
    assert_eq!(
        record(&after),
        json!([{"gate": "acme.io/a", "by": "ann", "at": AT, "uid": "u1"}])
    );
    assert_eq!(refusal(&old, &after), "");
}

#[test]
fn an_object_that_keeps_nothing_else_gets_annotations_for_the_record() {
    let old = held(&[(GATED, "acme.io/a")], &[(A, "true")], "Job");
    let mut new = old.clone();
    new["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    assert_eq!(
        record(&edited(USER, Some(&old), &new))[0]["gate"],
        "acme.io/a"
    );
}

/// An object may take its place in its queue by it.
#[rstest]
#[case::earlier(-59)]
#[case::a_little_earlier(-1)]
#[case::later(59)]
fn no_user_chooses_the_time_at_which_he_lifts(#[case] seconds: i64) {
    for kind in ["Job", "Pod"] {
        let old = held(&[(GATES, "acme.io/a,acme.io/b")], &[], kind);
        let chosen = at() + SignedDuration::from_secs(seconds);
        let claimed = json!([{"gate": "acme.io/a", "by": "ann", "at": chosen, "uid": "u1"}]);
        let claimed: Vec<Lifted> = serde_json::from_value(claimed).unwrap();
        let mut new = old.clone();
        new["metadata"]["annotations"][GATES] = json!("acme.io/b");
        for claimed in [lifted_value(&[], claimed.clone()), {
            let timeless = claimed
                .into_iter()
                .map(|lifted| Lifted { at: None, ..lifted });
            lifted_value(&[], timeless)
        }] {
            new["metadata"]["annotations"][LIFTED_GATES_ANNOTATION] = json!(claimed);
            let stored = edited(USER, Some(&old), &new);
            assert_eq!(record(&stored)[0]["at"], json!(AT), "{kind} {claimed}");
        }
    }
}

#[test]
fn no_user_says_who_lifted_what_when() {
    let old = held(&[(GATES, "acme.io/a,acme.io/b")], &[], "Job");
    let lifted = |record: Value, gates: &str| {
        let mut new = old.clone();
        new["metadata"]["annotations"][GATES] = json!(gates);
        let text = match serde_json::from_value::<Vec<Lifted>>(record.clone()) {
            Ok(records) => lifted_value(&[], records),
            Err(_) => record.to_string(),
        };
        new["metadata"]["annotations"][LIFTED_GATES_ANNOTATION] = json!(text);
        new
    };
    let told = "metadata.annotations[sluice.dev/lifted-gates]: Forbidden: is set by Sluice alone";
    let own = json!({"gate": "acme.io/a", "by": "ann", "at": AT, "uid": "u1"});
    let with = |key: &str, value: Value| {
        let mut record = own.clone();
        record[key] = value;
        json!([record])
    };
    let early = at() - SignedDuration::from_hours(1);
    for (name, record, gates, expected) in [
        ("as it is", json!([own]), "acme.io/b", ""),
        (
            "in another's name",
            with("by", json!("bob")),
            "acme.io/b",
            told,
        ),
        ("as Sluice", with("reason", json!("x")), "acme.io/b", told),
        (
            "of another object",
            with("uid", json!("u2")),
            "acme.io/b",
            told,
        ),
        (
            "at another time",
            with("at", json!(early)),
            "acme.io/b",
            told,
        ),
        (
            "of another gate",
            with("gate", json!("acme.io/b")),
            "acme.io/b",
            told,
        ),
        (
            "of a gate that stays",
            json!([own]),
            "acme.io/a,acme.io/b",
            told,
        ),
        ("twice", json!([own, own]), "acme.io/b", told),
        ("no list", json!({}), "acme.io/b", told),
    ] {
        let forged = lifted(record, gates);
        assert_eq!(refusal(&old, &forged), expected, "{name}");
        // Where the webhook sees it first, it writes what is so.
        if gates == "acme.io/b" {
            assert_eq!(record_of_edit(&old, &forged), json!([own]), "{name}");
        }
    }
}

fn record_of_edit(old: &Value, new: &Value) -> Value {
    record(&edited(USER, Some(old), new))
}

#[rstest]
#[case::job("Job")]
#[case::pod("Pod")]
fn labels_that_users_set_or_remove_are_made_right(#[case] kind: &str) {
    let old = held(&[(GATED, "acme.io/a")], &[(A, "true")], kind);
    for labels in [json!({}), json!({(B): "true"}), json!({(A): "false"})] {
        let new = with(old.clone(), "/metadata/labels", labels);
        let after = edited(USER, Some(&old), &new);
        assert_eq!(after["metadata"]["labels"], json!({(A): "true"}));
        let born = edited(USER, None, &new);
        assert_eq!(born["metadata"]["labels"][A], "true");
        assert_eq!(born["metadata"]["labels"].get(B), None);
    }
}

#[test]
fn the_status_is_no_way_round() {
    let old = held(&[(GATED, "acme.io/a")], &[(A, "true")], "Job");
    let mut new = old.clone();
    new["metadata"]["annotations"] = json!({});
    let mut request = request(USER, Some(&old), &new);
    request.sub_resource = "status".to_owned();
    let patch = mutate(&request, &mk_policy()).patch;
    json_patch::patch(&mut new, &patch).unwrap();
    assert_eq!(new["metadata"]["labels"], json!({}));
    assert_eq!(record(&new)[0]["by"], "ann");
}

const BY_GATE: (&str, &str) = (DEACTIVATED_BY_ANNOTATION, "acme.io/budget");
const START_DEACTIVATED: &str = "spec.suspend: Forbidden: the job is deactivated, as the gate \"acme.io/budget\" was not lifted in time; remove the annotation sluice.dev/deactivated-by, and it is queued, or started if it has no queue";

fn deactivated(labels: &[(&str, &str)], suspend: bool) -> Value {
    mk_job(labels, &[BY_GATE], suspend)
}

#[rstest]
#[case::without_a_queue(deactivated(&[], true), deactivated(&[], false), START_DEACTIVATED)]
#[case::in_a_queue(deactivated(&[(QUEUE, "a")], true), deactivated(&[(QUEUE, "a")], false), START_DEACTIVATED)]
#[case::leaves_its_queue(deactivated(&[(QUEUE, "a")], true), deactivated(&[], false), START_DEACTIVATED)]
#[case::says_that_it_is_not(deactivated(&[], true), mk_job(&[], &[], false), "")]
#[case::was_started_before(deactivated(&[], false), deactivated(&[], false), "")]
#[case::is_suspended(deactivated(&[], false), deactivated(&[], true), "")]
#[case::child_with_what_its_owner_has(
    owned(deactivated(&[], true), "jobset.x-k8s.io/v1alpha2", "JobSet"),
    owned(deactivated(&[], false), "jobset.x-k8s.io/v1alpha2", "JobSet"), "")]
fn a_deactivated_job_is_not_started_by_hand(
    #[case] old: Value,
    #[case] new: Value,
    #[case] expected: &str,
) {
    assert_eq!(validate(USER, Some(&old), &new).message(), expected);
    assert_eq!(validate(SLUICE, Some(&old), &new).message(), "");
}

#[test]
fn a_deactivated_pod_keeps_its_gates() {
    let pod = |annotations: &[(&str, &str)], gates: &[&str]| {
        let propagated = (PROPAGATED_GATES_ANNOTATION, "acme.io/budget");
        let record = r#"[{"gate":"acme.io/budget","by":"bob","uid":"u1"}]"#;
        let kept = [propagated, (LIFTED_GATES_ANNOTATION, record)];
        let all: Vec<_> = kept.iter().chain(annotations).copied().collect();
        mk_pod(&[(MANAGED_LABEL, "true")], &all, gates)
    };
    let held = pod(&[BY_GATE], &["acme.io/budget"]);
    let freed = validate(USER, Some(&held), &pod(&[BY_GATE], &[]));
    assert_eq!(
        freed.message(),
        "spec.schedulingGates: Forbidden: the gate \"acme.io/budget\" stays, as the pod is deactivated; remove the annotation sluice.dev/deactivated-by, and Sluice removes the gate"
    );
    assert_eq!(validate(USER, Some(&held), &pod(&[], &[])).message(), "");
}
