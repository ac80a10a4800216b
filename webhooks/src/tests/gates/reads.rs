//! What a Gate has Sluice read: whose right is asked for, and what is told.

use std::pin::Pin;
use std::sync::Mutex;

use rstest::rstest;
use serde_json::{Value, json};

use crate::review::has_rights;
use crate::rules::own::reads::plural;
use crate::tests::*;
use crate::{Access, Permission, Right, Unanswered, UserInfo};

/// An API server that serves `Dataset` as `datasets`, and says this of everybody.
struct Fixed(Permission, Mutex<Vec<String>>);

impl Access for Fixed {
    fn has<'a>(
        &'a self,
        user: &'a UserInfo,
        right: Right,
    ) -> Pin<Box<dyn Future<Output = Permission> + Send + 'a>> {
        let asked = [
            user.username.as_str(),
            right.verb,
            &right.group,
            &right.resource,
            &right.namespace,
            &right.name,
        ];
        self.1.lock().unwrap().push(asked.join("|"));
        Box::pin(async { self.0.clone() })
    }

    fn resource<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<String>, Unanswered>> + Send + 'a>> {
        Box::pin(async move {
            match (group, kind) {
                ("acme.io", "Dataset") => Ok(Some("datasets".to_owned())),
                ("slow.io", _) => Err(Unanswered::NoReply { seconds: 1 }),
                _ => Ok(None),
            }
        })
    }
}

fn mk_gate(after: &Value) -> Value {
    let metadata = json!({"name": "data.acme.io"});
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Gate", "metadata": metadata,
        "spec": {"after": after}})
}

/// What is told, and what was asked.
fn judge(permission: Permission, old: Option<&Value>, new: &Value) -> (String, Vec<String>) {
    let access = Fixed(permission, Mutex::default());
    let request = mk_request(USER, old, new);
    let verdict = futures::executor::block_on(has_rights(&request, &mk_policy(), &access));
    (verdict.message(), access.1.into_inner().unwrap())
}

fn dataset(condition: &str) -> Value {
    json!({"group": "acme.io", "kind": "Dataset", "condition": condition})
}

fn object(mut kind: Value, namespace: Option<&str>) -> Value {
    kind["name"] = json!("prices");
    if let Some(namespace) = namespace {
        kind["namespace"] = json!(namespace);
    }
    json!({ "object": kind })
}

#[rstest]
#[case::in_a_namespace(
    object(dataset("true"), Some("data")),
    "ann|get|acme.io|datasets|data|prices",
    "spec.after.object: Forbidden: user \"ann\" may not \"get\" datasets.acme.io \"prices\" in namespace \"data\", which Sluice would read for this Gate: whoever writes spec.after needs that right"
)]
#[case::wherever_the_job_is(
    object(dataset("true"), None),
    "ann|get|acme.io|datasets||prices",
    "spec.after.object: Forbidden: user \"ann\" may not \"get\" datasets.acme.io \"prices\" cluster-wide, which Sluice would read for this Gate: whoever writes spec.after needs that right"
)]
#[case::a_kind_that_is_not_served(
    json!({"kinds": [{"group": "", "kind": "ConfigMap", "condition": "true"}]}),
    "ann|get||configmaps||",
    "spec.after.kinds[0]: Forbidden: user \"ann\" may not \"get\" configmaps cluster-wide, which Sluice would read for this Gate: whoever writes spec.after needs that right"
)]
fn whoever_writes_it_must_be_allowed_to_read_it(
    #[case] after: Value,
    #[case] right: &str,
    #[case] told: &str,
) {
    let gate = mk_gate(&after);
    let asked = vec![right.to_owned()];
    let allowed = judge(Permission::Allowed, None, &gate);
    assert_eq!(allowed, (String::new(), asked.clone()));
    assert_eq!(
        judge(Permission::Denied, None, &gate),
        (told.to_owned(), asked.clone())
    );
    let unknown = judge(Permission::Unknown("no reply".to_owned()), None, &gate);
    assert!(
        unknown
            .0
            .contains("can't find out whether user \"ann\" may \"get\" "),
        "{unknown:?}"
    );
    assert!(unknown.0.ends_with(": no reply; try again"), "{unknown:?}");
    // Nothing is asked of what does not change.
    let mut edited = gate.clone();
    edited["spec"]["description"] = json!("x");
    assert_eq!(
        judge(Permission::Denied, Some(&gate), &edited),
        (String::new(), Vec::new())
    );
    // Each other expression is another question.
    let before = mk_gate(&object(dataset("false"), Some("data")));
    assert_eq!(judge(Permission::Denied, Some(&before), &gate).1, asked);
    // It is read until it is gone.
    let deleted = |mut gate: Value| {
        gate["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        gate
    };
    let (before, after) = (deleted(before), deleted(gate));
    assert_eq!(judge(Permission::Denied, Some(&before), &after).1, asked);
}

#[test]
fn what_can_not_be_found_out_is_refused() {
    let gate =
        mk_gate(&json!({"kinds": [{"group": "slow.io", "kind": "Thing", "condition": "true"}]}));
    let (told, asked) = judge(Permission::Allowed, None, &gate);
    assert_eq!(
        told,
        "spec.after.kinds[0]: Forbidden: can't find out whether user \"ann\" may \"get\" things.slow.io cluster-wide: no reply within 1 s; try again"
    );
    assert_eq!(asked, Vec::<String>::new());
}

#[rstest]
#[case::two_unknown(Permission::Allowed, [("slow.io", "Thing"), ("slow.io", "Other")], true,
    "spec.after.kinds[0]: Forbidden: can't find out whether user \"ann\" may \"get\" things.slow.io cluster-wide: no reply within 1 s; try again")]
#[case::one_of_them_denied(Permission::Denied, [("slow.io", "Thing"), ("", "ConfigMap")], false,
    "spec.after.kinds[1]: Forbidden: user \"ann\" may not \"get\" configmaps cluster-wide, which Sluice would read for this Gate: whoever writes spec.after needs that right")]
fn another_try_is_asked_for_unless_something_is_denied(
    #[case] permission: Permission,
    #[case] kinds: [(&str, &str); 2],
    #[case] is_early: bool,
    #[case] told: &str,
) {
    let kinds =
        kinds.map(|(group, kind)| json!({"group": group, "kind": kind, "condition": "true"}));
    let request = mk_request(USER, None, &mk_gate(&json!({ "kinds": kinds })));
    let access = Fixed(permission, Mutex::default());
    let verdict = futures::executor::block_on(has_rights(&request, &mk_policy(), &access));
    assert_eq!(
        (verdict.is_early, verdict.message().as_str()),
        (is_early, told)
    );
}

#[rstest]
#[case("ConfigMap", "configmaps")]
#[case("Ingress", "ingresses")]
#[case("NetworkPolicy", "networkpolicies")]
#[case("Gateway", "gateways")]
#[case("Batch", "batches")]
#[case("Endpoints", "endpoints")]
fn the_usual_plural(#[case] kind: &str, #[case] expected: &str) {
    assert_eq!(plural(kind), expected);
}
