//! The generated configurations.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::manifests::*;

#[test]
fn the_file_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/webhook/manifests.yaml");
    let generated = yaml(&Options::default()).unwrap();
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        stored, generated,
        "UPDATE_GENERATED=1 cargo test -p sluice-webhooks writes it anew"
    );
}

/// Nothing that is ready before waits for them, so a first sync of Argo CD ends.
#[test]
fn argo_cd_applies_them_after_everything_else() {
    let options = Options::default();
    let wave = |metadata: ObjectMeta| metadata.annotations.unwrap_or_default();
    let expected = [("argocd.argoproj.io/sync-wave", "1")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    for metadata in [validating(&options).metadata, mutating(&options).metadata] {
        assert_eq!(wave(metadata), BTreeMap::from(expected.clone()));
    }
    // Sluice makes these itself.
    for metadata in [
        declared_validating(&options).metadata,
        declared_mutating(&options).metadata,
    ] {
        assert!(wave(metadata).is_empty());
    }
}

#[test]
fn no_rule_is_wider_than_it_must_be() {
    let options = Options::default();
    let validating = serde_json::to_value(validating(&options)).unwrap();
    let mutating = serde_json::to_value(mutating(&options)).unwrap();
    let webhooks: Vec<_> = [&validating, &mutating]
        .into_iter()
        .flat_map(|configuration| configuration["webhooks"].as_array().unwrap())
        .collect();
    assert_eq!(webhooks.len(), 5);
    for webhook in webhooks {
        assert!(webhook["name"].as_str().unwrap().ends_with(".sluice.dev"));
        assert_eq!(webhook["failurePolicy"], "Fail");
        assert_eq!(webhook["sideEffects"], "NoneOnDryRun");
        assert_eq!(webhook["matchPolicy"], "Equivalent");
        assert_eq!(webhook["timeoutSeconds"], 3);
        assert_eq!(
            webhook["namespaceSelector"]["matchExpressions"],
            json!([{"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "kube-public", "kube-node-lease", "sluice-system"]}])
        );
        let rules = webhook["rules"].to_string();
        for banned in ["\"*\"", "DELETE", "CONNECT", "leases", "pods/binding"] {
            assert!(!rules.contains(banned), "{rules}");
        }
        let conditions = webhook["matchConditions"].as_array().unwrap();
        let spares_deleted = conditions.iter().any(|c| c["name"] == "not-being-deleted");
        // A pod runs on meanwhile.
        let judges_pods = webhook["name"] == "validate.pods.sluice.dev";
        assert_eq!(spares_deleted, !judges_pods);
        assert_eq!(conditions.len(), 2 + usize::from(spares_deleted));
    }
    for webhook in mutating["webhooks"].as_array().unwrap() {
        assert_eq!(webhook["reinvocationPolicy"], "IfNeeded");
    }
}

#[test]
fn pods_are_asked_about_by_two_webhooks_alone() {
    let asked = |configuration: serde_json::Value| -> Vec<serde_json::Value> {
        let webhooks = configuration["webhooks"].as_array().unwrap().clone();
        webhooks
            .into_iter()
            .filter(|webhook| webhook["rules"].to_string().contains("pods"))
            .map(|webhook| json!([webhook["name"], webhook["rules"]]))
            .collect()
    };
    let rule = |operations: &[&str], resource: &str| {
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations,
            "resources": [resource], "scope": "Namespaced"})
    };
    let options = Options::default();
    assert_eq!(
        asked(serde_json::to_value(mutating(&options)).unwrap()),
        [json!([
            MUTATE_PODS,
            [
                rule(&["CREATE", "UPDATE"], "pods"),
                // Only where gates are lifted from bare pods.
                rule(&["UPDATE"], "pods/status")
            ]
        ])]
    );
    assert_eq!(
        asked(serde_json::to_value(validating(&options)).unwrap()),
        [json!([
            VALIDATE_PODS,
            [
                rule(&["CREATE", "UPDATE"], "pods"),
                // Only where labels or annotations change: no kubelet ever waits for it.
                rule(&["UPDATE"], "pods/status"),
                rule(&["UPDATE"], "pods/resize")
            ]
        ])]
    );
}

#[test]
fn edits_are_mutated_by_every_road() {
    let mutating = serde_json::to_value(mutating(&Options::default())).unwrap();
    let operations: Vec<_> = mutating["webhooks"][0]["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| (rule["resources"].clone(), rule["operations"].clone()))
        .collect();
    assert_eq!(
        operations,
        [
            (json!(["jobs", "jobs/status"]), json!(["CREATE", "UPDATE"])),
            (
                json!(["deployments", "deployments/status"]),
                json!(["CREATE", "UPDATE"])
            ),
            (
                json!(["statefulsets", "statefulsets/status"]),
                json!(["CREATE", "UPDATE"])
            ),
        ]
    );
}

#[test]
fn the_ca_bundle_is_all_that_is_patched() {
    assert_eq!(
        ca_bundle_patch(&[VALIDATE_JOBS, VALIDATE_OBJECTS], "PEM"),
        json!({"webhooks": [
            {"name": "validate.jobs.sluice.dev", "clientConfig": {"caBundle": "UEVN"}},
            {"name": "validate.objects.sluice.dev", "clientConfig": {"caBundle": "UEVN"}},
        ]})
    );
}
