//! Policies that warn of keys in Sluice's domain that mean nothing, in both variants: a misspelt one alone has nobody asked,
//! and what it was to hold runs at once. They refuse nothing.
//!
//! Must not guess which key was meant: the webhooks do, of objects that they are asked about.

use sluice_crds::{
    ADMITTED_ANNOTATION, DEACTIVATED_BY_ANNOTATION, ENFORCEMENT_LABEL, EXPIRED_GATES_ANNOTATION,
    GATE_FAILURES_ANNOTATION, GROUP, HELD_ANNOTATION, JOB_UID_LABEL, LIFTED_GATES_ANNOTATION,
    MANAGED_LABEL, POD_GROUP_LABELS_ANNOTATION, POD_GROUP_TOTAL_FROM_ANNOTATION,
    POD_SET_ANNOTATION, PODS_MADE_BY_ANNOTATION, PROPAGATED_GATES_ANNOTATION, RELEASED_ANNOTATION,
};

use crate::manifests::cel::metadata::is_owned;
use crate::manifests::cel::syntax::{self, text, texts, variable};
use crate::manifests::conditions::entry::condition;
use crate::manifests::options::Options;
use crate::manifests::policies::policy::{Rules, Validating};
use crate::manifests::webhook_rules::rule;
use crate::rules::advice::keys::{ANNOTATIONS, LABELS};

/// Labels and annotations that Sluice sets, which are copied with an object, and that its plugin reads.
const OWN: [&str; 16] = [
    "sluice.dev/simulate-arrival",
    "sluice.dev/simulate-duration",
    MANAGED_LABEL,
    JOB_UID_LABEL,
    HELD_ANNOTATION,
    RELEASED_ANNOTATION,
    POD_SET_ANNOTATION,
    PROPAGATED_GATES_ANNOTATION,
    ADMITTED_ANNOTATION,
    POD_GROUP_LABELS_ANNOTATION,
    POD_GROUP_TOTAL_FROM_ANNOTATION,
    PODS_MADE_BY_ANNOTATION,
    LIFTED_GATES_ANNOTATION,
    EXPIRED_GATES_ANNOTATION,
    DEACTIVATED_BY_ANNOTATION,
    GATE_FAILURES_ANNOTATION,
];

/// Both policies.
pub(super) fn all(options: &Options) -> [Validating; 2] {
    [of_namespaces(options), of_objects(options)].map(Validating::that_warns)
}

/// A namespace with a misspelt label looks as if it required a queue, and does not.
fn of_namespaces(options: &Options) -> Validating {
    let set = format!("set metadata.labels[{ENFORCEMENT_LABEL}]");
    let problems = [
        unknown(
            "labels",
            &[ENFORCEMENT_LABEL],
            "has no effect on a namespace",
            &set,
        ),
        unknown("annotations", &[], "has no effect on a namespace", &set),
    ];
    let namespaces = vec!["namespaces".to_owned()];
    let rules = Rules {
        name: "sluice-namespace-keys".to_owned(),
        requests: vec![rule("", "v1", &["CREATE", "UPDATE"], namespaces, "Cluster")],
        condition: condition("has-key", has_key()),
        judges_deleted: false,
        variables: vec![variable("problems", problems.join(" +\n"))],
        outcomes: vec![syntax::no_problems()],
    };
    rules.validating(options)
}

/// An object with none of the keys that Sluice knows: the webhooks are not asked about it.
fn of_objects(options: &Options) -> Validating {
    let problems =
        [("labels", &LABELS[..]), ("annotations", &ANNOTATIONS[..])].map(|(map, known)| {
            let quoted: Vec<String> = known.iter().map(|key| format!("{key:?}")).collect();
            let accepted = format!("{map} that it knows: {}", quoted.join(", "));
            unknown(map, &[], "is not a key that Sluice knows", &accepted)
        });
    let is_none = |map: &str, known: &[&str]| {
        let known = known.iter().chain(&OWN).copied();
        let known = texts(known);
        format!("!(has(object.metadata.{map}) && object.metadata.{map}.exists(k, k in {known}))")
    };
    let conditions = [
        has_key(),
        format!("!{}", is_owned("object")),
        is_none("labels", &LABELS),
        is_none("annotations", &ANNOTATIONS),
    ];
    let made = |group: &str, resources: &[&str]| {
        let resources = resources.iter().map(ToString::to_string).collect();
        rule(group, "v1", &["CREATE"], resources, "Namespaced")
    };
    let rules = Rules {
        name: "sluice-object-keys".to_owned(),
        requests: vec![
            made("", &["pods"]),
            made("apps", &["deployments", "statefulsets"]),
            made("batch", &["cronjobs", "jobs"]),
        ],
        condition: condition("has-unknown-key-alone", conditions.join(" &&\n")),
        judges_deleted: false,
        variables: vec![variable("problems", problems.join(" +\n"))],
        outcomes: vec![syntax::no_problems()],
    };
    rules.validating(options)
}

/// CEL: the object has a key of Sluice's domain.
fn has_key() -> String {
    let has = |map: &str| {
        let ours = format!("k.startsWith('{GROUP}/')");
        format!("has(object.metadata.{map}) && object.metadata.{map}.exists(k, {ours})")
    };
    format!("({} ||\n{})", has("labels"), has("annotations"))
}

/// CEL, a list: a problem for each new key of Sluice's domain in this map that is none of `known`.
fn unknown(map: &str, known: &[&str], what: &str, accepted: &str) -> String {
    let known = if known.is_empty() {
        String::new()
    } else {
        format!(" && !(k in {})", texts(known.iter().copied()))
    };
    let is_new = format!(
        "(request.operation == 'CREATE' || !(has(oldObject.metadata.{map}) && k in oldObject.metadata.{map}))"
    );
    let keys = format!(
        "(has(object.metadata.{map}) ? object.metadata.{map}.filter(k, k.startsWith('{GROUP}/'){known} && {is_new}) : [])"
    );
    let at = format!("'metadata.{map}[' + k + ']'");
    format!(
        "{keys}.map(k, {{'at': {at}, 'kind': {}, 'rule': {}}})",
        text(what),
        text(accepted)
    )
}
