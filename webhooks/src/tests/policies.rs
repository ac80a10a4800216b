//! The generated policies.

use std::path::Path;

use serde_json::json;
use sluice_crds::JobKind;

use super::{ALIAS, GATE, GATE_ALIAS, QUEUE};
use crate::manifests::Options;
use crate::manifests::policies::{HeldKind, Validating, mutating, validating, yaml};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What `config/policies` is generated from: the shipped JobKinds.
fn mk_kinds() -> Vec<HeldKind> {
    let resources = Options::default().resources;
    resources
        .into_iter()
        .map(|resource| {
            let name = resource.resource.trim_end_matches('s');
            let path = Path::new(ROOT).join(format!("config/jobkinds/{name}.yaml"));
            let job_kind = std::fs::read_to_string(path).unwrap();
            let job_kind: JobKind = serde_saphyr::from_str(&job_kind).unwrap();
            HeldKind {
                resource,
                job_kind: job_kind.spec,
            }
        })
        .collect()
}

#[test]
fn the_manifests_are_fresh() {
    let path = Path::new(ROOT).join("config/policies/manifests.yaml");
    let generated = yaml(&Options::default(), &mk_kinds()).unwrap();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored, generated,
        "UPDATE_GENERATED=1 cargo test -p sluice-webhooks writes it anew"
    );
}

#[test]
fn no_policy_is_wider_than_it_must_be() {
    let options = Options::default();
    let policies = validating(&options, &mk_kinds())
        .iter()
        .map(|v| serde_json::to_value(&v.policy).unwrap())
        .chain(
            mutating(&options, &mk_kinds())
                .iter()
                .map(|m| serde_json::to_value(&m.policy).unwrap()),
        )
        .collect::<Vec<_>>();
    assert_eq!(policies.len(), 9);
    for policy in policies {
        let spec = &policy["spec"];
        assert_eq!(spec["failurePolicy"], "Fail");
        let matching = &spec["matchConstraints"];
        assert_eq!(matching["matchPolicy"], "Equivalent");
        assert_eq!(
            matching["namespaceSelector"]["matchExpressions"],
            json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "sluice-system"]}])
        );
        let rules = matching["resourceRules"].to_string();
        for banned in ["\"*\"", "DELETE", "CONNECT", "binding", "eviction"] {
            assert!(!rules.contains(banned), "{rules}");
        }
        let conditions = spec["matchConditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 3, "{policy}");
        assert_eq!(conditions[0]["name"], "not-by-sluice");
        assert_eq!(conditions[1]["name"], "not-being-deleted");
    }
}

/// A rule whose text was not found would refuse without a reason.
#[test]
fn every_rule_has_a_text() {
    for Validating { policy, .. } in validating(&Options::default(), &mk_kinds()) {
        let variables = policy.spec.unwrap().variables.unwrap_or_default();
        for variable in variables.iter().filter(|v| v.name == "rules") {
            assert!(!variable.expression.contains(": ''"), "{variable:?}");
        }
    }
}

#[test]
fn aliases_are_known() {
    let mut options = Options::default();
    options.queue_labels.push(ALIAS.to_owned());
    options.queue_gates.push(GATE_ALIAS.to_owned());
    let text = yaml(&options, &mk_kinds()).unwrap();
    for expected in [
        format!("['{QUEUE}', '{ALIAS}'].all("),
        format!("['{GATE}', '{GATE_ALIAS}'].filter("),
        "'must equal the label ' + q.key".to_owned(),
    ] {
        assert!(text.contains(&expected), "no {expected} in {text}");
    }
}

#[test]
fn what_sluice_alone_writes_is_refused_in_the_words_of_the_webhook() {
    let policies = validating(&Options::default(), &mk_kinds());
    let problems = |name: &str| -> String {
        let policy = policies
            .iter()
            .find(|v| v.policy.metadata.name.as_deref() == Some(name))
            .unwrap();
        serde_json::to_string(&policy.policy.spec.as_ref().unwrap().variables).unwrap()
    };
    let refused = |at: &str| {
        format!("{{'at': '{at}', 'kind': 'Forbidden', 'rule': 'is set by Sluice alone'}}")
    };
    for name in [
        "sluice-jobs.batch",
        "sluice-deployments.apps",
        "sluice-statefulsets.apps",
    ] {
        for entry in [
            "annotations[sluice.dev/propagated-gates]",
            "annotations[sluice.dev/admitted]",
            "annotations[sluice.dev/pod-set]",
            "labels[sluice.dev/managed]",
        ] {
            let expected = refused(&format!("spec.template.metadata.{entry}"));
            assert!(
                problems(name).contains(&expected),
                "no {expected} in {name}"
            );
        }
    }
    let expected = refused("metadata.annotations[sluice.dev/propagated-gates]");
    assert_eq!(
        problems("sluice-pods").matches(&expected).count(),
        2,
        "at creation and later"
    );
    let gate = "' may only be set at creation: it says how the object is held'";
    assert!(problems("sluice-jobs.batch").contains(gate));
    assert!(!problems("sluice-deployments.apps").contains(gate));
}

#[test]
fn only_the_own_gates_are_listed() {
    let policies = mutating(&Options::default(), &mk_kinds());
    let text = |name: &str| {
        let policy = policies
            .iter()
            .find(|m| m.policy.metadata.name.as_deref() == Some(name))
            .unwrap();
        serde_json::to_string(&policy.policy.spec.as_ref().unwrap().mutations).unwrap()
    };
    let listed = "(variables.listedOld0.filter(g, g in variables.carried0) + variables.propagated)";
    let unlisted = "annotations: {'sluice.dev/propagated-gates': ''}";
    for name in ["sluice-jobs.batch", "sluice-deployments.apps"] {
        assert!(text(name).contains(listed), "{}", text(name));
    }
    for name in ["sluice-jobs.batch", "sluice-pods"] {
        assert!(text(name).contains(unlisted), "{}", text(name));
    }
}
