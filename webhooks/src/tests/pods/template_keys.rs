//! What the pods of a gated template get from keys of others in it, and from the object, also when that is edited: nobody
//! is asked about such pods.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::aliases::{KeyAliases, MetadataKey};

use crate::review::mutate;
use crate::tests::*;

const CLASS: &str = "sluice.dev/priority-class";
const OF_KUEUE: &str = "kueue.x-k8s.io/priority-class";
const GROUP: &str = sluice_crds::POD_GROUP_TOTAL_ANNOTATION;
const GROUP_OF_KUEUE: &str = "kueue.x-k8s.io/pod-group-total-count";

fn policy() -> Policy {
    let label = |key: &str| MetadataKey::Label(key.to_owned());
    let annotation = |key: &str| MetadataKey::Annotation(key.to_owned());
    mk_policy().with_key_aliases(KeyAliases::new([
        (label(CLASS), vec![label(OF_KUEUE)]),
        (annotation(GROUP), vec![annotation(GROUP_OF_KUEUE)]),
    ]))
}

fn deployment(labels: &[(&str, &str)], template: Value) -> Value {
    let mut deployment = mk_deployment(labels, &[]);
    deployment["metadata"]["labels"][QUEUE] = json!("q");
    with(deployment, "/spec/template/metadata", template)
}

/// The object as it is stored after the edit.
fn edited(old: &Value, new: &Value) -> Value {
    let policy = policy();
    let verdict = mutate(&mk_request(USER, Some(old), new), &policy);
    assert_eq!(verdict.message(), "");
    let mut stored = new.clone();
    json_patch::patch(&mut stored, &verdict.patch).unwrap();
    let again = mutate(&mk_request(USER, Some(old), &stored), &policy);
    assert_eq!(again.patch, [], "{stored}");
    stored
}

fn template_of(stored: &Value) -> &Value {
    &stored["spec"]["template"]["metadata"]
}

#[rstest]
#[case::of_the_template(&[], json!({"labels": {OF_KUEUE: "high"}}), "high")]
#[case::it_goes_before_the_object(&[(CLASS, "low")], json!({"labels": {OF_KUEUE: "high"}}), "high")]
#[case::the_own_key_goes_before_it(&[], json!({"labels": {OF_KUEUE: "high", CLASS: "mid"}}), "mid")]
#[case::of_the_object(&[(OF_KUEUE, "low")], json!({}), "low")]
fn a_template_gets_the_own_key_of_a_class(
    #[case] labels: &[(&str, &str)],
    #[case] template: Value,
    #[case] expected: &str,
) {
    let (stored, _) = created_by(USER, &deployment(labels, template), &policy());
    assert_eq!(template_of(&stored)["labels"][CLASS], expected);
    assert_eq!(template_of(&stored)["labels"][QUEUE], "q");
}

#[test]
fn annotations_of_others_are_spelt_out_too() {
    let template = json!({"annotations": {GROUP_OF_KUEUE: "2"}});
    let (stored, _) = created_by(USER, &deployment(&[], template), &policy());
    assert_eq!(template_of(&stored)["annotations"][GROUP], "2");
}

#[test]
fn an_edited_alias_of_a_template_counts() {
    let template = json!({"labels": {OF_KUEUE: "high"}});
    let (old, _) = created_by(USER, &deployment(&[], template), &policy());
    let mut new = old.clone();
    new["spec"]["template"]["metadata"]["labels"][OF_KUEUE] = json!("low");
    assert_eq!(template_of(&edited(&old, &new))["labels"][CLASS], "low");
}

#[rstest]
#[case::it_came_from_the_object(Some("a"), Some("b"), None, "b")]
#[case::by_an_alias(Some("a"), None, None, "b")]
#[case::the_object_had_none(None, Some("b"), None, "b")]
#[case::the_template_says_otherwise(Some("a"), Some("b"), Some("own"), "own")]
#[case::it_is_the_same(Some("a"), Some("a"), None, "a")]
fn a_changed_class_comes_down(
    #[case] was: Option<&str>,
    #[case] is: Option<&str>,
    #[case] of_template: Option<&str>,
    #[case] expected: &str,
) {
    let labels: Vec<_> = was.into_iter().map(|was| (CLASS, was)).collect();
    let template = json!({"labels": of_template.map(|class| json!({CLASS: class}))});
    let (old, _) = created_by(USER, &deployment(&labels, template), &policy());
    let mut new = old.clone();
    match is {
        Some(is) => new["metadata"]["labels"][CLASS] = json!(is),
        None => new["metadata"]["labels"][OF_KUEUE] = json!("b"),
    }
    assert_eq!(template_of(&edited(&old, &new))["labels"][CLASS], expected);
}

/// An earlier version wrote less into templates: what it stored makes its pods anew only if somebody edits the template.
#[rstest]
#[case::an_alias_of_the_template(&[], json!({"labels": {OF_KUEUE: "high"}}))]
#[case::an_alias_of_an_annotation(&[], json!({"annotations": {GROUP_OF_KUEUE: "2"}}))]
#[case::the_class_of_the_object(&[(CLASS, "low")], json!({}))]
fn an_edit_that_leaves_a_stored_template_alone_changes_nothing_there(
    #[case] labels: &[(&str, &str)],
    #[case] template: Value,
) {
    let (stored, _) = created_by(USER, &deployment(labels, template), &policy());
    let mut old = stored.clone();
    let metadata = &mut old["spec"]["template"]["metadata"];
    for (map, key) in [("labels", CLASS), ("annotations", GROUP)] {
        if let Some(map) = metadata[map].as_object_mut() {
            map.remove(key);
        }
    }
    assert_ne!(template_of(&old), template_of(&stored));
    let mut scaled = old.clone();
    scaled["spec"]["replicas"] = json!(5);
    scaled["metadata"]["labels"]["acme.io/team"] = json!("a");
    assert_eq!(template_of(&edited(&old, &scaled)), template_of(&old));
    // An edit of the template brings it.
    let mut other = old.clone();
    other["spec"]["template"]["metadata"]["annotations"]["acme.io/x"] = json!("y");
    let mut expected = stored.clone();
    expected["spec"]["template"]["metadata"]["annotations"]["acme.io/x"] = json!("y");
    assert_eq!(template_of(&edited(&old, &other)), template_of(&expected));
}

#[test]
fn an_edit_puts_back_what_holds_the_pods() {
    let (stored, _) = created_by(USER, &deployment(&[], json!({})), &policy());
    let mut old = stored.clone();
    old["spec"]["template"]["spec"]["schedulingGates"] = json!([]);
    let mut new = old.clone();
    new["spec"]["replicas"] = json!(5);
    let gates = &edited(&old, &new)["spec"]["template"]["spec"]["schedulingGates"];
    assert_eq!(
        *gates,
        stored["spec"]["template"]["spec"]["schedulingGates"]
    );
}
