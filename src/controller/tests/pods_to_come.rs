//! How long pods are waited for whose template brings gates of others.

use super::*;

const QUEUE_GATE: &str = "sluice.dev/queue-allocation-gate";

fn gated(parallelism: u32) -> Value {
    let mut job = job("a");
    job["spec"]["suspend"] = json!(false);
    job["spec"]["parallelism"] = json!(parallelism);
    job["spec"]["template"]["spec"] = json!({
        "schedulingGates": [{"name": "acme.io/data"}, {"name": QUEUE_GATE}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
    });
    job["metadata"]["annotations"] = json!({});
    job["status"] = json!({});
    job
}

/// Everything is listed, and this job has its Workload.
fn queued(job: Value) -> Play {
    let mut play = Play::new();
    play.list_settings();
    play.list_jobs([job]);
    let created = play.cycle().remove(0);
    let workload = stored(&created, 8);
    play.end(created, Reply::Done(Some(Box::new(workload))));
    play
}

/// A pod that has lost the gate of others.
fn pod(name: &str, created: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "blue", "uid": format!("uid-{name}"), "resourceVersion": "20",
            "creationTimestamp": created, "labels": {"sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/pod-set": "main"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "a", "uid": "uid-a",
                "controller": true}],
        },
        "spec": {
            "schedulingGates": [{"name": QUEUE_GATE}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}],
        },
    })
}

/// A StatefulSet makes its second pod only when the first one runs, and that needs the quota of both. The clock of the
/// leader may be an hour slow.
#[tokio::test]
async fn a_pod_that_does_not_come_is_waited_for_a_minute() {
    for created in ["2026-11-23T12:10:00Z", "2026-11-23T13:10:00Z"] {
        let mut play = queued(gated(2));
        assert!(play.cycle().is_empty(), "no pod is there");
        play.pass(Duration::from_mins(10));
        assert!(play.cycle().is_empty(), "still no pod is there");
        let first = pod("p-0", created);
        play.observe(&Source::Pod, Change::Applied(seen(first)));
        assert!(!play.cycle().iter().any(is_admitted), "the second may come");
        play.pass(Duration::from_secs(59));
        assert!(!play.cycle().iter().any(is_admitted), "it may come still");
        play.pass(Duration::from_secs(1));
        let due = play.controller.due(play.now);
        assert_eq!(due, Some(Duration::ZERO), "{created}");
        let writes = play.cycle();
        assert!(
            writes.iter().any(is_admitted),
            "{created}: it does not come"
        );
    }
}

#[tokio::test]
async fn a_job_is_admitted_when_its_last_pod_comes() {
    let mut play = queued(gated(2));
    for name in ["p-0", "p-1"] {
        assert!(!play.cycle().iter().any(is_admitted), "one is missing");
        let pod = pod(name, "2026-11-23T12:00:00Z");
        play.observe(&Source::Pod, Change::Applied(seen(pod)));
    }
    assert!(play.cycle().iter().any(is_admitted));
}

/// In place of pods that have succeeded none comes any more.
#[tokio::test]
async fn pods_that_have_succeeded_are_not_waited_for() {
    let mut job = gated(2);
    job["spec"]["completions"] = json!(2);
    job["status"] = json!({"succeeded": 1});
    let mut play = queued(job);
    let left = pod("p-1", "2026-11-23T12:00:00Z");
    play.observe(&Source::Pod, Change::Applied(seen(left)));
    assert!(play.cycle().iter().any(is_admitted));
}
