//! How long who gave quota back backs off before it is queued again, and when it has done so too often
//! (`ClusterQueue.spec.reservation.backoff`). When a Workload has to give quota back is not told here.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::{RequeueState, Reservation};

use crate::cache::WorkloadRecord;

/// What becomes of a Workload that gives its quota back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backoff {
    /// It waits again at once.
    None,
    /// It waits again after this time.
    For(SignedDuration),
    /// It has done so too often.
    Deactivate,
}

/// How long an evicted Workload will back off.
pub fn backoff(record: &WorkloadRecord, reservation: Option<&Reservation>) -> Backoff {
    let Some(state) = &record.status.requeue_state else {
        return Backoff::None;
    };
    let backoff = reservation.map(|reservation| reservation.backoff.clone());
    let backoff = backoff.unwrap_or_default();
    if backoff.limit_count.is_some_and(|limit| limit < state.count) {
        return Backoff::Deactivate;
    }
    Backoff::For(doubled(&backoff, state.count))
}

/// How long the next pod of a controller backs off after `count` of its pods have timed out.
pub fn pod_backoff(count: i32, reservation: &Reservation) -> Duration {
    Duration::try_from(doubled(&reservation.backoff, count)).unwrap_or_default()
}

/// When a Workload waits in its queue again that backs off by this reservation.
pub fn requeue_at(record: &WorkloadRecord, reservation: Option<&Reservation>) -> Option<Timestamp> {
    let backoff = reservation
        .map(|reservation| reservation.backoff.clone())
        .unwrap_or_default();
    record.requeue_at(doubled(&backoff, i32::MAX))
}

fn doubled(backoff: &sluice_crds::Backoff, count: i32) -> SignedDuration {
    let times = u32::try_from(count.saturating_sub(1)).unwrap_or(0).min(30);
    let seconds = i64::from(backoff.base_seconds).saturating_mul(1_i64 << times);
    SignedDuration::from_secs(seconds.min(i64::from(backoff.max_seconds)))
}

/// The count of a Workload that gives its quota back once more.
pub fn once_more(record: &WorkloadRecord) -> RequeueState {
    let before = record.status.requeue_state.as_ref();
    RequeueState {
        count: before.map_or(1, |state| state.count.saturating_add(1)),
        requeue_at: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::mk_group_workload;

    fn reservation(limit: Option<i32>) -> Reservation {
        Reservation {
            timeout_seconds: 60,
            recovery_timeout_seconds: None,
            backoff: sluice_crds::Backoff {
                base_seconds: 10,
                max_seconds: 60,
                limit_count: limit,
            },
        }
    }

    #[test]
    fn the_backoff_doubles_up_to_its_maximum() {
        let waits =
            [1, 2, 3, 4, 5, 1000].map(|count| pod_backoff(count, &reservation(None)).as_secs());
        assert_eq!(waits, [10, 20, 40, 60, 60, 60]);
    }

    #[test]
    fn a_workload_that_gave_back_too_often_is_deactivated() {
        let after = |count: Option<i32>, limit| {
            let status = count.map_or(json!({}), |count| json!({"requeueState": {"count": count}}));
            let (_, record) = mk_group_workload(&json!([]), &status);
            backoff(&record, Some(&reservation(limit)))
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
}
