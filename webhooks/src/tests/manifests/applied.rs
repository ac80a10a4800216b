//! The webhooks of Gates: what they are asked about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::{AppliedGate, Options, declared_mutating, declared_validating};
use crate::tests::manifests::conditions::{is_asked, matches};
use crate::tests::*;

/// A Gate for the namespaces of this team, and all kinds.
pub(super) fn of_team(team: &str) -> Options {
    let options = Options::default();
    let labels = [("team".to_owned(), team.to_owned())].into();
    Options {
        applied: vec![AppliedGate {
            name: "budget.acme.io".to_owned(),
            namespaces: LabelSelector {
                match_labels: Some(labels),
                ..LabelSelector::default()
            },
            resources: options.resources.clone(),
            pods: true,
        }],
        ..options
    }
}

fn both(options: &Options) -> [Value; 2] {
    [
        serde_json::to_value(declared_validating(options)).unwrap(),
        serde_json::to_value(declared_mutating(options)).unwrap(),
    ]
}

fn last(configuration: &Value) -> usize {
    configuration["webhooks"].as_array().unwrap().len() - 1
}

/// Whether the webhook of the Gate is asked, of those that validate and of those that mutate.
fn asked(user: &str, old: Option<&Value>, new: &Value) -> [bool; 2] {
    both(&of_team("a"))
        .map(|configuration| is_asked(&configuration, last(&configuration), user, old, new))
}

#[rstest]
#[case::plain_job(USER, mk_job(&[], &[], false), true)]
#[case::queued_job(USER, mk_job(&[(QUEUE, "a")], &[], false), false)]
#[case::gated_job(USER, mk_job(&[], &[(GATES, "acme.io/x")], false), false)]
#[case::job_by_sluice(SLUICE, mk_job(&[], &[], false), false)]
#[case::plain_pod(USER, mk_pod(&[], &[], &[]), true)]
#[case::queued_pod(USER, mk_pod(&[(QUEUE, "a")], &[], &[]), false)]
#[case::gated_pod(USER, mk_pod(&[], &[(GATED, "acme.io/x")], &[]), false)]
#[case::pod_of_a_controller(JOB_CONTROLLER, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"), false)]
#[case::pod_with_a_forged_controller(USER, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"), true)]
#[case::pod_of_a_tenants_controller(TENANT_ACCOUNT, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"), true)]
#[case::copy_of_a_kubelet(USER, mk_pod(&[], &[("kubernetes.io/config.mirror", "x")], &[]), false)]
fn at_creation_what_asks_for_nothing(#[case] user: &str, #[case] new: Value, #[case] is: bool) {
    assert_eq!(asked(user, None, &new), [is, is]);
}

#[rstest]
#[case::spec(mk_job(&[], &[], false), mk_job(&[], &[], true), true)]
#[case::label(mk_job(&[], &[], false), mk_job(&[("a", "b")], &[], false), false)]
#[case::priority(mk_job(&[], &[], false), mk_job(&[("sluice.dev/priority-class", "b")], &[], false), true)]
#[case::joins_a_queue(mk_job(&[], &[], false), mk_job(&[(QUEUE, "b")], &[], true), false)]
#[case::leaves_a_queue(mk_job(&[(QUEUE, "b")], &[], false), mk_job(&[], &[], true), false)]
fn of_edits_those_that_gates_ask_about(#[case] old: Value, #[case] new: Value, #[case] is: bool) {
    assert_eq!(asked(USER, Some(&old), &new)[0], is);
}

/// Whether the webhook for pod templates is asked, of those that validate and of those that mutate.
fn asked_for_templates(resource: &str, old: Option<&Value>, new: &Value) -> [bool; 2] {
    let options = Options {
        judges_templates: true,
        ..Options::default()
    };
    let mut review = mk_review(USER, old, new);
    review["request"]["resource"]["resource"] = json!(resource);
    both(&options).map(|configuration| {
        let index = last(&configuration);
        assert_eq!(
            configuration["webhooks"][index]["name"],
            "pod-templates.gates.sluice.dev"
        );
        matches(&configuration, index, &review)
    })
}

fn for_pods(object: Value, queue: &str) -> Value {
    with(
        object,
        "/spec/template/metadata",
        json!({"labels": {QUEUE: queue}}),
    )
}

fn replicas() -> Value {
    with(mk_deployment(&[], &[]), "/kind", json!("ReplicaSet"))
}

#[rstest]
#[case::job("jobs", for_pods(mk_job(&[], &[], false), "a"), [true, true])]
#[case::deployment("deployments", for_pods(mk_deployment(&[], &[]), "a"), [true, true])]
#[case::without_a_queue("jobs", mk_job(&[], &[], false), [false, false])]
#[case::queued("jobs", for_pods(mk_job(&[(QUEUE, "a")], &[], false), "a"), [false, false])]
#[case::replica_set("replicasets", for_pods(replicas(), "a"), [true, false])]
#[case::replica_set_without_a_queue("replicasets", replicas(), [false, false])]
fn at_creation_what_names_a_queue_for_its_pods(
    #[case] resource: &str,
    #[case] new: Value,
    #[case] expected: [bool; 2],
) {
    assert_eq!(asked_for_templates(resource, None, &new), expected);
}

#[rstest]
#[case::joins("deployments", mk_deployment(&[], &[]), for_pods(mk_deployment(&[], &[]), "a"), true)]
#[case::is_labelled("deployments", for_pods(mk_deployment(&[], &[]), "a"),
    for_pods(mk_deployment(&[("a", "b")], &[]), "a"), false)]
#[case::leaves_a_queue("deployments", mk_deployment(&[(QUEUE, "a")], &[]),
    for_pods(mk_deployment(&[], &[]), "a"), false)]
#[case::replica_set_joins("replicasets", replicas(), for_pods(replicas(), "a"), true)]
fn of_edits_those_of_the_spec(
    #[case] resource: &str,
    #[case] old: Value,
    #[case] new: Value,
    #[case] is: bool,
) {
    assert_eq!(asked_for_templates(resource, Some(&old), &new)[0], is);
}

#[test]
fn templates_are_asked_about_only_while_a_gate_applies() {
    for configuration in both(&Options::default()) {
        let names = configuration["webhooks"].as_array().unwrap().iter();
        assert!(names.clone().count() > 0);
        for webhook in names {
            assert_ne!(webhook["name"], "pod-templates.gates.sluice.dev");
        }
    }
}
