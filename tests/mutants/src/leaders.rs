//! Two leaders, one after the other or side by side; clocks, watches and lookups that fail.

use crate::FoundBy::{Cluster, Unit};
use crate::{Mutant, mutant};

const LEASE: &str = "src/process/lease/election.rs";

pub(crate) static MUTANTS: &[Mutant] = &[
    mutant(
        "a late admission keeps quota that was given to others",
        "src/controller/decisions/ended_term_admissions.rs",
        (
            "self.ended_terms.subjects.iter().cloned().collect();",
            "self.ended_terms.subjects.iter().take(0).cloned().collect();",
        ),
        Cluster("a_late_admission_is_taken_back_before_anything_is_released"),
    ),
    mutant(
        "a pod that was ungated late stays",
        "src/controller/decisions/ended_term_admissions.rs",
        ("if runs && !is_taken_over {", "if runs && is_taken_over {"),
        Cluster("a_pod_that_was_ungated_late_is_evicted"),
    ),
    mutant(
        "what the leader before may have seen too late is not doubted",
        "src/plan/workload/ended_term_admissions.rs",
        (
            "!is_released && latest.is_some_and(",
            "is_released && latest.is_some_and(",
        ),
        Unit(
            "src",
            "what_the_leader_before_may_have_seen_too_late_is_doubted",
        ),
    ),
    mutant(
        "the first decision waits for nobody",
        "src/controller/decisions/first_decision.rs",
        (
            "const WAIT_MAX: Duration = Duration::from_secs(30);",
            "const WAIT_MAX: Duration = Duration::ZERO;",
        ),
        Cluster("a_job_created_while_nobody_led_is_ordered_by_priority"),
    ),
    mutant(
        "a leader whose loop hangs keeps its Lease",
        LEASE,
        (
            "let wait = if pulse.is_beating() {",
            "let wait = if pulse.is_beating() || self.held.is_some() {",
        ),
        Unit("src", "a_controller_that_hangs_loses_the_lease"),
    ),
    mutant(
        "a violated invariant ends each term at once",
        "src/process/invariants.rs",
        (
            "let left = TERM_MIN.saturating_sub(now.since(self.began));",
            "let left = TERM_MIN.saturating_sub(TERM_MIN.max(now.since(self.began)));",
        ),
        Unit("src", "a_violation_ends_a_term_that_lasts_ten_minutes"),
    ),
    mutant(
        "a conflict on the Lease is tried again at once",
        LEASE,
        (
            "Ok(Outcome::Conflict) => self.timing.conflict,",
            "Ok(Outcome::Conflict) => Duration::ZERO,",
        ),
        Unit("src", "a_contended_lease_is_not_written_to_faster"),
    ),
    mutant(
        "a watch that says nothing is believed",
        "src/process/watch_freshness.rs",
        (
            "since(&watch.times.answered) < SILENT_AFTER)",
            "since(&watch.times.answered) < SILENT_AFTER.saturating_mul(1000))",
        ),
        Cluster("a_silent_api_server_ends_readiness"),
    ),
    mutant(
        "a webhook that does not know its JobKinds yet refuses for good",
        "webhooks/src/rules/review.rs",
        (
            "_ if !policy.knows_kinds() => early(&request.kind.kind),",
            "_ if !policy.knows_kinds() => Verdict::of(vec![Problem::forbidden(\"kind\", \"is not known\")]),",
        ),
        Unit(
            "webhooks",
            "before_the_job_kinds_are_known_nothing_is_refused_for_good",
        ),
    ),
    mutant(
        "an owner that can't be read is absent",
        "src/plan/children/lineage.rs",
        (
            "Known::Unreadable => return Lineage::Unreadable(owner),",
            "Known::Unreadable => return Lineage::Orphan,",
        ),
        Unit("src", "owners_are_followed_as_far_as_they_are_declared"),
    ),
    mutant(
        "times are believed that a leader with a fast clock recorded",
        "src/process/recorded_times.rs",
        (
            ".map_or(recorded, |seen| seen.moved.min(seen.at))",
            ".map_or(recorded, |seen| seen.moved.max(seen.recorded))",
        ),
        Unit("src", "an_eviction_stalls_in_time"),
    ),
    mutant(
        "a backoff lasts as long as a fast clock says",
        "src/process/recorded_times.rs",
        (
            "recorded.min(seen.moved).min(latest)",
            "recorded.max(latest.min(seen.moved))",
        ),
        Unit("src", "a_backoff_ends_and_lasts_no_longer_than_it_may"),
    ),
    mutant(
        "what a leader with a slow clock recorded is long ago",
        "src/process/lease/election.rs",
        (
            "if ahead.abs() <= CLOCKS_AGREE {",
            "if ahead.abs() <= CLOCKS_AGREE || ahead.is_positive() {",
        ),
        Unit("src", "the_next_leader_knows_how_its_clock_differs"),
    ),
];
