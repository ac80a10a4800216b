use serde_json::{Value, json};
use sluice_kinds::Problem;

use super::*;
use crate::plan::fixtures::mk_group_workload;
use crate::plan::workload;

/// The Workload of a job with these conditions.
fn mk_record(conditions: &Value) -> WorkloadRecord {
    let admission = json!({"clusterQueue": "cq", "podSetAssignments": []});
    let status = json!({"admission": admission, "conditions": conditions});
    mk_group_workload(&json!([]), &status).1
}

fn mk_reading(ready: Result<Option<bool>, Problem>) -> Reading {
    Reading {
        suspended: false,
        finished: None,
        active: true,
        ready,
        pod_sets: Ok([].into()),
    }
}

fn pods_ready(status: &str, reason: &str) -> Value {
    json!([{
        "type": "PodsReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

/// What PodsReady says.
fn told(status: &WorkloadStatus) -> Option<(&str, &str)> {
    let told = conditions::find(&status.conditions, Type::PodsReady)?;
    Some((&told.status, &told.reason))
}

#[test]
fn readiness_is_told_when_it_changes() {
    let problem = || Err(Problem::forbidden("spec.ready", "does not fit"));
    let never = json!([]);
    let (waits, started) = (
        pods_ready("False", "WaitForStart"),
        pods_ready("True", "Started"),
    );
    let recovers = pods_ready("False", "WaitForRecovery");
    let cases = [
        ("not ready yet", &never, Ok(Some(false)), None),
        ("ready", &never, Ok(Some(true)), Some(("True", "Started"))),
        (
            "ready at last",
            &waits,
            Ok(Some(true)),
            Some(("True", "Started")),
        ),
        ("still waits", &waits, Ok(Some(false)), None),
        ("still ready", &started, Ok(Some(true)), None),
        (
            "falls back",
            &started,
            Ok(Some(false)),
            Some(("False", "WaitForRecovery")),
        ),
        ("has not recovered", &recovers, Ok(Some(false)), None),
        (
            "recovers",
            &recovers,
            Ok(Some(true)),
            Some(("True", "Recovered")),
        ),
        ("a kind that does not say", &never, Ok(None), None),
        ("it can't be read", &started, problem(), None),
    ];
    for (name, known, ready, expected) in cases {
        let record = mk_record(known);
        let status = report(&record, &mk_reading(ready), Now::UNIX_EPOCH);
        assert_eq!(status.as_ref().and_then(told), expected, "{name}");
        assert_eq!(status.is_some(), expected.is_some(), "{name}");
    }
}

#[test]
fn who_is_admitted_or_has_to_go_is_not_ready() {
    let not_started = Some(("False", "WaitForStart"));
    let cases = [
        (json!([]), true, not_started, None),
        (json!([]), false, None, None),
        (
            pods_ready("True", "Recovered"),
            true,
            not_started,
            not_started,
        ),
        (
            pods_ready("False", "WaitForRecovery"),
            true,
            not_started,
            Some(("False", "WaitForRecovery")),
        ),
    ];
    for (known, tells_readiness, when_admitted, when_evicted) in cases {
        let record = mk_record(&known);
        let admission = record.status.admission.clone().unwrap();
        let now = Now::UNIX_EPOCH;
        let admitted = workload::admitted(&record, admission, tells_readiness, now);
        assert_eq!(told(&admitted), when_admitted, "{known} when admitted");
        let evicted = workload::evicted(&record, "Drained", "It has to go", None, now);
        assert_eq!(told(&evicted), when_evicted, "{known} when evicted");
    }
}
