//! JobKinds against what the API server publishes of their kind.

use std::pin::Pin;
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::review::look_up;
use crate::{Published, Schemas};

/// An API server that always says the same.
pub(crate) struct Fixed(pub(crate) Published);

impl Schemas for Fixed {
    fn published<'a>(
        &'a self,
        _group: &'a str,
        _version: &'a str,
    ) -> Pin<Box<dyn Future<Output = Published> + Send + 'a>> {
        Box::pin(async { self.0.clone() })
    }
}

/// One that serves nothing.
pub(crate) fn none() -> Arc<dyn Schemas> {
    Arc::new(Fixed(Published::NotServed))
}

fn mk_document(spec: Value) -> Published {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    Published::Document(json!({"components": {"schemas": {"io.acme.Sparkle": {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "acme.io", "version": "v1", "kind": "Sparkle"}],
        "properties": {"spec": {"type": "object", "properties": spec}, "status": open},
    }}}}))
}

fn mk_served() -> Published {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let integer = json!({"type": "integer"});
    mk_document(json!({
        "suspend": {"type": "boolean"},
        "parallelism": integer,
        "completions": integer,
        "backoffLimitPerIndex": integer,
        "managedBy": {"type": "string"},
        "template": open,
    }))
}

fn mk_sparkle(suspend: &str) -> Value {
    let mut kind = mk_job_kind("acme.io", "Sparkle");
    kind.spec.suspend = Some(suspend.to_owned());
    serde_json::to_value(kind).unwrap()
}

const NO_FIELD: &str = "spec.suspend: Invalid value: \".spec.paused\": there is no field \"paused\" in \
     .spec: there are backoffLimitPerIndex, completions, managedBy, parallelism, suspend, template";

#[rstest]
#[case::fits(".spec.suspend", mk_served(), "", "")]
#[case::no_field(".spec.paused", mk_served(), NO_FIELD, "")]
#[case::no_boolean(
    ".spec.parallelism",
    mk_served(),
    "spec.suspend: Invalid value: \".spec.parallelism\": must name a boolean field: this one is an integer",
    ""
)]
#[case::not_served(
    ".spec.paused",
    Published::NotServed,
    "",
    "Sparkle of acme.io/v1 is not served yet, so no path was checked; the condition Ready becomes true when it is watched"
)]
#[case::other_kinds_of_the_group(
    ".spec.paused",
    Published::Document(json!({"components": {"schemas": {}}})),
    "",
    "Sparkle of acme.io/v1 is not served yet, so no path was checked; the condition Ready becomes true when it is watched"
)]
#[case::unreadable(
    ".spec.paused",
    Published::Unreadable("no reply within 1 s".to_owned()),
    "",
    "the schema of acme.io/v1 can't be read, so no path was checked: no reply within 1 s; the condition Ready says whether it fits"
)]
#[tokio::test]
async fn creation(
    #[case] suspend: &str,
    #[case] published: Published,
    #[case] problem: &str,
    #[case] warning: &str,
) {
    let request = mk_request(USER, None, &mk_sparkle(suspend));
    let verdict = look_up(&request, &Fixed(published)).await;
    assert_eq!(verdict.message(), problem);
    assert_eq!(verdict.warnings.join("; "), warning);
}

#[tokio::test]
async fn what_a_new_crd_has_broken_can_be_edited() {
    let (stored, better) = (mk_sparkle(".spec.paused"), mk_sparkle(".spec.suspend"));
    let described = with(stored.clone(), "/spec/admission", json!("PerPod"));
    let message = async |old: &Value, new: &Value| {
        let request = mk_request(USER, Some(old), new);
        look_up(&request, &Fixed(mk_served())).await.message()
    };
    assert_eq!(message(&stored, &described).await, "");
    assert_eq!(message(&stored, &better).await, "");
    assert_eq!(message(&better, &stored).await, NO_FIELD);
    // Another version is another schema.
    let moved = with(stored.clone(), "/spec/version", json!("v0"));
    assert_eq!(message(&moved, &stored).await, NO_FIELD);
}

#[tokio::test]
async fn nothing_else_is_looked_up() {
    let refuses = Fixed(mk_document(json!({})));
    let job = mk_job(&[], &[], false);
    let status = Request {
        sub_resource: "status".to_owned(),
        ..mk_request(USER, None, &mk_sparkle(".spec.paused"))
    };
    for request in [mk_request(USER, None, &job), status] {
        assert_eq!(look_up(&request, &refuses).await, Verdict::allowed());
    }
}

#[test]
fn group_and_version_must_be_such_as_paths_can_have() {
    let message = |group: &str, version: &str| {
        let mut kind = mk_job_kind(group, "Sparkle");
        kind.spec.version = version.to_owned();
        validate(USER, None, &serde_json::to_value(kind).unwrap()).message()
    };
    assert_eq!(message("acme.io", "v1"), "");
    for (group, version, field) in [
        ("../../x", "v1", "spec.group: Invalid value: \"../../x\": "),
        (
            "acme.io",
            "v1/x?y=",
            "spec.version: Invalid value: \"v1/x?y=\": ",
        ),
        ("acme.io", "", "spec.version: Invalid value: \"\": "),
    ] {
        let message = message(group, version);
        assert!(message.starts_with(field), "{message}");
    }
}
