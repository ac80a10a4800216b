//! The webhooks of Gates: what they are asked about, and how they come and go in stored configurations.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::step::patch;
use crate::manifests::{AppliedGate, Options, mutating, validating};
use crate::tests::manifests::conditions::is_asked;
use crate::tests::*;

const NAME: &str = "budget.acme.io.gates.sluice.dev";

/// A Gate for the namespaces of this team, and all kinds.
fn of_team(team: &str) -> Options {
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
        serde_json::to_value(validating(options)).unwrap(),
        serde_json::to_value(mutating(options)).unwrap(),
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

/// A configuration as the API server has it, where an administrator has changed what he may.
fn stored(mut configuration: Value) -> Value {
    configuration["metadata"]["resourceVersion"] = json!("7");
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"] = json!({"url": "https://127.0.0.1:9443", "caBundle": "UEVN"});
        webhook["timeoutSeconds"] = json!(5);
        let selected = webhook["namespaceSelector"]["matchExpressions"]
            .as_array_mut()
            .unwrap();
        selected.push(json!({"key": "sandbox", "operator": "DoesNotExist"}));
    }
    configuration
}

fn changes(stored: &Value, wanted: &Options, index: usize) -> Value {
    let patch = patch(stored, &both(wanted)[index], &BTreeSet::new());
    patch.unwrap_or_default()["webhooks"].clone()
}

#[test]
fn a_gate_that_comes_gets_a_webhook_like_that_for_jobs() {
    for (index, configuration) in both(&Options::default()).into_iter().enumerate() {
        let added = changes(&stored(configuration), &of_team("a"), index);
        let [webhook] = added.as_array().unwrap().as_slice() else {
            panic!("{added}");
        };
        assert_eq!(webhook["name"], NAME);
        assert_eq!(
            webhook["clientConfig"],
            json!({"url": "https://127.0.0.1:9443", "caBundle": "UEVN"})
        );
        assert_eq!(webhook["timeoutSeconds"], 5);
        assert_eq!(webhook["failurePolicy"], "Fail");
        let system = [
            "kube-system",
            "kube-public",
            "kube-node-lease",
            "sluice-system",
        ];
        assert_eq!(
            webhook["namespaceSelector"]["matchExpressions"],
            json!([
                {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": system},
                {"key": "sandbox", "operator": "DoesNotExist"},
                {"key": "team", "operator": "In", "values": ["a"]},
            ])
        );
        let resources: Vec<_> = webhook["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| rule["resources"][0].as_str().unwrap())
            .collect();
        let expected: &[&str] = if index == 0 {
            &["jobs", "deployments", "statefulsets", "pods", "pods/resize"]
        } else {
            &["jobs", "deployments", "statefulsets", "pods"]
        };
        assert_eq!(resources, expected);
    }
}

/// What is stored once a Gate has its webhooks.
fn in_place(index: usize) -> Value {
    let mut configuration = stored(both(&Options::default())[index].clone());
    let added = changes(&configuration, &of_team("a"), index);
    let webhooks = configuration["webhooks"].as_array_mut().unwrap();
    webhooks.extend(added.as_array().unwrap().iter().cloned());
    configuration
}

#[test]
fn what_is_in_place_is_left_alone() {
    for index in [0, 1] {
        assert_eq!(changes(&in_place(index), &of_team("a"), index), Value::Null);
    }
}

#[test]
fn other_namespaces_replace_those_before() {
    let changed = changes(&in_place(1), &of_team("b"), 1);
    assert_eq!(changed[0]["name"], NAME);
    let selector = &changed[0]["namespaceSelector"];
    assert_eq!(selector["$patch"], "replace");
    assert_eq!(
        selector["matchExpressions"][2],
        json!({"key": "team", "operator": "In", "values": ["b"]})
    );
}

#[test]
fn a_gate_that_goes_takes_its_webhook_along() {
    for index in [0, 1] {
        assert_eq!(
            changes(&in_place(index), &Options::default(), index),
            json!([{"name": NAME, "$patch": "delete"}])
        );
    }
}
