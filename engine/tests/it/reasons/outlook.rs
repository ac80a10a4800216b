//! What is said of those that wait must be what decides: who comes first, what is short, and who may be preempted.

use sluice_engine::Engine;

use crate::script::{check, played};

/// What a workload lacks.
fn lacking(engine: &Engine, id: &str) -> String {
    let trials = engine.trials(&id.into()).unwrap();
    let lacking = trials.lacking.iter();
    let texts = lacking.map(|(flavor, resource, amount)| {
        format!("{}.{}={}", flavor.as_str(), resource.as_str(), amount.get())
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[test]
fn what_a_strict_queue_passes_is_not_ahead() {
    check(
        "queue q strict default.cpu=2
         held x q stays default.cpu=2
         job never q priority=9 cpu=5
         job first q priority=5 cpu=1
         job second q cpu=1
         decide =>
         outlook first => is the first of its queue; in flavor \"default\" it needs cpu 1, 0 is \
         free: ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; fits after x
         outlook second => comes after first; in flavor \"default\" it needs cpu 1, 0 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; fits after x",
    );
}

#[test]
fn by_usage_the_local_queue_that_has_used_less_is_ahead() {
    check(
        "queue q by-usage default.cpu=2
         local heavy queue=q used=cpu:8
         local light queue=q
         held x q stays default.cpu=2
         job high heavy priority=9 cpu=1
         job higher heavy priority=10 cpu=1
         job low light cpu=1
         decide =>
         outlook low => is the first of its queue; in flavor \"default\" it needs cpu 1, 0 is \
         free: ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; fits after x
         outlook high => comes after 2, the first being low; in flavor \"default\" it needs cpu 1, \
         0 is free: ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; fits after x",
    );
}

#[test]
fn by_usage_workloads_of_other_local_queues_are_no_candidates() {
    check(
        "queue q by-usage own=lower default.cpu=3
         local one queue=q
         local two queue=q
         held x two from=q default.cpu=2
         held y one from=q priority=9 default.cpu=1
         job j one priority=5 cpu=2
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 2, 0 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 of its own queue don't come after it, 1 \
         of other LocalQueues of its own queue (admission by usage); fits after x",
    );
}

#[test]
fn a_cohort_above_that_stays_within_its_quota_lets_its_queue_reclaim() {
    // `mine` would borrow, but not `team`.
    check(
        "cohort root
         cohort team in=root default.cpu=4
         queue mine in=team reclaim=any default.cpu=0
         queue theirs in=root default.cpu=0
         held pod theirs stays priority=9 default.cpu=3
         held v theirs priority=7 default.cpu=1
         job j mine priority=5 cpu=3
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 3, 0 is free: \
         cohort \"root\" has no more; not preempted: 1 can't be evicted, 1 may be preempted, but hold \
         too little quota together; fits after pod",
    );
}

#[test]
fn a_queue_that_borrows_within_its_cohort_gives_nothing_to_others() {
    // `theirs` borrows from `team` alone, which stays within its quota.
    check(
        "cohort team in=root default.cpu=2
         queue mine in=root reclaim=any default.cpu=1
         queue theirs in=team default.cpu=0
         queue spender in=root default.cpu=0
         held x theirs default.cpu=2
         held y spender stays default.cpu=1
         job j mine cpu=1
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 1, 0 is free: \
         cohort \"root\" has no more; not preempted: 1 can't be evicted, 1 of queues within their \
         nominal quota; fits after y",
    );
}

#[test]
fn what_an_earlier_pod_set_takes_is_short_for_a_later_one() {
    check(
        "queue q default.cpu=6
         held x q stays default.cpu=3
         job j q cpu=2 / cpu=2
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 2, 1 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; fits after x",
    );
}

#[test]
fn an_earlier_pod_set_leaves_a_flavor_to_one_that_has_no_other() {
    let engine = played(
        "flavor x label=k:x
         queue q x.cpu=4 spot.cpu=2
         held a q stays x.cpu=1
         held b q stays priority=5 x.cpu=1
         job j q cpu=2 / cpu=3 select=k:x
         decide =>
         outlook j => is the first of its queue; in flavor \"x\" it needs cpu 3, 2 is free: \
         ClusterQueue \"q\" has no more; not preempted: 2 can't be evicted; fits after a",
    );
    assert_eq!(lacking(&engine, "j"), "x.cpu=1");
}

#[test]
fn who_fits_in_any_way_lacks_nothing_behind_a_head() {
    let engine = played(
        "flavor x label=k:x
         queue q strict x.cpu=4 spot.cpu=2
         held a q stays x.cpu=2
         job head q priority=9 cpu=4 select=k:x
         job j q cpu=2 / cpu=2 select=k:x
         decide =>
         outlook j => comes after head; not preempted: 1 can't be evicted",
    );
    assert_eq!(lacking(&engine, "j"), "");
}

#[test]
fn what_could_never_be_had_is_not_what_lacks_least() {
    // Together in `x` they lack 1 more than it has.
    let engine = played(
        "flavor x label=k:x
         queue q x.cpu=4 spot.cpu=9
         held a q stays spot.cpu=9
         job j q cpu=2 / cpu=3 select=k:x
         decide =>",
    );
    assert_eq!(lacking(&engine, "j"), "spot.cpu=2");
}

#[test]
fn who_accepts_fewer_pods_preempts_for_the_fewest() {
    // All of its pods would have to borrow; the fewest are within the nominal quota.
    check(
        "queue mine in=c reclaim=any default.cpu=2
         queue theirs in=c default.cpu=2
         held pod theirs stays default.cpu=3
         held v theirs default.cpu=1
         job j mine pods=4 min=2 cpu=1
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 2, 0 is free: \
         cohort \"c\" has no more; not preempted: 1 can't be evicted, 1 may be preempted, but hold too \
         little quota together; fits after pod",
    );
}
