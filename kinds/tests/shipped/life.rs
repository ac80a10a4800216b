//! What Sluice makes of the status that a kind's own controller writes: at each stage of its life an
//! object is suspended or not, has pods or not, is ready, has ended. The statuses are those of the
//! versions that the JobKinds name.

use rstest::rstest;
use serde_json::{Value, json};
use sluice_kinds::requests::PodDefaults;

use super::{kind, sample, with};

/// All that is seen of `object`, in words: `suspended`, `active`, `ready` or `not ready`, and how it
/// ended.
fn seen(name: &str, object: &Value) -> String {
    let kind = kind(name);
    let mut words = Vec::new();
    if kind.suspended(object).unwrap() {
        words.push("suspended".to_owned());
    }
    if kind.active(object).unwrap() {
        words.push("active".to_owned());
    }
    match kind.ready(object).unwrap() {
        Some(true) => words.push("ready".to_owned()),
        Some(false) => words.push("not ready".to_owned()),
        None => {}
    }
    if let Some(finished) = kind.finished(object).unwrap() {
        let how = if finished.succeeded {
            "succeeded"
        } else {
            "failed"
        };
        words.push(format!("{how}: {}", finished.message));
    }
    words.join(", ")
}

/// An object with this status, suspended if it is to be.
fn object(name: &str, suspended: bool, status: Value) -> Value {
    let mut object = with(sample(name), "/status", status);
    if suspended {
        let kind = kind(name);
        let path = kind.suspend_path().unwrap();
        object = with(object, &path.to_string().replace('.', "/"), json!(true));
    }
    object
}

const RUNS: bool = false;
const SUSPENDED: bool = true;

/// Conditions that are True, each with a message.
fn are(conditions: &[(&str, &str)]) -> Value {
    let all: Vec<_> = conditions
        .iter()
        .map(|(name, message)| json!({"type": name, "status": "True", "message": message}))
        .collect();
    json!({ "conditions": all })
}

/// `status` with this field too.
fn and(mut status: Value, field: &str, value: Value) -> Value {
    status[field] = value;
    status
}

/// The status of a JobSet's Jobs: ready, succeeded and active ones.
fn jobs(driver: [u32; 3], workers: [u32; 3]) -> Value {
    let status = |name: &str, [ready, succeeded, active]: [u32; 3]| {
        json!({"name": name, "ready": ready, "succeeded": succeeded, "active": active, "failed": 0,
            "suspended": 0})
    };
    json!([status("driver", driver), status("workers", workers)])
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready", "2")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready", "2")]
#[case::starting(RUNS, json!({"active": 2, "ready": 1}), "active, not ready", "2")]
#[case::running(RUNS, json!({"active": 2, "ready": 2}), "active, ready", "2")]
#[case::between_two_pods(RUNS, json!({"active": 2, "ready": 1, "succeeded": 1}), "active, ready", "2")]
#[case::the_last_pod(RUNS, json!({"active": 1, "ready": 1, "succeeded": 4}), "active, ready", "2")]
#[case::drained(SUSPENDED, are(&[("Suspended", "")]), "suspended, not ready", "2")]
#[case::pods_left(SUSPENDED, and(are(&[("Suspended", "")]), "active", json!(1)), "suspended, active, not ready", "2")]
#[case::terminating(SUSPENDED, and(are(&[("Suspended", "")]), "terminating", json!(1)), "suspended, active, not ready", "2")]
#[case::its_end_can_not_be_written(SUSPENDED, are(&[("SuccessCriteriaMet", "")]), "suspended, not ready", "0")]
#[case::nor_its_failure(SUSPENDED, are(&[("FailureTarget", "")]), "suspended, not ready", "0")]
#[case::ends_with_pods(SUSPENDED, and(are(&[("SuccessCriteriaMet", "")]), "active", json!(1)), "suspended, active, not ready", "0")]
#[case::ends_with_ready_pods(SUSPENDED, and(are(&[("SuccessCriteriaMet", "")]), "ready", json!(1)), "suspended, active, not ready", "0")]
#[case::fails_with_terminating_pods(SUSPENDED, and(are(&[("FailureTarget", "")]), "terminating", json!(1)), "suspended, active, not ready", "0")]
#[case::ended(RUNS, are(&[("SuccessCriteriaMet", ""), ("Complete", "done")]), "not ready, succeeded: done", "0")]
fn job(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str, #[case] pods: &str) {
    let object = object("job", suspended, status);
    assert_eq!(seen("job", &object), expected);
    let sets = kind("job")
        .pod_sets(&object, &PodDefaults::default())
        .unwrap();
    assert_eq!(sets[0].count.to_string(), pods);
}

/// Who manages a Job in place of the Job controller may do nothing at all.
#[rstest]
#[case::new("acme.io/other", Value::Null, "suspended, not ready")]
#[case::new_and_counted("acme.io/other", json!({"active": 1}), "suspended, active, not ready")]
#[case::terminating("acme.io/other", json!({"terminating": 1}), "suspended, active, not ready")]
#[case::emptied("acme.io/other", json!({"active": 0, "terminating": 0}), "suspended, not ready")]
#[case::of_the_job_controller(
    "kubernetes.io/job-controller",
    Value::Null,
    "suspended, active, not ready"
)]
fn job_that_somebody_else_manages(
    #[case] manager: &str,
    #[case] status: Value,
    #[case] expected: &str,
) {
    let mut object = object("job", SUSPENDED, status);
    object["spec"]["managedBy"] = json!(manager);
    assert_eq!(seen("job", &object), expected);
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::drained(
    SUSPENDED,
    and(are(&[("Suspended", "jobset is suspended")]), "replicatedJobsStatus", jobs([0, 0, 0], [0, 0, 0])),
    "suspended, not ready"
)]
#[case::pods_left(
    SUSPENDED,
    and(are(&[("Suspended", "jobset is suspended")]), "replicatedJobsStatus", jobs([0, 0, 0], [0, 0, 1])),
    "suspended, active, not ready"
)]
#[case::starting(RUNS, json!({"replicatedJobsStatus": jobs([1, 0, 1], [1, 0, 2])}), "active, not ready")]
#[case::running(RUNS, json!({"replicatedJobsStatus": jobs([0, 1, 0], [2, 0, 2])}), "active, ready")]
#[case::succeeded(
    RUNS,
    and(are(&[("Completed", "jobset completed successfully")]), "replicatedJobsStatus", jobs([0, 1, 0], [0, 2, 0])),
    "active, ready, succeeded: jobset completed successfully"
)]
#[case::failed(
    RUNS,
    and(are(&[("Failed", "jobset failed due to one or more job failures")]), "replicatedJobsStatus", jobs([0, 1, 0], [0, 0, 0])),
    "active, not ready, failed: jobset failed due to one or more job failures"
)]
#[case::failed_with_pods_left(
    RUNS,
    and(are(&[("Failed", "x")]), "replicatedJobsStatus", jobs([0, 1, 0], [1, 0, 1])),
    "active, not ready"
)]
fn jobset(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(
        seen("jobset", &object("jobset", suspended, status)),
        expected
    );
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::suspending(SUSPENDED, json!({"jobDeploymentStatus": "Suspending"}), "suspended, active, not ready")]
#[case::drained(SUSPENDED, json!({"jobDeploymentStatus": "Suspended"}), "suspended, not ready")]
#[case::starting(
    RUNS,
    json!({"jobDeploymentStatus": "Initializing", "rayClusterStatus": {"desiredCPU": "0"}}),
    "active, not ready"
)]
#[case::running(
    RUNS,
    json!({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayClusterStatus": {"state": "ready"}}),
    "active, ready"
)]
#[case::tried_again(RUNS, json!({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}), "active, not ready")]
#[case::succeeded(
    RUNS,
    json!({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "Job finished successfully."}),
    "active, not ready, succeeded: Job finished successfully."
)]
#[case::stopped(
    RUNS,
    json!({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}),
    "active, not ready, failed: "
)]
#[case::failed(
    RUNS,
    json!({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "exit 1"}),
    "active, not ready, failed: exit 1"
)]
#[case::invalid(
    SUSPENDED,
    json!({"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed", "message": "not allowed to be suspended"}),
    "suspended, active, not ready, failed: not allowed to be suspended"
)]
fn rayjob(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(
        seen("rayjob", &object("rayjob", suspended, status)),
        expected
    );
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::suspending(SUSPENDED, json!({"state": "ready"}), "suspended, active, ready")]
#[case::drained(
    SUSPENDED,
    and(are(&[("RayClusterSuspended", "")]), "state", json!("suspended")),
    "suspended, not ready"
)]
#[case::drained_without_conditions(SUSPENDED, json!({"state": "suspended"}), "suspended, not ready")]
#[case::suspended_again_while_it_starts(
    SUSPENDED,
    json!({"state": "suspended", "conditions": [{"type": "RayClusterSuspended", "status": "False"}]}),
    "suspended, active, not ready"
)]
#[case::running(RUNS, json!({"state": "ready"}), "active, ready")]
fn raycluster(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    let object = object("raycluster", suspended, status);
    assert_eq!(seen("raycluster", &object), expected);
}

#[rstest]
#[case::new(RUNS, Value::Null, "active")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active")]
#[case::suspended(SUSPENDED, are(&[("Suspended", "TrainJob is suspended")]), "suspended")]
#[case::succeeded(
    RUNS,
    are(&[("Complete", "jobset completed successfully")]),
    "active, succeeded: jobset completed successfully"
)]
#[case::failed(
    RUNS,
    are(&[("Failed", "unsupported runtime: x")]),
    "active, failed: unsupported runtime: x"
)]
fn trainjob(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(
        seen("trainjob", &object("trainjob", suspended, status)),
        expected
    );
}

/// The five kinds of the training-operator differ in the names of their roles alone.
#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::drained(SUSPENDED, are(&[("Created", ""), ("Suspended", "")]), "suspended, not ready")]
#[case::starting(
    RUNS,
    and(are(&[("Created", ""), ("Running", "")]), "replicaStatuses", json!({"CHIEF": {"active": 1}, "Worker": {}})),
    "active, not ready"
)]
#[case::running(
    RUNS,
    and(are(&[("Running", "")]), "replicaStatuses", json!({"CHIEF": {"active": 1}, "Worker": {"active": 2, "succeeded": 1}})),
    "active, ready"
)]
#[case::succeeded(
    RUNS,
    are(&[("Created", ""), ("Succeeded", "it is successfully completed.")]),
    "active, not ready, succeeded: it is successfully completed."
)]
#[case::failed(
    RUNS,
    are(&[("Created", ""), ("Failed", "it has reached the specified backoff limit")]),
    "active, not ready, failed: it has reached the specified backoff limit"
)]
fn of_the_training_operator(
    #[case] suspended: bool,
    #[case] status: Value,
    #[case] expected: &str,
    #[values("pytorchjob", "tfjob", "xgboostjob", "paddlejob", "jaxjob")] name: &str,
) {
    let chief = if name == "tfjob" { "PS" } else { "Master" };
    let status: Value = serde_json::from_str(&status.to_string().replace("CHIEF", chief)).unwrap();
    assert_eq!(seen(name, &object(name, suspended, status)), expected);
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::drained(
    SUSPENDED,
    and(are(&[("Suspended", "MPIJob suspended")]), "replicaStatuses", json!({"Launcher": {}, "Worker": {}})),
    "suspended, not ready"
)]
#[case::launcher_left(
    SUSPENDED,
    and(are(&[("Suspended", "MPIJob suspended")]), "replicaStatuses", json!({"Launcher": {"active": 1}, "Worker": {}})),
    "suspended, active, not ready"
)]
#[case::running(RUNS, are(&[("Created", ""), ("Running", "")]), "active, ready")]
#[case::worker_evicted(RUNS, are(&[("Failed", "1/2 workers are evicted")]), "active, not ready")]
#[case::succeeded(
    RUNS,
    and(are(&[("Succeeded", "successfully completed.")]), "completionTime", json!("2026-01-01T00:00:00Z")),
    "active, not ready, succeeded: successfully completed."
)]
#[case::failed(
    RUNS,
    and(are(&[("Failed", "Job has reached the specified backoff limit")]), "completionTime", json!("2026-01-01T00:00:00Z")),
    "active, not ready, failed: Job has reached the specified backoff limit"
)]
fn mpijob(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(
        seen("mpijob", &object("mpijob", suspended, status)),
        expected
    );
}

#[rstest]
#[case::new(RUNS, Value::Null, "active, not ready")]
#[case::new_and_suspended(SUSPENDED, Value::Null, "suspended, active, not ready")]
#[case::suspending(SUSPENDED, json!({"phase": "Suspending"}), "suspended, active, not ready")]
#[case::drained(SUSPENDED, json!({"phase": "Suspended"}), "suspended, not ready")]
#[case::running(RUNS, and(are(&[("PodsReady", ""), ("QuotaReserved", "")]), "phase", json!("Running")), "active, ready")]
#[case::reset(RUNS, and(are(&[("QuotaReserved", ""), ("Unhealthy", "")]), "phase", json!("Resetting")), "active, not ready")]
#[case::succeeded(
    RUNS,
    and(are(&[("ResourcesDeployed", "3 pods succeeded"), ("PodsReady", "")]), "phase", json!("Succeeded")),
    "active, ready, succeeded: 3 pods succeeded"
)]
#[case::failed_with_pods_left(
    RUNS,
    and(are(&[("Unhealthy", "x"), ("QuotaReserved", "")]), "phase", json!("Failed")),
    "active, not ready"
)]
#[case::failed(
    RUNS,
    and(are(&[("Unhealthy", "Found 1 failed components")]), "phase", json!("Failed")),
    "active, not ready, failed: Found 1 failed components"
)]
fn appwrapper(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    let object = object("appwrapper", suspended, status);
    assert_eq!(seen("appwrapper", &object), expected);
}

#[rstest]
#[case::new(RUNS, Value::Null, "")]
#[case::held(SUSPENDED, Value::Null, "suspended")]
#[case::running(RUNS, and(are(&[("PodRunning", "")]), "phase", json!("Running")), "active")]
#[case::held_with_pods(SUSPENDED, and(are(&[("PodRunning", "")]), "phase", json!("Running")), "suspended, active")]
#[case::succeeded(RUNS, json!({"phase": "Succeeded"}), "succeeded: ")]
#[case::failed(RUNS, json!({"phase": "Failed", "message": "child failed"}), "failed: child failed")]
#[case::in_error(RUNS, json!({"phase": "Error", "message": "no such template"}), "failed: no such template")]
fn workflow(#[case] suspended: bool, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(
        seen("workflow", &object("workflow", suspended, status)),
        expected
    );
}

#[rstest]
#[case::new(Value::Null, "")]
#[case::running(json!({"applicationState": {"state": "RUNNING"}}), "")]
#[case::ending(json!({"applicationState": {"state": "SUCCEEDING"}}), "")]
#[case::succeeded(json!({"applicationState": {"state": "COMPLETED"}}), "succeeded: ")]
#[case::failed(
    json!({"applicationState": {"state": "FAILED", "errorMessage": "driver container failed"}}),
    "failed: driver container failed"
)]
#[case::to_be_tried_again(json!({"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": "x"}}), "")]
fn sparkapplication(#[case] status: Value, #[case] expected: &str) {
    let object = object("sparkapplication", RUNS, status);
    assert_eq!(seen("sparkapplication", &object), expected);
}

/// They never end, and only their pods tell whether there are any.
#[rstest]
#[case::new("leaderworkerset", Value::Null, "not ready")]
#[case::starting("leaderworkerset", are(&[("Progressing", "")]), "not ready")]
#[case::running("leaderworkerset", are(&[("Available", "")]), "ready")]
#[case::deployment("deployment", json!({"availableReplicas": 3}), "not ready")]
#[case::ready_deployment("deployment", json!({"readyReplicas": 3}), "ready")]
#[case::statefulset("statefulset", json!({"availableReplicas": 2}), "not ready")]
#[case::ready_statefulset("statefulset", json!({"readyReplicas": 2}), "ready")]
fn servers(#[case] name: &str, #[case] status: Value, #[case] expected: &str) {
    assert_eq!(seen(name, &object(name, RUNS, status)), expected);
}
