//! The turns of a job that its user pauses.

use super::*;
use crate::plan::engine_state;

/// Who suspends a job that Sluice released waits for himself, and not for quota.
#[test]
fn each_turn_of_a_paused_job() {
    let released = json!({"sluice.dev/held": "false"});
    let held = json!({"sluice.dev/held": "true"});
    let paused = || mk_job(json!({QUEUED: "main"}), released.clone(), true);
    let larger = with(paused(), "/spec/parallelism", json!(9));
    let gate = json!({GATE: "acme.io/x", "sluice.dev/held": "false"});
    let gated = mk_job(json!({QUEUED: "main"}), gate, true);
    let resumed = || mk_job(json!({QUEUED: "main"}), held.clone(), true);
    let unread = with(
        paused(),
        "/spec/template/spec/containers/0/resources",
        json!({"requests": {"cpu": "much"}}),
    );
    let pending = || Some(mk_workload(json!({})));
    let inactive = || Some(with(evicting(), "/spec/active", json!(false)));
    let cases = [
        (
            "admitted",
            paused(),
            Some(admitted()),
            "evict [\"Suspended\"]",
        ),
        (
            "and edited",
            larger,
            Some(admitted()),
            "evict [\"Suspended\"]",
        ),
        (
            "and not what can be counted",
            unread,
            Some(admitted()),
            "evict [\"Suspended\"]",
        ),
        (
            "its pods are gone",
            paused(),
            Some(evicting()),
            "requeue [\"Suspended\"]",
        ),
        (
            "deactivated too",
            paused(),
            inactive(),
            "requeue [\"Requeued\"]",
        ),
        ("its quota is free", paused(), pending(), "nothing []"),
        ("never queued", paused(), None, "nothing [\"Suspended\"]"),
        ("gated besides", gated, None, "nothing [\"Gated\"]"),
        (
            "resumed before its pods were gone",
            resumed(),
            Some(evicting()),
            "requeue [\"Requeued\"]",
        ),
        ("resumed", resumed(), None, "create workload []"),
    ];
    for (name, job, workload, expected) in cases {
        let plan = planned(&Case { job, workload });
        assert_eq!(in_words(&plan), expected, "{name}");
    }
    let running = Case {
        job: paused(),
        workload: Some(evicting()),
    };
    assert_eq!(in_words(&planned_with_pods(&running, 1)), "nothing []");
}

/// A job that its user has paused is no candidate for quota: it would be admitted and evicted again and again.
#[test]
fn a_paused_job_does_not_wait_for_quota() {
    let job = |held: &str| {
        mk_job(
            json!({QUEUED: "main"}),
            json!({"sluice.dev/held": held}),
            true,
        )
    };
    let (_, workload) =
        WorkloadRecord::read(serde_json::from_value(mk_workload(json!({}))).unwrap()).unwrap();
    for (mark, waits) in [("true", true), ("false", false)] {
        let job = read(&kind(), &job(mark));
        assert_eq!(engine_state::is_eligible(&job, &workload), waits, "{mark}");
    }
}
