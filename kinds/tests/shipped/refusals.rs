//! Objects that a kind's own controller would never run, and what is said of them.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::Hold;

use super::{kind, sample, with};

/// The fields for whose sake the sample is refused, with these changes.
fn refused(name: &str, changes: Value, hold: Hold) -> Vec<String> {
    let mut object = sample(name);
    for (pointer, value) in changes.as_object().unwrap() {
        object = with(object, pointer, value.clone());
    }
    let problems = kind(name).refusals(&object, hold);
    problems.into_iter().map(|problem| problem.field).collect()
}

#[rstest]
fn no_sample_is(
    #[values(
        "job",
        "jobset",
        "rayjob",
        "raycluster",
        "pytorchjob",
        "mpijob",
        "jaxjob",
        "appwrapper"
    )]
    name: &str,
) {
    assert_eq!(refused(name, json!({}), Hold::Suspend), [""; 0]);
}

const SHUTDOWN: &str = "spec.shutdownAfterJobFinishes";
const RULES: &str = "spec.deletionStrategy.deletionRules";
const GROUPS: &str = "spec.rayClusterSpec.workerGroupSpecs";

/// What KubeRay (v1.7) marks ValidationFailed. Of those that are not suspended fewer are.
#[rstest]
#[case::keeps_its_cluster(json!({"/spec/shutdownAfterJobFinishes": false}), &[SHUTDOWN], &[])]
#[case::by_default(json!({"/spec/shutdownAfterJobFinishes": null}), &[SHUTDOWN], &[])]
#[case::waits_for_its_job_id(json!({"/spec/submissionMode": "InteractiveMode"}), &["spec.submissionMode"], &[])]
#[case::deletion_rules(
    json!({
        "/spec/shutdownAfterJobFinishes": false,
        "/spec/deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"ttlSeconds": 0}}]},
    }),
    &[SHUTDOWN, RULES],
    &[]
)]
#[case::deletion_rules_and_shutdown(
    json!({"/spec/deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"ttlSeconds": 0}}]}}),
    &[RULES, RULES],
    &[RULES]
)]
#[case::both_policies(
    json!({"/spec/deletionStrategy": {"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteSelf"}}}),
    &[],
    &[]
)]
#[case::deletes_nothing(
    json!({"/spec/deletionStrategy": {"onSuccess": {"policy": "DeleteCluster"}, "onFailure": {"policy": "DeleteNone"}}}),
    &["spec.deletionStrategy"],
    &["spec.deletionStrategy"]
)]
#[case::somebody_elses_cluster(
    json!({"/spec/clusterSelector": {"ray.io/cluster": "shared"}}),
    &["spec.clusterSelector"],
    &[]
)]
#[case::a_ttl(json!({"/spec/ttlSecondsAfterFinished": 60}), &[], &[])]
#[case::a_ttl_of_a_kept_cluster(
    json!({"/spec/ttlSecondsAfterFinished": 60, "/spec/shutdownAfterJobFinishes": null}),
    &[SHUTDOWN, "spec.ttlSecondsAfterFinished"],
    &["spec.ttlSecondsAfterFinished"]
)]
#[case::a_sidecar_with_a_template(
    json!({"/spec/submissionMode": "SidecarMode"}),
    &["spec.submitterPodTemplate"],
    &["spec.submitterPodTemplate"]
)]
#[case::retries_of_an_interactive_one(
    json!({"/spec/submissionMode": "InteractiveMode", "/spec/backoffLimit": 1}),
    &["spec.submissionMode", "spec.backoffLimit"],
    &["spec.backoffLimit"]
)]
#[case::no_time(
    json!({"/spec/activeDeadlineSeconds": 0}),
    &["spec.activeDeadlineSeconds"],
    &["spec.activeDeadlineSeconds"]
)]
#[case::min_above_max(
    json!({"/spec/rayClusterSpec/workerGroupSpecs/0/minReplicas": 3}),
    &[GROUPS],
    &[GROUPS]
)]
#[case::labels_of_the_head(
    json!({"/spec/rayClusterSpec/headGroupSpec/labels": {"sluice.dev/managed": "false"}}),
    &["spec.rayClusterSpec.headGroupSpec.labels"],
    &["spec.rayClusterSpec.headGroupSpec.labels"]
)]
#[case::labels_of_workers(
    json!({"/spec/rayClusterSpec/workerGroupSpecs/0/labels": {"a": "b", "sluice.dev/managed": "false"}}),
    &[GROUPS],
    &[GROUPS]
)]
#[case::labels_of_others(
    json!({"/spec/rayClusterSpec/headGroupSpec/labels": {"ray.io/zone": "a"}}),
    &[],
    &[]
)]
fn rayjob(#[case] changes: Value, #[case] suspended: &[&str], #[case] by_pod: &[&str]) {
    assert_eq!(
        refused("rayjob", changes.clone(), Hold::Suspend),
        suspended,
        "waits suspended"
    );
    assert_eq!(
        refused("rayjob", changes, Hold::EachPod),
        by_pod,
        "by the pod"
    );
}

#[rstest]
#[case::min_above_max(json!({"minReplicas": 5}), &["spec.workerGroupSpecs"])]
#[case::fewer_than_none(json!({"minReplicas": -1}), &["spec.workerGroupSpecs"])]
#[case::equal(json!({"minReplicas": 4}), &[])]
#[case::one_group_less(json!({"suspend": true}), &[])]
#[case::labels(json!({"labels": {"sluice.dev/managed": "false"}}), &["spec.workerGroupSpecs"])]
#[case::labels_of_others(json!({"labels": {"ray.io/zone": "a"}}), &[])]
fn raycluster(#[case] group: Value, #[case] expected: &[&str]) {
    let mut changes = json!({});
    for (field, value) in group.as_object().unwrap() {
        changes[format!("/spec/workerGroupSpecs/0/{field}")] = value.clone();
    }
    assert_eq!(
        refused("raycluster", changes.clone(), Hold::Suspend),
        expected
    );
    assert_eq!(refused("raycluster", changes, Hold::EachPod), expected);
}

#[test]
fn what_the_autoscaler_can_not_do() {
    let changes = json!({
        "/spec/enableInTreeAutoscaling": true,
        "/spec/workerGroupSpecs/0/suspend": true,
    });
    assert_eq!(
        refused("raycluster", changes, Hold::Suspend),
        ["spec.workerGroupSpecs"]
    );
    let changes = json!({"/spec/headGroupSpec/labels": {"sluice.dev/managed": "false"}});
    assert_eq!(
        refused("raycluster", changes, Hold::Suspend),
        ["spec.headGroupSpec.labels"]
    );
    let changes = json!({"/spec/headGroupSpec/template/spec/containers": []});
    assert_eq!(
        refused("raycluster", changes, Hold::Suspend),
        ["spec.headGroupSpec.template.spec.containers"]
    );
}
