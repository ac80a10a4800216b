//! What is changed in an object at its creation.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::aliases::{KeyAliases, MetadataKey};

use crate::review::mutate;
use crate::tests::*;

fn patch_of(object: &Value) -> Value {
    let verdict = mutate(&mk_request(USER, None, object), &mk_policy());
    assert!(verdict.is_allowed());
    serde_json::to_value(verdict.patch).unwrap()
}

/// What Sluice suspends is marked, so that it is known whose the suspension is.
fn hold() -> Value {
    json!([
        {"op": "add", "path": "/spec/suspend", "value": true},
        {"op": "add", "path": "/metadata/annotations/sluice.dev~1held", "value": "true"},
    ])
}

/// What gates hold tells which by labels.
fn labelled(patch: Value) -> Value {
    let Value::Array(mut operations) = patch else {
        panic!("{patch} is no list")
    };
    operations.push(
        json!({"op": "add", "path": "/metadata/labels/gate.sluice.dev~1foo.acme.io", "value": "true"}),
    );
    operations.into()
}

#[rstest]
#[case::plain(mk_job(&[], &[], false), json!([]))]
#[case::queue(mk_job(&[(QUEUE, "a")], &[], false), hold())]
#[case::alias(mk_job(&[(ALIAS, "a")], &[], false), hold())]
#[case::gate(mk_job(&[], &[(GATED, "acme.io/foo")], false), labelled(hold()))]
#[case::gates(mk_job(&[], &[(GATES, "acme.io/foo")], false), labelled(hold()))]
#[case::queue_and_gate(mk_job(&[(QUEUE, "a")], &[(GATES, "acme.io/foo")], false), labelled(hold()))]
#[case::invalid_gate(mk_job(&[], &[(GATED, "")], false), hold())]
#[case::already_suspended(mk_job(&[(QUEUE, "a")], &[], true), json!([]))]
#[case::gated_and_suspended_by_its_user(mk_job(&[], &[(GATED, "acme.io/foo")], true), labelled(json!([])))]
#[case::released_elsewhere(mk_job(&[(QUEUE, "a")], &[("sluice.dev/held", "false")], false), hold())]
#[case::held_elsewhere(mk_job(&[(QUEUE, "a")], &[("sluice.dev/held", "true")], false),
    json!([{"op": "add", "path": "/spec/suspend", "value": true}]))]
#[case::suspend_null(
    with(mk_job(&[(QUEUE, "a")], &[], false), "/spec/suspend", Value::Null), hold())]
fn creation(#[case] object: Value, #[case] expected: Value) {
    assert_eq!(patch_of(&object), expected);
}

#[rstest]
#[case::queued_child(mk_job(&[(QUEUE, "a")], &[], false), json!([]))]
#[case::gated_child(mk_job(&[], &[(GATED, "acme.io/foo")], false), labelled(hold()))]
fn child_of_a_managed_kind(#[case] object: Value, #[case] expected: Value) {
    let owner = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s",
        "uid": "u0", "controller": true}]);
    assert_eq!(
        patch_of(&with(object, "/metadata/ownerReferences", owner)),
        expected
    );
}

/// A replica that has not heard of the JobKind yet can't hold what it is asked about.
#[test]
fn what_can_not_be_held_is_refused() {
    let mk_sparkle = |queued: bool| {
        let labels: &[(&str, &str)] = if queued { &[(QUEUE, "a")] } else { &[] };
        with(mk_job(labels, &[], false), "/kind", json!("Sparkle"))
    };
    let (queued, plain) = (mk_sparkle(true), mk_sparkle(false));
    let refused = "metadata.labels[sluice.dev/queue-name]: Forbidden: no JobKind declares Sparkle of \
                   API group \"batch\", so Sluice can't hold it";
    let message = |old: Option<&Value>, new: &Value| {
        mutate(&mk_request(USER, old, new), &mk_policy()).message()
    };
    assert_eq!(message(None, &queued), refused);
    assert_eq!(message(Some(&plain), &queued), refused);
    assert_eq!(message(None, &plain), "");
    // It came that way, and is not held up now.
    assert_eq!(message(Some(&queued), &queued), "");
}

#[test]
fn updates_are_left_alone() {
    let job = mk_job(&[(QUEUE, "a")], &[], false);
    let update = mk_request(USER, Some(&job), &job);
    assert_eq!(mutate(&update, &mk_policy()), Verdict::allowed());
}

/// Whose a suspension is that an edit brings or ends.
#[rstest]
#[case::paused(&[], "false", (false, true), 2, 2, None)]
#[case::paused_and_smaller(&[], "false", (false, true), 2, 1, None)]
#[case::paused_when_nothing_said_so(&[], "", (false, true), 2, 2, Some("false"))]
#[case::to_grow(&[], "false", (false, true), 1, 2, Some("true"))]
#[case::to_join(&["joins"], "", (false, true), 1, 1, Some("true"))]
#[case::resumed(&[], "false", (true, false), 1, 1, Some("true"))]
#[case::resumed_and_larger(&[], "false", (true, false), 1, 2, Some("true"))]
#[case::started_by_hand(&[], "true", (true, false), 1, 1, None)]
#[case::edited_while_paused(&[], "false", (true, true), 1, 2, None)]
#[case::edited_while_it_runs(&[], "false", (false, false), 2, 1, None)]
#[case::no_queue(&["leaves"], "false", (true, false), 1, 1, None)]
fn edits_of_the_suspend_field(
    #[case] queue: &[&str],
    #[case] mark: &str,
    #[case] (was, is): (bool, bool),
    #[case] before: u32,
    #[case] after: u32,
    #[case] expected: Option<&str>,
) {
    let marks: Vec<_> = Some(("sluice.dev/held", mark))
        .into_iter()
        .filter(|_| !mark.is_empty())
        .collect();
    let job = |queue: bool, suspended, parallelism: u32| {
        let labels: &[(&str, &str)] = if queue { &[(QUEUE, "a")] } else { &[] };
        with(
            mk_job(labels, &marks, suspended),
            "/spec/parallelism",
            json!(parallelism),
        )
    };
    let old = job(!queue.contains(&"joins"), was, before);
    let mut new = job(!queue.contains(&"leaves"), is, after);
    let patch = mutate(&mk_request(USER, Some(&old), &new), &mk_policy()).patch;
    assert_eq!(patch.is_empty(), expected.is_none(), "{patch:?}");
    json_patch::patch(&mut new, &patch).unwrap();
    if let Some(expected) = expected {
        assert_eq!(new["metadata"]["annotations"]["sluice.dev/held"], expected);
        assert_eq!(new["spec"]["suspend"], true);
    }
    let again = mutate(&mk_request(USER, Some(&old), &new), &mk_policy()).patch;
    assert_eq!(again, vec![], "twice is once");
}

/// A manifest that is applied while its Job waits: what it says of the suspend field by then, who applies it, and what he
/// is known to have written.
#[rstest]
#[case::again_by_client("kubectl-client-side-apply", Some(false), Some(false), "", "", true)]
#[case::by_another_tool("kubectl-patch", Some(false), Some(false), "", "", false)]
#[case::first_by_client("kubectl-client-side-apply", None, Some(false), "", "", false)]
#[case::changed_by_client("kubectl-client-side-apply", Some(true), Some(false), "", "", false)]
#[case::again_by_server("argo", None, None, "Update", "Apply", true)]
#[case::dropped_by_server("argo", None, None, "Apply", "", true)]
#[case::first_by_server("argo", None, None, "", "Apply", false)]
#[case::patched_by_who_applied("argo", None, None, "Apply", "Update", false)]
#[case::patched_again("argo", None, None, "Update", "Update", false)]
#[case::by_nobody("", None, None, "Apply", "", false)]
fn a_manifest_that_is_applied_again_releases_nothing(
    #[case] manager: &str,
    #[case] said: Option<bool>,
    #[case] says: Option<bool>,
    #[case] owned: &str,
    #[case] owns: &str,
    #[case] expected: bool,
) {
    let job = |suspended: bool, held: bool, said: Option<bool>, operation: &str| {
        let last = said.map(|said| json!({"spec": {"suspend": said}}).to_string());
        let mut annotations = Vec::new();
        annotations.extend(held.then_some(("sluice.dev/held", "true")));
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        annotations.extend(last.as_deref().map(|last| (key, last)));
        let mut job = mk_job(&[(QUEUE, "a")], &annotations, suspended);
        let fields = json!({"f:spec": {"f:suspend": {}}});
        if !operation.is_empty() {
            job["metadata"]["managedFields"] =
                json!([{"manager": "argo", "operation": operation, "fieldsV1": fields}]);
        }
        job
    };
    let told = |old: &Value| {
        let new = job(false, manager != "argo", says, owns);
        let mut request = mk_request(USER, Some(old), &new);
        request.options.field_manager = manager.to_owned();
        let verdict = mutate(&request, &mk_policy());
        let mut stored = new;
        json_patch::patch(&mut stored, &verdict.patch).unwrap();
        (stored, verdict.warnings)
    };
    let (stored, warnings) = told(&job(true, true, said, owned));
    assert_eq!(stored["spec"]["suspend"], expected, "{stored}");
    assert_eq!(warnings.len(), usize::from(expected), "{warnings:?}");
    if expected {
        assert_eq!(stored["metadata"]["annotations"]["sluice.dev/held"], "true");
        let start = "spec.suspend: false from the manifest is ignored: Sluice suspended";
        assert!(warnings[0].starts_with(start), "{warnings:?}");
    }
    // What its user suspended is his to release, or to be refused.
    let (stored, _) = told(&job(true, false, said, owned));
    assert_eq!(stored["spec"]["suspend"], false);
}

#[test]
fn a_patch_travels_as_base64() {
    let request = mk_request(USER, None, &mk_job(&[(QUEUE, "a")], &[], false));
    let answer = mutate(&request, &mk_policy())
        .into_answer("r1".into())
        .unwrap();
    assert_eq!(
        serde_json::to_value(answer).unwrap()["response"],
        json!({
            "uid": "r1", "allowed": true, "patchType": "JSONPatch",
            // [{"op":"add","path":"/spec/suspend","value":true},
            //  {"op":"add","path":"/metadata/annotations/sluice.dev~1held","value":"true"}]
            "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3NwZWMvc3VzcGVuZCIsInZhbHVlIjp0cnVlfSx7Im9wIjoi\
                YWRkIiwicGF0aCI6Ii9tZXRhZGF0YS9hbm5vdGF0aW9ucy9zbHVpY2UuZGV2fjFoZWxkIiwidmFsdWUiOiJ0cnVlIn1d",
        })
    );
}

proptest! {
    #[test]
    fn twice_is_once(
        queue in proptest::option::of(any::<String>()),
        gate in proptest::option::of(any::<String>()),
        suspend in prop_oneof![
            Just(Value::Null), Just(json!(true)), Just(json!(false)), Just(json!("yes"))],
        has_spec: bool,
    ) {
        let labels: Vec<_> = queue.iter().map(|q| (QUEUE, q.as_str())).collect();
        let annotations: Vec<_> = gate.iter().map(|g| (GATED, g.as_str())).collect();
        let mut job = with(mk_job(&labels, &annotations, false), "/spec/suspend", suspend);
        if !has_spec {
            job.as_object_mut().unwrap().remove("spec");
        }
        let policy = mk_policy();
        let first = mutate(&mk_request(USER, None, &job), &policy).patch;
        json_patch::patch(&mut job, &first).unwrap();
        prop_assert_eq!(mutate(&mk_request(USER, None, &job), &policy).patch, vec![]);
        if queue.is_some() || gate.is_some() {
            prop_assert_eq!(job.pointer("/spec/suspend"), Some(&json!(true)));
        }
    }
}

/// Keys of others, as the configuration lists them.
fn mk_policy_with_aliases() -> Policy {
    let label = |key: &str| MetadataKey::Label(key.to_owned());
    let annotation = |key: &str| MetadataKey::Annotation(key.to_owned());
    mk_policy().with_key_aliases(KeyAliases::new([
        (
            label("sluice.dev/priority-class"),
            vec![label("kueue.x-k8s.io/priority-class")],
        ),
        (
            label(QUEUE),
            vec![annotation("scheduling.volcano.sh/queue-name")],
        ),
    ]))
}

/// The object that its author gets.
fn born(object: &Value) -> Value {
    let verdict = mutate(&mk_request(USER, None, object), &mk_policy_with_aliases());
    assert!(verdict.is_allowed(), "{}", verdict.message());
    let mut born = object.clone();
    json_patch::patch(&mut born, &verdict.patch).unwrap();
    let again = mutate(&mk_request(USER, None, &born), &mk_policy_with_aliases());
    assert!(again.patch.is_empty(), "{:?}", again.patch);
    born
}

#[test]
fn keys_of_others_become_sluices_own_and_hold() {
    const CLASS: &str = "kueue.x-k8s.io/priority-class";
    let kueue = born(&mk_job(&[(ALIAS, "a"), (CLASS, "high")], &[], false));
    let labels = json!({ALIAS: "a", CLASS: "high", "sluice.dev/priority-class": "high"});
    assert_eq!(kueue["metadata"]["labels"], labels);
    assert_eq!(kueue["spec"]["suspend"], true);
    let annotations = [("scheduling.volcano.sh/queue-name", "a")];
    let mut volcano = mk_job(&[], &annotations, false);
    let metadata = volcano["metadata"].as_object_mut().unwrap();
    metadata.remove("labels");
    let volcano = born(&volcano);
    assert_eq!(volcano["metadata"]["labels"], json!({QUEUE: "a"}));
    assert_eq!(volcano["spec"]["suspend"], true);
}

#[test]
fn an_edit_of_another_key_is_one_of_sluices_own() {
    const CLASS: &str = "kueue.x-k8s.io/priority-class";
    const OWN: &str = "sluice.dev/priority-class";
    let job =
        |own: &str, other: &str| mk_job(&[(QUEUE, "a"), (OWN, own), (CLASS, other)], &[], true);
    let request = mk_request(USER, Some(&job("low", "low")), &job("low", "high"));
    let patch = mutate(&request, &mk_policy_with_aliases()).patch;
    let expected = json!([{"op": "add", "path": "/metadata/labels/sluice.dev~1priority-class", "value": "high"}]);
    assert_eq!(serde_json::to_value(&patch).unwrap(), expected);
}
