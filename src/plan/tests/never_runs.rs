//! A job that its controller would never run.

use super::*;

/// A kind whose controller would never run more than one pod.
#[test]
fn a_job_that_its_controller_would_never_run_holds_no_quota() {
    let mut refusing: JobKind =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    refusing.spec.refuse = vec![sluice_crds::RefuseRule {
        when: "object.spec.parallelism > 1".to_owned(),
        field: Some(".spec.parallelism".to_owned()),
        message: "must be 1".to_owned(),
        ..Default::default()
    }];
    let refusing = CompiledKind::compile(&refusing).unwrap();
    let placed = |job: Value| {
        with(
            job,
            "/spec/template/spec/nodeSelector",
            json!({"disk": "ssd", "spot": "true"}),
        )
    };
    // Suspended, its controller says nothing of it.
    let ignored = |job: Value| with(job, "/status", json!({}));
    let pending = mk_workload(json!({}));
    let cases = [
        ("queued", queued(true), None, 0, "nothing [\"NeverRuns\"]"),
        ("runs", queued(false), None, 0, "suspend [\"NeverRuns\"]"),
        (
            "edited while it waits",
            queued(true),
            Some(pending),
            0,
            "delete workload [\"NeverRuns\"]",
        ),
        (
            "edited between admission and release",
            queued(true),
            Some(admitted()),
            0,
            "evict [\"Evicted\"]",
        ),
        (
            "admitted, and has no pods",
            placed(queued(false)),
            Some(admitted()),
            0,
            "evict [\"Evicted\"]",
        ),
        (
            "edited while its pods run",
            placed(queued(false)),
            Some(admitted()),
            2,
            "nothing []",
        ),
        (
            "evicted, its pods still run",
            ignored(queued(true)),
            Some(evicting()),
            2,
            "nothing []",
        ),
        (
            "evicted, and its controller does nothing about it",
            ignored(queued(true)),
            Some(evicting()),
            0,
            "requeue []",
        ),
    ];
    for (name, job, workload, live_pods, expected) in cases {
        let case = Case { job, workload };
        let plan = planned_of_kind(&refusing, &case, live_pods);
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}
