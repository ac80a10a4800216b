//! Admissions that come in late: a leader wrote them whose term has ended since. Its request was held up,
//! in a socket or in an API server that hung, and the present leader has listed without it, or decided. Such an
//! admission counts for nothing until the present leader has taken it over; if there is no quota for it, it
//! is taken back. Nothing is released on it, as only the present leader releases.

use std::collections::BTreeMap;

use sluice_crds::reasons::{event, eviction};
use sluice_crds::{ConditionType, WorkloadStatus};

use crate::cache::WorkloadRecord;
use crate::cache::conditions::{self, ConditionUpdate};
use crate::plan::evictions::cause::Cause;
use crate::plan::workload::pending_reason::NotReserved;
use crate::plan::writes::plan_and_notes::{Note, Present};

/// What a leader knew when it saw an admission.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionSight<'a> {
    /// Its own term.
    pub own: &'a str,
    /// Whether it has listed everything. What it has seen before that it has taken over by its lists.
    pub has_listed: bool,
    /// The term of the admission that this object had before and that counted, if it had one.
    pub before: Option<&'a str>,
}

impl AdmissionSight<'_> {
    /// Whether an admission of `term` counts. An empty one is of a Sluice that wrote none.
    pub fn counts(&self, term: &str) -> bool {
        !self.has_listed || term == self.own || self.before == Some(term)
    }
}

/// The latest of the terms in which anything was admitted. A Lease counts its terms, so that the latest one of the Lease of
/// `own` is known, and if there is none, that of the one Lease which all are of. None if they are of several others,
/// which were deleted: then nobody knows.
pub fn latest<'a>(own: &str, terms: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (_, lease) = parts(own);
    let mut of_lease = BTreeMap::<&str, (u32, &str)>::new();
    for term in terms {
        let (number, lease) = parts(term);
        let latest = of_lease.entry(lease).or_insert((number, term));
        *latest = (*latest).max((number, term));
    }
    let of_own = of_lease.get(lease);
    let (_, latest) = of_own.or_else(|| match of_lease.len() {
        1 => of_lease.values().next(),
        _ => None,
    })?;
    Some(latest)
}

/// Whether an admission that this leader has listed may have come in late to the leader before it, which
/// ended before it could take it back: its term is not the latest in which anything was admitted, as far as that is
/// known, and its job has never been released.
pub fn is_doubtful(term: &str, latest: Option<&str>, is_released: bool) -> bool {
    !is_released && latest.is_some_and(|latest| latest != term)
}

/// The number of a term and its Lease. A Sluice without terms wrote neither.
fn parts(term: &str) -> (u32, &str) {
    let (number, lease) = term.split_once('.').unwrap_or_default();
    (number.parse().unwrap_or_default(), lease)
}

/// The status of a Workload whose late admission is taken back: it waits as before.
pub fn taken_back(record: &WorkloadRecord, now: Present) -> WorkloadStatus {
    let mut status = record.status.clone();
    let said = |kind, reason, message: &str| ConditionUpdate {
        kind,
        is_true: false,
        reason,
        message: message.to_owned(),
    };
    let sayings = [
        said(
            ConditionType::QuotaReserved,
            NotReserved::PENDING_EVALUATION.as_str(),
            "Waits for quota: its admission arrived after the leader's term had ended",
        ),
        said(
            ConditionType::Admitted,
            eviction::TERM_ENDED,
            "The admission arrived after the leader's term had ended, and its quota was given to others: taken back before any pod was released",
        ),
    ];
    for update in sayings {
        conditions::set(&mut status.conditions, update, record.generation, now);
    }
    status.admission = None;
    status
}

/// What its user is told.
pub fn taken_back_note() -> Note {
    Note::normal(
        event::REQUEUED,
        "The admission arrived after the leader's term had ended, and its quota was given to others: queued again",
    )
}

/// Why a pod is evicted that was admitted late: it runs already.
pub fn pod_cause() -> Cause {
    Cause::new(
        eviction::TERM_ENDED,
        "The admission arrived after the leader's term had ended, and its quota was given to others",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::mk_group_workload;

    #[test]
    fn an_admission_of_an_ended_term_counts_if_it_was_listed() {
        const OWN: &str = "3.lease";
        // Its term, whether everything was listed, what was known before, whether it counts.
        let table = [
            (OWN, true, None, true, "written by this leader"),
            ("2.lease", false, None, true, "listed at the start"),
            ("", false, None, true, "listed, of a Sluice without terms"),
            ("2.lease", true, None, false, "came in late"),
            ("3.other", true, None, false, "of another Lease"),
            ("4.lease", true, None, false, "of a later leader"),
            ("", true, None, false, "late, of a Sluice without terms"),
            (
                "2.lease",
                true,
                Some("2.lease"),
                true,
                "taken over before, something else of it has changed",
            ),
            ("", true, Some(""), true, "the same, without terms"),
            (
                "2.lease",
                true,
                Some("1.lease"),
                false,
                "admitted once more by an ended leader",
            ),
            (
                "2.lease",
                true,
                Some(""),
                false,
                "it had one without a term",
            ),
        ];
        for (term, has_listed, before, expected, why) in table {
            let sight = AdmissionSight {
                own: OWN,
                has_listed,
                before,
            };
            assert_eq!(sight.counts(term), expected, "{why}");
        }
    }

    #[test]
    fn what_the_leader_before_may_have_seen_too_late_is_doubted() {
        // The terms in which something was admitted; those that are doubted, if nothing was released.
        let table: [(&str, &[&str], &[&str]); 7] = [
            (
                "of this Lease the latest counts",
                &["7.lease", "8.lease", "20.other", ""],
                &["7.lease", "20.other", ""],
            ),
            ("more than nine", &["9.lease", "10.lease"], &["9.lease"]),
            ("the Lease was deleted", &["20.other"], &[]),
            (
                "deleted after two leaders had admitted",
                &["1.other", "2.other"],
                &["1.other"],
            ),
            (
                "two were deleted: nobody knows",
                &["20.other", "1.third"],
                &[],
            ),
            ("of a Sluice without terms", &["", ""], &[]),
            (
                "of one, and then one of a Lease that is gone",
                &["", "2.other"],
                &[],
            ),
        ];
        for (name, terms, expected) in table {
            let latest = latest("9.lease", terms.iter().copied());
            let doubted = terms.iter().filter(|term| is_doubtful(term, latest, false));
            assert_eq!(doubted.copied().collect::<Vec<_>>(), expected, "{name}");
            let released = terms.iter().any(|term| is_doubtful(term, latest, true));
            assert!(!released, "{name}: what was released counted");
        }
    }

    #[test]
    fn what_is_taken_back_waits_as_before() {
        let condition = |kind: &str| {
            json!({"type": kind, "status": "True", "reason": kind, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({
            "admission": {"clusterQueue": "q", "podSetAssignments": [], "term": "2.lease"},
            "conditions": [condition("QuotaReserved"), condition("Admitted")],
            "requeueState": {"count": 2},
        });
        let (_, mut record) = mk_group_workload(&json!([]), &status);
        record.of_ended_term = record.status.admission.take();
        let after = taken_back(&record, Present::UNIX_EPOCH);
        assert_eq!(after.admission, None);
        assert_eq!(after.requeue_state, record.status.requeue_state, "kept");
        for kind in [ConditionType::QuotaReserved, ConditionType::Admitted] {
            assert!(!conditions::is_true(&after.conditions, kind), "{kind:?}");
        }
    }
}
