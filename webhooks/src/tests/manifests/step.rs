//! What is patched in stored webhook configurations.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::manifests::step::{has_webhook_for_jobs, patch};
use crate::manifests::{ManagedResource, Options, mutating, validating};
use crate::tests::ALIAS;

fn resource(group: &str, name: &str) -> ManagedResource {
    ManagedResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        resource: name.to_owned(),
        subresources: vec!["status".to_owned()],
    }
}

fn with_resources(resources: &[ManagedResource]) -> Options {
    Options {
        resources: resources.to_vec(),
        ..Options::default()
    }
}

/// A configuration as the API server has it.
fn stored(mut configuration: Value) -> Value {
    configuration["metadata"]["resourceVersion"] = json!("7");
    for webhook in configuration["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] = json!("UEVN");
        webhook["objectSelector"] = json!({});
    }
    configuration
}

fn both(options: &Options) -> [Value; 2] {
    [
        serde_json::to_value(validating(options)).unwrap(),
        serde_json::to_value(mutating(options)).unwrap(),
    ]
}

fn patches(from: &Options, to: &Options, undecided: &[&str]) -> [Option<Value>; 2] {
    let undecided: BTreeSet<&str> = undecided.iter().copied().collect();
    let ([validating, mutating], [to_validating, to_mutating]) = (both(from), both(to));
    [
        patch(&stored(validating), &to_validating, &undecided),
        patch(&stored(mutating), &to_mutating, &undecided),
    ]
}

/// The resources that the rules of a patch for jobs name.
fn resources(patch: Option<&Value>) -> Vec<&str> {
    let rules = patch.unwrap()["webhooks"][0]["rules"].as_array().unwrap();
    rules
        .iter()
        .map(|rule| rule["resources"][0].as_str().unwrap())
        .collect()
}

#[test]
fn what_is_right_is_left_alone_in_whatever_order() {
    let options = Options::default();
    assert_eq!(patches(&options, &options, &[]), [None, None]);
    let mut turned = options.clone();
    turned.resources.reverse();
    assert_eq!(patches(&options, &turned, &[]), [None, None]);
}

#[test]
fn a_kind_that_comes_gets_a_rule_and_nothing_else_is_touched() {
    let (jobs, widgets) = (resource("batch", "jobs"), resource("acme.io", "widgets"));
    let [validating, mutating] = patches(
        &with_resources(std::slice::from_ref(&jobs)),
        &with_resources(&[jobs, widgets]),
        &[],
    );
    let rule = |group: &str, operations: &[&str], resources: &[&str]| {
        json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": operations,
            "resources": resources, "scope": "Namespaced"})
    };
    let all = ["CREATE", "UPDATE"];
    assert_eq!(
        validating.unwrap(),
        json!({
            "metadata": {"resourceVersion": "7"},
            "webhooks": [{"name": "validate.jobs.sluice.dev", "rules": [
                rule("batch", &all, &["jobs", "jobs/status"]),
                rule("acme.io", &all, &["widgets", "widgets/status"]),
            ]}],
        })
    );
    assert_eq!(
        mutating.unwrap(),
        json!({
            "metadata": {"resourceVersion": "7"},
            "webhooks": [{"name": "mutate.jobs.sluice.dev", "rules": [
                rule("batch", &all, &["jobs", "jobs/status"]),
                rule("acme.io", &all, &["widgets", "widgets/status"]),
            ]}],
        })
    );
}

#[test]
fn a_kind_that_goes_loses_its_rule_unless_its_group_is_undecided() {
    let (jobs, crons) = (resource("batch", "jobs"), resource("batch", "crons"));
    let widgets = resource("acme.io", "widgets");
    let from = with_resources(&[jobs.clone(), crons, widgets]);
    let to = with_resources(&[jobs]);
    let [_, mutating] = patches(&from, &to, &[]);
    assert_eq!(resources(mutating.as_ref()), ["jobs"]);
    let [validating, mutating] = patches(&from, &to, &["batch"]);
    assert_eq!(resources(validating.as_ref()), ["jobs", "crons"]);
    assert_eq!(resources(mutating.as_ref()), ["jobs", "crons"]);
    assert_eq!(patches(&from, &to, &["batch", "acme.io"]), [None, None]);
}

#[test]
fn a_rule_of_a_decided_kind_is_replaced_though_its_group_is_undecided() {
    let old = resource("acme.io", "widgets");
    let new = ManagedResource {
        version: "v2".to_owned(),
        ..old.clone()
    };
    let [_, mutating] = patches(
        &with_resources(&[old]),
        &with_resources(&[new]),
        &["acme.io"],
    );
    let rules = &mutating.unwrap()["webhooks"][0]["rules"];
    assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
    assert_eq!(rules[0]["apiVersions"], json!(["v2"]));
}

#[test]
fn the_last_kind_leaves_an_empty_list() {
    let jobs = resource("batch", "jobs");
    let [validating, _] = patches(&with_resources(&[jobs]), &with_resources(&[]), &[]);
    assert_eq!(validating.unwrap()["webhooks"][0]["rules"], json!([]));
}

/// The names of the webhooks in a patch, and of the conditions that it changes in each.
fn conditions(patch: &Value) -> Vec<(&str, Vec<&str>)> {
    let webhooks = patch["webhooks"].as_array().unwrap().iter();
    webhooks
        .map(|webhook| {
            let conditions = webhook["matchConditions"].as_array().unwrap().iter();
            (
                webhook["name"].as_str().unwrap(),
                conditions.map(|c| c["name"].as_str().unwrap()).collect(),
            )
        })
        .collect()
}

#[test]
fn aliases_come_into_the_match_conditions_without_rules() {
    let mut options = Options::default();
    options.queue_labels.push(ALIAS.to_owned());
    let [validating, mutating] = patches(&Options::default(), &options, &[]);
    let (validating, mutating) = (validating.unwrap(), mutating.unwrap());
    assert_eq!(
        conditions(&validating),
        [
            (
                "validate.jobs.sluice.dev",
                vec!["has-queue-or-gate-and-touches-it-or-the-spec"]
            ),
            (
                "validate.pods.sluice.dev",
                vec!["waits-by-itself-or-is-managed-and-touched"]
            ),
        ]
    );
    assert_eq!(
        conditions(&mutating),
        [
            ("mutate.jobs.sluice.dev", vec!["has-queue-or-gate"]),
            ("mutate.pods.sluice.dev", vec!["waits-by-itself"]),
        ]
    );
    assert!(mutating["webhooks"][0].get("rules").is_none());
    let condition = &mutating["webhooks"][0]["matchConditions"][0]["expression"];
    assert!(condition.as_str().unwrap().contains(ALIAS), "{condition}");
}

#[test]
fn what_an_administrator_has_changed_stays() {
    let [mut validating, _] = both(&Options::default()).map(stored);
    let webhook = &mut validating["webhooks"][0];
    webhook["failurePolicy"] = json!("Ignore");
    webhook["namespaceSelector"] = json!({"matchLabels": {"batch": "yes"}});
    webhook["matchConditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "ours", "expression": "true"}));
    let [wanted, _] = both(&Options::default());
    assert_eq!(patch(&validating, &wanted, &BTreeSet::new()), None);
    validating["webhooks"][0]["rules"] = json!([]);
    let change = patch(&validating, &wanted, &BTreeSet::new()).unwrap();
    let fields: Vec<_> = change["webhooks"][0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["name", "rules"]);
}

#[test]
fn no_webhook_is_made_that_is_not_there() {
    let [mut validating, _] = both(&Options::default()).map(stored);
    assert!(has_webhook_for_jobs(&validating));
    validating["webhooks"].as_array_mut().unwrap().remove(0);
    assert!(!has_webhook_for_jobs(&validating));
    let [wanted, _] = both(&with_resources(&[]));
    assert_eq!(patch(&validating, &wanted, &BTreeSet::new()), None);
    assert!(!has_webhook_for_jobs(&json!({})));
}
