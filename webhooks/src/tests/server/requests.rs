//! Bodies that are no proper question.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::tests::*;

fn mk() -> Value {
    let job = mk_job(&[], &[], true);
    mk_review(USER, Some(&job), &job)
}

fn error(body: &[u8]) -> String {
    Request::parse(body).unwrap_err().to_string()
}

#[rstest]
#[case::no_request("/request", Value::Null, "request: Required value")]
#[case::v1beta1("/apiVersion", json!("admission.k8s.io/v1beta1"), "the body must be AdmissionReview of admission.k8s.io/v1")]
#[case::other_kind("/kind", json!("Job"), "the body must be AdmissionReview of admission.k8s.io/v1")]
#[case::no_uid("/request/uid", json!(""), "request.uid: Required value")]
#[case::no_object("/request/object", Value::Null, "request.object: Required value")]
#[case::no_old_object("/request/oldObject", Value::Null, "request.oldObject: Required value")]
#[case::wrong_kind("/request/kind/kind", json!("Pod"), "request.object: must be of the kind in request.kind")]
#[case::object_is_a_number("/request/object", json!(7), "request.object: must be of the kind in request.kind")]
#[case::old_object_of_other_kind("/request/oldObject/kind", json!("Pod"), "request.oldObject: must be of the kind in request.kind")]
fn malformed(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    assert_eq!(
        error(with(mk(), pointer, value).to_string().as_bytes()),
        expected
    );
}

#[rstest]
#[case::empty(b"")]
#[case::no_json(b"hello")]
#[case::invalid_utf8(b"{\"kind\": \"\xff\"}")]
#[case::array(b"[]")]
#[case::cut_off(b"{\"apiVersion\": \"admission.k8s.io/v1\"")]
#[case::twice_the_same_key(b"{\"kind\": \"AdmissionReview\", \"kind\": \"AdmissionReview\"}")]
fn not_a_review(#[case] body: &[u8]) {
    assert!(error(body).starts_with("the body is not an AdmissionReview: "));
}

#[test]
fn unknown_operation() {
    let body = with(mk(), "/request/operation", json!("PATCH")).to_string();
    assert!(error(body.as_bytes()).contains("unknown variant `PATCH`"));
}

#[test]
fn bottomless() {
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let body = mk().to_string();
    let in_object = body.replacen("\"completions\":2", &format!("\"completions\":{deep}"), 1);
    assert!(error(in_object.as_bytes()).contains("recursion limit exceeded"));
    let skipped = body.replacen("\"name\":\"j\"", &format!("\"name\":{deep}"), 1);
    assert!(Request::parse(skipped.as_bytes()).is_ok());
}

/// Any JSON, shallow enough to be generated quickly.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Request::parse(&body);
    }

    #[test]
    fn no_shape_brings_it_down(
        value in json_value(),
        other in json_value(),
        pointer in prop::sample::select(vec![
            "/metadata", "/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences",
            "/metadata/deletionTimestamp", "/spec", "/spec/suspend", "/spec/parallelism",
            "/spec/template", "/spec/template/spec", "/spec/template/spec/containers",
        ]),
        suspend: bool,
    ) {
        let job = mk_job(&[(QUEUE, "a")], &[(GATED, "a.io/x")], suspend);
        let (old, new) = (with(job.clone(), pointer, value), with(job, pointer, other));
        let policy = mk_policy();
        for request in [mk_request(USER, None, &new), mk_request(USER, Some(&old), &new)] {
            let _ = crate::review::validate(&request, &policy).into_answer(String::new());
            let _ = crate::review::mutate(&request, &policy).into_answer(String::new());
        }
    }
}
