//! Which rules Sluice's account may write into webhook configurations of its own making, evaluated.

use cel::{Context, Program, Value as Cel};
use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::manageable_groups;

use crate::manifests::jail::webhook_rules;

fn is_true(expression: &str, name: &str, value: &Value) -> bool {
    let mut context = Context::default();
    context.add_variable(name, value.clone()).unwrap();
    let program = Program::compile(expression).unwrap();
    program.execute(&context).unwrap() == Cel::Bool(true)
}

fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": resources,
        "scope": "Namespaced"})
}

#[rstest]
#[case::jobs(rule("batch", &["jobs", "jobs/status"], &["CREATE", "UPDATE"]), true)]
#[case::of_ones_own(rule("acme.io", &["widgets"], &["CREATE"]), true)]
#[case::deletions(rule("batch", &["jobs"], &["DELETE"]), false)]
#[case::deletions_among_others(rule("batch", &["jobs"], &["CREATE", "DELETE"]), false)]
#[case::each_operation(rule("batch", &["jobs"], &["*"]), false)]
#[case::each_resource(rule("batch", &["*"], &["CREATE"]), false)]
#[case::each_group(rule("*", &["jobs"], &["CREATE"]), false)]
#[case::secrets(rule("", &["secrets"], &["CREATE"]), false)]
fn for_jobs(#[case] rule: Value, #[case] expected: bool) {
    let is = is_true(&webhook_rules::is_for_jobs(), "r", &rule);
    assert_eq!(is, expected);
}

#[rstest]
#[case::new_pods(rule("", &["pods"], &["CREATE"]), true)]
#[case::resized_pods(rule("", &["pods/resize"], &["UPDATE"]), true)]
#[case::makers(rule("", &["replicationcontrollers"], &["CREATE", "UPDATE"]), true)]
#[case::deletions(rule("", &["pods"], &["DELETE"]), false)]
#[case::deletions_among_others(rule("", &["pods"], &["CREATE", "DELETE"]), false)]
#[case::each_operation(rule("", &["pods"], &["*"]), false)]
#[case::connections(rule("", &["pods"], &["CONNECT"]), false)]
#[case::edits(rule("", &["pods"], &["UPDATE"]), false)]
#[case::deletions_of_makers(rule("", &["replicationcontrollers"], &["DELETE"]), false)]
#[case::evictions(rule("", &["pods/eviction"], &["CREATE"]), false)]
#[case::each_resource(rule("", &["*"], &["CREATE"]), false)]
#[case::jobs(rule("batch", &["pods"], &["CREATE"]), false)]
fn for_pods_of_a_gate(#[case] rule: Value, #[case] expected: bool) {
    let is = is_true(&webhook_rules::is_for_pods_of_a_gate(), "r", &rule);
    assert_eq!(is, expected);
}

/// A JobKind that compiles has rules that may be written.
#[rstest]
#[case("batch", true)]
#[case("apps", true)]
#[case("acme.io", true)]
#[case("jobset.x-k8s.io", true)]
#[case("sparkoperator.k8s.io", true)]
#[case("x-k8s.io", true)]
#[case("notsluice.dev", true)]
#[case("", false)]
#[case("autoscaling", false)]
#[case("policy", false)]
#[case("networking.k8s.io", false)]
#[case("resource.k8s.io", false)]
#[case("sluice.dev", false)]
#[case("visibility.sluice.dev", false)]
fn the_same_groups_are_allowed_and_compiled(#[case] group: &str, #[case] expected: bool) {
    let is = is_true(&webhook_rules::may_be_managed("g"), "g", &json!(group));
    assert_eq!(is, expected, "the policy");
    assert_eq!(
        manageable_groups::may_be_managed(group),
        expected,
        "a JobKind"
    );
}
