//! Jobs of files without a duration: they need one to be played by themselves, and none beside those of a cluster, where
//! it is what like jobs took.

use serde_json::json;

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
