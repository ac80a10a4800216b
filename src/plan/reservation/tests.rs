use serde_json::json;

use super::*;
use crate::plan::fixtures::{let_go, mk_group_workload, mk_pod};

fn terms(limit: Option<i32>) -> Reservation {
    Reservation {
        timeout_seconds: 60,
        backoff: sluice_crds::Backoff {
            base_seconds: 10,
            max_seconds: 60,
            limit_count: limit,
        },
    }
}

fn at(minute: u32) -> Now {
    format!("2026-01-01T00:{minute:02}:00Z").parse().unwrap()
}

#[test]
fn the_backoff_doubles_up_to_its_maximum() {
    let waits = [1, 2, 3, 4, 5, 1000].map(|count| pod_backoff(count, &terms(None)).as_secs());
    assert_eq!(waits, [10, 20, 40, 60, 60, 60]);
}

#[test]
fn a_workload_that_gave_back_too_often_is_deactivated() {
    let after = |count: Option<i32>, limit| {
        let status = count.map_or(json!({}), |count| json!({"requeueState": {"count": count}}));
        let (_, record) = mk_group_workload(&json!([]), &status);
        backoff(&record, Some(&terms(limit)))
    };
    assert_eq!(after(None, Some(0)), Backoff::None);
    assert_eq!(
        after(Some(2), None),
        Backoff::For(SignedDuration::from_secs(20))
    );
    assert_eq!(
        after(Some(2), Some(2)),
        Backoff::For(SignedDuration::from_secs(20))
    );
    assert_eq!(after(Some(3), Some(2)), Backoff::Deactivate);
}

#[test]
fn a_pod_is_overdue_from_its_admission_on() {
    let admitted = |pod: &mut serde_json::Value| {
        let_go(pod);
        let record = r#"{"clusterQueue":"cq","flavors":{},"at":"2026-01-01T00:05:00Z"}"#;
        pod["metadata"]["annotations"]["sluice.dev/admitted"] = json!(record);
    };
    let bound = |pod: &mut serde_json::Value| {
        admitted(pod);
        pod["spec"]["nodeName"] = json!("n1");
    };
    let is_overdue = |change: &dyn Fn(&mut serde_json::Value), minute| {
        let (_, pod) = mk_pod("p", 1, &[], change);
        pod_is_overdue(&pod, &terms(None), at(minute))
    };
    assert!(!is_overdue(&|_| (), 30), "it still waits");
    assert!(!is_overdue(&admitted, 5));
    assert!(is_overdue(&admitted, 6));
    assert!(!is_overdue(&bound, 6));
    assert!(
        is_overdue(&let_go, 2),
        "without a record, from its creation on"
    );
}

#[test]
fn a_workload_is_overdue_when_one_of_its_pods_is_or_none_was_made() {
    let condition = json!({"type": "Admitted", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:10:00Z"});
    let (_, record) = mk_group_workload(&json!([]), &json!({"conditions": [condition]}));
    let (_, waits) = mk_pod("p", 0, &[], let_go);
    let (_, late) = mk_pod("q", 11, &[], let_go);
    let (_, bound) = mk_pod("r", 0, &[], |pod| {
        let_go(pod);
        pod["spec"]["nodeName"] = json!("n1");
    });
    let overdue = |pods: &[&PodRecord], empty_for: Option<u64>, minute| {
        let empty_for = empty_for.map(Duration::from_secs);
        is_overdue(
            &record,
            pods.iter().copied(),
            empty_for,
            &terms(None),
            at(minute),
        )
    };
    assert!(!overdue(&[&waits], None, 10), "only just admitted");
    assert!(overdue(&[&waits, &bound], None, 11));
    assert!(!overdue(&[&bound], None, 11));
    assert!(
        !overdue(&[&bound, &late], None, 11),
        "made anew a moment ago"
    );
    assert!(overdue(&[&bound, &late], None, 12));
    assert!(overdue(&[], Some(60), 11), "no pods were made");
    assert!(!overdue(&[], Some(59), 30), "they were there a moment ago");
    assert!(
        !overdue(&[], None, 30),
        "its pods can't be seen, or it wants none"
    );
}
