//! JobKinds that compile and that do not, and what they read.

use json_patch::Patch;
use rstest::rstest;
use serde_json::json;
use sluice_crds::{ChildKind, PodGroupsRule, RefuseRule, RefuseScope};

use super::*;
use crate::fixtures::{batch_job, deployment, job_kind};

#[test]
fn reads_a_job() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let mut job = batch_job();
    assert!(!kind.suspended(&job).unwrap());
    assert_eq!(kind.finished(&job).unwrap(), None);
    let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
    assert_eq!((sets.len(), sets[0].count), (1, 2));

    job["status"] = json!({"active": 2});
    assert!(kind.active(&job).unwrap());
    job["status"] = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    assert!(!kind.active(&job).unwrap());
    job["status"] = json!({"conditions": [
        {"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}]});
    assert_eq!(
        kind.finished(&job).unwrap(),
        Some(Finished {
            succeeded: false,
            message: "Job has reached the specified backoff limit".to_owned()
        })
    );
}

#[test]
fn the_smaller_of_parallelism_and_completions_counts() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let cases = [
        (json!({}), 1),
        (json!({"parallelism": 3}), 3),
        (json!({"parallelism": 3, "completions": 2}), 2),
        (json!({"parallelism": 3, "completions": 9}), 3),
        (json!({"parallelism": 0}), 0),
    ];
    for (spec, expected) in cases {
        let mut job = batch_job();
        job["spec"]["parallelism"] = spec["parallelism"].clone();
        job["spec"]["completions"] = spec["completions"].clone();
        if spec["parallelism"].is_null() {
            job["spec"].as_object_mut().unwrap().remove("parallelism");
        }
        if spec["completions"].is_null() {
            job["spec"].as_object_mut().unwrap().remove("completions");
        }
        let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
        assert_eq!(sets[0].count, expected, "{spec}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let mut kind = job_kind();
    kind.spec.suspend = Some("spec.suspend".to_owned());
    kind.spec.pod_sets[0].template = Some(".spec.templates[*]".to_owned());
    kind.spec.active = Some("jobs.x".to_owned());
    let texts: Vec<String> = CompiledKind::compile(&kind)
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        texts,
        [
            "spec.suspend: Invalid value: \"spec.suspend\": must start with a dot (such as \".spec.suspend\")",
            "spec.podSets[0].template: Invalid value: \".spec.templates[*]\": must be field names with a dot before each (such as \".spec.suspend\"); lists are named by forEach",
            "spec.active: Invalid value: \"jobs.x\": undeclared reference to \"jobs\" at 1:1: only \"object\" is declared",
        ]
    );
}

/// The policies for Sluice's account allow no webhook to ask about them.
#[rstest]
#[case("", "Secret")]
#[case("", "Node")]
#[case("", "ReplicationController")]
#[case("autoscaling", "HorizontalPodAutoscaler")]
#[case("policy", "PodDisruptionBudget")]
#[case("networking.k8s.io", "Ingress")]
#[case("resource.k8s.io", "ResourceClaim")]
#[case("rbac.authorization.k8s.io", "ClusterRole")]
#[case("coordination.k8s.io", "Lease")]
#[case("admissionregistration.k8s.io", "ValidatingWebhookConfiguration")]
#[case("sluice.dev", "Workload")]
#[case("visibility.sluice.dev", "PendingWorkloads")]
fn what_secures_the_cluster_is_refused(#[case] group: &str, #[case] name: &str) {
    let mut kind = job_kind();
    kind.spec.group = group.to_owned();
    kind.spec.kind = name.to_owned();
    let problems = CompiledKind::compile(&kind).unwrap_err();
    let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [format!(
            "spec.group: Forbidden: {name} of group {group:?} may not be managed, because it secures or runs the cluster; allowed groups: batch, apps, sparkoperator.k8s.io, and groups with a dot that don't end in sluice.dev or .k8s.io (.x-k8s.io is allowed)"
        )]
    );
}

#[test]
fn an_object_that_does_not_fit_is_told_where() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let mut job = batch_job();
    job["spec"]["suspend"] = json!("yes");
    assert_eq!(
        kind.suspended(&job).unwrap_err().to_string(),
        "spec.suspend: Invalid value: \"\\\"yes\\\"\": must be a boolean, as JobKind \"job\" says"
    );
    job["spec"].as_object_mut().unwrap().remove("template");
    let problems = kind.pod_sets(&job, &PodDefaults::default()).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "spec.template: Required value: its JobKind reads a pod template from here"
    );
}

#[test]
fn a_suspend_field_needs_a_way_to_see_its_pods_gone() {
    let mut kind = job_kind();
    kind.spec.active = None;
    let problems = CompiledKind::compile(&kind).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "spec.active: Required value: required with spec.suspend: it determines when the quota of a suspended object is freed"
    );
}

#[test]
fn only_what_can_be_suspended_has_a_start_time_to_clear() {
    let mut kind = job_kind();
    kind.spec.suspend = None;
    kind.spec.pod_sets[0].partial_admission = None;
    let problems = CompiledKind::compile(&kind).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "spec.suspend: Required value: required with spec.clearStartTime: only the start time of suspended objects is cleared"
    );
}

/// A Job whose end is decided needs its start time to end.
#[test]
fn the_start_time_of_a_job_that_has_stopped_is_cleared() {
    let kind = CompiledKind::compile(&job_kind()).unwrap();
    let condition = |name: &str, status: &str| json!({"type": name, "status": status});
    let (stopped, runs) = (
        condition("Suspended", "True"),
        condition("Suspended", "False"),
    );
    let succeeded = condition("SuccessCriteriaMet", "True");
    let cases = [
        (json!({"status": {"conditions": [stopped]}}), false),
        (json!({"status": {"startTime": "t"}}), false),
        (
            json!({"status": {"startTime": "t", "conditions": [runs]}}),
            false,
        ),
        (
            json!({"status": {"startTime": "t", "conditions": [stopped]}}),
            true,
        ),
        (
            json!({"status": {"startTime": "t", "conditions": [stopped, succeeded]}}),
            false,
        ),
        (json!({}), false),
    ];
    for (object, expected) in cases {
        assert_eq!(
            kind.clears_start_time(&object).unwrap(),
            expected,
            "{object}"
        );
    }
    let Patch(patch) = kind.clear_start_time_patch("u").unwrap();
    let told = serde_json::to_value(&patch).unwrap();
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "u"},
        {"op": "test", "path": "/spec/suspend", "value": true},
        {"op": "remove", "path": "/status/startTime"},
    ]);
    assert_eq!(told, expected);
}

#[test]
fn pods_have_no_job_kind() {
    let mut kind = job_kind();
    kind.spec.group = String::new();
    kind.spec.kind = "Pod".to_owned();
    let problems = CompiledKind::compile(&kind).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "spec.kind: Forbidden: Pod needs no JobKind: pods with a queue label are queued by themselves"
    );
}

#[test]
fn a_kind_that_only_has_templates() {
    for text in [
        include_str!("../../../../config/jobkinds/deployment.yaml"),
        include_str!("../../../../config/jobkinds/statefulset.yaml"),
    ] {
        let kind = CompiledKind::compile(&serde_saphyr::from_str(text).unwrap()).unwrap();
        let mut object = deployment();
        assert_eq!(kind.suspend_path(), None);
        assert_eq!(kind.admission(), AdmissionMode::PerPod);
        assert_eq!(kind.suspended(&object), Ok(false));
        assert_eq!(kind.finished(&object), Ok(None));
        assert_eq!(kind.active(&object), Ok(false));
        let count =
            |object: &Value| kind.pod_sets(object, &PodDefaults::default()).unwrap()[0].count;
        assert_eq!(count(&object), 3);
        object["spec"].as_object_mut().unwrap().remove("replicas");
        assert_eq!(count(&object), 1);
    }
}

#[test]
fn gates_of_others_are_seen_in_a_template() {
    let kind = |aliases: &[&str]| {
        let gates = QueueGates::new(aliases.iter().map(|&alias| alias.to_owned()));
        CompiledKind::compile(&job_kind())
            .unwrap()
            .with_queue_gates(gates)
    };
    let cases = [
        ("none", json!([]), false),
        (
            "queue gate",
            json!([{"name": "sluice.dev/queue-allocation-gate"}]),
            false,
        ),
        ("alias", json!([{"name": "acme.io/queue"}]), false),
        ("propagated", json!([{"name": "a.io/x"}]), false),
        (
            "another",
            json!([{"name": "a.io/x"}, {"name": "b.io/y"}]),
            true,
        ),
    ];
    for (name, gates, expected) in cases {
        let mut job = batch_job();
        let template = &mut job["spec"]["template"];
        template["metadata"]["annotations"]["sluice.dev/propagated-gates"] = json!("a.io/x");
        template["spec"]["schedulingGates"] = gates;
        let external = |kind: &CompiledKind| {
            kind.pod_sets(&job, &PodDefaults::default()).unwrap()[0].has_external_gates
        };
        assert_eq!(external(&kind(&["acme.io/queue"])), expected, "{name}");
        assert_eq!(external(&kind(&[])), expected || name == "alias", "{name}");
    }
}

#[test]
fn a_rule_that_refuses_has_to_compile_and_one_that_does_not_fit_refuses() {
    use crate::jobkind::hold::Hold;
    let mut kind = job_kind();
    kind.spec.refuse = vec![
        RefuseRule {
            when: "object.spec.parallelism".to_owned(),
            field: Some("spec.parallelism".to_owned()),
            message: "x".to_owned(),
            applies_to: RefuseScope::All,
        },
        RefuseRule {
            when: "object.spec.parallelism +".to_owned(),
            message: "x".to_owned(),
            ..RefuseRule::default()
        },
    ];
    let problems = CompiledKind::compile(&kind).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|p| p.field.as_str()).collect();
    assert_eq!(fields, ["spec.refuse[0].field", "spec.refuse[1].when"]);

    kind.spec.refuse = vec![
        RefuseRule {
            when: "object.spec.parallelism > 5".to_owned(),
            field: Some(".spec.parallelism".to_owned()),
            message: "must be at most 5".to_owned(),
            applies_to: RefuseScope::Suspended,
        },
        RefuseRule {
            when: "object.spec.newerThanTheSchema > 1".to_owned(),
            message: "x".to_owned(),
            ..RefuseRule::default()
        },
    ];
    let kind = CompiledKind::compile(&kind).unwrap();
    let mut job = batch_job();
    job["spec"]["parallelism"] = json!(6);
    let told = |hold| {
        let problems = kind.refusals(&job, hold);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let suspended = told(Hold::Suspend);
    assert_eq!(
        suspended[0],
        "spec.parallelism: Forbidden: must be at most 5"
    );
    assert!(
        suspended[1].contains("spec.refuse[1].when"),
        "{suspended:?}"
    );
    assert_eq!(told(Hold::EachPod), suspended[1..]);
}

#[test]
fn groups_are_told_by_keys_of_labels_and_by_a_truth() {
    let mut kind = job_kind();
    kind.spec.pod_groups = Some(PodGroupsRule {
        labels: vec!["acme.io/set".to_owned(), "acme.io/a b".to_owned()],
        total_annotation: String::new(),
        when: Some("object.spec.".to_owned()),
    });
    let problems = CompiledKind::compile(&kind).unwrap_err();
    let fields: Vec<_> = problems.iter().map(|p| p.field.as_str()).collect();
    let expected = [
        "spec.podGroups.labels[1]",
        "spec.podGroups.totalAnnotation",
        "spec.podGroups.when",
    ];
    assert_eq!(fields, expected);
    assert_eq!(
        problems[0].to_string(),
        "spec.podGroups.labels[1]: Invalid value: \"acme.io/a b\": must be the key of a label or annotation, such as \"acme.io/group\""
    );

    let mut kind = job_kind();
    kind.spec.pod_sets = Vec::new();
    kind.spec.children = vec![ChildKind {
        group: "batch".to_owned(),
        kind: "Job".to_owned(),
        ..ChildKind::default()
    }];
    kind.spec.pod_groups = Some(PodGroupsRule {
        labels: vec!["acme.io/set".to_owned()],
        total_annotation: "acme.io/size".to_owned(),
        when: None,
    });
    let problems = CompiledKind::compile(&kind).unwrap_err();
    assert_eq!(
        problems[0].to_string(),
        "spec.podGroups: Forbidden: may not be set: no pod can be gated, as no pod template can be changed"
    );
}
