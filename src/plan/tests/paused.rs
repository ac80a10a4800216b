//! The turns of a job that its user pauses.

use super::*;

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
