//! Verdicts about Sluice's own objects.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn quota(name: &str, nominal: Value) -> Value {
    json!({"name": name, "nominalQuota": nominal})
}

/// A ClusterQueue in a cohort, with one group of one flavor.
fn mk_queue(resources: &[Value]) -> Value {
    let covered: Vec<_> = resources.iter().map(|r| r["name"].clone()).collect();
    mk_groups(json!([{"coveredResources": covered,
        "flavors": [{"name": "spot", "resources": resources}]}]))
}

fn mk_groups(groups: Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "ClusterQueue", "metadata": {"name": "q"},
        "spec": {"cohortName": "all", "resourceGroups": groups}})
}

const AT: &str = "spec.resourceGroups[0].flavors[0].resources[0]";
const MALFORMED: &str = "must be a quantity: a number with an optional suffix (such as \"500m\", \
     \"2\", \"1.5Gi\" or \"1e3\")";

#[rstest]
#[case::zero(json!("0"), None)]
#[case::integer(json!(4), None)]
#[case::milli(json!("500m"), None)]
#[case::large(json!("9223372036854775808"), None)]
#[case::negative(json!("-1"), Some("must be greater than or equal to 0"))]
#[case::empty(json!(""), Some(MALFORMED))]
#[case::hex(json!("0x10"), Some(MALFORMED))]
#[case::spaced(json!(" 5"), Some(MALFORMED))]
#[case::overflow(json!("1e400"), Some("is too large to be counted: must be below 1e29"))]
fn amounts(#[case] value: Value, #[case] rule: Option<&str>) {
    let text = value.as_str().unwrap_or_default().to_owned();
    let queue = mk_queue(&[quota("cpu", value)]);
    let expected = rule
        .map(|rule| format!("{AT}.nominalQuota: Invalid value: {text:?}: {rule}"))
        .unwrap_or_default();
    assert_eq!(validate(USER, None, &queue).message(), expected);
}

#[test]
fn limits() {
    let queue = |lending: &str| {
        mk_queue(&[
            json!({"name": "cpu", "nominalQuota": 4, "borrowingLimit": "-2", "lendingLimit": lending}),
        ])
    };
    assert_eq!(
        validate(USER, None, &queue("5")).message(),
        format!(
            "{AT}.borrowingLimit: Invalid value: \"-2\": must be greater than or equal to 0; \
             {AT}.lendingLimit: Invalid value: \"5\": must be less than or equal to the nominalQuota"
        )
    );
    let queue = mk_queue(&[json!({"name": "cpu", "nominalQuota": 4, "borrowingLimit": "2"})]);
    assert_eq!(validate(USER, None, &queue).message(), "");
    let alone = with(queue, "/spec/cohortName", Value::Null);
    assert_eq!(
        validate(USER, None, &alone).message(),
        format!(
            "{AT}.borrowingLimit: Invalid value: \"2\": must be absent without spec.cohortName: quota is shared only there"
        )
    );
}

#[test]
fn nothing_twice_across_groups() {
    let group = |resource: &str, flavor: &str| {
        json!({"coveredResources": [resource],
            "flavors": [{"name": flavor, "resources": [quota(resource, json!(1))]}]})
    };
    let verdict = validate(
        USER,
        None,
        &mk_groups(json!([group("cpu", "spot"), group("cpu", "spot")])),
    );
    assert_eq!(
        verdict.message(),
        "spec.resourceGroups[1].coveredResources[0]: Duplicate value: \"cpu\"; \
         spec.resourceGroups[1].flavors[0].name: Duplicate value: \"spot\""
    );
    let fine = mk_groups(json!([group("cpu", "spot"), group("memory", "memory")]));
    assert_eq!(validate(USER, None, &fine).message(), "");
}

#[test]
fn quota_for_exactly_what_is_covered() {
    let queue = mk_groups(json!([{"coveredResources": ["cpu", "memory"], "flavors": [
        {"name": "spot", "resources": [quota("cpu", json!(1)), quota("cpu", json!(1)), quota("pods", json!(1))]}]}]));
    assert_eq!(
        validate(USER, None, &queue).message(),
        "spec.resourceGroups[0].flavors[0].resources[1].name: Duplicate value: \"cpu\"; \
         spec.resourceGroups[0].flavors[0].resources[2].name: Invalid value: \"pods\": must be one of \
         the coveredResources of its group; spec.resourceGroups[0].flavors[0].resources: Required \
         value: must have quota for \"memory\", one of the coveredResources"
    );
}

#[test]
fn cohorts_meet_the_same_rules() {
    let cohort = with(
        mk_queue(&[quota("cpu", json!("-1"))]),
        "/kind",
        json!("Cohort"),
    );
    assert_eq!(
        validate(USER, None, &cohort).message(),
        format!("{AT}.nominalQuota: Invalid value: \"-1\": must be greater than or equal to 0")
    );
}

#[test]
fn a_cohort_may_lend_more_than_its_own_quota() {
    let limited = json!({"name": "cpu", "nominalQuota": 3, "lendingLimit": 5});
    let cohort = with(mk_queue(&[limited]), "/kind", json!("Cohort"));
    let with_parent = with(cohort.clone(), "/spec/parentName", json!("root"));
    assert_eq!(validate(USER, None, &with_parent).message(), "");
    assert_eq!(
        validate(USER, None, &cohort).message(),
        format!(
            "{AT}.lendingLimit: Invalid value: \"5\": must be absent without spec.parentName: quota is shared only there"
        )
    );
}

#[test]
fn what_was_stored_blocks_no_edit() {
    let old = mk_queue(&[quota("cpu", json!("-1"))]);
    let renamed = with(old.clone(), "/spec/cohortName", json!("other"));
    assert_eq!(validate(USER, Some(&old), &renamed).message(), "");
    let worse = mk_queue(&[quota("cpu", json!("-2"))]);
    assert!(!validate(USER, Some(&old), &worse).is_allowed());
}

#[test]
fn at_most_ten_problems_are_shown() {
    let resources: Vec<_> = (0..12)
        .map(|i| quota(&format!("r{i}"), json!("-1")))
        .collect();
    let message = validate(USER, None, &mk_queue(&resources)).message();
    assert!(message.ends_with("; and 2 more"), "{message}");
}

#[test]
fn job_kinds_must_compile() {
    let judge =
        |kind: &JobKind| validate(USER, None, &serde_json::to_value(kind).unwrap()).message();
    assert_eq!(judge(&mk_job_kind("acme.io", "Sparkle")), "");
    assert_eq!(
        judge(&mk_job_kind("", "Secret")),
        "spec.group: Forbidden: Secret of group \"\" may not be managed, because it secures or runs the cluster; allowed groups: batch, apps, sparkoperator.k8s.io, and groups with a dot that don't end in sluice.dev or .k8s.io (.x-k8s.io is allowed)"
    );
    assert_eq!(
        judge(&mk_job_kind("", "Pod")),
        "spec.kind: Forbidden: Pod needs no JobKind: pods with a queue label are queued by themselves"
    );
    let mut kind = mk_job_kind("acme.io", "Sparkle");
    kind.spec.suspend = Some("spec.suspend".to_owned());
    kind.spec.active = Some("object.".to_owned());
    let message = judge(&kind);
    assert!(
        message.starts_with("spec.suspend: Invalid value: \"spec.suspend\": must start with a dot"),
        "{message}"
    );
    assert!(
        message.contains("; spec.active: Invalid value: \"object.\": "),
        "{message}"
    );
}

fn mk_gate(after: &Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Gate", "metadata": {"name": "data.acme.io"},
        "spec": {"after": after}})
}

fn mk_after(group: &str, kind: &str, condition: &str) -> Value {
    json!({"group": group, "kind": kind, "condition": condition})
}

#[rstest]
#[case::right(json!({"kinds": [mk_after("batch", "Job", "object.status.succeeded > 0")]}), "")]
#[case::nothing(json!({}),
    "spec.after: Required value: exactly one of object and kinds must be set: object is named here; with kinds, the held job names an object of one of them in its annotation")]
#[case::secret(json!({"kinds": [mk_after("", "Secret", "has(object.data)")]}),
    "spec.after.kinds[0].kind: Invalid value: \"Secret\": is not read by Sluice, whatever its roles say")]
#[case::other_object(json!({"kinds": [mk_after("", "Pod", "secret.data == 'a'")]}),
    "spec.after.kinds[0].condition: Invalid value: \"secret.data == 'a'\": undeclared reference to \"secret\" at 1:1: only \"object\" is declared")]
#[case::number(json!({"kinds": [mk_after("", "Pod", "size(object.spec)")]}),
    "spec.after.kinds[0].condition: Invalid value: \"size(object.spec)\": must give a bool, not a int")]
#[case::nested(json!({"kinds": [mk_after("", "Pod", &format!("{}true{}", "(".repeat(60), ")".repeat(60)))]}),
    "must not be nested deeper than 40 brackets, operators and fields")]
#[case::annotation(json!({"kinds": [mk_after("", "Pod", "has(object.spec)")], "annotation": "a b"}),
    "spec.after.annotation: Invalid value: \"a b\": must be the key of an annotation (such as \"sluice.dev/min-parallelism\")")]
fn gates_must_be_followed(#[case] after: Value, #[case] expected: &str) {
    let gate = mk_gate(&after);
    let told = validate(USER, None, &gate).message();
    assert!(told.ends_with(expected), "{told}");
    assert_eq!(told.is_empty(), expected.is_empty(), "{told}");
    // What was stored blocks no edit of something else.
    let edited = with(gate.clone(), "/spec/description", json!("data"));
    assert_eq!(validate(USER, Some(&gate), &edited).message(), "");
}

fn mk_applied(applies_to: Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Gate", "metadata": {"name": "budget.acme.io"},
        "spec": {"appliesTo": applies_to}})
}

const OF_WHOM: &str = "spec.appliesTo.when: user and groups are of whoever makes the request: for a Job of a CronJob those of the controller, not of who made the CronJob";
const TYPO: &str = "spec.appliesTo.kinds[1]: no JobKind declares Deploymnet of API group \"apps\", so its objects do not get the gate until there is one";
const NO_GROUP: &str = "spec.appliesTo.kinds[0]: no JobKind declares Job of API group \"\", so its objects do not get the gate until there is one";

#[rstest]
#[case::managed(json!({"kinds": [{"group": "batch", "kind": "Job"}, {"kind": "Pod"}]}), &[])]
#[case::typo(json!({"kinds": [{"group": "batch", "kind": "Job"}, {"group": "apps", "kind": "Deploymnet"}]}), &[TYPO])]
#[case::without_its_group(json!({"kinds": [{"kind": "Job"}]}), &[NO_GROUP])]
#[case::over_the_author(json!({"when": "user == 'ann'"}), &[OF_WHOM])]
#[case::over_his_groups(json!({"when": "pods > 3 && groups.exists(g, g == 'a')"}), &[OF_WHOM])]
#[case::over_the_author_of_pods(json!({"when": "user == 'ann'", "kinds": [{"kind": "Pod"}]}), &[])]
#[case::over_a_user_in_the_object(json!({"when": "object.spec.user == 'ann'"}), &[])]
fn the_author_of_a_gate_is_warned(#[case] applies_to: Value, #[case] expected: &[&str]) {
    let verdict = validate(USER, None, &mk_applied(applies_to));
    assert!(verdict.is_allowed(), "{}", verdict.message());
    assert_eq!(verdict.warnings, expected);
}

/// Its JobKinds are still to be read: nothing is said of what is not known.
#[test]
fn of_kinds_that_are_not_known_yet_nobody_is_warned() {
    let gate = mk_applied(json!({"kinds": [{"group": "apps", "kind": "Deploymnet"}]}));
    let request = mk_request(USER, None, &gate);
    let verdict = crate::review::validate(&request, &Policy::default());
    assert!(verdict.is_allowed() && verdict.warnings.is_empty());
}
