//! Workloads that can never be admitted block no others.

use crate::script::check;

#[test]
fn a_strict_head_that_can_never_be_admitted_is_passed() {
    for (head, told) in [
        (
            "job big q cpu=9",
            "can never be admitted to ClusterQueue \"q\": insufficient quota for cpu in flavor \"default\": requests 9, more than the maximum capacity (nominal quota 2, may borrow 2)",
        ),
        (
            "job big q cpu=1 gpu=1",
            "ClusterQueue \"q\" has no quota for resource \"gpu\"",
        ),
        (
            "job big q cpu=1 / pods=2 cpu=2",
            "can never be admitted to ClusterQueue \"q\": pod set \"1\": insufficient quota for cpu in flavor \
             \"default\": requests 5, more than the maximum capacity (nominal quota 2, may borrow 2)",
        ),
    ] {
        for mode in ["", "by-usage"] {
            check(&format!(
                "queue q in=c strict {mode} default.cpu=2
                 queue other in=c default.cpu=2
                 {head} priority=9
                 job small q cpu=1
                 decide => small
                 why big => {told}"
            ));
        }
    }
}

#[test]
fn one_without_a_flavor_is_passed_too() {
    check(
        "flavor gold taint=vip:yes
         queue q strict gold.cpu=4
         job intruder q cpu=1
         job vip q cpu=1 tolerate=vip
         decide => vip
         why intruder => can never be admitted to ClusterQueue \"q\": flavor \"gold\": its taint \
         vip=yes:NoSchedule isn't tolerated",
    );
}

#[test]
fn what_fits_each_flavor_but_not_all_of_them_together_is_passed() {
    check(
        "queue q strict default.cpu=4 spot.cpu=4
         job three q cpu=3 / cpu=3 / cpu=3
         job small q cpu=1
         decide => small
         why three => can never be admitted to ClusterQueue \"q\": its pod sets together request more than the maximum capacity",
    );
    // The least of it would fit.
    check(
        "queue q strict default.cpu=4
         held x q default.cpu=1
         job part q cpu=1 pods=9 min=4
         job small q cpu=1
         decide =>",
    );
}

/// There are more combinations of flavors than anybody could try.
#[test]
fn what_has_many_pod_sets_is_passed_too() {
    let many = |amounts: &mut dyn Iterator<Item = u32>| {
        let sets: Vec<_> = amounts.map(|amount| format!("cpu={amount}")).collect();
        sets.join(" / ")
    };
    let rows = [
        // One more than all flavors have.
        many(&mut (0..17).map(|_| 100)),
        // The same, each of another size.
        many(&mut (0..17).map(|n| 95 + n % 9)),
        // There is enough, but no flavor has enough for an eighth.
        many(&mut (0..15).map(|n| 101 + n % 5)),
    ];
    for pod_sets in rows {
        check(&format!(
            "queue q strict default.cpu=800 spot.cpu=800
             job many q {pod_sets}
             job small q cpu=1
             decide => small
             why many => can never be admitted to ClusterQueue \"q\": its pod sets together request more than the maximum capacity"
        ));
    }
    // Those fit, and block as any head does.
    let pod_sets = many(&mut (0..14).map(|n| 110 + n % 5));
    check(&format!(
        "queue q strict default.cpu=800 spot.cpu=800
         held x q default.cpu=100
         job many q {pod_sets}
         job small q cpu=1
         decide =>"
    ));
}

/// The only flavor for the last pod sets is the one that the first ones would take.
#[test]
fn a_flavor_that_a_late_pod_set_needs_is_left_to_it() {
    for (late, spot) in [("cpu=4", 3), ("cpu=2 gpu=1 / cpu=2 gpu=1", 6)] {
        check(&format!(
            "queue q strict default.cpu=4 spot.cpu={spot} x.cpu=3 default.gpu=2 spot.gpu=0 x.gpu=0
             job big q cpu=1 / cpu=1 / cpu=1 / cpu=1 / {late}
             job next q cpu=1
             decide => big next"
        ));
    }
}

/// It can't be known whether there is a way, so it must not block others.
#[test]
fn what_has_too_many_combinations_to_try_is_passed() {
    // All sizes are even, so no flavor can be used up, and 2 are lacking.
    let sizes = [24, 26, 26, 24, 26, 26, 24, 26, 24, 26, 24, 26];
    let sets = sizes.map(|size| format!("cpu={size}")).join(" / ");
    check(&format!(
        "queue q strict default.cpu=101 spot.cpu=101 x.cpu=101
         job many q {sets}
         job small q cpu=1
         decide => small
         why many => couldn't be admitted to ClusterQueue \"q\": its pod sets have more combinations of flavors than are \
         tried"
    ));
}

#[test]
fn it_is_a_head_again_when_quota_has_come() {
    check(
        "queue q strict default.cpu=2
         job big q cpu=3
         job one q cpu=1
         decide => one
         job two q cpu=1
         queue q strict default.cpu=3
         decide =>
         why two => waits in ClusterQueue \"q\" (StrictFIFO) behind a workload that doesn't fit
         finish one
         decide => big
         queue q strict default.cpu=2
         decide =>
         finish big
         decide => two",
    );
}

#[test]
fn behind_one_that_is_passed_the_next_one_is_the_head() {
    check(
        "queue q strict default.cpu=2
         held x q default.cpu=1
         job never q cpu=3
         job head q cpu=2
         job behind q cpu=1
         decide =>
         why behind => waits in ClusterQueue \"q\" (StrictFIFO) behind a workload that doesn't fit
         gone head
         decide => behind",
    );
}

#[test]
fn it_takes_no_place_where_places_are_limited() {
    check(
        "queue q max=1 default.cpu=2
         job never q cpu=3
         job never2 q cpu=4
         job one q cpu=1
         job two q cpu=1
         decide => one two
         job late q cpu=5 priority=9
         job three q cpu=1
         finish one
         decide => three",
    );
    // Also when one comes in from outside in the middle of a decision.
    check(
        "queue q strict max=1 default.cpu=2
         job one q cpu=1
         job never q cpu=3
         job two q cpu=1
         decide => one two
         queue q strict max=1 default.cpu=5
         decide => never",
    );
}
