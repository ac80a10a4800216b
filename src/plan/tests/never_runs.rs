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

/// What webhooks and the plugin see of an object the controller sees too. A JobKind was Ready, and none of its objects
/// could be read.
#[test]
fn expressions_may_name_what_every_object_has() {
    let mut named: JobKind =
        serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    let spec = &mut named.spec;
    spec.active = Some("object.metadata.generation > 1".to_owned());
    spec.ready = Some("object.metadata.labels.tier == 'gold'".to_owned());
    spec.clear_start_time = Some("object.kind == 'Job'".to_owned());
    spec.pod_sets[0].count = Some("size(object.metadata.name)".to_owned());
    let finished = spec.finished.as_mut().unwrap();
    finished.when =
        "has(object.metadata.annotations) && object.metadata.namespace == 'blue'".to_owned();
    finished.succeeded = "object.metadata.annotations.end == 'good'".to_owned();
    finished.message = Some("object.apiVersion".to_owned());
    spec.refuse = vec![sluice_crds::RefuseRule {
        when: "size(object.metadata.name) > 4".to_owned(),
        message: "metadata.name must have at most 4 characters".to_owned(),
        ..Default::default()
    }];
    let named = CompiledKind::compile(&named).unwrap();

    let running = mk_job(json!({"tier": "gold"}), json!({}), false);
    let reading = read(&named, &running).reading.unwrap();
    assert!(!reading.active, "the generation is 1");
    assert_eq!(reading.ready, Ok(Some(true)));
    assert_eq!(reading.clears_start_time, Ok(true));
    assert_eq!(reading.pod_sets.unwrap()[0].count, 5);
    assert_eq!(reading.finished, None, "annotations are absent, not empty");
    assert_eq!(
        reading.refusals[0].to_string(),
        "spec: Forbidden: metadata.name must have at most 4 characters"
    );

    let ended = mk_job(json!({"tier": "gold"}), json!({"end": "good"}), false);
    let finished = read(&named, &ended).reading.unwrap().finished.unwrap();
    assert_eq!((finished.succeeded, &*finished.message), (true, "batch/v1"));
}
