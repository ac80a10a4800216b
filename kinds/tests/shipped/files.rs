//! What lies in the two folders: each JobKind with its role and its sample, and nothing else.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use sluice_crds::JobKind;

use super::{folder, kind, read, sample};

fn names(of: &str) -> BTreeSet<String> {
    fs::read_dir(folder(of))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "kustomization.yaml")
        .map(|name| name.strip_suffix(".yaml").unwrap().to_owned())
        .collect()
}

fn jobkinds() -> BTreeSet<String> {
    let all = names("jobkinds");
    all.into_iter()
        .filter(|name| !name.ends_with("-role"))
        .collect()
}

#[test]
fn each_has_a_sample_of_its_group_version_and_kind() {
    assert_eq!(names("samples/jobkinds"), jobkinds());
    for name in jobkinds() {
        let kind = kind(&name);
        let sample = sample(&name);
        let api_version = format!("{}/{}", kind.group, kind.version);
        assert_eq!(kind.name, name);
        assert_eq!(sample["apiVersion"], api_version.as_str(), "{name}");
        assert_eq!(sample["kind"], kind.kind.as_str(), "{name}");
        assert_eq!(kind.kind.to_lowercase(), name);
        let queue = &sample["metadata"]["labels"]["sluice.dev/queue-name"];
        assert!(queue.is_string(), "{name}");
    }
}

#[test]
fn all_are_installed_with_their_roles() {
    let text = read(folder("jobkinds").join("kustomization.yaml"));
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let installed: Vec<&str> = kustomization["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| resource.as_str().unwrap())
        .collect();
    let files: Vec<String> = jobkinds()
        .iter()
        .flat_map(|name| [format!("{name}.yaml"), format!("{name}-role.yaml")])
        .collect();
    assert_eq!(installed, files);
}

/// Sluice reads all objects of the kind, and may patch those that it can suspend and no others.
#[test]
fn the_role_gives_what_the_kind_needs_and_no_more() {
    for name in jobkinds() {
        let text = read(folder("jobkinds").join(format!("{name}-role.yaml")));
        let role: Value = serde_saphyr::from_str(&text).unwrap();
        let metadata = &role["metadata"];
        assert_eq!(metadata["name"], format!("sluice-jobkind-{name}").as_str());
        assert_eq!(
            metadata["labels"]["sluice.dev/aggregate-to-controller"], "true",
            "{name}"
        );
        let text = read(folder("jobkinds").join(format!("{name}.yaml")));
        let kind: JobKind = serde_saphyr::from_str(&text).unwrap();
        // A job that has no suspend field is patched too: to lift a gate.
        let verbs = ["get", "list", "patch", "watch"];
        let rules = role["rules"].as_array().unwrap();
        let (own, between) = rules.split_first().unwrap();
        assert_eq!(own["apiGroups"], serde_json::json!([kind.spec.group]));
        assert_eq!(own["resources"], serde_json::json!([format!("{name}s")]));
        assert_eq!(own["verbs"], serde_json::json!(verbs), "{name}");
        // Of a status it takes away the start time, where the kind says so.
        let status = serde_json::json!([format!("{name}s/status")]);
        let (of_status, between): (Vec<_>, Vec<_>) =
            between.iter().partition(|rule| rule["resources"] == status);
        let expected = usize::from(kind.spec.clear_start_time.is_some());
        assert_eq!(of_status.len(), expected, "{name}");
        for rule in of_status {
            assert_eq!(rule["verbs"], serde_json::json!(["patch"]), "{name}");
        }
        for rule in &between {
            assert_eq!(rule["verbs"], serde_json::json!(["get"]), "{name}");
        }
        // Each is followed to its owner, also if its own JobKind is not installed; but where that has to be, to read it.
        let is_needed = kind.spec.pod_sets.is_empty();
        let own = |child: &&sluice_crds::ChildKind| child.kind != "Pod" && !is_needed;
        for child in kind.spec.children.iter().filter(own) {
            let resource = format!("{}s", child.kind.to_lowercase());
            let is_given = between.iter().any(|rule| {
                let has = |field: &str, value: &str| {
                    rule[field]
                        .as_array()
                        .unwrap()
                        .iter()
                        .any(|given| given == value)
                };
                has("apiGroups", &child.group) && has("resources", &resource)
            });
            assert!(is_given, "{name}: {resource} of {}", child.group);
        }
    }
}

/// Whoever installs an operator as its project says need not edit a JobKind.
#[test]
fn the_accounts_of_upstream_installations_are_known() {
    let of = |namespace: &str, name: &str| format!("system:serviceaccount:{namespace}:{name}");
    for (name, account) in [
        ("jobset", of("jobset-system", "jobset-controller-manager")),
        ("jobset", of("jobset-system", "jobset-controller")),
        ("jobset", of("kubeflow-system", "jobset-controller-manager")),
        ("jobset", of("kubeflow-system", "jobset-controller")),
        ("jobset", of("kubeflow", "jobset-controller-manager")),
        (
            "trainjob",
            of("kubeflow-system", "kubeflow-trainer-controller-manager"),
        ),
        (
            "trainjob",
            of("kubeflow", "kubeflow-trainer-controller-manager"),
        ),
        (
            "leaderworkerset",
            of("lws-system", "lws-controller-manager"),
        ),
        (
            "leaderworkerset",
            of("kubeflow-system", "lws-controller-manager"),
        ),
        ("mpijob", of("mpi-operator", "mpi-operator")),
        ("mpijob", of("kubeflow", "mpi-operator")),
        ("pytorchjob", of("kubeflow", "training-operator")),
    ] {
        let text = read(folder("jobkinds").join(format!("{name}.yaml")));
        let kind: JobKind = serde_saphyr::from_str(&text).unwrap();
        for child in &kind.spec.children {
            assert!(child.made_by.contains(&account), "{name}: {account}");
        }
    }
}
