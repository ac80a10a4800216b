//! Order, quota and limits, one script each.

use std::fmt::Write as _;

use crate::script::check;

#[test]
fn order_is_priority_then_age_then_id() {
    check(
        "queue q default.cpu=3
         job b q cpu=1 at=5
         job a q cpu=1 at=5
         job old q cpu=1 at=1
         job high q cpu=1 at=9 priority=7
         decide => high old a
         finish old
         decide => b",
    );
}

#[test]
fn best_effort_passes_a_head_that_does_not_fit_and_strict_does_not() {
    check(
        "queue q default.cpu=3
         job big q cpu=4
         job small q cpu=1
         decide => small",
    );
    check(
        "queue q strict default.cpu=4
         held other q default.cpu=1
         job big q cpu=4
         job small q cpu=1
         decide =>
         why small => waits in ClusterQueue \"q\" (StrictFIFO) behind a workload that doesn't fit
         gone big
         decide => small",
    );
}

#[test]
fn a_strict_head_blocks_only_its_own_queue() {
    check(
        "queue a in=c strict default.cpu=2
         queue b in=c default.cpu=2
         held x a default.cpu=1
         job big a cpu=4
         job a2 a cpu=1
         job b1 b cpu=2
         decide => b1
         job first a cpu=1 priority=1
         decide => first
         why a2 => waits in ClusterQueue \"a\" (StrictFIFO) behind a workload that doesn't fit",
    );
}

#[test]
fn what_can_not_be_counted_blocks_nobody() {
    check(
        "queue q strict default.cpu=2
         job negative q cpu=-1
         job huge q cpu=170141183460469231731687303715884105727 pods=4294967295
         job fine q cpu=1
         decide => fine
         why negative => can't be admitted: the request for \"cpu\" of pod set \"0\" is negative
         why huge => can't be admitted: the requests for \"cpu\" add up to more than can be \
         counted",
    );
}

#[test]
fn borrowing_has_a_limit_and_a_queue_without_cohort_has_nobody_to_borrow_from() {
    check(
        "queue a in=c default.cpu=4/2
         queue b in=c default.cpu=4
         job seven a cpu=7
         job six a cpu=6
         decide => six
         why seven => can never be admitted to ClusterQueue \"a\": insufficient quota for cpu in flavor \
         \"default\": requests 7, more than the maximum capacity (nominal quota 4, may borrow 2)
         use a => default.cpu=6+2
         job b1 b cpu=3
         job b2 b cpu=2
         decide => b2",
    );
    check(
        "queue alone default.cpu=4/2
         job five alone cpu=5
         decide =>",
    );
}

#[test]
fn what_is_not_lent_is_kept_for_its_owner() {
    check(
        "queue a in=c default.cpu=4
         queue b in=c default.cpu=4/-/1
         job greedy a cpu=6
         job fair a cpu=5
         decide => fair
         job b4 b cpu=4
         job b3 b cpu=3
         decide => b3
         finish fair
         decide => b4
         use b => default.cpu=7+3",
    );
}

#[test]
fn a_guarantee_holds_even_when_the_cohort_is_over_its_quota() {
    check(
        "queue a in=c default.cpu=8
         queue b in=c default.cpu=2/-/0
         job a8 a cpu=8
         decide => a8
         queue a in=c default.cpu=1
         job b2 b cpu=2
         job b1 b cpu=1
         decide => b2
         job a1 a cpu=1
         decide =>",
    );
}

#[test]
fn limits_hold_at_every_level_of_a_tree() {
    check(
        "cohort root default.cpu=2
         cohort left in=root default.cpu=0/3
         cohort right in=root
         queue a in=left default.cpu=1
         queue b in=left default.cpu=1
         queue c in=right default.cpu=10
         job a6 a cpu=6
         decide =>
         why a6 => can never be admitted to ClusterQueue \"a\": insufficient quota for cpu in flavor \
         \"default\": requests 6, more than the maximum capacity (nominal quota 1, may borrow 4)
         job a4 a cpu=4
         job b1 b cpu=1
         job b2 b cpu=1
         decide => b1 b2
         finish b2
         decide => a4
         finish a4
         job b3 b cpu=1
         job c14 c cpu=14
         decide => b3
         finish b3
         finish b1
         decide => c14
         use c => default.cpu=14+4",
    );
}

#[test]
fn a_cohort_lends_upwards_only_what_its_limit_says() {
    check(
        "cohort left in=root default.cpu=6/-/2
         queue a in=left default.cpu=0
         queue b in=root default.cpu=1
         job b4 b cpu=4
         job b3 b cpu=3
         decide => b3
         job a4 a cpu=4
         job a1 a cpu=1
         decide => a4
         finish b3
         decide => a1
         why b4 => can never be admitted to ClusterQueue \"b\": insufficient quota for cpu in flavor \"default\": \
         requests 4, more than the maximum capacity (nominal quota 1, may borrow 2)",
    );
}

#[test]
fn the_lending_limit_of_a_cohort_counts_for_all_that_is_below_it() {
    // More than the cohort has by itself.
    check(
        "cohort left in=root default.cpu=0/-/3
         queue a in=left default.cpu=6
         queue b in=root default.cpu=1
         job b5 b cpu=5
         job b4 b cpu=4
         decide => b4
         why b5 => can never be admitted to ClusterQueue \"b\": insufficient quota for cpu in flavor \"default\": \
         requests 5, more than the maximum capacity (nominal quota 1, may borrow 3)",
    );
}

#[test]
fn those_within_their_own_quota_go_first() {
    check(
        "queue a in=c default.cpu=0
         queue b in=c default.cpu=4
         job borrower a cpu=4 priority=100
         job owner b cpu=4
         decide => owner
         finish owner
         decide => borrower",
    );
}

#[test]
fn a_queue_nearer_the_root_goes_first_only_if_nobody_else_keeps_to_its_quota() {
    let script = |job: &str, then: &str| {
        check(&format!(
            "cohort r
             cohort c in=r
             queue near in=r default.cpu=2
             queue far in=c default.cpu=2
             queue other in=r default.cpu=0
             held x other default.cpu=2
             job low near cpu=2
             job high far priority=1000 {job}
             decide => {then}"
        ));
    };
    script("cpu=2", "high");
    // The queue would borrow from its cohort, and so would the cohort.
    script("cpu=3", "low");
}

/// Its memory is its queue's own, though its cohort is above its quota of memory: the cohort lends it CPUs alone.
#[test]
fn from_how_far_a_head_borrows_is_judged_for_each_resource() {
    check(
        "cohort r
         cohort left in=r default.cpu=4
         cohort right in=r default.cpu=4
         queue x in=left default.cpu=0 default.memory=4
         queue y in=left default.cpu=0 default.memory=0
         queue p in=right default.cpu=0 default.memory=4
         queue lender in=r default.cpu=0 default.memory=10
         held y1 y default.memory=6
         job xx x priority=10 cpu=2 memory=1
         job px p cpu=2 memory=1
         decide => xx px",
    );
}

#[test]
fn whoever_keeps_to_the_quota_of_its_queue_comes_before_a_borrower_of_another_branch() {
    check(
        "cohort r
         cohort left in=r
         cohort right in=r
         queue x in=left default.cpu=4
         queue y in=left default.cpu=0
         queue p in=right default.cpu=0
         queue s in=right default.cpu=4
         held y1 y default.cpu=6
         job xx x cpu=2
         job px p priority=1000 cpu=2
         decide => xx",
    );
}

#[test]
fn the_first_flavor_that_fits_is_taken_with_all_resources_of_its_group() {
    check(
        "queue q default.cpu=2 default.memory=1 spot.cpu=2 spot.memory=4 | x.gpu=1
         job j q cpu=1 memory=2 gpu=1
         decide => j
         flavors j => 0.cpu=spot 0.gpu=x 0.memory=spot",
    );
}

#[test]
fn when_a_flavor_can_be_borrowed_the_policy_says_whether_to_look_on() {
    for (policy, flavor) in [("", "default"), ("next-flavor", "spot")] {
        check(&format!(
            "queue q in=c {policy} default.cpu=1 spot.cpu=2
             queue lender in=c default.cpu=9 spot.cpu=9
             job j q cpu=2
             decide => j
             flavors j => 0.cpu={flavor}"
        ));
    }
    check(
        "queue q in=c next-flavor default.cpu=1 spot.cpu=1
         queue lender in=c default.cpu=9 spot.cpu=9
         job j q cpu=2
         decide => j
         flavors j => 0.cpu=default",
    );
}

#[test]
fn pod_sets_are_fitted_together() {
    check(
        "queue q default.cpu=3 spot.cpu=3
         job j q cpu=2 / cpu=2
         decide => j
         flavors j => 0.cpu=default 1.cpu=spot",
    );
    check(
        "queue q default.cpu=3
         job j q cpu=2 / cpu=2
         decide =>
         why j => can never be admitted to ClusterQueue \"q\": pod set \"1\": insufficient quota for cpu in \
         flavor \"default\": requests 4, more than the maximum capacity (nominal quota 3)",
    );
}

#[test]
fn an_early_pod_set_leaves_a_flavor_to_a_later_one_that_fits_nowhere_else() {
    let script = |queue: &str, job: &str, then: &str| {
        check(&format!(
            "flavor default label=kind:default
             flavor spot label=kind:spot
             queue q {queue}
             {job}
             {then}"
        ));
    };
    let flavors = "flavors pair => 0.cpu=spot 1.cpu=default";
    script(
        "default.cpu=2 spot.cpu=2",
        "job pair q cpu=2 / cpu=1 select=kind:default",
        &format!("decide => pair\n{flavors}"),
    );
    // In a strict queue it would block all behind it for ever.
    script(
        "strict default.cpu=2 spot.cpu=2",
        "job pair q cpu=1 / cpu=2 select=kind:default\njob small q cpu=1",
        &format!("decide => pair small\n{flavors}"),
    );
    // Where both may be reduced, too; and when something is about to stop.
    script(
        "default.cpu=2 spot.cpu=1",
        "job pair q cpu=1 pods=2 min=1 / cpu=2 select=kind:default",
        &format!("decide => pairx1+1\n{flavors}"),
    );
    script(
        "default.cpu=2 spot.cpu=2",
        "held x q priority=9 spot.cpu=1\nevicting x\njob pair q cpu=2 / cpu=1 select=kind:default\njob one q cpu=1 select=kind:spot",
        &format!("decide =>\ngone x\ndecide => pair\n{flavors}"),
    );
}

#[test]
fn a_rank_that_gets_better_is_noticed() {
    // `a` would borrow `default`, of which 2 are there; once `b` has taken them, it fits within
    // its own `spot` and so goes before `c`, which is older but borrows.
    check(
        "cohort root
         queue a in=root default.cpu=0 spot.cpu=1
         queue b in=root default.cpu=2
         queue c in=root spot.cpu=0
         job old c cpu=1
         job young a cpu=1
         job owner b cpu=2
         decide => owner young",
    );
}

#[test]
fn flavors_must_go_with_the_pods() {
    check(
        "flavor spot taint=spot:yes label=kind:spot
         flavor default label=kind:ondemand
         queue q spot.cpu=4 default.cpu=4
         job plain q cpu=1
         job tolerant q cpu=1 tolerate=spot
         job picky q cpu=1 tolerate=spot select=kind:ondemand
         job other q cpu=1 select=zone:a
         job lost q cpu=1 select=kind:gpu
         job big q cpu=5
         decide => plain tolerant picky other
         flavors plain => 0.cpu=default
         flavors tolerant => 0.cpu=spot
         flavors picky => 0.cpu=default
         flavors other => 0.cpu=default
         why lost => can never be admitted to ClusterQueue \"q\": flavor \"spot\": its taint \
         spot=yes:NoSchedule isn't tolerated; flavor \"default\": its nodes don't have the label \
         kind=gpu of the node selector
         why big => can never be admitted to ClusterQueue \"q\": flavor \"spot\": its taint \
         spot=yes:NoSchedule isn't tolerated; insufficient quota for cpu in flavor \"default\": requests 5, more than the maximum capacity (nominal quota 4)",
    );
}

#[test]
fn pods_are_counted_where_there_is_quota_for_them() {
    check(
        "queue q default.cpu=9 default.pods=3
         job four q cpu=1 pods=4
         job three q cpu=1 pods=3
         decide => three
         use q => default.cpu=3+0 default.pods=3+0
         queue r default.cpu=9
         job many r cpu=1 pods=9
         decide => many
         use r => default.cpu=9+0",
    );
}

#[test]
fn a_resource_without_quota_is_named_unless_nothing_of_it_is_wanted() {
    check(
        "queue q default.cpu=4
         job none q cpu=1 gpu=0
         job gpu q cpu=1 gpu=1
         decide => none
         why gpu => ClusterQueue \"q\" has no quota for resource \"gpu\"",
    );
}

#[test]
fn the_text_of_a_wait_is_stable() {
    check(
        "queue team-a in=c default.cpu=4/2
         queue b in=c default.cpu=4
         held x team-a default.cpu=4
         job j team-a cpu=3
         decide =>
         why j => couldn't be admitted to ClusterQueue \"team-a\": insufficient unused quota for cpu in flavor \
         \"default\": requests 3 (nominal quota 4, may borrow 2)
         held y b default.cpu=3
         decide =>
         why j => couldn't be admitted to ClusterQueue \"team-a\": insufficient unused quota for cpu in flavor \
         \"default\": requests 3 (nominal quota 4, may borrow 2)
         finish x
         decide => j
         why j => admitted by ClusterQueue \"team-a\"",
    );
}

#[test]
fn what_is_missing_is_said_and_when_it_comes_the_job_goes() {
    check(
        "no-flavor x
         job j q cpu=1
         decide =>
         why j => LocalQueue \"ns/q\" doesn't exist
         local q queue=q
         decide =>
         why j => ClusterQueue \"q\" of LocalQueue \"ns/q\" doesn't exist
         queue q hold x.cpu=1
         decide =>
         why j => ClusterQueue \"q\" is inactive: it is stopped
         queue q x.cpu=1
         decide =>
         why j => ClusterQueue \"q\" is inactive: ResourceFlavors that don't exist: \"x\"
         local q queue=q hold
         why j => LocalQueue \"ns/q\" is stopped
         local q queue=q unselected
         why j => ClusterQueue \"q\" doesn't select the namespace \"ns\"
         local q queue=q
         why j => ClusterQueue \"q\" is inactive: ResourceFlavors that don't exist: \"x\"
         flavor x
         decide => j",
    );
}

#[test]
fn a_cycle_stops_its_component_and_keeps_the_account() {
    check(
        "cohort one in=two
         cohort two
         queue a in=one default.cpu=2
         queue b in=two default.cpu=2
         job a1 a cpu=3
         decide => a1
         cohort two in=one
         job b1 b cpu=1
         job b2 b cpu=1
         decide =>
         why b1 => ClusterQueue \"b\" is inactive: cohorts that are each other's parents: \"one\", \
         \"two\"
         use a => default.cpu=3+1
         cohort two
         decide => b1
         finish a1
         decide => b2
         cohort one in=one
         decide =>
         job a2 a cpu=1
         decide =>
         no-cohort one
         decide => a2",
    );
}

#[test]
fn a_tree_that_is_too_deep_is_inactive_and_a_chain_of_any_length_is_survived() {
    for (levels, admitted) in [(62, "j"), (63, "j"), (64, ""), (10_000, "")] {
        let mut script = String::from("queue q in=c0 default.cpu=1\njob j q cpu=2\n");
        for level in 1..levels {
            writeln!(script, "cohort c{} in=c{level}", level - 1).unwrap();
        }
        writeln!(
            script,
            "cohort c{} default.cpu=1\ndecide => {admitted}",
            levels - 1
        )
        .unwrap();
        if admitted.is_empty() {
            script += "why j => ClusterQueue \"q\" is inactive: the cohort tree has more than 64 \
                       levels\ncohort c10\ncohort c10 default.cpu=1\ndecide => j";
        }
        check(&script);
    }
}

#[test]
fn what_was_admitted_is_charged_whatever_the_configuration_says_now() {
    check(
        "flavor default
         held old q default.cpu=3
         job j q cpu=1
         decide =>
         queue q default.cpu=2
         decide =>
         use q => default.cpu=3+1
         no-queue q
         decide =>
         queue q default.cpu=4
         decide => j
         no-flavor default
         use q => default.cpu=4+0
         finish old
         use q => default.cpu=1+0",
    );
}

#[test]
fn usage_stays_with_the_queue_that_admitted() {
    check(
        "queue a default.cpu=2
         queue b default.cpu=2
         local l queue=a
         job j l cpu=2
         decide => j
         local l queue=b
         confirm j
         job k l cpu=2
         decide => k
         use a => default.cpu=2+0
         use b => default.cpu=2+0",
    );
}

#[test]
fn a_lowered_quota_evicts_nothing_and_admits_nothing_until_usage_is_below() {
    check(
        "queue q default.cpu=4
         job a q cpu=2
         job b q cpu=2
         decide => a b
         queue q default.cpu=3
         job c q cpu=1
         job nothing q
         decide => nothing
         finish a
         decide => c",
    );
}

#[test]
fn an_assumption_holds_until_it_is_confirmed_or_fails() {
    check(
        "queue q default.cpu=1
         job a q cpu=1
         job b q cpu=1
         decide => a
         pend a
         decide =>
         fail a
         decide => a
         confirm a
         decide =>
         fail a
         decide =>
         pend a
         decide => a
         inactive a
         decide => b",
    );
}

#[test]
fn draining_evicts_once_and_frees_when_it_has_stopped() {
    check(
        "queue q default.cpu=2
         local l queue=q
         job a q cpu=1
         job b l cpu=1
         decide => a b
         confirm a
         local l queue=q drain
         decide =>
         confirm b
         decide => !b
         confirm b
         decide =>
         evicting b
         job c q cpu=1
         decide =>
         pend b
         decide => c
         why b => LocalQueue \"ns/l\" is stopped
         confirm c
         queue q drain default.cpu=2
         decide => !a !c
         queue q default.cpu=2
         decide =>
         queue q drain default.cpu=2
         decide => !a !c",
    );
}

#[test]
fn a_stopped_queue_still_lends() {
    check(
        "queue a in=c hold default.cpu=4
         queue b in=c default.cpu=1
         job a1 a cpu=1
         job b5 b cpu=5
         decide => b5",
    );
}

#[test]
fn moving_a_queue_moves_its_usage() {
    check(
        "queue a in=one default.cpu=2
         queue b in=one default.cpu=2
         queue c in=two default.cpu=2
         job a4 a cpu=4
         decide => a4
         job b1 b cpu=1
         job c3 c cpu=3
         decide =>
         queue a in=two default.cpu=2
         decide => b1
         finish a4
         decide => c3",
    );
}

#[test]
fn one_that_no_longer_fits_does_not_hold_back_the_next_of_its_queue() {
    check(
        "queue q0 in=c next-flavor default.cpu=0 spot.cpu=1/0
         queue q2 in=c default.cpu=3 spot.cpu=3
         job w4 q0 priority=2 at=0 cpu=3
         job w2 q0 priority=1 at=0 cpu=1
         job w3 q2 priority=1 at=0 cpu=1
         job w0 q2 at=0 cpu=1
         decide => w3 w2 w0",
    );
}

#[test]
fn behind_the_head_of_a_strict_queue_waits_the_next_head() {
    check(
        "queue q strict default.cpu=3
         held x q default.cpu=1
         job large q priority=3 cpu=3
         job second q priority=1 cpu=1
         job first q priority=2 cpu=1
         decide =>
         gone large
         decide => first second",
    );
}
