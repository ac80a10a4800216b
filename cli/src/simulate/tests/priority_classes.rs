//! A queue that says which priority classes its jobs may have, and which they have that name none: as in the controller.

use serde_json::{Value, json};

use crate::input::Document;
use crate::simulate::jobs::InputJob;
use crate::simulate::problem::Failure;
use crate::simulate::reading::{Given, Input, Options, Seen, read};

fn document(value: Value) -> Document {
    Document {
        file: "f".into(),
        place: "document 1".into(),
        value,
    }
}

fn own(kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn class(name: &str, value: i32) -> Value {
    json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "WorkloadPriorityClass", "metadata": {"name": name},
        "value": value})
}

/// A Workload that waits, for this reason.
fn waits(name: &str, reason: &str) -> Value {
    let mut workload = own(
        "Workload",
        &json!({"name": name, "namespace": "blue", "uid": name}),
        &json!({"queueName": "main", "priority": 0, "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]}),
    );
    workload["status"] = json!({"conditions": [{
        "type": "QuotaReserved", "status": "False", "reason": reason, "message": "",
        "lastTransitionTime": "2026-03-01T11:58:30Z",
    }]});
    workload
}

/// A pod that waits, with this class.
fn pod(name: &str, class: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "blue", "uid": name, "creationTimestamp": "2026-03-01T11:20:00Z",
            "labels": {"sluice.dev/queue-name": "main", "sluice.dev/managed": "true"},
            "annotations": {"sluice.dev/queue-allocation-gate": "true"},
        },
        "spec": {"schedulingGates": [{"name": "sluice.dev/queue-allocation-gate"}], "containers": [{"name": "c"}]},
    });
    if let Some(class) = class {
        pod["metadata"]["labels"]["sluice.dev/priority-class"] = json!(class);
    }
    pod
}

/// What is read of a cluster whose queue allows `mid`, which is its default, and `high`; and of a job with this class.
fn asked(of_job: Option<&str>, objects: Vec<Value>) -> Result<Input, Failure> {
    let kind = include_str!("../../../../config/jobkinds/job.yaml");
    let quota = json!([{"coveredResources": ["cpu"], "flavors": [
        {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}]}]);
    let mut all = vec![
        serde_saphyr::from_str(kind).unwrap(),
        own("ResourceFlavor", &json!({"name": "default"}), &json!({})),
        own(
            "ClusterQueue",
            &json!({"name": "q"}),
            &json!({"namespaceSelector": {}, "resourceGroups": quota,
                "priorityClasses": {"allowed": ["high", "mid"], "default": "mid"}}),
        ),
        own(
            "LocalQueue",
            &json!({"name": "main", "namespace": "blue"}),
            &json!({"clusterQueue": "q"}),
        ),
        class("high", 100),
        class("mid", 50),
        class("low", 10),
    ];
    all.extend(objects);
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "new", "namespace": "blue", "labels": {"sluice.dev/queue-name": "main"}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        }}},
    });
    if let Some(class) = of_job {
        job["metadata"]["labels"]["sluice.dev/priority-class"] = json!(class);
    }
    let given = Given {
        seen: Some(Seen {
            documents: all.into_iter().map(document).collect(),
            ..Seen::default()
        }),
        files: vec![document(job)],
        ..Given::default()
    };
    read(&given, &Options::default())
}

#[test]
fn a_job_has_the_class_that_its_queue_allows_or_the_default() {
    for (class, priority) in [(None, 50), (Some("high"), 100), (Some("mid"), 50)] {
        let input = asked(class, Vec::new()).unwrap();
        let job = input.jobs.all().last().unwrap();
        assert_eq!(job.priority.value(&input.quotas), priority, "{class:?}");
    }
    let Err(Failure::Problems(problems)) = asked(Some("low"), Vec::new()) else {
        panic!("it is allowed")
    };
    let told: Vec<String> = problems.lines().collect();
    assert_eq!(
        told,
        [
            "f, document 1, Job \"blue/new\": can't be queued: ClusterQueue \"q\" does not allow this priority class: \
             metadata.labels[sluice.dev/priority-class]: Unsupported value: \"low\": supported values: \"high\", \"mid\""
        ]
    );
}

#[test]
fn what_is_not_queued_is_no_rival() {
    let objects = vec![
        waits("refused", "PriorityClassNotAllowed"),
        waits("lost", "PriorityClassNotFound"),
        waits("held", "OnHold"),
        waits("gated", "SchedulingGated"),
        waits("deleted", "Deleted"),
        waits("waits", "WaitingForQuota"),
        pod("pod-high", Some("high")),
        pod("pod-low", Some("low")),
        pod("pod-none", None),
    ];
    let input = asked(None, objects).unwrap();
    let seen = input.jobs.all().iter().take(input.seen);
    let known = |job: &InputJob| (job.name.to_string(), job.priority.value(&input.quotas));
    let mut seen: Vec<_> = seen.map(known).collect();
    seen.sort();
    let expected = [
        ("blue/pod-high", 100),
        ("blue/pod-none", 50),
        ("blue/waits", 0),
    ];
    assert_eq!(
        seen,
        expected.map(|(name, priority)| (name.to_owned(), priority))
    );
}
