//! Workloads for which nothing may be borrowed: what room there is for them, who goes for them, and that
//! what is kept for them stays theirs.

use crate::script::check;

#[test]
fn own_jobs_are_preempted_where_only_the_nominal_quota_is_short() {
    check(
        "queue q in=c own=lower default.cpu=4
         queue lender in=c default.cpu=8
         held low q default.cpu=4
         job j q priority=5 cpu=2 within-nominal
         decide => !low(own)
         decide =>
         gone low
         decide => j
         use q => default.cpu=2+0",
    );
}

#[test]
fn so_many_own_jobs_are_preempted_that_nothing_is_borrowed() {
    for rules in [
        "own=lower",
        "own=lower reclaim=any",
        "own=lower reclaim=any borrow=lower",
    ] {
        for fair in ["", "fair", "fair initial", "fair final"] {
            check(&format!(
                "{fair}
                 queue q in=c {rules} default.cpu=4
                 queue lender in=c default.cpu=4
                 held keep q priority=9 default.cpu=1
                 held a q priority=1 default.cpu=2
                 held b q priority=2 default.cpu=2
                 held c q priority=3 default.cpu=3
                 job j q priority=5 cpu=2 within-nominal
                 decide => !a(own) !b(own) !c(own)
                 gone a
                 gone b
                 gone c
                 decide => j"
            ));
        }
    }
}

#[test]
fn nobody_is_preempted_if_the_queue_would_borrow_all_the_same() {
    for fair in ["", "fair"] {
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any borrow=lower default.cpu=4
             queue lender in=c default.cpu=4
             queue b in=c default.cpu=0
             held keep q priority=9 default.cpu=3
             held low q default.cpu=2
             held f b default.cpu=3
             job j q priority=5 cpu=2 within-nominal
             decide =>"
        ));
    }
}

#[test]
fn what_others_borrow_of_its_quota_is_reclaimed_and_never_in_order_to_borrow() {
    for fair in ["", "fair", "fair initial", "fair final"] {
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any borrow=lower default.cpu=4
             queue b in=c default.cpu=0
             held mine q default.cpu=2
             held f b default.cpu=2
             job j q priority=5 cpu=2 within-nominal
             decide => !f(reclaim)
             gone f
             decide => j"
        ));
    }
    check(
        "queue q in=c own=lower reclaim=any borrow=lower default.cpu=4
         queue b in=c default.cpu=0
         queue lender in=c default.cpu=1
         held mine q default.cpu=2
         held f b default.cpu=3
         job j q priority=5 cpu=4 within-nominal
         decide => !f(reclaim) !mine(own)",
    );
}

#[test]
fn own_jobs_alone_are_preempted_where_they_are_enough() {
    for fair in ["", "fair"] {
        check(&format!(
            "{fair}
             queue q in=c own=lower reclaim=any default.cpu=4
             queue b in=c default.cpu=0
             queue lender in=c default.cpu=2
             held low q priority=1 default.cpu=4
             held f b default.cpu=2
             job j q priority=5 cpu=4 within-nominal
             decide => !low(own)"
        ));
    }
}

#[test]
fn each_pod_set_leaves_nominal_quota_to_the_next() {
    check(
        "queue q in=c own=lower default.cpu=4
         queue lender in=c default.cpu=8
         held low q default.cpu=1
         job j q priority=5 cpu=2 / cpu=2 within-nominal
         decide => !low(own)
         gone low
         decide => j",
    );
}

#[test]
fn it_waits_until_the_nominal_quota_is_free_and_is_not_only_about_to_be() {
    check(
        "queue q in=c default.cpu=4
         queue lender in=c default.cpu=8
         held a q default.cpu=4
         evicting a
         job j q cpu=4 within-nominal
         decide =>
         gone a
         decide => j",
    );
}

#[test]
fn nobody_of_its_queue_borrows_away_what_is_kept_for_it() {
    check(
        "queue q in=c own=lower default.cpu=4
         queue lender in=c default.cpu=8
         held low q priority=1 default.cpu=3
         job j q priority=5 cpu=2 within-nominal
         decide => !low(own)
         job k q cpu=3
         job other lender cpu=2
         decide => other
         gone low
         decide => j k
         use q => default.cpu=5+1",
    );
}

#[test]
fn of_two_flavors_the_one_is_taken_where_it_need_not_borrow() {
    check(
        "queue q in=c default.cpu=2 spot.cpu=4
         queue lender in=c default.cpu=8
         job j q cpu=3 within-nominal
         decide => j
         flavors j => 0.cpu=spot",
    );
}

#[test]
fn the_outlook_says_that_the_queue_has_no_more() {
    check(
        "queue q in=c default.cpu=4
         queue lender in=c default.cpu=8
         held a q default.cpu=3
         job j q cpu=2 within-nominal
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 2, 1 is free: ClusterQueue \"q\" has no more; not preempted: 1 of its own queue (withinClusterQueue is Never); fits after a",
    );
}
