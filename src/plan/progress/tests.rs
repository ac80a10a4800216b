use serde_json::{Value, json};
use sluice_kinds::CompiledKind;
use sluice_kinds::requests::PodDefaults;

use super::*;
use crate::plan::evictions::cause::Cause;
use crate::plan::fixtures::{mk_group_workload, mk_pod};
use crate::plan::workload;

/// The Workload of a job with these conditions.
fn mk_record(conditions: &Value) -> WorkloadRecord {
    let admission = json!({"clusterQueue": "cq", "podSetAssignments": []});
    let status = json!({"admission": admission, "conditions": conditions});
    mk_group_workload(&json!([]), &status).1
}

fn pods_ready(status: &str, reason: &str) -> Value {
    json!([{
        "type": "PodsReady", "status": status, "reason": reason, "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }])
}

/// What PodsReady says.
fn readiness_of(status: &WorkloadStatus) -> Option<(&str, &str)> {
    let told = conditions::find(&status.conditions, ConditionType::PodsReady)?;
    Some((&told.status, &told.reason))
}

#[test]
fn readiness_is_told_when_it_changes() {
    let never = json!([]);
    let (waits, started) = (
        pods_ready("False", "WaitForStart"),
        pods_ready("True", "Started"),
    );
    let recovers = pods_ready("False", "WaitForRecovery");
    let cases = [
        ("not ready yet", &never, Some(false), None),
        ("ready", &never, Some(true), Some(("True", "Started"))),
        (
            "ready at last",
            &waits,
            Some(true),
            Some(("True", "Started")),
        ),
        ("still waits", &waits, Some(false), None),
        ("still ready", &started, Some(true), None),
        (
            "falls back",
            &started,
            Some(false),
            Some(("False", "WaitForRecovery")),
        ),
        ("has not recovered", &recovers, Some(false), None),
        (
            "recovers",
            &recovers,
            Some(true),
            Some(("True", "Recovered")),
        ),
        ("a kind that does not say", &never, None, None),
    ];
    for (name, known, ready, expected) in cases {
        let record = mk_record(known);
        let told = Told {
            ready,
            lacks_pods: false,
            hides_pods: false,
            pod_sets: &[],
            counts_pods: true,
            live_pods_of_set: &|_| LivePods::default(),
        };
        let status = report(&record, &told, Present::UNIX_EPOCH);
        assert_eq!(status.as_ref().and_then(readiness_of), expected, "{name}");
        assert_eq!(status.is_some(), expected.is_some(), "{name}");
    }
}

#[test]
fn a_workload_just_admitted_or_evicted_is_not_ready() {
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
        let now = Present::UNIX_EPOCH;
        let admitted = workload::admitted(&record, admission, tells_readiness, now);
        assert_eq!(
            readiness_of(&admitted),
            when_admitted,
            "{known} when admitted"
        );
        let evicted = workload::evicted(&record, &Cause::new("Drained", "It is drained"), now);
        assert_eq!(readiness_of(&evicted), when_evicted, "{known} when evicted");
    }
}

/// The Workload of a job with a set of `admitted` pods of which so many have given their quota away.
fn mk_reclaimed(admitted: i32, reclaimed: i32) -> WorkloadRecord {
    let set = json!({"name": "main", "count": admitted});
    let admission = json!({"clusterQueue": "cq", "podSetAssignments": [set]});
    let mut status = json!({"admission": admission});
    if 0 < reclaimed {
        status["reclaimablePods"] = json!([{"name": "main", "count": reclaimed}]);
    }
    mk_group_workload(&json!([]), &status).1
}

/// A pod set of a job that says that so many of its pods have ended for good.
fn mk_set(name: &str, reclaimable: u32) -> PodSetView {
    let (_, pod) = mk_pod("p", 0, &[], |_| {});
    PodSetView {
        name: name.into(),
        count: 9,
        reclaimable,
        ..pod.asks.as_ref().clone().unwrap()
    }
}

#[test]
fn pods_that_have_ended_for_good_are_told_as_far_as_that_is_believed() {
    let cases = [
        ("nothing is said", 4, 0, 0, 3, 0),
        ("one has ended", 4, 0, 1, 3, 1),
        ("one more has ended", 4, 1, 2, 2, 2),
        ("one of them still runs", 4, 0, 2, 3, 1),
        ("all of them still run", 4, 0, 4, 4, 0),
        ("more run than were admitted", 4, 0, 2, 5, 0),
        ("it takes back what it said", 4, 2, 1, 2, 2),
        ("it takes back all that it said", 4, 2, 0, 0, 2),
        ("pods come back", 4, 2, 3, 4, 2),
        ("all have ended", 4, 1, 4, 0, 4),
        ("more have ended than were admitted", 4, 0, 9, 0, 4),
        ("more than there are numbers", 4, 0, u32::MAX, usize::MAX, 0),
    ];
    for (name, admitted, known, said, live, expected) in cases {
        let record = mk_reclaimed(admitted, known);
        let told = Told {
            ready: None,
            lacks_pods: false,
            hides_pods: false,
            pod_sets: &[mk_set("main", said)],
            counts_pods: true,
            live_pods_of_set: &|_| LivePods {
                all: live,
                staying: 0,
            },
        };
        let status = report(&record, &told, Present::UNIX_EPOCH);
        assert_eq!(status.is_some(), known != expected, "{name}");
        let mut after = record.clone();
        after.status = status.unwrap_or(after.status);
        assert_eq!(
            i64::from(after.reclaimed("main")),
            i64::from(expected),
            "{name}"
        );
        let again = report(&after, &told, Present::UNIX_EPOCH);
        assert_eq!(again, None, "{name}: told twice");
    }
}

#[test]
fn a_running_job_that_is_made_smaller_gives_quota_back() {
    let cases = [
        ("as admitted", 4, 0, 4, 0, 4, true, 0),
        ("four to one", 4, 0, 1, 0, 1, true, 3),
        ("two of them are still there", 4, 0, 1, 0, 3, true, 1),
        ("none of them is seen yet", 4, 0, 1, 0, 0, true, 0),
        ("down to nothing", 4, 0, 0, 0, 0, true, 4),
        ("and one of those left has ended", 4, 0, 2, 1, 1, true, 3),
        ("smaller again", 4, 1, 1, 0, 1, true, 3),
        ("grown back by then", 4, 0, 4, 0, 1, true, 0),
        ("grown beyond what was admitted", 4, 0, 9, 0, 4, true, 0),
        ("pods that are released one by one", 4, 0, 1, 0, 1, false, 0),
    ];
    for (name, admitted, known, count, ended, live, counts_pods, expected) in cases {
        let record = mk_reclaimed(admitted, known);
        let set = PodSetView {
            count,
            ..mk_set("main", ended)
        };
        let told = Told {
            ready: None,
            lacks_pods: false,
            hides_pods: false,
            pod_sets: &[set],
            counts_pods,
            live_pods_of_set: &|_| LivePods {
                all: live,
                staying: live,
            },
        };
        let status = report(&record, &told, Present::UNIX_EPOCH);
        let mut after = record.clone();
        after.status = status.unwrap_or(after.status);
        assert_eq!(after.reclaimed("main"), expected, "{name}");
    }
}

/// Whatever its kind says of its pods: none of those that are gone comes again.
#[test]
fn a_job_that_has_ended_keeps_quota_for_the_pods_that_run_on() {
    let cases = [
        ("one of four runs on", "main", 4, 0, 1, 3),
        ("all of them", "main", 4, 0, 4, 0),
        ("none of this set", "main", 4, 0, 0, 4),
        ("some had ended before", "main", 4, 2, 1, 3),
        ("more are made again", "main", 4, 3, 2, 3),
        ("more run than were admitted", "main", 4, 0, 5, 0),
        ("a set of which nothing is known", "other", 4, 1, 0, 1),
    ];
    for (name, set, admitted, known, live, expected) in cases {
        let record = mk_reclaimed(admitted, known);
        let live = |_: &str| LivePods {
            all: live,
            staying: 0,
        };
        let status = report_ended(&record, &[mk_set(set, 0)], &live);
        let mut after = record.clone();
        after.status = status.unwrap_or(after.status);
        assert_eq!(after.reclaimed("main"), expected, "{name}");
        let again = report_ended(&after, &[mk_set(set, 0)], &live);
        assert_eq!(again, None, "{name}: told twice");
    }
}

#[test]
fn each_pod_set_is_told_by_itself() {
    let set = |name| json!({"name": name, "count": 2});
    let admission = json!({"clusterQueue": "cq", "podSetAssignments": [set("head"), set("main")]});
    let status = json!({"admission": admission});
    let (_, record) = mk_group_workload(&json!([]), &status);
    let told = Told {
        ready: None,
        lacks_pods: false,
        hides_pods: false,
        pod_sets: &[mk_set("other", 2), mk_set("main", 2), mk_set("head", 2)],
        counts_pods: true,
        live_pods_of_set: &|name| LivePods {
            all: if name == "main" { 2 } else { 1 },
            staying: 0,
        },
    };
    let status = report(&record, &told, Present::UNIX_EPOCH).unwrap();
    let head = ReclaimablePod {
        name: "head".to_owned(),
        count: 1,
    };
    assert_eq!(status.reclaimable_pods, [head]);
}

#[test]
fn pods_that_come_back_are_noticed() {
    let cases = [
        ("nothing was told", 4, 0, 5, false),
        ("as many as hold quota", 4, 1, 3, false),
        ("one came back", 4, 1, 4, true),
        ("all had ended, one came back", 4, 4, 1, true),
        ("none is there", 4, 4, 0, false),
    ];
    for (name, admitted, reclaimed, staying, expected) in cases {
        let record = mk_reclaimed(admitted, reclaimed);
        // What is being deleted may have been replaced already.
        let live = |_: &str| LivePods {
            all: staying + 3,
            staying,
        };
        assert_eq!(is_refuted(&record, &[], &live), expected, "{name}");
    }
}

/// Somebody takes Sluice's label out of its template.
#[test]
fn pods_that_cannot_be_seen_keep_their_quota() {
    let none = |_: &str| LivePods::default();
    let mk = |count, reclaimable| {
        let (_, pod) = mk_pod("p", 0, &[], |pod| pod["metadata"]["labels"] = json!({}));
        [PodSetView {
            name: "main".into(),
            count,
            reclaimable,
            ..pod.asks.as_ref().clone().unwrap()
        }]
    };
    let told = |sets: &[PodSetView]| {
        let told = Told {
            ready: None,
            lacks_pods: false,
            hides_pods: false,
            pod_sets: sets,
            counts_pods: true,
            live_pods_of_set: &none,
        };
        let status = report(&mk_reclaimed(4, 0), &told, Present::UNIX_EPOCH);
        status.map_or(0, |status| status.reclaimable_pods[0].count)
    };
    assert_eq!(told(&mk(0, 0)), 0, "made smaller");
    assert_eq!(told(&mk(4, 1)), 1, "one has ended");
    let rows = [
        ("nothing was told", 0, mk(4, 0), false),
        ("as many as hold quota", 2, mk(2, 0), false),
        (
            "as many as hold quota, the others have ended",
            2,
            mk(4, 2),
            false,
        ),
        ("grown back", 2, mk(4, 0), true),
    ];
    for (name, reclaimed, sets, expected) in rows {
        let record = mk_reclaimed(4, reclaimed);
        assert_eq!(is_refuted(&record, &sets, &none), expected, "{name}");
    }
}

#[test]
fn what_was_told_lasts_as_long_as_the_admission() {
    let record = mk_reclaimed(4, 2);
    let admission = record.status.admission.clone().unwrap();
    let now = Present::UNIX_EPOCH;
    let kept = &record.status.reclaimable_pods;
    let evicted = workload::evicted(&record, &Cause::new("Drained", "It is drained"), now);
    assert_eq!(&evicted.reclaimable_pods, kept);
    assert_eq!(
        workload::requeued(&record, workload::Next::Queue, now).reclaimable_pods,
        []
    );
    let admitted = workload::admitted(&record, admission, false, now);
    assert_eq!(admitted.reclaimable_pods, []);
}

#[test]
fn a_batch_job_tells_which_pods_it_will_not_replace() {
    let kind = serde_saphyr::from_str(include_str!("../../../config/jobkinds/job.yaml")).unwrap();
    let kind = CompiledKind::compile(&kind).unwrap();
    let cases = [
        ("nothing has succeeded", json!(3), json!(3), Value::Null, 0),
        ("one of three", json!(3), json!(3), json!(1), 1),
        ("the last pods", json!(3), json!(10), json!(8), 1),
        ("as many are left as run", json!(3), json!(10), json!(7), 0),
        ("most are left", json!(3), json!(10), json!(1), 0),
        ("all have succeeded", json!(3), json!(3), json!(3), 3),
        ("more than were wanted", json!(3), json!(3), json!(4), 3),
        ("never as many as it might", json!(5), json!(3), json!(1), 1),
        (
            "a work queue, and none is active",
            json!(3),
            Value::Null,
            json!(2),
            3,
        ),
        ("one at a time", Value::Null, json!(3), json!(1), 0),
        (
            "one at a time, to the end",
            Value::Null,
            json!(3),
            json!(3),
            1,
        ),
        ("paused", json!(0), json!(3), json!(1), 0),
    ];
    for (name, parallelism, completions, succeeded, expected) in cases {
        let mut job = json!({
            "spec": {"template": {"spec": {"containers": []}}},
            "status": {},
        });
        let fields = [
            ("/spec", "parallelism", parallelism),
            ("/spec", "completions", completions),
            ("/status", "succeeded", succeeded),
        ];
        for (place, field, value) in fields {
            if !value.is_null() {
                job.pointer_mut(place).unwrap()[field] = value;
            }
        }
        let sets = kind.pod_sets(&job, &PodDefaults::default()).unwrap();
        assert_eq!(sets[0].reclaimable, expected, "{name}");
    }
}

#[test]
fn pods_were_ready_once_they_have_been() {
    let rows = [
        ("True", "Started", true),
        ("True", "Recovered", true),
        ("False", "WaitForRecovery", true),
        ("False", "WaitForStart", false),
    ];
    for (status, reason, expected) in rows {
        let known: Vec<Condition> = serde_json::from_value(pods_ready(status, reason)).unwrap();
        assert_eq!(were_ready(&known), expected, "{reason}");
    }
    assert!(!were_ready(&[]), "its kind says nothing");
}
