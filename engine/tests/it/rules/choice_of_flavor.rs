//! Which flavor is taken when some can be borrowed and others only had when somebody goes, and how
//! many pods are admitted when there is no room for all.

use crate::script::check;

#[test]
fn the_first_flavor_that_may_stop_the_search_does() {
    // In `default` somebody would have to go, in `spot` it fits by borrowing.
    let script = |rules: &str, expected: &str, flavor: &str| {
        check(&format!(
            "queue q in=c own=lower {rules} default.cpu=2 spot.cpu=0
             queue lender in=c default.cpu=0 spot.cpu=2
             held low q default.cpu=2
             job high q priority=9 cpu=2
             decide => {expected}
             gone low
             decide => {}
             flavors high => 0.cpu={flavor}",
            if expected == "high" { "" } else { "high" }
        ));
    };
    script("", "high", "spot");
    script("next-flavor", "high", "spot");
    script("preempt-first", "!low(own)", "default");
    script("rather-preempt", "high", "spot");
    script("next-flavor rather-preempt", "!low(own)", "default");
}

#[test]
fn no_search_ends_where_own_jobs_are_preempted_for_more_than_nominal_quota() {
    let script = |rules: &str, default: u32, spot: u32, expected: &str| {
        check(&format!(
            "{}
             queue q in=c own=lower preempt-first {rules} default.cpu={default} spot.cpu={spot}
             queue lender in=c default.cpu={} spot.cpu=0
             held low q default.cpu=1
             held s q spot.cpu=1
             job high q priority=1 cpu=1
             decide => {expected}",
            if rules.contains("weight") {
                "fair"
            } else {
                "flavor x"
            },
            1 - default
        ));
    };
    for rules in ["", "reclaim=any", "weight=1000"] {
        script(rules, 0, 2, "high");
        script(rules, 0, 1, "!s(own)");
        script(rules, 0, 0, "!low(own)");
        script(rules, 1, 2, "!low(own)");
    }
    // A queue that may preempt others to borrow may preempt its own jobs, too.
    for rules in ["reclaim=any borrow=lower", "reclaim=any weight=1000"] {
        script(rules, 0, 2, "!low(own)");
    }
}

#[test]
fn a_later_flavor_with_unused_quota_preempts_nobody() {
    check(
        "queue q own=lower default.cpu=2 spot.cpu=2
         held low q default.cpu=2
         job high q priority=9 cpu=2
         decide => high
         flavors high => 0.cpu=spot",
    );
}

#[test]
fn what_is_freed_of_any_flavor_is_seen_by_whom_it_is_enough_for() {
    check(
        "queue q default.cpu=4 spot.cpu=4
         held d q default.cpu=4
         held s1 q spot.cpu=1
         held s2 q spot.cpu=3
         job large q priority=5 cpu=3
         job small q cpu=2
         decide =>
         finish s1
         decide =>
         finish s2
         decide => large
         finish d
         decide => small
         flavors large => 0.cpu=spot
         flavors small => 0.cpu=default",
    );
}

#[test]
fn as_many_pods_as_fit_are_admitted_if_so_many_will_do() {
    check(
        "queue q default.cpu=7
         job a q pods=5 min=2 cpu=2
         decide => ax3
         use q => default.cpu=6+0",
    );
    check(
        "queue q default.cpu=3
         job a q pods=5 min=2 cpu=2
         decide =>",
    );
    // Two sets are cut down evenly.
    check(
        "queue q default.cpu=12
         job a q pods=8 min=4 cpu=1 / pods=8 min=6 cpu=1
         decide => ax5+7",
    );
    // Nobody has to go for a part.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job high q priority=9 pods=5 min=1 cpu=1
         decide => highx2",
    );
    // But for all, somebody does.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job high q priority=9 pods=4 min=1 cpu=1
         decide => !low(own)",
    );
}

#[test]
fn others_are_preempted_for_the_fewest_pods_if_not_even_these_fit() {
    // Else `e` would wait as it preempts nobody, and `j` as `e` would take what it frees.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=4
         job e q priority=5 cpu=1 pods=8 min=2
         job j q priority=4 cpu=4
         decide => !low(own)
         why e => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         decide =>
         gone low
         decide => ex4
         finish e
         decide => j",
    );
    // No more are preempted than the fewest pods require, but as many pods are admitted as fit then.
    check(
        "queue q own=lower default.cpu=4
         held low q since=1 default.cpu=2
         held lower q priority=-1 since=2 default.cpu=2
         job e q priority=5 cpu=1 pods=8 min=2
         decide => !lower(own)
         gone lower
         decide => ex2",
    );
    check(
        "queue q own=lower default.cpu=4
         held high q priority=9 default.cpu=3
         held low q default.cpu=1
         job e q priority=5 cpu=1 pods=8 min=2
         job j q priority=4 cpu=1
         decide => !low(own)
         gone low
         decide => j",
    );
}

#[test]
fn flavors_without_victims_are_tried_when_those_with_lead_nowhere() {
    // To make somebody go, the first pod set would stop at default, and leave nothing to the second.
    check(
        "queue q own=lower preempt-first default.cpu=6 spot.cpu=4
         flavor default label=kind:a
         held low q default.cpu=2
         held high q priority=9 default.cpu=2
         job a q priority=1 cpu=4 / cpu=2 select=kind:a
         decide => a
         flavors a => 0.cpu=spot 1.cpu=default",
    );
}

#[test]
fn a_part_takes_another_flavor_once_the_first_is_kept_for_others() {
    // A part never waits for `gone` to leave default; when all of that is kept for `b`, it takes spot.
    check(
        "queue q in=c preempt-first default.cpu=0 spot.cpu=3
         queue owner in=c reclaim=any default.cpu=3
         held gone q default.cpu=3
         evicting gone
         job a q at=0 pods=4 min=1 cpu=1
         job b owner at=1 cpu=3
         decide => ax3
         flavors a => 0.cpu=spot",
    );
}

#[test]
fn of_equals_each_gets_what_is_left() {
    check(
        "queue q default.cpu=1 spot.cpu=1
         job a q cpu=1
         job b q cpu=1
         decide => a b
         flavors a => 0.cpu=default
         flavors b => 0.cpu=spot",
    );
    check(
        "queue q default.cpu=5
         job a q pods=3 min=1 cpu=1
         job b q pods=3 min=1 cpu=1
         decide => a bx2
         use q => default.cpu=5+0",
    );
}

#[test]
fn what_counts_in_an_earlier_group_does_not_count_in_a_later_one() {
    check(
        "queue q in=c default.cpu=1 | spot.cpu=5 spot.gpu=2
         queue r in=c spot.cpu=0
         job two q cpu=2
         job one q cpu=1 gpu=2
         job other r cpu=1
         decide => one
         flavors one => 0.cpu=default 0.gpu=spot
         why two => can never be admitted to ClusterQueue \"q\": insufficient quota for cpu in flavor \"default\": \
         requests 2, more than the maximum capacity (nominal quota 1)
         why other => can never be admitted to ClusterQueue \"r\": insufficient quota for cpu in flavor \"spot\": \
         requests 1, more than the maximum capacity (nominal quota 0)",
    );
}

#[test]
fn one_that_would_borrow_elsewhere_takes_back_nothing_and_looks_on() {
    // `default` is its own, but to take that back it has to keep to its own in memory too.
    let script = |spot: &str, memory: u32, expected: &str| {
        check(&format!(
            "queue mine in=c reclaim=any preempt-first default.cpu=2 {spot} | x.memory={memory}
             queue theirs in=c default.cpu=0 | x.memory=2
             held v theirs default.cpu=2
             job j mine cpu=2 memory=1
             decide => {expected}"
        ));
    };
    script("", 0, "");
    script("", 1, "!v(reclaim)");
    script("spot.cpu=2", 0, "j");
    script("spot.cpu=2", 1, "!v(reclaim)");
}

#[test]
fn a_label_that_only_another_flavor_declares_makes_nobody_wait_for_ever() {
    let script = |select: &str, expected: &str| {
        check(&format!(
            "flavor arm label=arch:arm64
             queue q default.cpu=4 arm.cpu=4 spot.cpu=4
             job j q cpu=1 {select}
             decide => j
             flavors j => {expected}"
        ));
    };
    script("", "0.cpu=default");
    script("select=arch:amd64", "0.cpu=default");
    script("select=arch:arm64", "0.cpu=arm");
    script("select=disk:ssd", "0.cpu=default");
    // No flavor declares both labels.
    check(
        "flavor arm label=arch:arm64
         flavor ssd label=disk:ssd
         flavor hdd label=disk:hdd
         queue q hdd.cpu=4 ssd.cpu=1 arm.cpu=4
         job a q cpu=1 select=arch:arm64 select=disk:ssd
         job b q cpu=1 select=arch:arm64 select=disk:ssd
         decide => a b
         flavors a => 0.cpu=ssd
         flavors b => 0.cpu=arm",
    );
    // One that says otherwise is still not for it, nor is one whose taint it doesn't tolerate.
    check(
        "flavor arm label=arch:arm64
         flavor amd label=arch:amd64 taint=vip:yes
         queue q arm.cpu=4 amd.cpu=4 default.cpu=4
         job j q cpu=1 select=arch:amd64
         decide =>",
    );
}

#[test]
fn a_flavor_with_reclaimable_quota_comes_before_one_that_needs_preemption_in_the_own_queue() {
    let script = |rules: &str, expected: &str| {
        check(&format!(
            "queue q in=c own=lower reclaim=any {rules} default.cpu=2 spot.cpu=2
             queue b in=c default.cpu=0 spot.cpu=0
             held mine q priority=0 default.cpu=2
             held theirs b priority=0 spot.cpu=2
             job j q priority=9 cpu=2
             decide => {expected}"
        ));
    };
    script("", "!theirs(reclaim)");
    script("rather-preempt", "!theirs(reclaim)");
    script("preempt-first", "!mine(own)");
}

#[test]
fn quota_is_rather_borrowed_from_the_cohort_nearby() {
    let script = |rules: &str, expected: &str| {
        check(&format!(
            "cohort team in=org
             queue q in=team {rules} default.cpu=0 spot.cpu=0
             queue near in=team default.cpu=0 spot.cpu=2
             queue far in=org default.cpu=2 spot.cpu=0
             job j q cpu=2
             decide => j
             flavors j => 0.cpu={expected}"
        ));
    };
    script("", "default");
    script("next-flavor", "spot");
    script("next-flavor rather-preempt", "spot");
}

/// A group of workers that is scaled to none, for example.
#[test]
fn a_pod_set_without_pods_needs_no_flavor() {
    check(
        "flavor default label=kind:a
         queue q default.cpu=4
         job j q cpu=1 / cpu=1 pods=0 select=kind:b
         decide => j
         flavors j => 0.cpu=default",
    );
    // With some it does, also if as many may be left out.
    check(
        "flavor default label=kind:a
         queue q default.cpu=4
         job j q cpu=1 / cpu=1 pods=1 min=0 select=kind:b
         decide =>",
    );
}
