//! Webhook configurations of Sluice's own making: what is stored for what is declared.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::own::{Making, made};
use crate::manifests::{
    EnforcedNamespaces, ManagedResource, Options, declared_mutating, declared_validating, mutating,
    validating,
};
use crate::tests::ALIAS;
use crate::tests::manifests::applied::of_team;
use crate::tests::manifests::stored::{resource, stored, written_by_sluice};

pub(super) const GATE: &str = "budget.acme.io.gates.sluice.dev";

/// One kind of webhook configuration: the shipped one as it is stored, and both as they are wanted.
pub(super) struct Bench {
    pub(super) shipped: Value,
    pub(super) wanted_shipped: Value,
    pub(super) wanted: Value,
}

impl Bench {
    pub(super) fn new(options: &Options, mutates: bool) -> Self {
        let as_shipped = options.clone().without_aliases();
        let [wanted_shipped, wanted, shipped] = if mutates {
            [
                serde_json::to_value(mutating(&as_shipped)),
                serde_json::to_value(declared_mutating(options)),
                serde_json::to_value(mutating(&Options::default())),
            ]
        } else {
            [
                serde_json::to_value(validating(&as_shipped)),
                serde_json::to_value(declared_validating(options)),
                serde_json::to_value(validating(&Options::default())),
            ]
        }
        .map(Result::unwrap);
        Self {
            shipped: stored(shipped),
            wanted_shipped,
            wanted,
        }
    }

    pub(super) fn made(&self, stored: &Value, undecided: &[&str]) -> Option<Value> {
        let undecided: BTreeSet<&str> = undecided.iter().copied().collect();
        made(&Making {
            shipped: &self.shipped,
            wanted_shipped: &self.wanted_shipped,
            wanted: &self.wanted,
            stored,
            undecided: &undecided,
        })
    }
}

pub(super) fn with(more: &[ManagedResource]) -> Options {
    let managed = [Options::default().resources, more.to_vec()].concat();
    Options::default().with_managed(&managed)
}

pub(super) fn names(configuration: &Value) -> Vec<&str> {
    let webhooks = configuration["webhooks"].as_array().unwrap().iter();
    webhooks.map(|w| w["name"].as_str().unwrap()).collect()
}

fn resources(webhook: &Value) -> Vec<&str> {
    let rules = webhook["rules"].as_array().unwrap().iter();
    rules
        .map(|rule| rule["resources"][0].as_str().unwrap())
        .collect()
}

#[rstest]
#[case::validating(false, "validate.jobkinds.sluice.dev")]
#[case::mutating(true, "mutate.jobkinds.sluice.dev")]
fn a_declared_kind_is_judged_as_jobs_are(#[case] mutates: bool, #[case] name: &str) {
    let mut bench = Bench::new(&with(&[resource("acme.io", "widgets")]), mutates);
    let ours = json!({"name": "ours", "expression": "true"});
    let jobs = &mut bench.shipped["webhooks"][0];
    jobs["failurePolicy"] = json!("Ignore");
    jobs["clientConfig"] = json!({"url": "https://127.0.0.1:9443", "caBundle": "UEVN"});
    jobs["matchConditions"].as_array_mut().unwrap().push(ours);
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(names(&made), [name]);
    assert_eq!(made["metadata"]["name"], "sluice-declared");
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([{"apiVersion": "admissionregistration.k8s.io/v1", "kind": made["kind"], "name": "sluice", "uid": "u-1"}])
    );
    let (webhook, jobs) = (&made["webhooks"][0], &bench.shipped["webhooks"][0]);
    assert_eq!(resources(webhook), ["widgets"]);
    for (field, value) in jobs.as_object().unwrap() {
        if !["name", "rules"].contains(&field.as_str()) {
            assert_eq!(&webhook[field], value, "{field}");
        }
    }
    assert_eq!(bench.made(&made, &[]), None, "twice");
}

#[test]
fn nothing_is_made_without_a_shipped_webhook_for_jobs() {
    let mut bench = Bench::new(&with(&[resource("acme.io", "widgets")]), false);
    bench.shipped["webhooks"].as_array_mut().unwrap().remove(0);
    assert_eq!(bench.made(&Value::Null, &[]), None);
    bench.shipped = Value::Null;
    assert_eq!(bench.made(&Value::Null, &[]), None);
}

/// Somebody has removed it. What is not judged any more must not stay in another configuration for ever.
#[test]
fn without_a_shipped_webhook_for_jobs_nothing_stays() {
    let mut bench = Bench::new(&with(&[resource("acme.io", "widgets")]), false);
    let stored = bench.made(&Value::Null, &[]).unwrap();
    bench.shipped["webhooks"].as_array_mut().unwrap().remove(0);
    let made = bench.made(&stored, &["acme.io"]).unwrap();
    assert_eq!(made["webhooks"], json!([]));
    assert_eq!(bench.made(&made, &[]), None, "twice");
    // It goes with its owner: nobody may write it then.
    bench.shipped = Value::Null;
    assert_eq!(bench.made(&stored, &[]), None);
}

/// The API server leaves empty lists out.
#[test]
fn a_selector_with_an_empty_list_is_written_once() {
    let mut options = of_team("a");
    let namespaces = &mut options.applied[0].namespaces;
    namespaces.match_expressions = Some(vec![LabelSelectorRequirement {
        key: "sandbox".to_owned(),
        operator: "Exists".to_owned(),
        values: Some(Vec::new()),
    }]);
    options.enforced = vec![EnforcedNamespaces::selected(namespaces, false)];
    let bench = Bench::new(&options, false);
    let mut stored = bench.made(&Value::Null, &[]).unwrap();
    for webhook in stored["webhooks"].as_array_mut().unwrap() {
        let expressions = &mut webhook["namespaceSelector"]["matchExpressions"];
        for expression in expressions.as_array_mut().unwrap() {
            let fields = expression.as_object_mut().unwrap();
            fields.retain(|_, value| *value != json!([]));
        }
    }
    assert_eq!(bench.made(&stored, &[]), None);
}

#[test]
fn a_kind_that_goes_loses_its_rule_unless_its_group_is_undecided() {
    let (widgets, gears) = (resource("acme.io", "widgets"), resource("acme.io", "gears"));
    let stored = Bench::new(&with(&[widgets.clone(), gears]), true);
    let stored = stored.made(&Value::Null, &[]).unwrap();
    let bench = Bench::new(&with(&[widgets]), true);
    let made = bench.made(&stored, &[]).unwrap();
    assert_eq!(resources(&made["webhooks"][0]), ["widgets"]);
    assert_eq!(bench.made(&stored, &["acme.io"]), None);
    let none = Bench::new(&with(&[]), true);
    assert_eq!(none.made(&stored, &["acme.io"]), None);
    assert_eq!(none.made(&stored, &[]).unwrap()["webhooks"], json!([]));
}

#[test]
fn a_rule_of_a_decided_kind_is_replaced_though_its_group_is_undecided() {
    let old = resource("acme.io", "widgets");
    let stored = Bench::new(&with(std::slice::from_ref(&old)), true);
    let stored = stored.made(&Value::Null, &[]).unwrap();
    let new = ManagedResource {
        version: "v2".to_owned(),
        ..old
    };
    let made = Bench::new(&with(&[new]), true);
    let made = made.made(&stored, &["acme.io"]).unwrap();
    let rules = &made["webhooks"][0]["rules"];
    assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
    assert_eq!(rules[0]["apiVersions"], json!(["v2"]));
}

/// Somebody has applied a shipped configuration with fewer rules, or a JobKind reads another version.
#[test]
fn a_shipped_kind_that_the_shipped_webhook_does_not_name_is_asked_about_here() {
    let mut bench = Bench::new(&with(&[]), true);
    bench.shipped["webhooks"][0]["rules"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(resources(&made["webhooks"][0]), ["jobs"]);
    let mut managed = Options::default().resources;
    managed[0].version = "v2".to_owned();
    let bench = Bench::new(&Options::default().with_managed(&managed), true);
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(resources(&made["webhooks"][0]), ["jobs"]);
}

#[rstest]
#[case::validating(false, &["jobs", "deployments", "statefulsets", "pods", "pods/resize"])]
#[case::mutating(true, &["jobs", "deployments", "statefulsets", "pods"])]
fn a_gate_gets_a_webhook_in_its_namespaces(#[case] mutates: bool, #[case] expected: &[&str]) {
    let mut bench = Bench::new(&of_team("a"), mutates);
    let sandbox = json!({"key": "sandbox", "operator": "DoesNotExist"});
    let jobs = &mut bench.shipped["webhooks"][0];
    jobs["timeoutSeconds"] = json!(5);
    let selected = &mut jobs["namespaceSelector"]["matchExpressions"];
    selected.as_array_mut().unwrap().push(sandbox.clone());
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(names(&made), [GATE]);
    let webhook = &made["webhooks"][0];
    assert_eq!(webhook["timeoutSeconds"], 5);
    assert_eq!(webhook["failurePolicy"], "Fail");
    assert_eq!(resources(webhook), expected);
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
            sandbox,
            {"key": "team", "operator": "In", "values": ["a"]},
        ])
    );
    assert_eq!(bench.made(&made, &[]), None, "twice");
    let other = Bench {
        shipped: bench.shipped.clone(),
        ..Bench::new(&of_team("b"), mutates)
    };
    let other = other.made(&made, &[]).unwrap();
    assert_eq!(
        other["webhooks"][0]["namespaceSelector"]["matchExpressions"][2],
        json!({"key": "team", "operator": "In", "values": ["b"]})
    );
    let gone = Bench::new(&with(&[]), mutates).made(&made, &[]).unwrap();
    assert_eq!(gone["webhooks"], json!([]));
}

/// Whoever replaces the shipped configuration makes another object of it.
#[test]
fn it_belongs_to_the_shipped_configuration_that_is_there() {
    let mut bench = Bench::new(&with(&[resource("acme.io", "widgets")]), false);
    let stored = bench.made(&Value::Null, &[]).unwrap();
    bench.shipped["metadata"]["uid"] = json!("u-2");
    let made = bench.made(&stored, &[]).unwrap();
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u-2");
}

/// The CA of the stored configuration stays, whatever becomes of the shipped one, and a new webhook gets it, too.
#[rstest]
#[case::renewed(json!("T1RIRVI="))]
#[case::taken_away(Value::Null)]
fn each_configuration_is_told_of_a_certificate_by_itself(#[case] shipped: Value) {
    let mut bench = Bench::new(&with(&[resource("acme.io", "widgets")]), false);
    let stored = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(stored["webhooks"][0]["clientConfig"]["caBundle"], "UEVN");
    bench.shipped["webhooks"][0]["clientConfig"]["caBundle"] = shipped;
    assert_eq!(bench.made(&stored, &[]), None);
    let other = Bench {
        shipped: bench.shipped,
        ..Bench::new(&of_team("a"), false)
    };
    let made = other.made(&stored, &[]).unwrap();
    assert_eq!(names(&made), [GATE]);
    assert_eq!(made["webhooks"][0]["clientConfig"]["caBundle"], "UEVN");
}

#[test]
fn a_webhook_without_a_ca_gets_that_of_the_shipped_configuration() {
    let bench = Bench::new(&with(&[resource("acme.io", "widgets")]), false);
    let mut stored = bench.made(&Value::Null, &[]).unwrap();
    stored["webhooks"][0]["clientConfig"]["caBundle"] = Value::Null;
    let made = bench.made(&stored, &[]).unwrap();
    assert_eq!(made["webhooks"][0]["clientConfig"]["caBundle"], "UEVN");
}

/// The expression of the condition that says what a webhook is asked about.
fn own_expression(webhook: &Value) -> &str {
    let conditions = webhook["matchConditions"].as_array().unwrap();
    conditions.last().unwrap()["expression"].as_str().unwrap()
}

#[rstest]
#[case::validating(false, ["validate.jobkinds.sluice.dev", "validate.pods.aliases.sluice.dev"])]
#[case::mutating(true, ["mutate.jobkinds.sluice.dev", "mutate.pods.aliases.sluice.dev"])]
fn objects_that_carry_only_an_alias_are_asked_about_here(
    #[case] mutates: bool,
    #[case] expected: [&str; 2],
) {
    let mut options = with(&[resource("acme.io", "widgets")]);
    options.queue_labels.push(ALIAS.to_owned());
    let mut bench = Bench::new(&options, mutates);
    let pods = bench.shipped["webhooks"].as_array_mut().unwrap();
    pods.last_mut().unwrap()["timeoutSeconds"] = json!(9);
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(names(&made), expected);
    let (kinds, pods) = (&made["webhooks"][0], &made["webhooks"][1]);
    assert_eq!(
        resources(kinds),
        ["widgets", "jobs", "deployments", "statefulsets"]
    );
    assert!(own_expression(kinds).contains(ALIAS));
    assert!(own_expression(pods).contains(ALIAS));
    assert_eq!(pods["timeoutSeconds"], 9);
    let shipped = bench.shipped["webhooks"].as_array().unwrap();
    assert_eq!(pods["rules"], shipped.last().unwrap()["rules"]);
    assert_eq!(bench.made(&made, &[]), None, "twice");

    // Nor does it matter that an earlier version has written aliases there: whoever applies it again takes them away.
    let written = if mutates {
        serde_json::to_value(mutating(&options))
    } else {
        serde_json::to_value(validating(&options))
    };
    let written = Bench {
        shipped: stored(written.unwrap()),
        ..bench
    };
    assert_eq!(names(&written.made(&Value::Null, &[]).unwrap()), expected);
}

/// A shipped configuration of another version, or one that somebody has edited.
#[test]
fn what_the_shipped_webhooks_leave_out_is_asked_about_here() {
    let mut bench = Bench::new(&with(&[]), false);
    for webhook in bench.shipped["webhooks"].as_array_mut().unwrap() {
        let conditions = webhook["matchConditions"].as_array_mut().unwrap();
        conditions.last_mut().unwrap()["expression"] = json!("false");
    }
    let made = bench.made(&Value::Null, &[]).unwrap();
    assert_eq!(
        names(&made),
        [
            "validate.jobkinds.sluice.dev",
            "validate.pods.aliases.sluice.dev"
        ]
    );
    assert_eq!(
        resources(&made["webhooks"][0]),
        ["jobs", "deployments", "statefulsets"]
    );
    for webhook in made["webhooks"].as_array().unwrap() {
        assert_ne!(own_expression(webhook), "false");
    }
}

/// A shipped configuration that an earlier version has written to.
pub(super) fn written_by_an_earlier_version(shipped: &Value) -> Value {
    let mut written = shipped.clone();
    let webhooks = written["webhooks"].as_array_mut().unwrap();
    let rules = webhooks[0]["rules"].as_array_mut().unwrap();
    let mut widgets = rules[0].clone();
    widgets["apiGroups"] = json!(["acme.io"]);
    widgets["resources"] = json!(["widgets"]);
    rules.push(widgets);
    written_by_sluice(written)
}

/// As long as it is not known whether a kind is served, nothing that was asked about is let pass.
#[test]
fn what_an_earlier_version_has_written_comes_along_while_it_is_undecided() {
    let mut bench = Bench::new(&with(&[]), true);
    bench.shipped = written_by_an_earlier_version(&bench.shipped);
    let made = bench.made(&Value::Null, &["acme.io", "batch"]).unwrap();
    assert_eq!(names(&made), ["mutate.jobkinds.sluice.dev"]);
    assert_eq!(resources(&made["webhooks"][0]), ["widgets"]);
    assert_eq!(
        bench.made(&Value::Null, &[]).unwrap()["webhooks"],
        json!([])
    );
}

/// Whoever upgrades copies the shipped configuration before (docs/installing.md).
#[test]
fn a_copy_of_the_shipped_configuration_is_taken_over() {
    let mut bench = Bench::new(&with(&[]), true);
    bench.shipped = written_by_an_earlier_version(&bench.shipped);
    let mut copy = bench.shipped.clone();
    copy["metadata"] = json!({"name": "sluice-declared", "resourceVersion": "8"});
    // The shipped one is applied.
    bench.shipped = Bench::new(&with(&[]), true).shipped;
    let made = bench.made(&copy, &["acme.io"]).unwrap();
    assert_eq!(made["metadata"]["resourceVersion"], "8");
    assert_eq!(names(&made), ["mutate.jobkinds.sluice.dev"]);
    assert_eq!(resources(&made["webhooks"][0]), ["widgets"]);
    let bench = Bench {
        shipped: bench.shipped,
        ..Bench::new(&with(&[resource("acme.io", "widgets")]), true)
    };
    let made = bench.made(&copy, &[]).unwrap();
    assert_eq!(resources(&made["webhooks"][0]), ["widgets"]);
}
