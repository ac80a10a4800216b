//! The generated policies.

use std::path::Path;

use k8s_openapi::api::rbac::v1::ClusterRole;
use rstest::rstest;
use serde_json::json;
use sluice_crds::{ChildKind, JobKind, JobKindSpec};

use crate::manifests::policies::{
    HeldKind, Validating, both_variants_yaml, mutating, validating, yaml,
};
use crate::manifests::{ManagedResource, Options};
use crate::tests::{ALIAS, GATE, GATE_ALIAS, QUEUE};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What `config/policies` is generated from: the shipped JobKinds. The plural of each kind is what
/// its role lets Sluice read.
pub(super) fn mk_kinds() -> Vec<HeldKind> {
    let folder = Path::new(ROOT).join("config/jobkinds");
    let files = std::fs::read_dir(&folder).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|file| Some(file.strip_suffix("-role.yaml")?.to_owned()))
        .collect();
    names.sort();
    names.iter().map(|name| mk_kind(&folder, name)).collect()
}

fn mk_kind(folder: &Path, name: &str) -> HeldKind {
    let read = |file: String| std::fs::read_to_string(folder.join(file)).unwrap();
    let job_kind: JobKind = serde_saphyr::from_str(&read(format!("{name}.yaml"))).unwrap();
    let role: ClusterRole = serde_saphyr::from_str(&read(format!("{name}-role.yaml"))).unwrap();
    let first = &role.rules.unwrap()[0];
    let spec = job_kind.spec;
    assert_eq!(
        first.api_groups.as_ref().unwrap(),
        std::slice::from_ref(&spec.group),
        "{name}"
    );
    let resource = ManagedResource {
        group: spec.group.clone(),
        version: spec.version.clone(),
        resource: first.resources.as_ref().unwrap()[0].clone(),
        subresources: vec!["status".to_owned()],
        pod_metadata: Vec::new(),
    };
    HeldKind::new(resource, spec).unwrap()
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
fn the_manifests_for_namespaces_are_fresh() {
    let path = Path::new(ROOT).join("config/enforcement/manifests.yaml");
    let generated = both_variants_yaml(&Options::default()).unwrap();
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
    for policy in policies {
        let spec = &policy["spec"];
        let name = policy["metadata"]["name"].as_str().unwrap();
        let only_warns = name == "sluice-enforcement-dry-run";
        // One that is evaluated for objects of a CRD fails for every request as long as that is not known.
        let fails = if spec["paramKind"].is_null() && !only_warns {
            "Fail"
        } else {
            "Ignore"
        };
        assert_eq!(spec["failurePolicy"], fails);
        let matching = &spec["matchConstraints"];
        assert_eq!(matching["matchPolicy"], "Equivalent");
        let namespaces = matching["namespaceSelector"]["matchExpressions"].as_array();
        assert_eq!(
            namespaces.unwrap()[0],
            json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                "values": ["kube-system", "kube-public", "kube-node-lease", "sluice-system"]})
        );
        let labelled = [
            json!({"key": "sluice.dev/enforcement", "operator": "Exists"}),
            json!({"key": "sluice.dev/enforcement", "operator": "NotIn",
                "values": ["DryRun", "Ignore"]}),
        ];
        let dry_run =
            [json!({"key": "sluice.dev/enforcement", "operator": "In", "values": ["DryRun"]})];
        let expected = if only_warns {
            &dry_run[..]
        } else if name.starts_with("sluice-enforce") {
            &labelled[..]
        } else {
            &[]
        };
        assert_eq!(&namespaces.unwrap()[1..], expected);
        let rules = matching["resourceRules"].to_string();
        for banned in ["\"*\"", "DELETE", "CONNECT", "binding", "eviction"] {
            assert!(!rules.contains(banned), "{rules}");
        }
        let conditions = spec["matchConditions"].as_array().unwrap();
        assert_eq!(conditions[0]["name"], "not-by-sluice");
        let spares_deleted = conditions[1]["name"] == "not-being-deleted";
        // A pod runs on meanwhile, and a Gate reads on.
        let judges_deleted = policy["kind"] == "ValidatingAdmissionPolicy"
            && ["sluice-pods", "sluice-gate-reads"]
                .contains(&policy["metadata"]["name"].as_str().unwrap());
        assert_eq!(spares_deleted, !judges_deleted);
        assert_eq!(conditions.len(), 2 + usize::from(spares_deleted));
    }
}

/// Labels, annotations and owners can be edited by the status too.
#[test]
fn a_policy_for_edits_is_for_those_of_the_status() {
    let kinds = mk_kinds();
    let managed = kinds.iter().map(|kind| kind.resource.resource.as_str());
    let managed: Vec<_> = managed.chain(["pods"]).collect();
    for Validating { policy, .. } in validating(&Options::default(), &kinds) {
        let policy = json!(policy);
        let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
        let is_edited = |resource: &str| {
            let is_in = |list: &serde_json::Value, text: &str| {
                let list = list.as_array().unwrap();
                list.iter().any(|known| known == text)
            };
            let mut rules = rules.as_array().unwrap().iter();
            rules.any(|r| is_in(&r["operations"], "UPDATE") && is_in(&r["resources"], resource))
        };
        for resource in managed.iter().filter(|resource| is_edited(resource)) {
            assert!(
                is_edited(&format!("{resource}/status")),
                "{}: {resource}",
                policy["metadata"]["name"]
            );
        }
    }
}

/// What a JobKind's controller makes for its objects was judged with these: as by the webhooks.
#[test]
fn the_policy_for_makers_leaves_alone_what_accounts_of_job_kinds_make() {
    const TRAINER: &str = "system:serviceaccount:acme:trainer";
    let judged = |kinds: &[HeldKind]| {
        let policies = validating(&Options::default(), kinds);
        let policies = policies.iter().map(|all| json!(all.policy));
        let of_makers =
            |policy: &serde_json::Value| policy["metadata"]["name"] == "sluice-gate-policy-makers";
        let found = policies.into_iter().find(of_makers).unwrap();
        found["spec"]["variables"].to_string()
    };
    let mut kinds = mk_kinds();
    assert!(!judged(&kinds).contains(TRAINER));
    kinds[0].job_kind.children.push(ChildKind {
        group: "apps".to_owned(),
        kind: "ReplicaSet".to_owned(),
        made_by: vec![TRAINER.to_owned()],
        ..ChildKind::default()
    });
    let variables = judged(&kinds);
    assert!(variables.contains(TRAINER), "{variables}");
    assert!(
        variables.contains("!variables.isMadeByController"),
        "{variables}"
    );
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
    let gate = "' may only be set at creation: it determines how the object is held'";
    assert!(problems("sluice-jobs.batch").contains(gate));
    assert!(!problems("sluice-deployments.apps").contains(gate));
}

/// What an expression may cost depends on no value of a tenant's: with each status of a pod it is evaluated anew.
#[test]
fn long_values_are_not_taken_apart() {
    let texts = validating(&Options::default(), &mk_kinds());
    let text = |name: &str| {
        let is_named = |v: &&Validating| v.policy.metadata.name.as_deref() == Some(name);
        serde_json::to_string(&texts.iter().find(is_named).unwrap().policy).unwrap()
    };
    for (name, guard) in [
        ("sluice-pods", "1280 < size("),
        ("sluice-pods", "2048 < size(l) ||"),
        ("sluice-pods", "size(l) <= 16384 &&"),
        ("sluice-enforcement", "size(l) <= 1024 &&"),
    ] {
        assert!(text(name).contains(guard), "no {guard} in {name}");
    }
    for name in ["sluice-jobs.batch", "sluice-workflows.argoproj.io"] {
        let refused = "[sluice.dev/pod-group-labels]', 'kind': 'Too long'";
        assert!(text(name).contains(refused), "{name}");
    }
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

/// A kind with this spec, whose plural is `things`.
fn mk_held(spec: serde_json::Value) -> Result<HeldKind, String> {
    let spec: JobKindSpec = serde_json::from_value(spec).unwrap();
    let resource = ManagedResource {
        group: spec.group.clone(),
        version: spec.version.clone(),
        resource: "things".to_owned(),
        subresources: Vec::new(),
        pod_metadata: Vec::new(),
    };
    HeldKind::new(resource, spec).map_err(|problem| problem.to_string())
}

fn mk_spec(suspend: Option<&str>, pod_sets: serde_json::Value) -> serde_json::Value {
    json!({"group": "acme.io", "version": "v1", "kind": "Thing", "suspend": suspend, "podSets": pod_sets})
}

#[rstest]
#[case::template(None, json!([{"name": "a", "template": ".spec.template"}]), "")]
#[case::list_with_suspend(
    Some(".spec.suspend"), json!([{"name": "a", "forEach": ".spec.roles", "template": ".template"}]), "")]
#[case::children(Some(".spec.suspend"), json!([]), "")]
#[case::metadata(None, json!([{"name": "a", "podMetadata": ".spec.driver"}]), "")]
#[case::list_without_suspend(
    None,
    json!([{"name": "a", "template": ".spec.template"}, {"name": "b", "forEach": ".spec.roles", "template": ".template"}]),
    "spec.podSets[1].forEach: Forbidden: policies can hold such a kind only by a suspend field, which it doesn't have: use the webhooks"
)]
#[case::both(
    Some(".spec.suspend"),
    json!([{"name": "a", "template": ".spec.template"}, {"name": "b", "podMetadata": ".spec.driver"}]),
    "spec.podSets[1].podMetadata: Forbidden: policies hold a kind by its pod templates or by the metadata of \
     its pods, not by both"
)]
#[case::made(
    None,
    json!([{"name": "a", "template": ".spec.template", "whenAbsent": "Create"}]),
    "spec.podSets[0].whenAbsent: Forbidden: policies can't make a pod template"
)]
fn what_can_be_held(
    #[case] suspend: Option<&str>,
    #[case] pod_sets: serde_json::Value,
    #[case] problem: &str,
) {
    let held = mk_held(mk_spec(suspend, pod_sets));
    assert_eq!(held.err().unwrap_or_default(), problem);
}

#[test]
fn a_list_can_not_be_held_pod_by_pod() {
    let sets = json!([{"name": "a", "forEach": ".spec.roles", "template": ".template"}]);
    let mut spec = mk_spec(Some(".spec.suspend"), sets);
    spec["admission"] = json!("PerPod");
    assert_eq!(
        mk_held(spec).err().unwrap(),
        "spec.admission: Forbidden: policies hold such a kind by its suspend field, as a whole: use the \
         webhooks for PerPod"
    );
}

#[test]
fn kinds_that_are_suspended_by_the_same_path_share_their_policies() {
    let sets = json!([{"name": "a", "forEach": ".spec.roles", "template": ".template"}]);
    let path = Some(".spec.runPolicy.suspend");
    let kinds = [
        mk_held(mk_spec(path, sets.clone())).unwrap(),
        mk_held(mk_spec(Some(".spec.suspend"), json!([]))).unwrap(),
        mk_held(mk_spec(path, sets)).unwrap(),
    ];
    let options = Options::default();
    let rules: Vec<_> = mutating(&options, &kinds)
        .into_iter()
        .map(|m| {
            (
                m.policy.metadata.name.unwrap(),
                m.policy.spec.unwrap().match_constraints,
            )
        })
        .map(|(name, matching)| (name, matching.unwrap().resource_rules.unwrap().len()))
        .collect();
    assert_eq!(
        rules,
        [
            ("sluice-spec.runpolicy.suspend".to_owned(), 2),
            ("sluice-spec.suspend".to_owned(), 1),
            ("sluice-pods".to_owned(), 1),
            ("sluice-gate-marks".to_owned(), 3),
            ("sluice-gate-marks-pods".to_owned(), 2),
            ("sluice-enforced-spec.runpolicy.suspend".to_owned(), 2),
            ("sluice-enforced-spec.suspend".to_owned(), 1),
            ("sluice-enforced-pods".to_owned(), 1),
        ]
    );
}

mod jail {
    //! What Sluice's own account may do.

    use std::path::Path;

    use super::{ROOT, mk_kinds};
    use crate::manifests::jail::{policies, yaml};
    use crate::manifests::{DECLARED, Options};

    #[test]
    fn the_manifests_are_fresh() {
        let path = Path::new(ROOT).join("config/jail/manifests.yaml");
        let kinds: Vec<_> = mk_kinds().into_iter().map(|kind| kind.job_kind).collect();
        let generated = yaml(&Options::default(), &kinds).unwrap();
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&path, &generated).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(stored, generated, "`make generate` writes it anew");
    }

    /// A jail that can't be evaluated must lock up nobody else.
    #[test]
    fn nobody_else_is_judged() {
        for locked in policies(&Options::default(), &[]) {
            let spec = locked.policy.spec.unwrap();
            let conditions = spec.match_conditions.unwrap();
            assert_eq!(conditions[0].name, "by-sluice");
            if spec.param_kind.is_some() {
                // A parameter comes before conditions: such a policy meets nothing but an object that Sluice makes.
                let rules = spec.match_constraints.unwrap().resource_rules.unwrap();
                for rule in rules {
                    assert_eq!(rule.resource_names.unwrap(), [DECLARED]);
                }
            }
            assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
        }
    }
}
