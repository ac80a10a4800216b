//! Where a job stands whose pods name a RuntimeClass.

use sluice_kinds::requests::ClassAdditions;

use super::*;

/// What becomes of a job whose RuntimeClass exists or doesn't.
fn told(suspended: bool, exists: bool, workload: Option<Value>, live_pods: usize) -> String {
    let pod = "/spec/template/spec";
    let job = with(
        queued(suspended),
        &format!("{pod}/runtimeClassName"),
        json!("kata"),
    );
    let flavor = json!({"disk": "ssd", "spot": "true"});
    let job = if suspended {
        job
    } else {
        with(job, &format!("{pod}/nodeSelector"), flavor)
    };
    let classes = exists.then(|| ("kata".to_owned(), ClassAdditions::default()));
    let defaults = PodDefaults {
        runtime_classes: Some(classes.into_iter().collect()),
        ..PodDefaults::default()
    };
    let object = serde_json::from_value(job).unwrap();
    let job = JobRecord::read(object, &kind(), &QueueLabels::default(), &defaults);
    in_words(&planned_record(&kind(), &job, workload, live_pods))
}

#[test]
fn a_job_waits_for_its_runtime_class_and_runs_on_without_it() {
    let waiting = || Some(mk_workload(json!({})));
    let held = "nothing [\"InvalidPodSets\"]";
    let rows = [
        ("new", true, true, None, 0, "create workload []"),
        ("new, no class", true, false, None, 0, held),
        (
            "started by hand",
            false,
            false,
            None,
            0,
            "suspend [\"InvalidPodSets\"]",
        ),
        ("waits", true, true, waiting(), 0, "nothing []"),
        ("waits, no class any more", true, false, waiting(), 0, held),
        ("admitted", true, true, Some(admitted()), 0, "release []"),
        (
            "admitted, no class any more",
            true,
            false,
            Some(admitted()),
            0,
            "evict [\"Evicted\"]",
        ),
        (
            "runs, no class any more",
            false,
            false,
            Some(admitted()),
            2,
            "nothing []",
        ),
        (
            "its last pods have just ended",
            false,
            false,
            Some(admitted()),
            0,
            "nothing []",
        ),
    ];
    for (name, suspended, exists, workload, live_pods, expected) in rows {
        assert_eq!(
            told(suspended, exists, workload, live_pods),
            expected,
            "{name}"
        );
    }
}
