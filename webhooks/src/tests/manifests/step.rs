//! What is patched in stored shipped webhook configurations.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::step::{patch, webhook_for_jobs};
use crate::manifests::{Options, mutating, validating};
use crate::tests::ALIAS;
use crate::tests::manifests::stored::{resource, stored, with_resources, written_by_sluice};

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
fn a_kind_that_is_declared_is_not_written_here() {
    let managed = [
        Options::default().resources,
        vec![resource("acme.io", "widgets")],
    ];
    let with = Options::default().with_managed(&managed.concat());
    assert_eq!(patches(&Options::default(), &with, &[]), [None, None]);
    // Nor is one that somebody has removed: it is asked about by the configuration of Sluice's own.
    let none = with_resources(&[]);
    assert_eq!(patches(&none, &Options::default(), &[]), [None, None]);
}

#[test]
fn a_kind_that_goes_loses_its_rule_unless_its_group_is_undecided() {
    let (jobs, deployments) = (resource("batch", "jobs"), resource("apps", "deployments"));
    let from = with_resources(&[jobs.clone(), deployments]);
    let to = with_resources(&[jobs]);
    let [validating, mutating] = patches(&from, &to, &["batch"]);
    assert_eq!(resources(validating.as_ref()), ["jobs"]);
    assert_eq!(resources(mutating.as_ref()), ["jobs"]);
    assert_eq!(patches(&from, &to, &["apps"]), [None, None]);
}

/// As long as its group is undecided. Then it goes, also if its kind is not declared any more: nobody would judge it.
#[test]
fn a_rule_that_an_earlier_version_has_written_goes() {
    let (jobs, widgets) = (resource("batch", "jobs"), resource("acme.io", "widgets"));
    let from = serde_json::to_value(validating(&with_resources(&[jobs.clone(), widgets]))).unwrap();
    let from = written_by_sluice(stored(from));
    let [to, _] = both(&with_resources(&[jobs]));
    let undecided = BTreeSet::from(["acme.io"]);
    assert_eq!(patch(&from, &to, &undecided), None);
    let change = patch(&from, &to, &BTreeSet::new());
    assert_eq!(resources(change.as_ref()), ["jobs"]);
}

/// Else somebody who applies it again and again would fight with Sluice.
#[rstest]
#[case::narrowed(json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"], "scope": "Namespaced"}))]
#[case::in_all_versions(json!({"apiGroups": ["batch"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}))]
#[case::with_others(json!({"apiGroups": ["batch", "apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs", "deployments"]}))]
#[case::another_kind(json!({"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["cronjobs"]}))]
#[case::of_all_kinds(json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}))]
fn the_rule_of_an_administrator_stays(#[case] rule: Value) {
    let options = Options::default();
    for (mut configuration, wanted) in both(&options).map(stored).into_iter().zip(both(&options)) {
        configuration["webhooks"][0]["rules"] = json!([rule]);
        assert_eq!(patch(&configuration, &wanted, &BTreeSet::new()), None);
        let applied = &mut configuration["webhooks"][0]["rules"];
        *applied = wanted["webhooks"][0]["rules"].clone();
        applied.as_array_mut().unwrap().push(rule.clone());
        assert_eq!(patch(&configuration, &wanted, &BTreeSet::new()), None);
    }
}

/// Also where it is not as it was applied.
#[test]
fn the_rule_of_a_shipped_kind_goes_with_its_job_kind() {
    let [mut configuration, _] = both(&Options::default()).map(stored);
    configuration["webhooks"][0]["rules"][0]["operations"] = json!(["CREATE"]);
    let [wanted, _] = both(&with_resources(&Options::default().resources[1..]));
    let change = patch(&configuration, &wanted, &BTreeSet::new());
    assert_eq!(resources(change.as_ref()), ["deployments", "statefulsets"]);
}

#[test]
fn the_last_kind_leaves_an_empty_list() {
    let jobs = resource("batch", "jobs");
    let [validating, _] = patches(&with_resources(&[jobs]), &with_resources(&[]), &[]);
    assert_eq!(validating.unwrap()["webhooks"][0]["rules"], json!([]));
}

/// They stand in the configuration of Sluice's own.
#[test]
fn aliases_are_not_written_here() {
    let mut options = Options::default();
    options.queue_labels.push(ALIAS.to_owned());
    assert_eq!(patches(&Options::default(), &options, &[]), [None, None]);
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
    let [fewer, _] = both(&with_resources(&[resource("batch", "jobs")]));
    let change = patch(&validating, &fewer, &BTreeSet::new()).unwrap();
    let fields: Vec<_> = change["webhooks"][0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["name", "rules"]);
}

#[test]
fn what_an_earlier_version_has_added_is_removed() {
    let [mut validating, _] = both(&Options::default()).map(stored);
    let webhooks = validating["webhooks"].as_array_mut().unwrap();
    let rules = webhooks[0]["rules"].as_array_mut().unwrap();
    let mut widgets = rules[0].clone();
    widgets["apiGroups"] = json!(["acme.io"]);
    rules.push(widgets);
    let mut of_gate = webhooks[0].clone();
    of_gate["name"] = json!("budget.acme.io.gates.sluice.dev");
    webhooks.push(of_gate);
    let validating = written_by_sluice(validating);
    let [wanted, _] = both(&Options::default());
    let change = patch(&validating, &wanted, &BTreeSet::new()).unwrap();
    assert_eq!(
        change,
        json!({
            "metadata": {"resourceVersion": "7"},
            "webhooks": [
                {"name": "validate.jobs.sluice.dev", "rules": wanted["webhooks"][0]["rules"]},
                {"name": "budget.acme.io.gates.sluice.dev", "$patch": "delete"},
            ],
        })
    );
}

#[test]
fn no_webhook_is_made_that_is_not_there() {
    let [mut validating, _] = both(&Options::default()).map(stored);
    assert!(webhook_for_jobs(&validating).is_some());
    validating["webhooks"].as_array_mut().unwrap().remove(0);
    assert!(webhook_for_jobs(&validating).is_none());
    let [wanted, _] = both(&with_resources(&[]));
    assert_eq!(patch(&validating, &wanted, &BTreeSet::new()), None);
    assert!(webhook_for_jobs(&json!({})).is_none());
}
