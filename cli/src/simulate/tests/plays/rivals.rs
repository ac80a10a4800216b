//! Plays in which jobs once made each other go without end. Each must end, with every job done.

use sluice_engine::{BorrowWithinCohort, FairPreemption, Weight};

use super::*;

/// By what queues judge their rights against others.
#[derive(Clone, Copy)]
enum Rights {
    /// What is their own.
    Own,
    /// Priority, also where they borrow themselves.
    Priority,
    /// Fair shares, by weights in thousandths.
    Shares([u32; 3]),
}

const EQUAL_SHARES: Rights = Rights::Shares([1000; 3]);

/// Plays jobs in `a` with 4 and `b` with 3, and `idle` in the cohort besides; all have the same rules.
fn check(
    name: &str,
    (within, reclaim): (WithinClusterQueue, ReclaimWithinCohort),
    rights: Rights,
    idle: i128,
    jobs: &[Job],
) {
    let cpus = [("a", 4), ("b", 3), ("c", idle)];
    let lower = BorrowWithinCohort::LowerPriority {
        max_priority_threshold: None,
    };
    let (borrow, fair, weights) = match rights {
        Rights::Own => (BorrowWithinCohort::Never, None, [1000; 3]),
        Rights::Priority => (lower, None, [1000; 3]),
        Rights::Shares(weights) => {
            let tests = FairPreemption::DEFAULT.to_vec();
            (BorrowWithinCohort::Never, Some(tests), weights)
        }
    };
    let quotas = queues(&cpus, true, |queue| {
        let number = cpus
            .iter()
            .position(|(name, _)| *name == queue.name.as_str());
        queue.fair_weight = Weight::from_thousandths(weights[number.unwrap()]);
        queue.preemption = Preemption {
            within_cluster_queue: within,
            reclaim_within_cohort: reclaim,
            borrow_within_cohort: borrow,
        };
    });
    for restart in [Restart::FromStart, Restart::WhereItWas] {
        let mut rules = Rules { restart, ..rules() };
        rules.settings.fair_sharing.clone_from(&fair);
        let play = play(quotas.events(), jobs, &rules);
        assert_eq!(play.cut, None, "{name}, {restart:?}");
        let is_done = |fate: &Fate| matches!(fate, Fate::Finished(_));
        assert!(play.fates.iter().all(is_done), "{name}: {:?}", seen(&play));
    }
}

#[test]
fn a_job_that_borrows_preempts_no_target_that_would_return_first() {
    use ReclaimWithinCohort::{Any, LowerPriority};
    check(
        "the first of those that go is within its quota once the others have gone",
        (WithinClusterQueue::Never, Any),
        Rights::Priority,
        0,
        &[
            job("a", 61, 0, (5, None), 1),
            job("b", 37, 24, (7, None), 2),
            job("a", 38, 0, (1, None), 1),
        ],
    );
    check(
        "and so is one of another queue",
        (WithinClusterQueue::Never, LowerPriority),
        Rights::Priority,
        0,
        &[
            job("a", 0, 10, (7, None), 2),
            job("a", 1, 10, (5, None), 1),
            job("b", 3, 10, (4, None), 0),
            job("b", 2, 10, (3, None), 0),
        ],
    );
    check(
        "and so is one where shares are unequal",
        (WithinClusterQueue::Never, Any),
        Rights::Shares([1000, 1000, 3000]),
        2,
        &[
            job("b", 2, 0, (5, None), 1),
            job("b", 1, 0, (3, None), 1),
            job("c", 0, 2, (7, None), 0),
        ],
    );
}

#[test]
fn nothing_is_preempted_for_a_job_behind_another_that_would_take_the_quota() {
    use ReclaimWithinCohort::Any;
    use WithinClusterQueue::LowerPriority;
    check(
        "the head would preempt a job of its own queue for the rest, by shares",
        (LowerPriority, Any),
        EQUAL_SHARES,
        0,
        &[
            job("b", 0, 10, (4, None), 0),
            job("a", 0, 10, (2, None), 0),
            job("a", 0, 10, (6, None), 2),
            job("a", 0, 10, (2, None), 0),
        ],
    );
    check(
        "and by priority",
        (LowerPriority, Any),
        Rights::Priority,
        0,
        &[
            job("b", 0, 10, (6, None), 2),
            job("a", 0, 10, (7, None), 1),
            job("a", 0, 10, (2, None), 0),
            job("a", 0, 10, (1, None), 0),
        ],
    );
}

#[test]
fn nothing_is_preempted_for_a_job_before_which_its_targets_return() {
    use ReclaimWithinCohort::Any;
    use WithinClusterQueue::{LowerOrNewerEqualPriority, LowerPriority, Never};
    check(
        "one of the same queue leaves already",
        (LowerPriority, Any),
        Rights::Own,
        0,
        &[
            job("b", 0, 0, (6, None), 0),
            job("a", 0, 0, (5, None), 1),
            job("a", 0, 0, (2, None), 0),
            job("a", 0, 0, (3, None), 1),
            job("b", 0, 0, (3, None), 0),
        ],
    );
    check(
        "or one of another queue",
        (LowerOrNewerEqualPriority, Any),
        Rights::Own,
        0,
        &[
            job("a", 1, 31, (5, None), 2),
            job("b", 2, 0, (1, None), 0),
            job("a", 0, 33, (2, None), 2),
            job("b", 3, 0, (5, None), 1),
        ],
    );
    check(
        "and others of both leave too",
        (LowerOrNewerEqualPriority, Any),
        Rights::Own,
        0,
        &[
            job("b", 1, 0, (3, None), 0),
            job("b", 1, 0, (7, None), 1),
            job("a", 0, 0, (4, None), 0),
            job("a", 0, 2, (5, None), 1),
            job("a", 1, 0, (1, None), 0),
        ],
    );
    check(
        "the same where shares are looked at",
        (Never, Any),
        EQUAL_SHARES,
        2,
        &[
            job("b", 1, 0, (5, None), 0),
            job("c", 1, 0, (4, None), 0),
            job("a", 0, 2, (7, None), 0),
            job("a", 0, 0, (5, None), 0),
            job("b", 1, 0, (3, None), 0),
        ],
    );
}

#[test]
fn nothing_is_preempted_for_quota_that_its_queue_has_only_reserved() {
    use ReclaimWithinCohort::{Any, LowerPriority};
    use WithinClusterQueue as Within;
    check(
        "a claim makes no borrower",
        (Within::LowerPriority, LowerPriority),
        Rights::Priority,
        0,
        &[
            job("a", 65, 0, (5, Some(3)), 2),
            job("b", 12, 53, (2, None), 0),
            job("b", 38, 28, (3, None), 1),
            job("b", 38, 0, (3, Some(2)), 1),
            job("b", 43, 23, (1, None), 2),
        ],
    );
    check(
        "nor where shares are looked at",
        (Within::Never, Any),
        EQUAL_SHARES,
        0,
        &[
            job("a", 42, 0, (3, Some(3)), 0),
            job("b", 43, 0, (1, None), 2),
            job("b", 23, 0, (4, Some(3)), 2),
            job("a", 22, 0, (6, Some(3)), 0),
            job("b", 0, 44, (5, None), 2),
        ],
    );
    check(
        "a claim makes no share",
        (Within::LowerPriority, Any),
        EQUAL_SHARES,
        2,
        &[
            job("a", 65, 0, (6, Some(2)), 0),
            job("a", 33, 38, (4, None), 0),
            job("b", 27, 44, (4, None), 1),
            job("b", 55, 14, (4, None), 2),
            job("b", 71, 0, (2, None), 0),
        ],
    );
}
