//! Events that repeat what is known, that name unknown objects, or that come while nothing can be decided; and
//! events about a queue with pending workloads.

use crate::script::check;

#[test]
fn what_is_known_already_changes_nothing() {
    // Who waits for room is worked out anew when a tree is built anew, so it shows.
    check(
        "cohort c
         queue q in=c own=lower default.cpu=2
         held low q default.cpu=2
         job high q priority=9 cpu=2
         decide => !low(own)
         cohort c
         queue q in=c own=lower default.cpu=2
         flavor default
         local q queue=q
         why high => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         cohort c weight=2000
         why high => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 2)
         decide =>
         why high => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one",
    );
}

#[test]
fn whatever_changes_about_a_workload_is_noticed() {
    let script = |before: &str, after: &str| {
        check(&format!(
            "queue q default.cpu=1
             job a q at=1 {before}
             decide at=1 =>
             job a q at=1 {after}
             decide at=1 => a"
        ));
    };
    script("cpu=2", "cpu=1");
    script("after=5 cpu=1", "cpu=1");
}

#[test]
fn a_flavor_that_changes_concerns_only_queues_that_name_it() {
    // Who waits for room is worked out anew when a tree is built anew, so it shows.
    let script = |flavor: &str, why: &str| {
        check(&format!(
            "queue q own=lower default.cpu=2
             held low q default.cpu=2
             job high q priority=9 cpu=2
             decide => !low(own)
             flavor {flavor} label=zone:a
             why high => {why}"
        ));
    };
    script(
        "spot",
        "waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one",
    );
    script(
        "default",
        "couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": requests 2 (nominal quota 2)",
    );
}

#[test]
fn who_came_and_went_before_the_first_decision_holds_nothing() {
    check(
        "queue q default.cpu=2
         held a q default.cpu=2
         evicting a
         gone a
         use q =>
         job j q cpu=2
         decide => j",
    );
}

#[test]
fn what_nobody_knows_is_let_be() {
    check(
        "no-cohort nothing
         no-queue nothing
         no-local nothing
         no-flavor nothing
         gone nobody
         fail nobody
         unevicted nobody
         decide =>
         queue q default.cpu=1
         job a q cpu=1
         unevicted a
         decide => a
         unevicted a
         decide =>
         confirm a
         unevicted a
         decide =>
         counts q => 0 1 1",
    );
}

#[test]
fn one_that_is_deleted_before_the_decision_is_not_evicted() {
    check(
        "queue q drain default.cpu=2
         held a q default.cpu=1
         held b q default.cpu=1
         gone a
         decide => !b",
    );
}

#[test]
fn a_queue_that_comes_back_begins_anew() {
    check(
        "queue q default.cpu=1
         job a q cpu=1
         decide => a
         gone a
         no-local q
         no-queue q
         decide =>
         queue q default.cpu=1
         counts q => 0 0 0
         job b q cpu=1
         decide => b
         counts q => 0 1 0",
    );
}

#[test]
fn a_queue_that_orders_otherwise_is_put_in_order_anew() {
    check(
        "queue q default.cpu=1
         local heavy queue=q used=cpu:8
         local light queue=q
         local closed queue=q hold
         job no closed priority=9 cpu=1
         job h heavy priority=5 cpu=1
         job l1 light cpu=1
         job l2 light cpu=1
         queue q by-usage default.cpu=1
         decide => l1
         gone l1
         queue q default.cpu=1
         decide => h",
    );
}

#[test]
fn a_queue_that_limits_otherwise_lets_others_in_or_keeps_them_outside() {
    check(
        "queue q default.cpu=1
         held x q default.cpu=1
         job a q cpu=1
         job b q cpu=1
         decide =>
         queue q max=1 default.cpu=1
         decide =>
         why a => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 1 (nominal quota 1)
         why b => ClusterQueue \"q\" already has 1 pending workload (spec.maxPending) ahead of this one
         queue q default.cpu=1
         decide =>
         why b => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 1 (nominal quota 1)",
    );
}

#[test]
fn what_was_decided_for_another_is_not_taken_back_when_the_queue_changes() {
    check(
        "queue q own=lower default.cpu=2
         held low q default.cpu=2
         job high q priority=9 cpu=2
         decide => !low(own)
         queue q default.cpu=3
         decide =>
         why high => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         gone low
         decide => high",
    );
}

#[test]
fn what_is_told_while_cohorts_form_a_circle_counts_afterwards() {
    // Of 3, `a` and `c` hold 2, and `c` leaves.
    check(
        "cohort one in=two
         cohort two in=one
         queue q in=one default.cpu=3
         decide =>
         held a q default.cpu=1
         held b q default.cpu=1
         held c q default.cpu=1
         evicting b
         evicting c
         gone b
         job j q cpu=2
         decide =>
         use q => default.cpu=2+0
         cohort two
         decide =>
         why j => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         gone c
         decide => j",
    );
}

#[test]
fn one_that_becomes_evictable_may_be_preempted_and_one_that_no_longer_is_may_not() {
    check(
        "queue q own=lower default.cpu=2
         held pod q stays default.cpu=2
         job high q priority=9 cpu=2
         decide =>
         held pod q default.cpu=2
         decide => !pod(own)
         held pod q stays default.cpu=2
         decide =>
         why high => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 2)
         held pod q default.cpu=2
         decide => !pod(own)",
    );
    // What is only assumed stays so, whatever its record says of that.
    check(
        "queue q default.cpu=1
         job a q cpu=1
         decide => a
         job a q stays cpu=1
         decide =>
         counts q => 0 1 0",
    );
}
