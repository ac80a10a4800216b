//! The webhooks for namespaces where objects need a queue: what they are asked about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rstest::rstest;
use serde_json::{Value, json};

use crate::manifests::{EnforcedNamespaces, Options, declared_mutating, declared_validating};
use crate::tests::manifests::conditions::is_asked;
use crate::tests::*;

fn both() -> [Value; 2] {
    let labels = [("team".to_owned(), "a".to_owned())].into();
    let selector = LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    };
    let options = Options {
        enforced: vec![
            EnforcedNamespaces::labelled(),
            EnforcedNamespaces::labelled_dry_run(),
            EnforcedNamespaces::selected(&selector, true),
            EnforcedNamespaces::selected(&selector, false),
        ],
        ..Options::default()
    };
    [
        serde_json::to_value(declared_validating(&options)).unwrap(),
        serde_json::to_value(declared_mutating(&options)).unwrap(),
    ]
}

fn of<'a>(configuration: &'a Value, name: &str) -> &'a Value {
    let mut webhooks = configuration["webhooks"].as_array().unwrap().iter();
    webhooks.find(|webhook| webhook["name"] == name).unwrap()
}

#[test]
fn no_other_namespace_is_asked_about() {
    let system = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn",
        "values": ["kube-system", "kube-public", "kube-node-lease", "sluice-system"]});
    let label = |operator: &str| json!({"key": "sluice.dev/enforcement", "operator": operator});
    let values = |operator: &str, values: &[&str]| json!({"key": "sluice.dev/enforcement", "operator": operator, "values": values});
    let free = values("NotIn", &["DryRun", "Ignore"]);
    let team = json!({"key": "team", "operator": "In", "values": ["a"]});
    for configuration in both() {
        let configured = [team.clone(), label("DoesNotExist")];
        let by_label = [label("Exists"), free.clone()];
        for (name, expected, failure_policy) in [
            ("enforcement-by-label", &by_label[..], "Fail"),
            ("enforcement", &configured, "Fail"),
            // What only reports holds up nothing.
            (
                "enforcement-dry-run-by-label",
                &[values("In", &["DryRun"])],
                "Ignore",
            ),
            ("enforcement-dry-run", &configured, "Ignore"),
        ] {
            let webhook = of(&configuration, &format!("{name}.gates.sluice.dev"));
            let selector = &webhook["namespaceSelector"]["matchExpressions"];
            let expected = [std::slice::from_ref(&system), expected].concat();
            assert_eq!(selector, &json!(expected), "{name}");
            assert_eq!(webhook["failurePolicy"], failure_policy, "{name}");
        }
    }
}

#[test]
fn what_makes_jobs_and_pods_is_judged_and_never_changed() {
    let [validating, mutating] = both();
    let resources = |configuration| {
        let webhook = of(configuration, "enforcement-by-label.gates.sluice.dev");
        let rules = webhook["rules"].as_array().unwrap().iter();
        let rules = rules.map(|rule| rule["resources"][0].as_str().unwrap().to_owned());
        rules.collect::<Vec<_>>()
    };
    let managed = ["jobs", "deployments", "statefulsets", "pods"];
    assert_eq!(resources(&mutating), managed);
    let makers = ["cronjobs", "replicasets", "replicationcontrollers"];
    assert_eq!(resources(&validating), [&managed[..], &makers].concat());
}

/// What has an object start may be written there.
#[test]
fn the_status_of_what_is_judged_is_judged() {
    let [validating, mutating] = both();
    for (configuration, expected) in [
        (validating, json!(["jobs", "jobs/status"])),
        (mutating, json!(["jobs"])),
    ] {
        let webhook = of(&configuration, "enforcement-by-label.gates.sluice.dev");
        assert_eq!(webhook["rules"][0]["resources"], expected);
    }
    let marked = mk_job(&[], &[("sluice.dev/held", "true")], true);
    let [validating, _] = both();
    assert!(is_asked(
        &validating,
        validating["webhooks"].as_array().unwrap().len() - 1,
        USER,
        Some(&mk_job(&[], &[], true)),
        &marked
    ));
}

fn maker(api_version: &str, kind: &str) -> Value {
    let mut object = mk_job(&[(QUEUE, "q")], &[], false);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    object
}

#[rstest]
#[case::plain_job(USER, None, mk_job(&[], &[], false), [true, true])]
#[case::queued_job(USER, None, mk_job(&[(QUEUE, "a")], &[], false), [false, false])]
// The rules of the webhook that mutates name new objects only.
#[case::started_job(USER, Some(mk_job(&[], &[], true)), mk_job(&[], &[], false), [true, true])]
#[case::relabelled_job(USER, Some(mk_job(&[], &[], true)), mk_job(&[("a", "b")], &[], true), [false, true])]
#[case::job_that_leaves_its_queue(
    USER, Some(mk_job(&[(QUEUE, "a")], &[], true)), mk_job(&[], &[], false), [false, true])]
#[case::job_that_leaves_its_controller(
    USER, Some(owned(mk_job(&[], &[], true), "jobset.x-k8s.io/v1alpha2", "JobSet")),
    mk_job(&[], &[], true), [true, true])]
#[case::orphaned_job(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    Some(owned(mk_job(&[], &[], true), "jobset.x-k8s.io/v1alpha2", "JobSet")),
    mk_job(&[], &[], true), [false, true])]
#[case::job_by_sluice(SLUICE, None, mk_job(&[], &[], false), [false, false])]
#[case::plain_pod(USER, None, mk_pod(&[], &[], &[]), [true, true])]
#[case::pod_of_a_controller(
    JOB_CONTROLLER, None, owned(mk_pod(&[], &[], &[]), "batch/v1", "Job"), [false, false])]
#[case::cron_job(USER, None, maker("batch/v1", "CronJob"), [true, false])]
#[case::same_cron_job(
    USER, Some(maker("batch/v1", "CronJob")), maker("batch/v1", "CronJob"), [false, false])]
#[case::replica_set(USER, None, maker("apps/v1", "ReplicaSet"), [true, false])]
#[case::replica_set_of_a_deployment(
    "system:serviceaccount:kube-system:deployment-controller", None,
    owned(maker("apps/v1", "ReplicaSet"), "apps/v1", "Deployment"), [false, false])]
fn what_is_asked_about(
    #[case] user: &str,
    #[case] old: Option<Value>,
    #[case] new: Value,
    #[case] expected: [bool; 2],
) {
    let asked = both().map(|configuration| {
        let last = configuration["webhooks"].as_array().unwrap().len() - 1;
        is_asked(&configuration, last, user, old.as_ref(), &new)
    });
    assert_eq!(asked, expected);
}
