//! Jobs whose controller does nothing about them, and whose queue changes before they start.

use super::*;
use crate::plan::workload;
use crate::plan::workload::pending_reason::NotReserved;

fn stalled(spec: &Value) -> Value {
    let conditions = [condition("Evicted"), condition("Stalled")];
    let workload = with(evicting(), "/status/conditions", json!(conditions));
    with(workload, "/spec/active", spec.clone())
}

/// A controller that finds a spec invalid, or leaves the object to another one, writes no status at all.
#[test]
fn a_job_without_a_status_gives_its_quota_back_once_its_eviction_is_overdue() {
    let job = |status: Value| with(queued(true), "/status", status);
    let mut without_status = queued(true);
    without_status.as_object_mut().unwrap().remove("status");
    let counts = json!({"conditions": [], "active": 1});
    let cases = [
        ("in time", job(json!({})), evicting(), 0, "nothing []"),
        (
            "overdue",
            job(json!({})),
            stalled(&json!(true)),
            0,
            "requeue [\"Requeued\"]",
        ),
        (
            "no status",
            without_status,
            stalled(&json!(true)),
            0,
            "requeue [\"Requeued\"]",
        ),
        (
            "a pod runs",
            job(json!({})),
            stalled(&json!(true)),
            1,
            "nothing []",
        ),
        (
            "its status counts pods",
            job(counts),
            stalled(&json!(true)),
            0,
            "nothing []",
        ),
    ];
    for (name, job, workload, pods, expected) in cases {
        let workload = Some(workload);
        let plan = planned_with_pods(&Case { job, workload }, pods);
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}

#[test]
fn what_is_deactivated_is_not_told_that_it_is_queued_again() {
    let workload = with(evicting(), "/spec/active", json!(false));
    let job = with(
        queued(true),
        "/spec/template/spec/nodeSelector",
        json!({"disk": "ssd"}),
    );
    let plan = planned(&Case {
        job,
        workload: Some(workload),
    });
    let told: Vec<&str> = plan
        .notes
        .iter()
        .map(|note| note.message.as_str())
        .collect();
    assert_eq!(
        told,
        [
            "Its pods are gone and its quota is free: deactivated, and not queued again until spec.active of its Workload is true"
        ]
    );
}

/// Its label can't be changed any more once it runs.
#[test]
fn who_names_another_queue_before_the_release_is_queued_there() {
    let other = |queue: &str, suspended| mk_job(json!({QUEUED: queue}), json!({}), suspended);
    let cases = [
        ("the same", other("main", true), "release []"),
        ("another", other("other", true), "evict [\"Evicted\"]"),
        (
            "none",
            mk_job(json!({}), json!({}), true),
            "evict [\"Evicted\"]",
        ),
        ("another, and it runs", other("other", false), "nothing []"),
    ];
    for (name, job, expected) in cases {
        let workload = Some(admitted());
        let plan = planned(&Case { job, workload });
        assert_eq!(in_words(&plan), expected, "{name}");
    }
}

#[test]
fn requeued_is_true_when_what_kept_it_out_is_over() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let cases = [
        ("Backoff", Some("BackoffFinished")),
        ("Deactivated", Some("Reactivated")),
        ("OnHold", Some("Resumed")),
        ("Deleted", None),
    ];
    for (reason, expected) in cases {
        let said = json!({"type": "Requeued", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let waits = mk_workload(json!({"conditions": [said]}));
        let (_, record) = WorkloadRecord::read(serde_json::from_value(waits).unwrap()).unwrap();
        let requeued = |reason| {
            let status = workload::waiting(&record, reason, "waits".to_owned(), now).unwrap();
            let said = status
                .conditions
                .into_iter()
                .find(|said| said.type_ == "Requeued");
            let said = said.unwrap();
            (said.status == "True").then_some(said.reason)
        };
        let found = requeued(NotReserved::PENDING_EVALUATION);
        assert_eq!(found.as_deref(), expected, "{reason}");
        for out in [
            NotReserved::BACKING_OFF,
            NotReserved::OnHold,
            NotReserved::Deactivated,
        ] {
            assert_eq!(requeued(out), None, "{reason}");
        }
    }
}
