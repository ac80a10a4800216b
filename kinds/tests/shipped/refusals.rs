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

const CLUSTER_GROUPS: &str = "spec.workerGroupSpecs";
const HEAD: &str = "spec.headGroupSpec";
const CONTAINERS: &str = "spec.headGroupSpec.template.spec.containers";
const ENV: &str = "/spec/headGroupSpec/template/spec/containers/0/env";
const GCS: &str = "spec.gcsFaultToleranceOptions";
const RAY_VERSION: &str = "spec.rayVersion";
const NAME: &str = "metadata.name";

/// `utils/validation.go` of KubeRay (v1.7), of which a RayCluster is told in an event alone.
#[rstest]
#[case::suspended_group(
    json!({"/spec/enableInTreeAutoscaling": true, "/spec/workerGroupSpecs/0/suspend": true}),
    &[CLUSTER_GROUPS]
)]
#[case::no_head(json!({"/spec/headGroupSpec/template/spec/containers": []}), &[CONTAINERS])]
#[case::labels_of_sluice(
    json!({"/spec/headGroupSpec/labels": {"sluice.dev/managed": "false"}}),
    &["spec.headGroupSpec.labels"]
)]
#[case::no_worker(json!({"/spec/workerGroupSpecs/0/template/spec/containers": []}), &[CLUSTER_GROUPS])]
#[case::no_spec(json!({"/spec/workerGroupSpecs/0/template/spec": null}), &[CLUSTER_GROUPS])]
#[case::no_workers(json!({"/spec/workerGroupSpecs": null}), &[])]
#[case::longest_name(json!({"/metadata/name": "r".repeat(53)}), &[])]
#[case::long_name(json!({"/metadata/name": "r".repeat(54)}), &[NAME])]
#[case::name_of_digits(json!({"/metadata/name": "7b-chat"}), &[NAME])]
#[case::name_with_a_dot(json!({"/metadata/name": "chat.7b"}), &[NAME])]
#[case::still_to_be_named(json!({"/metadata/name": null}), &[])]
#[case::resources(json!({"/spec/headGroupSpec/resources": {"CPU": "1"}}), &[])]
#[case::resources_twice(
    json!({"/spec/headGroupSpec/resources": {"CPU": "1"}, "/spec/headGroupSpec/rayStartParams": {"num-cpus": "1"}}),
    &["spec.headGroupSpec.resources"]
)]
#[case::resources_of_workers_twice(
    json!({
        "/spec/workerGroupSpecs/0/resources": {"CPU": "1"},
        "/spec/workerGroupSpecs/0/rayStartParams": {"memory": "1"},
    }),
    &[CLUSTER_GROUPS]
)]
#[case::labels_by_parameter(json!({"/spec/workerGroupSpecs/0/rayStartParams": {"labels": "{}"}}), &["spec"])]
#[case::redis(json!({(ENV): [{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}]}), &[GCS])]
#[case::redis_by_annotation(
    json!({
        (ENV): [{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}],
        "/metadata/annotations": {"ray.io/ft-enabled": "True"},
    }),
    &[]
)]
#[case::redis_by_options(json!({"/spec/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}), &[])]
#[case::redis_by_both(
    json!({
        "/spec/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        "/metadata/annotations": {"ray.io/ft-enabled": "true"},
    }),
    &[GCS]
)]
#[case::password_of_redis(
    json!({
        "/spec/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        "/spec/headGroupSpec/rayStartParams": {"redis-password": "x"},
    }),
    &[GCS]
)]
#[case::address_of_redis_twice(
    json!({
        "/spec/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        (ENV): [{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}],
    }),
    &[GCS]
)]
#[case::user_of_redis(json!({(ENV): [{"name": "REDIS_USERNAME", "value": "x"}]}), &[HEAD])]
#[case::restarts_by_version_2(
    json!({
        "/spec/enableInTreeAutoscaling": true,
        "/spec/autoscalerOptions": {"version": "v2"},
        "/spec/workerGroupSpecs/0/template/spec/restartPolicy": "OnFailure",
    }),
    &["spec"]
)]
#[case::restarts_by_version_1(
    json!({
        "/spec/enableInTreeAutoscaling": true,
        "/spec/workerGroupSpecs/0/template/spec/restartPolicy": "OnFailure",
    }),
    &[]
)]
#[case::version_2_of_no_autoscaler(
    json!({(ENV): [{"name": "RAY_enable_autoscaler_v2", "value": "1"}]}),
    &[CONTAINERS]
)]
#[case::version_2_by_the_environment(
    json!({"/spec/enableInTreeAutoscaling": true, (ENV): [{"name": "RAY_enable_autoscaler_v2", "value": "1"}]}),
    &[]
)]
#[case::version_2_twice(
    json!({
        "/spec/enableInTreeAutoscaling": true,
        "/spec/autoscalerOptions": {"version": "v2"},
        (ENV): [{"name": "RAY_enable_autoscaler_v2", "value": "1"}],
    }),
    &[CONTAINERS]
)]
#[case::idle(json!({"/spec/workerGroupSpecs/0/idleTimeoutSeconds": 60}), &[CLUSTER_GROUPS])]
#[case::idle_by_version_2(
    json!({"/spec/workerGroupSpecs/0/idleTimeoutSeconds": 60, "/spec/autoscalerOptions": {"version": "v2"}}),
    &[]
)]
#[case::idle_for_less_than_nothing(json!({"/spec/autoscalerOptions": {"idleTimeoutSeconds": -1}}), &["spec"])]
#[case::no_priority(json!({"/spec/workerGroupSpecs/0/priority": 0}), &[])]
#[case::priority(json!({"/spec/workerGroupSpecs/0/priority": 1}), &[CLUSTER_GROUPS, RAY_VERSION])]
#[case::priority_by_version_2(
    json!({
        "/spec/workerGroupSpecs/0/priority": 1,
        "/spec/autoscalerOptions": {"version": "v2"},
        "/spec/rayVersion": "2.56.0",
    }),
    &[]
)]
#[case::start_of_the_autoscaler(
    json!({"/spec/autoscalerOptions": {"env": [{"name": "KUBERAY_GEN_AUTOSCALER_START_CMD"}]}}),
    &["spec.autoscalerOptions.env"]
)]
#[case::token(json!({"/spec/authOptions": {"mode": "token"}}), &[RAY_VERSION])]
#[case::token_of_no_version(
    json!({"/spec/authOptions": {"mode": "token"}, "/spec/rayVersion": null}),
    &[RAY_VERSION]
)]
#[case::token_of_this_version(json!({"/spec/authOptions": {"mode": "token"}, "/spec/rayVersion": "2.52.0"}), &[])]
#[case::token_of_a_candidate(json!({"/spec/authOptions": {"mode": "token"}, "/spec/rayVersion": "2.100.0rc1"}), &[])]
#[case::token_of_the_next(json!({"/spec/authOptions": {"mode": "token"}, "/spec/rayVersion": "v3.0.0"}), &[])]
#[case::no_token(json!({"/spec/authOptions": {"mode": "disabled"}}), &[])]
#[case::token_of_kubernetes(
    json!({
        "/spec/authOptions": {"mode": "token", "enableK8sTokenAuth": true},
        "/spec/rayVersion": "2.54.1",
    }),
    &["spec.authOptions.enableK8sTokenAuth"]
)]
fn raycluster_by_validation(#[case] changes: Value, #[case] expected: &[&str]) {
    assert_eq!(refused("raycluster", changes, Hold::Suspend), expected);
}

/// What is judged of each element may not become too much for an expression.
#[rstest]
fn a_large_one_is_not(#[values("raycluster", "mpijob")] name: &str) {
    let env: Vec<Value> = (0..100)
        .map(|place| json!({"name": format!("ENV_{place}"), "value": "x"}))
        .collect();
    let containers = json!([{"name": "c", "args": ["x".repeat(50_000)], "env": env}]);
    let template = json!({"spec": {"containers": containers}});
    let changes = match name {
        "raycluster" => json!({
            "/spec/headGroupSpec/template": template,
            "/spec/workerGroupSpecs/0/template": template,
        }),
        _ => json!({
            "/spec/mpiReplicaSpecs/Launcher/template": template,
            "/spec/mpiReplicaSpecs/Worker/template": template,
        }),
    };
    assert_eq!(refused(name, changes, Hold::Suspend), [""; 0]);
}

/// KubeRay marks it, or makes a RayCluster of which it makes nothing.
#[rstest]
#[case::longest_name(json!({"/metadata/name": "r".repeat(47)}), &[])]
#[case::long_name(json!({"/metadata/name": "r".repeat(48)}), &[NAME])]
#[case::upgraded(
    json!({"/spec/rayClusterSpec/upgradeStrategy": {"type": "None"}}),
    &["spec.rayClusterSpec.upgradeStrategy.type"]
)]
fn rayjob_by_its_cluster(#[case] changes: Value, #[case] expected: &[&str]) {
    assert_eq!(refused("rayjob", changes, Hold::Suspend), expected);
}

const LAUNCHER: &str = "spec.mpiReplicaSpecs.Launcher";
const WORKERS: &str = "spec.mpiReplicaSpecs.Worker.replicas";
const ROLES: &str = "spec.mpiReplicaSpecs";

/// `pkg/apis/kubeflow/validation` of the mpi-operator (v0.8), of which an MPIJob is told in an event alone.
#[rstest]
#[case::two_launchers(json!({"/spec/mpiReplicaSpecs/Launcher/replicas": 2}), &[LAUNCHER])]
#[case::a_launcher_by_default(json!({"/spec/mpiReplicaSpecs/Launcher/replicas": null}), &[])]
#[case::no_launcher(json!({"/spec/mpiReplicaSpecs/Launcher": null}), &[LAUNCHER])]
#[case::a_launcher_alone(json!({"/spec/mpiReplicaSpecs/Worker": null}), &[])]
#[case::no_worker(json!({"/spec/mpiReplicaSpecs/Worker/replicas": 0}), &[WORKERS])]
#[case::no_worker_by_default(json!({"/spec/mpiReplicaSpecs/Worker/replicas": null}), &[WORKERS])]
#[case::restarts_always(json!({"/spec/mpiReplicaSpecs/Worker/restartPolicy": "Always"}), &[ROLES])]
#[case::restarts_by_exit_code(json!({"/spec/mpiReplicaSpecs/Launcher/restartPolicy": "ExitCode"}), &[ROLES])]
#[case::restarts_on_failure(json!({"/spec/mpiReplicaSpecs/Launcher/restartPolicy": "OnFailure"}), &[])]
#[case::no_container(json!({"/spec/mpiReplicaSpecs/Worker/template/spec/containers": []}), &[ROLES])]
#[case::no_template(json!({"/spec/mpiReplicaSpecs/Worker/template": null}), &[ROLES])]
#[case::longest_name(json!({"/metadata/name": "m".repeat(54)}), &[])]
#[case::long_name(json!({"/metadata/name": "m".repeat(55)}), &[NAME])]
#[case::long_name_of_many(
    json!({"/metadata/name": "m".repeat(54), "/spec/mpiReplicaSpecs/Worker/replicas": 11}),
    &[NAME]
)]
#[case::long_name_of_a_launcher(
    json!({"/metadata/name": "m".repeat(55), "/spec/mpiReplicaSpecs/Worker": null}),
    &[NAME]
)]
#[case::name_of_digits(json!({"/metadata/name": "7b"}), &[NAME])]
#[case::slots(json!({"/spec/slotsPerWorker": -1}), &["spec.slotsPerWorker"])]
#[case::clean_pods(json!({"/spec/runPolicy/cleanPodPolicy": "Some"}), &["spec.runPolicy.cleanPodPolicy"])]
#[case::retries(json!({"/spec/runPolicy/backoffLimit": -1}), &["spec.runPolicy"])]
#[case::no_policy(json!({"/spec/runPolicy": null}), &[])]
fn mpijob(#[case] changes: Value, #[case] expected: &[&str]) {
    assert_eq!(refused("mpijob", changes, Hold::Suspend), expected);
}
