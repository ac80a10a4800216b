//! Jobs of files without a duration: they need one to be played by themselves, and none beside those of a cluster, where
//! it is what like jobs took.

use std::time::Duration;

use serde_json::{Value, json};

use crate::input::Document;
use crate::simulate::problem::Failure;
use crate::simulate::reading::{Given, Options, Seen, read};

#[test]
fn a_workload_of_a_file_needs_a_duration_only_without_a_cluster() {
    let workload = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {"name": "a", "namespace": "blue"},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]},
    });
    let given = |seen: Option<Seen>| Given {
        seen,
        files: vec![Document {
            file: "f".into(),
            place: "document 1".into(),
            value: workload.clone(),
        }],
        ..Given::default()
    };
    let beside = read(&given(Some(Seen::default())), &Options::default()).unwrap();
    let durations: Vec<_> = beside.jobs.all().iter().map(|job| job.duration).collect();
    assert_eq!(durations, [None]);

    let Err(Failure::Problems(problems)) = read(&given(None), &Options::default()) else {
        panic!("it is played without a duration")
    };
    let told: Vec<String> = problems.lines().collect();
    assert!(told[0].contains("or set --duration"), "{told:?}");
}

/// As of the simulations of an estimate: three of four jobs that began at one time still run.
#[test]
fn a_job_is_to_run_as_long_as_those_that_still_run_let_expect() {
    let workload = |name: &str, conditions: &[(&str, &str)]| {
        let conditions = conditions.iter().map(|(kind, at)| {
            json!({"type": kind, "status": "True", "reason": "x", "message": "", "lastTransitionTime": at})
        });
        json!({
            "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
            "metadata": {"name": name, "namespace": "blue", "uid": name},
            "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]},
            "status": {
                "conditions": conditions.collect::<Vec<_>>(),
                "admission": {"clusterQueue": "all", "podSetAssignments": [
                    {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}]},
            },
        })
    };
    let since = [
        ("QuotaReserved", "2026-03-01T09:00:00Z"),
        ("Admitted", "2026-03-01T09:00:00Z"),
    ];
    let finished = [&since[..], &[("Finished", "2026-03-01T09:01:00Z")]].concat();
    let mut objects = vec![workload("finished", &finished)];
    objects.extend(["a", "b", "c"].map(|name| workload(name, &since)));
    let document = |value: Value| Document {
        file: "cluster".into(),
        place: "an object".into(),
        value,
    };
    let seen = Seen {
        at: "2026-03-01T10:00:00Z"
            .parse::<k8s_openapi::jiff::Timestamp>()
            .unwrap()
            .as_millisecond(),
        documents: objects.into_iter().map(document).collect(),
        ..Seen::default()
    };
    let new = json!({
        "apiVersion": "sluice.dev/v1alpha1", "kind": "Workload",
        "metadata": {"name": "new", "namespace": "blue"},
        "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}]},
    });
    let given = Given {
        seen: Some(seen),
        files: vec![document(new)],
        ..Given::default()
    };
    let mut input = read(&given, &Options::default()).unwrap();
    assert_eq!(input.notes, [""; 0]);
    let now = input.now.unwrap();
    let durations = std::mem::take(&mut input.durations);
    input
        .jobs
        .estimate_durations(&durations, None, now)
        .unwrap();
    let new = input.jobs.all().last().unwrap();
    // By the one that has finished alone it would take a minute.
    assert!(Some(Duration::from_hours(1)) <= new.duration, "{new:?}");
}
