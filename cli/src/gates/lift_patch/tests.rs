use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use kube::core::ApiResource;
use serde_json::json;
use sluice_kinds::gates::{ADMISSION_GATED_BY, SCHEDULING_GATED_BY};

use super::*;

fn annotations(pairs: &[(&str, &str)]) -> Annotations {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_patch_tests_what_it_changes_and_changes_nothing_else() {
    let one = "/metadata/annotations/kueue.x-k8s.io~1scheduling-gated-by";
    let list = "/metadata/annotations/kueue.x-k8s.io~1admission-gated-by";
    let uid = json!({"op": "test", "path": "/metadata/uid", "value": "u1"});
    let test = |path: &str, value: &str| json!({"op": "test", "path": path, "value": value});
    let remove = |path: &str| json!({"op": "remove", "path": path});
    let cases = [
        (vec![("a", "b")], json!([])),
        (vec![(SCHEDULING_GATED_BY, "acme.io/data")], json!([])),
        (
            vec![(SCHEDULING_GATED_BY, "acme.io/budget"), ("a", "b")],
            json!([uid, test(one, "acme.io/budget"), remove(one)]),
        ),
        (
            vec![(ADMISSION_GATED_BY, " acme.io/budget")],
            json!([uid, test(list, " acme.io/budget"), remove(list)]),
        ),
        (
            vec![
                (SCHEDULING_GATED_BY, "acme.io/budget"),
                (ADMISSION_GATED_BY, "acme.io/data, acme.io/budget"),
            ],
            json!([
                uid,
                test(list, "acme.io/data, acme.io/budget"),
                {"op": "replace", "path": list, "value": "acme.io/data"},
                test(one, "acme.io/budget"),
                remove(one),
            ]),
        ),
    ];
    let gate = Gate::parse("acme.io/budget", "").unwrap();
    for (pairs, expected) in cases {
        let before = annotations(&pairs);
        let operations = patch(Some("u1"), &before, &gate);
        assert_eq!(
            serde_json::to_value(&operations).unwrap(),
            expected,
            "{pairs:?}"
        );
        // Applied to another object, or to one that has changed, it fails.
        if operations.is_empty() {
            continue;
        }
        let object = json!({"metadata": {"uid": "u1", "annotations": before}});
        let mut patched = object.clone();
        json_patch::patch(&mut patched, &operations).unwrap();
        let after = patched["metadata"]["annotations"].clone();
        let after: Annotations = serde_json::from_value(after).unwrap();
        assert!(gates::without(&after, &gate).is_empty(), "{pairs:?}");
        let mut changed = object.clone();
        changed["metadata"]["annotations"][ADMISSION_GATED_BY] = json!("c.io/d");
        changed["metadata"]["annotations"][SCHEDULING_GATED_BY] = json!("c.io/d");
        let mut another = object;
        another["metadata"]["uid"] = json!("u2");
        for mut other in [changed, another] {
            assert!(
                json_patch::patch(&mut other, &operations).is_err(),
                "{pairs:?}"
            );
        }
    }
}

#[test]
fn what_is_left_is_told() {
    let deactivated = (DEACTIVATED_BY_ANNOTATION, "acme.io/late");
    let cases = [
        (vec![], "no gate is left"),
        (
            vec![(SCHEDULING_GATED_BY, "acme.io/data")],
            "1 gate is left: acme.io/data",
        ),
        (
            vec![
                (SCHEDULING_GATED_BY, "c.io/d"),
                (ADMISSION_GATED_BY, "b.io/x,a.io/y"),
            ],
            "3 gates are left: a.io/y, b.io/x, c.io/d",
        ),
        (
            vec![(ADMISSION_GATED_BY, "")],
            "the remaining annotation is invalid and still holds it: metadata.annotations[kueue.x-k8s.io/admission-gated-by]: \
             Invalid value: \"\": must name a gate, a domain-prefixed path (such as \"acme.io/foo\"); leave the \
             annotation out to have no gate",
        ),
        (
            vec![deactivated],
            "no gate is left; acme.io/late has deactivated it: it stays held until its annotation \
             sluice.dev/deactivated-by is removed",
        ),
    ];
    for (pairs, expected) in cases {
        assert_eq!(left(&annotations(&pairs)), expected, "{pairs:?}");
    }
}

/// What a fake API server is asked for, and answers: the method, a status code, and an object or a message.
type Answers = Vec<(Method, u16, Value)>;

/// The objects of a client whose requests are answered so, in this order.
fn objects(answers: Answers) -> (Api<DynamicObject>, Arc<Mutex<Answers>>) {
    let left = Arc::new(Mutex::new(answers));
    let script = Arc::clone(&left);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (method, code, body) = script.lock().unwrap().remove(0);
        assert_eq!(request.method(), method, "{}", request.uri());
        let response = Response::builder().status(code);
        let response = response.body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(response.unwrap()) }
    });
    let client = Client::new(service, "default");
    let jobs = ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&());
    (Api::namespaced_with(client, "team", &jobs), left)
}

#[tokio::test(flavor = "current_thread")]
async fn a_lift_is_tried_again_once_if_the_object_has_changed() {
    let read = |value: &str| {
        let annotations = json!({(ADMISSION_GATED_BY): value});
        let metadata = json!({"name": "train", "uid": "u1", "annotations": annotations});
        let object =
            json!({"apiVersion": "v1", "kind": "PartialObjectMetadata", "metadata": metadata});
        (Method::GET, 200, object)
    };
    let done = |value: &str| (Method::PATCH, 200, read(value).2);
    let refused = |code: u16, message: &str| {
        let reason = if code == 404 { "NotFound" } else { "" };
        let status =
            json!({"status": "Failure", "code": code, "reason": reason, "message": message});
        (Method::PATCH, code, status)
    };
    let failed_test = "the server rejected our request due to an error in our request";
    let both = "a.io/x,acme.io/budget";
    let cases = [
        (
            "at once",
            vec![read(both), done("a.io/x")],
            "1 gate is left: a.io/x",
        ),
        (
            "changed meanwhile",
            vec![
                read(both),
                refused(422, failed_test),
                read("acme.io/budget"),
                done("b.io/x"),
            ],
            "1 gate is left: b.io/x",
        ),
        (
            "another writer",
            vec![
                read(both),
                refused(409, "conflict"),
                read("acme.io/budget"),
                done("b.io/x"),
            ],
            "1 gate is left: b.io/x",
        ),
        (
            "lifted meanwhile",
            vec![read(both), refused(422, failed_test), read("a.io/x")],
            "not there: 1 gate is left: a.io/x",
        ),
        (
            "changed all the time",
            vec![
                read(both),
                refused(422, failed_test),
                read("acme.io/budget"),
                refused(409, "conflict"),
            ],
            "changed",
        ),
        (
            "it was not the test",
            vec![read(both), refused(422, "denied the request")],
            "failed: denied the request",
        ),
        (
            "refused",
            vec![read(both), refused(403, "may not")],
            "failed: may not",
        ),
        (
            "gone before",
            vec![(Method::GET, 404, refused(404, "not found").2)],
            "gone: not found",
        ),
        (
            "gone meanwhile",
            vec![read(both), refused(404, "not found")],
            "gone: not found",
        ),
        (
            "not there",
            vec![read("a.io/x")],
            "not there: 1 gate is left: a.io/x",
        ),
    ];
    let gate = Gate::parse("acme.io/budget", "").unwrap();
    for (case, answers, expected) in cases {
        let (objects, rest) = objects(answers);
        let told = match lift(&objects, "train", None, &gate, DryRun::No).await {
            LiftOutcome::Lifted(annotations) => left(&annotations),
            LiftOutcome::NotThere(annotations) => format!("not there: {}", left(&annotations)),
            LiftOutcome::Changed => "changed".to_owned(),
            LiftOutcome::Gone(status) => format!("gone: {}", status.message),
            LiftOutcome::Failed(error) => format!("failed: {error}"),
        };
        assert_eq!(told, expected, "{case}");
        assert!(
            rest.lock().unwrap().is_empty(),
            "{case}: not all was asked for"
        );
    }
}
