//! Taking back one's own quota, and what that may cost one's own queue.

use crate::script::check;

#[test]
fn a_queue_takes_back_its_quota_from_a_sibling_and_an_outsider_together() {
    let script = |head: &str, expected: &str| {
        check(&format!(
            "{head}
             cohort r
             cohort c in=r default.cpu=2
             queue q in=c own=lower reclaim=any default.cpu=4
             queue same in=c default.cpu=0
             queue out in=r default.cpu=0
             held s same priority=10 default.cpu=3
             held o out priority=10 default.cpu=3
             job j q cpu=4
             decide => {expected}"
        ));
    };
    script("", "!s(reclaim) !o(reclaim)");
    script("fair", "!o(reclaim) !s(reclaim)");
    script("fair initial", "!o(reclaim) !s(reclaim)");
}

#[test]
fn the_lowest_priority_is_reclaimed_from_first_whichever_branch_it_is_in() {
    check(
        "cohort r
         cohort c in=r default.cpu=2
         queue q in=c reclaim=any default.cpu=4
         queue same in=c default.cpu=0
         queue out in=r default.cpu=0
         held high same priority=10 default.cpu=3
         held low out priority=1 default.cpu=3
         job j q cpu=3
         decide => !low(reclaim)",
    );
}

#[test]
fn what_an_outsider_borrows_of_the_branch_is_reclaimed_before_a_sibling_is_preempted_to_borrow() {
    check(
        "cohort r
         cohort left in=r
         queue blue in=left reclaim=any borrow=lower default.cpu=0
         queue red in=left reclaim=any default.cpu=0
         queue purple in=left default.cpu=4
         queue green in=r default.cpu=4
         held g1 green priority=50 since=1 default.cpu=4
         held g2 green priority=50 since=2 default.cpu=2
         held r1 red default.cpu=2
         job b1 blue priority=10 cpu=2
         decide => !g2(reclaim)
         gone g2
         decide => b1",
    );
}

#[test]
fn what_a_queue_borrows_that_admits_nothing_is_reclaimed() {
    for (stop, flavors) in [("hold", ""), ("", "gone.cpu=1")] {
        check(&format!(
            "no-flavor gone
             queue q in=c reclaim=any default.cpu=2
             queue b in=c {stop} default.cpu=0 {flavors}
             held x b default.cpu=2
             job j q cpu=2
             decide => !x(reclaim)"
        ));
    }
}

#[test]
fn outsiders_give_nothing_to_one_who_borrows_at_every_level() {
    check(
        "cohort r
         cohort c in=r default.cpu=2
         queue q in=c reclaim=any default.cpu=0
         queue same in=c default.cpu=0
         queue out in=r default.cpu=0
         queue lender in=r default.cpu=3
         held s same default.cpu=2
         held o out default.cpu=3
         job j q priority=5 cpu=2
         decide =>",
    );
}

#[test]
fn whoever_preempts_for_its_fewest_pods_leaves_the_others_what_is_theirs() {
    check(
        "queue a in=c reclaim=any default.cpu=2
         queue b in=c reclaim=any default.cpu=3
         job t b cpu=1 pods=5 min=3
         rest => t
         job j a cpu=1 pods=5 min=2
         rest => !t(reclaim) jx2 tx3
         job new b cpu=100
         rest =>",
    );
    // Of its own it takes more than the fewest.
    check(
        "queue a in=c reclaim=any default.cpu=3
         queue b in=c reclaim=any default.cpu=3
         held t b default.cpu=5
         job j a cpu=1 pods=5 min=2
         decide => !t(reclaim)
         gone t
         decide => jx3",
    );
    // All of it if nobody had to go for less.
    check(
        "queue a in=c own=lower reclaim=any default.cpu=3
         queue b in=c reclaim=any default.cpu=3
         held t a default.cpu=5
         job j a priority=1 cpu=1 pods=5 min=2
         decide => !t(own)
         gone t
         decide => j",
    );
    check(
        "fair
         queue a in=c reclaim=any default.cpu=0
         queue b in=c reclaim=any default.cpu=0
         queue lender in=c default.cpu=8
         job t b cpu=1 pods=8 min=2
         rest => t
         job j a cpu=1 pods=8 min=2
         rest => !t(fair) jx2 tx6
         job new b cpu=100
         rest =>",
    );
    // Nobody is preempted in vain who would be reclaimed from at once.
    check(
        "queue a in=c reclaim=any default.cpu=2
         queue b in=c reclaim=any default.cpu=3
         held t b default.cpu=5
         job w b at=9 cpu=3
         job j a at=0 cpu=1 pods=5 min=2
         decide => !t(reclaim)
         decide =>
         gone t
         decide => jx2 w",
    );
}

#[test]
fn by_shares_too_own_jobs_and_borrowers_are_preempted_together() {
    for strategy in ["fair", "fair initial", "fair final"] {
        check(&format!(
            "{strategy}
             queue q0 in=r own=lower reclaim=any default.cpu=5
             queue q1 in=r weight=3000 default.cpu=0
             held keep q0 priority=4 default.cpu=2
             held low q0 priority=0 default.cpu=1
             held borrower q1 priority=3 default.cpu=2
             job j q0 priority=3 cpu=3
             decide => !low(own) !borrower(reclaim)
             gone low
             gone borrower
             decide => j"
        ));
    }
}

#[test]
fn by_shares_no_own_job_is_preempted_where_a_borrower_is_enough() {
    // `q` has the largest share, by the memory that it borrows.
    for strategy in ["fair", "fair initial", "fair final"] {
        check(&format!(
            "{strategy}
             queue q in=c own=lower reclaim=any default.cpu=4 default.memory=0
             queue o in=c default.cpu=0 default.memory=0
             queue p in=c default.cpu=0 default.memory=4
             held m q priority=9 default.memory=4
             held low q priority=0 default.cpu=2
             held b o priority=0 default.cpu=2
             job j q priority=5 cpu=2
             decide => !b(reclaim)
             gone b
             decide => j"
        ));
    }
}

/// What own jobs use counts in the shares by which others are preempted.
#[test]
fn own_jobs_without_which_shares_allow_no_preemption_are_preempted() {
    check(
        "fair initial
         cohort c default.cpu=8
         queue q in=c own=lower reclaim=any default.cpu=0
         queue o in=c reclaim=any default.cpu=0
         job l q cpu=2
         job b o cpu=6
         rest => l b
         job j q priority=1 cpu=5
         decide => !l(own) !b(fair)",
    );
}

#[test]
fn own_jobs_are_preempted_only_as_far_as_reclaiming_from_borrowers_needs_it() {
    // Without `low`, and not before, the job is within what is its queue's own.
    check(
        "fair initial
         queue q in=r own=lower reclaim=any default.cpu=5
         queue b in=r weight=9000 default.cpu=0
         held low q priority=0 default.cpu=1
         held lower q priority=-1 default.cpu=1
         held keep q priority=9 default.cpu=1
         held borrower b priority=3 default.cpu=2
         job j q priority=3 cpu=3
         decide => !lower(own) !borrower(reclaim)",
    );
}

#[test]
fn a_search_that_ends_with_own_jobs_alone_chooses_the_lowest() {
    // To take back what `b` has, all of its own would have to go; but `low` alone is enough.
    for (settings, weight) in [("", ""), ("fair", "weight=9000")] {
        check(&format!(
            "{settings}
             queue q in=r own=lower reclaim=any default.cpu=4
             queue b in=r {weight} default.cpu=0
             queue lender in=r default.cpu=4
             held low q priority=0 default.cpu=1
             held high q priority=1 default.cpu=5
             held f b default.cpu=2
             job j q priority=9 cpu=1
             decide => !low(own)"
        ));
    }
}

#[test]
fn nobody_of_the_own_queue_is_preempted_where_another_queue_lends() {
    check(
        "queue q in=r own=lower reclaim=any borrow=lower default.cpu=4
         queue b in=r default.cpu=0
         queue lender in=r default.cpu=4
         held mine q priority=0 default.cpu=4
         held f b priority=1 default.cpu=4
         job j q priority=9 cpu=2
         decide => !f(borrow)",
    );
}

#[test]
fn a_lower_own_workload_is_preempted_rather_than_a_higher_one_beside_a_borrower() {
    // `high` would have to go with `f`, to keep to what is the queue's own; `low` alone is enough.
    check(
        "queue q in=r own=lower reclaim=any default.cpu=4
         queue b in=r default.cpu=0
         queue lender in=r default.cpu=3
         held low q priority=0 default.cpu=2
         held high q priority=1 default.cpu=3
         held f b default.cpu=2
         job j q priority=9 cpu=2
         decide => !low(own)",
    );
    // If it is not, `f` goes and the higher one stays.
    check(
        "queue q in=r own=lower reclaim=any default.cpu=4
         queue b in=r default.cpu=0
         held low q priority=0 default.cpu=1
         held high q priority=1 default.cpu=1
         held f b default.cpu=2
         job j q priority=9 cpu=3
         decide => !f(reclaim) !low(own)",
    );
}

#[test]
fn of_equal_shares_the_lowest_priority_gives_first() {
    check(
        "fair
         queue a in=r default.cpu=0
         queue b in=r default.cpu=0
         queue q in=r reclaim=any default.cpu=4
         held high a priority=9 default.cpu=2
         held low b priority=1 default.cpu=2
         job j q cpu=2
         decide => !low(reclaim)",
    );
    check(
        "fair
         cohort left in=r
         cohort right in=r
         queue a in=left default.cpu=0
         queue b in=right default.cpu=0
         queue q in=r reclaim=any default.cpu=4
         held high a priority=9 default.cpu=2
         held low b priority=1 default.cpu=2
         job j q cpu=2
         decide => !low(reclaim)",
    );
}

#[test]
fn by_shares_quota_is_taken_back_whatever_is_borrowed_of_others() {
    let script = |fair: &str, memory: u32, then: &str| {
        check(&format!(
            "{fair}
             queue q in=c reclaim=any default.cpu=4 default.memory=0
             queue b in=c default.cpu=0 default.memory=0
             queue lender in=c default.cpu=0 default.memory=8
             held h b default.cpu=4
             job j q cpu=4 memory={memory}
             decide => {then}"
        ));
    };
    script("fair", 0, "!h(reclaim)");
    script("fair", 8, "!h(reclaim)");
    // Without fair sharing it is judged by all that the job requests.
    script("flavor x", 0, "!h(reclaim)");
    script("flavor x", 8, "");
}

#[test]
fn by_shares_the_branch_of_a_preemptor_counts_with_its_request() {
    // With `h` the branch of `noisy` borrows most, so it loses two jobs, and no other branch any.
    let script = |fair: &str| {
        check(&format!(
            "{fair}
             cohort root default.cpu=1
             cohort left in=root
             queue q in=left reclaim=any default.cpu=3
             queue noisy in=left default.cpu=0
             queue out in=root default.cpu=0
             held n1 noisy since=1 default.cpu=1
             held n2 noisy since=2 default.cpu=1
             held n3 noisy since=3 default.cpu=1
             held o out priority=9 since=0 default.cpu=1
             job h q cpu=2
             decide => !n3(reclaim) !n2(reclaim)"
        ));
    };
    for fair in ["fair", "fair initial", "fair final", "flavor x"] {
        script(fair);
    }
}

#[test]
fn by_shares_whoever_is_evicted_for_another_branch_does_not_return_at_once() {
    check(
        "fair
         cohort root default.cpu=2
         cohort left in=root
         queue q in=left reclaim=any default.cpu=3
         queue noisy in=left default.cpu=0
         queue tiny in=root reclaim=any default.cpu=0
         job n1 noisy at=1 cpu=1
         job n2 noisy at=2 cpu=1
         job n3 noisy at=3 cpu=1
         job t1 tiny priority=9 at=4 cpu=1
         job t2 tiny priority=9 at=5 cpu=1
         rest => n1 n2 n3 t1 t2
         job h q at=6 cpu=3
         rest => !n3(reclaim) !n2(reclaim) !t2(reclaim) h",
    );
}

#[test]
fn by_shares_what_is_borrowed_of_the_scarce_is_still_judged_by_shares() {
    check(
        "fair
         queue q in=c reclaim=any default.cpu=3 default.memory=0
         queue b in=c default.cpu=0 default.memory=0
         queue lender in=c default.cpu=1 default.memory=8
         held h b default.cpu=4
         job j q cpu=4 memory=8
         decide =>",
    );
}

#[test]
fn whoever_preempts_for_its_fewest_pods_takes_nothing_that_was_freed_for_another() {
    let script = |stays: &str, then: &str| {
        check(&format!(
            "queue a in=c own=lower default.cpu=4
             queue d in=c reclaim=any default.cpu=2
             queue b in=c default.cpu=0
             held la a default.cpu=2
             held v1 b priority=5 since=2 default.cpu=2
             held v2 b priority=5 since=1 {stays} default.cpu=2
             job j1 a priority=3 cpu=1 pods=4 min=2
             job j2 d priority=1 cpu=2
             decide => !la(own) !v1(reclaim)
             gone la
             gone v1
             decide => {then}"
        ));
    };
    script("", "j1x2 j2");
    script("stays", "j1x2 j2");
    // It grows by what is left.
    check(
        "queue a in=c own=lower default.cpu=4
         queue d in=c reclaim=any default.cpu=2
         queue b in=c default.cpu=0
         held la a default.cpu=2
         held v1 b priority=5 since=2 default.cpu=2
         held v2 b priority=5 since=1 default.cpu=2
         job j1 a priority=3 cpu=1 pods=4 min=2
         job j2 d priority=1 cpu=2
         decide => !la(own) !v1(reclaim)
         gone la
         decide => j1x2
         fail j1
         gone v1
         gone v2
         decide => j1 j2",
    );
}

/// They only stand in the way of the right to reclaim: beside this one they fit, so they would be back at once.
#[test]
fn own_jobs_that_it_may_preempt_do_not_count_against_the_right_to_reclaim() {
    for fair in ["", "fair"] {
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any default.cpu=4
             queue o in=c default.cpu=4
             job l1 q cpu=1
             job l2 q cpu=1
             job big o cpu=5
             job s o priority=5 cpu=1
             rest => s l1 l2 big
             job j q priority=9 cpu=4
             rest => !big(reclaim) j"
        ));
    }
    // One that is not needed stays, one that is needed goes.
    check(
        "queue q in=c own=lower reclaim=any default.cpu=4
         queue o in=c default.cpu=3
         job l1 q cpu=2
         job l2 q priority=1 cpu=1
         rest => l2 l1
         job big o cpu=2
         job s o priority=5 cpu=2
         rest => s big
         job j q priority=9 cpu=4
         rest => !big(reclaim) !l1(own) j",
    );
}
