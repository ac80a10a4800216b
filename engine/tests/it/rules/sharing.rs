//! Fair shares, between queues and over time between LocalQueues; how many are queued; and time.

use std::collections::BTreeMap;

use sluice_engine::{Amount, LocalQueueKey, Time};

use crate::script::{check, played};

#[test]
fn the_smaller_share_goes_first() {
    let script = |first: &str, weight: u32, expected: &str| {
        check(&format!(
            "{first}
             queue a in=c default.cpu=0
             queue b in=c weight={weight} default.cpu=0
             queue lender in=c default.cpu=6
             job a1 a at=1 cpu=1
             job a2 a at=2 cpu=1
             job a3 a at=3 cpu=1
             job a4 a at=4 cpu=1
             job b1 b at=5 cpu=1
             job b2 b at=6 cpu=1
             job b3 b at=7 cpu=1
             job b4 b at=8 cpu=1
             decide => {expected}"
        ));
    };
    script("flavor x", 1000, "a1 a2 a3 a4 b1 b2");
    script("fair", 1000, "a1 b1 a2 b2 a3 b3");
    script("fair", 2000, "b1 a1 b2 b3 a2 b4");
    script("fair", 0, "a1 a2 a3 a4 b1 b2");
}

#[test]
fn shares_of_a_tiny_part_are_still_told_apart() {
    // The cohort lends 10^16 times as much as one job requests. Then both weights are large.
    for (rule, weight, lent) in [
        ("", 1000, 10_i128.pow(16)),
        ("", 4_000_000_000_u32, 1000),
        ("reclaim=any", 1000, 10_i128.pow(16)),
    ] {
        check(&format!(
            "fair
             queue a in=c {rule} weight={weight} default.cpu=0
             queue b in=c {rule} weight={weight} default.cpu=0
             queue lender in=c default.cpu=6 spot.cpu={lent}
             job a1 a at=1 cpu=1
             job a2 a at=2 cpu=1
             job a3 a at=3 cpu=1
             job a4 a at=4 cpu=1
             job b1 b at=5 cpu=1
             job b2 b at=6 cpu=1
             job b3 b at=7 cpu=1
             rest => a1 b1 a2 b2 a3 b3"
        ));
    }
}

#[test]
fn usage_of_a_tiny_part_of_the_quota_counts() {
    check(
        "queue q by-usage default.cpu=4 spot.cpu=10000000000000000
         flavor default label=kind:default
         flavor spot label=kind:spot
         local one queue=q
         local two queue=q
         job a1 one cpu=1 select=kind:default
         job a2 one cpu=1 select=kind:default
         job a3 one cpu=1 select=kind:default
         job b1 two cpu=1 select=kind:default
         job b2 two cpu=1 select=kind:default
         decide => a1 b1 a2 b2",
    );
}

#[test]
fn sharing_can_begin_while_jobs_run() {
    check(
        "queue a in=c reclaim=any default.cpu=0
         queue b in=c default.cpu=0
         queue lender in=c default.cpu=6
         held b1 b since=1 default.cpu=2
         held b2 b since=2 default.cpu=2
         held b3 b since=3 default.cpu=2
         job a1 a cpu=2
         decide =>
         settings fair
         decide => !b3(fair)",
    );
}

#[test]
fn shares_are_compared_from_the_root_down() {
    check(
        "fair
         cohort left in=root
         cohort right in=root
         queue a in=left default.cpu=0
         queue b in=left default.cpu=0
         queue c in=right default.cpu=0
         queue lender in=root default.cpu=4
         job a1 a cpu=1
         job a2 a cpu=1
         job b1 b cpu=1
         job c1 c cpu=1
         job c2 c cpu=1
         decide => a1 c1 b1 c2",
    );
}

#[test]
fn the_larger_share_gives_as_long_as_that_is_fair() {
    check(
        "fair
         queue a in=c reclaim=any default.cpu=0
         queue b in=c default.cpu=0
         queue lender in=c default.cpu=6
         held b1 b since=1 default.cpu=2
         held b2 b since=2 default.cpu=2
         held b3 b since=3 default.cpu=2
         job a1 a cpu=2
         job a2 a cpu=2
         decide => !b3(fair)
         gone b3
         decide => a1
         confirm a1
         decide =>",
    );
    // 4 of 6 is more than the 0 of 6 that would be left, but less than the 6 that it was.
    let script = |first: &str, expected: &str| {
        check(&format!(
            "{first}
             queue a in=c reclaim=any default.cpu=0
             queue b in=c default.cpu=0
             queue lender in=c default.cpu=6
             held b1 b default.cpu=6
             job a1 a cpu=4
             decide => {expected}"
        ));
    };
    script("fair final", "");
    script("fair initial", "!b1(fair)");
    script("fair", "!b1(fair)");
}

#[test]
fn the_local_queue_that_has_used_less_goes_first() {
    check(
        "queue q by-usage default.cpu=2
         local heavy queue=q used=cpu:8
         local light queue=q used=cpu:1
         job h1 heavy priority=9 cpu=1
         job l1 light cpu=1
         job l2 light cpu=1
         decide => l1 l2",
    );
    check(
        "queue q by-usage default.cpu=2
         local heavy queue=q used=cpu:8 weight=16000
         local light queue=q used=cpu:1
         job h1 heavy cpu=1
         job l1 light cpu=1
         job l2 light cpu=1
         decide => h1 l1",
    );
    // What is charged counts too, so that they take turns.
    check(
        "queue q by-usage default.cpu=4
         local one queue=q
         local two queue=q
         job a1 one cpu=1
         job a2 one cpu=1
         job a3 one cpu=1
         job b1 two cpu=1
         job b2 two cpu=1
         decide => a1 b1 a2 b2",
    );
}

#[test]
fn jobs_of_a_local_queue_of_weight_zero_come_last_even_if_it_has_used_nothing() {
    check(
        "queue q by-usage default.cpu=2
         local heavy queue=q used=cpu:8
         local last queue=q weight=0
         local laster queue=q used=cpu:1 weight=0
         job l2 laster priority=9 cpu=1
         job l1 last priority=9 cpu=1
         job h heavy cpu=1
         decide => h l1
         finish h
         decide => l2",
    );
}

#[test]
fn usage_counts_where_the_quota_is_in_the_cohort_too() {
    check(
        "cohort c default.cpu=4
         queue q in=c by-usage default.cpu=0
         local heavy queue=q used=cpu:8
         local light queue=q
         job h heavy cpu=4
         job l light cpu=4
         decide => l",
    );
    // Of memory there is plenty, and of cpu half was used.
    check(
        "cohort c default.cpu=4 default.memory=100 spot.cpu=100
         queue q in=c by-usage default.cpu=0 default.memory=0
         local one queue=q used=cpu:2
         local other queue=q used=memory:49
         job j one cpu=4
         job k other cpu=4
         decide => k",
    );
}

#[test]
fn what_was_used_is_forgotten_in_time() {
    // Half a week ago one used all, then the other.
    check(
        "queue q by-usage default.cpu=4
         local one queue=q
         local two queue=q
         held x one from=q default.cpu=4
         decide at=0 =>
         decide at=302400000 =>
         gone x
         held y two from=q default.cpu=4
         decide at=302400000 =>
         decide at=604800000 =>
         gone y
         job b two cpu=4
         job a one cpu=4
         decide at=604800000 => a",
    );
}

#[test]
fn a_record_from_the_future_is_taken_as_of_now() {
    let week = 7 * 24 * 3_600_000;
    let consumed = |script: &str| {
        let local_queue = LocalQueueKey::new("ns", "l");
        let status = played(script).local_queue_status(&local_queue);
        status.unwrap().consumed.unwrap()
    };
    let script = "queue q by-usage default.cpu=4
                  local l queue=q used=cpu:8 used-at=1000000000000
                  decide at=0 =>";
    let of = |amount| BTreeMap::from([("cpu".into(), Amount::new(amount))]);
    assert_eq!(consumed(script).amounts, of(8));
    let later = consumed(&format!("{script}\ndecide at={week} =>"));
    assert_eq!((later.at, later.amounts), (Time::from_millis(week), of(4)));
}

#[test]
fn those_beyond_max_pending_wait_outside() {
    check(
        "queue q max=2 default.cpu=2
         held x q default.cpu=1
         job big q priority=3 cpu=2
         job b q priority=2 cpu=2
         job small q cpu=1
         decide =>
         why small => ClusterQueue \"q\" already has 2 pending workloads (spec.maxPending) ahead of this one
         gone b
         decide => small",
    );
}

#[test]
fn beyond_max_pending_local_queues_that_compete_by_usage_take_turns() {
    check(
        "queue q by-usage max=3 default.cpu=1
         local crowd queue=q used=cpu:8
         local lone queue=q
         job c1 crowd priority=9 cpu=1
         job c2 crowd priority=9 cpu=1
         job c3 crowd priority=9 cpu=1
         job c4 crowd priority=9 cpu=1
         job l1 lone cpu=1
         why c3 => ClusterQueue \"q\" already has 3 pending workloads (spec.maxPending) ahead of this one
         decide => l1
         job l2 lone cpu=1
         job l3 lone cpu=1
         why c3 => ClusterQueue \"q\" already has 3 pending workloads (spec.maxPending) ahead of this one
         why l3 => ClusterQueue \"q\" already has 3 pending workloads (spec.maxPending) ahead of this one
         gone c1
         gone l1
         decide => l2
         gone c2
         gone c3
         gone l2
         decide => l3
         gone l3
         decide => c4",
    );
    // Without usage, all compete by priority.
    check(
        "queue q max=1 default.cpu=1
         local lone queue=q
         job c1 q priority=9 cpu=1
         job c2 q priority=9 cpu=1
         job l1 lone cpu=1
         decide => c1
         gone c1
         decide => c2",
    );
}

#[test]
fn one_that_backs_off_is_looked_at_when_its_time_has_come() {
    check(
        "queue q strict default.cpu=1
         job a q after=500 cpu=1
         job b q cpu=9
         decide at=1 =>
         wake => 500
         why a => backs off before it is queued in ClusterQueue \"q\" again
         gone b
         decide at=499 =>
         decide at=500 => a
         wake =>",
    );
}

#[test]
fn quota_that_is_not_used_in_time_is_taken_back_once() {
    check(
        "queue q timeout=100 default.cpu=2
         held a q unused=50 default.cpu=1
         held b q default.cpu=1
         decide at=60 =>
         wake => 150
         decide at=149 =>
         decide at=150 => !a(timeout)
         decide at=151 =>
         wake =>",
    );
    check(
        "queue q default.cpu=2
         held a q unused=50 default.cpu=1
         decide at=150 =>
         wake =>
         queue q timeout=100 default.cpu=2
         decide at=151 => !a(timeout)",
    );
}

#[test]
fn time_alone_moves_the_head_of_a_strict_queue_that_admits_by_use() {
    let week = 7 * 24 * 3_600_000;
    check(&format!(
        "queue q strict by-usage default.cpu=10
         local a queue=q used=cpu:4
         local b queue=q
         held b1 b from=q default.cpu=3
         job b2 b cpu=9
         job a1 a cpu=1
         decide =>
         decide at={week} => a1"
    ));
}

#[test]
fn what_a_queue_offers_by_use_ranks_by_the_best_that_it_has() {
    // In q the LocalQueue `used` comes last, but what comes first there never fits.
    check(
        "queue q in=c by-usage default.cpu=2
         local used queue=q used=cpu:1
         queue other in=c default.cpu=1
         job large q at=0 cpu=9
         job old used priority=2 at=0 cpu=1
         job young other priority=2 at=2 cpu=1
         decide => old young",
    );
}

#[test]
fn who_falls_back_to_another_flavor_may_have_a_smaller_share_and_goes_first() {
    // At first `b` would borrow 2 of default. When there is only 1 left of that, it borrows 1 of spot,
    // which is the smaller share, and goes before `late`.
    check(
        "fair
         queue poor in=c default.cpu=0
         queue large in=c default.cpu=6
         queue lender in=c default.cpu=7 spot.cpu=1
         queue q in=c next-flavor weight=333 default.cpu=3 spot.cpu=1
         queue small in=c default.cpu=1
         job a q priority=2 at=1 cpu=3
         job s small at=1 cpu=2
         job l large at=1 pods=4 cpu=2
         job p poor priority=1 at=1 cpu=3
         job late poor at=1 cpu=1
         job b q at=2 pods=2 cpu=1
         decide => a s l p b late",
    );
}

#[test]
fn who_comes_in_from_outside_may_be_admitted_at_once() {
    check(
        "queue q max=2 default.cpu=4
         held x q default.cpu=1
         job whole q cpu=4
         job a q cpu=1
         job larger q cpu=2
         job b q cpu=1
         job c q cpu=1
         decide => a larger
         why b => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 1 (nominal quota 4)
         why c => ClusterQueue \"q\" already has 2 pending workloads (spec.maxPending) ahead of this one",
    );
}

#[test]
fn by_fair_shares_nominal_quota_is_not_reclaimed_either() {
    let script = |greedy: &str, expected: &str| {
        check(&format!(
            "fair
             queue mine in=c reclaim=any default.cpu=2
             queue honest in=c default.cpu=4
             queue greedy in=c default.cpu=4
             held h honest priority=-9 default.cpu=4
             held g greedy priority=9 {greedy} default.cpu=6
             job job mine cpu=2
             decide => {expected}"
        ));
    };
    script("", "!g(reclaim)");
    script("stays", "");
}

#[test]
fn by_fair_shares_nobody_is_preempted_in_vain() {
    // `b1` was admitted last and is taken first, and let be when `b2` has to go anyway.
    check(
        "fair
         queue a in=c reclaim=any default.cpu=4
         queue b in=c default.cpu=0
         held b1 b since=3 default.cpu=1
         held b2 b since=2 default.cpu=3
         job a1 a cpu=3
         decide => !b2(reclaim)",
    );
}

#[test]
fn by_fair_shares_too_only_lower_priorities_are_preempted_if_the_queue_says_so() {
    let script = |reclaim: &str, expected: &str| {
        check(&format!(
            "fair
             queue a in=c reclaim={reclaim} default.cpu=2
             queue b in=c default.cpu=0
             held high b priority=5 default.cpu=2
             job j a priority=3 cpu=1
             decide => {expected}"
        ));
    };
    script("any", "!high(reclaim)");
    script("lower", "");
}

#[test]
fn by_fair_shares_too_nobody_is_preempted_who_would_return_first() {
    let script = |cpus: u32, expected: &str| {
        check(&format!(
            "fair
             queue a in=c default.cpu=4
             queue b in=c default.cpu=3
             queue light in=c weight=3000 reclaim=any default.cpu=2
             held small b since=2 default.cpu=3
             held large b since=1 default.cpu=5
             job j light cpu={cpus}
             decide => {expected}"
        ));
    };
    script(6, "!large(fair)");
    // For 7 of the 9 both would have to go. With `large` gone `small` is within what is its queue's: it
    // would be back before `j`, and leave too little.
    script(7, "");
}

#[test]
fn where_usage_decides_only_the_same_local_queue_is_preempted() {
    let script = |mode: &str, expected: &str| {
        check(&format!(
            "queue q {mode} own=lower default.cpu=2
             local a queue=q
             local b queue=q
             held a1 a from=q priority=2 default.cpu=1
             held b1 b from=q priority=1 default.cpu=1
             job high a priority=9 cpu=1
             decide => {expected}"
        ));
    };
    script("", "!b1(own)");
    script("by-usage", "!a1(own)");
}

#[test]
fn those_within_their_own_quota_go_first_by_use_and_while_others_leave_too() {
    let script = |mode: &str, leaving: &str| {
        check(&format!(
            "queue a in=c {mode} default.cpu=0
             queue b in=c default.cpu=5
             {leaving}
             job borrower a priority=9 cpu=1
             job larger a priority=8 cpu=2
             job owner b cpu=1
             decide => owner borrower larger"
        ));
    };
    let leaving = "held gone b default.cpu=1\nevicting gone";
    script("", "");
    script("", leaving);
    script("by-usage", "");
    script("by-usage", leaving);
}

#[test]
fn among_those_that_are_due_nothing_the_one_that_has_less_goes_first() {
    check(
        "fair
         queue a in=c weight=0 default.cpu=0
         queue b in=c weight=0 default.cpu=0
         queue lender in=c default.cpu=4
         job a1 a at=1 cpu=1
         job a2 a at=2 cpu=1
         job a3 a at=3 cpu=1
         job b1 b at=4 cpu=1
         job b2 b at=5 cpu=1
         decide => a1 b1 a2 b2",
    );
    check(
        "fair
         queue a in=c weight=0 reclaim=any default.cpu=0
         queue b in=c weight=0 default.cpu=0
         queue lender in=c default.cpu=4
         held b1 b since=1 default.cpu=2
         held b2 b since=2 default.cpu=2
         job a1 a cpu=2
         job a2 a cpu=2
         decide => !b2(fair)",
    );
}

#[test]
fn queues_of_a_branch_are_compared_with_each_other_first() {
    // The smaller job would leave the branch the smaller share, whoever has it.
    check(
        "fair
         cohort branch in=root
         queue rich in=branch default.cpu=0
         queue poor in=branch default.cpu=0
         queue lender in=root default.cpu=20
         held r rich default.cpu=15
         job small rich at=1 cpu=1
         job large poor at=2 cpu=5
         decide => large",
    );
    // And so it is two levels down, with a rival beside the root.
    check(
        "fair
         cohort left in=root
         cohort inner in=left
         queue rich in=inner default.cpu=0
         queue poor in=inner default.cpu=0
         queue right in=root default.cpu=0
         queue lender in=root default.cpu=20
         held r rich default.cpu=6
         held s right default.cpu=8
         job small rich at=1 cpu=1
         job large poor at=2 cpu=3
         job other right at=3 cpu=1
         decide => large other small",
    );
}

#[test]
fn a_branch_is_compared_by_the_job_that_stands_for_it() {
    // With `small` the branch would come before `other`; but `large` goes first in it.
    check(
        "fair
         cohort branch in=root
         queue rich in=branch default.cpu=0
         queue poor in=branch default.cpu=0
         queue right in=root default.cpu=0
         queue lender in=root default.cpu=20
         held r rich default.cpu=10
         held s right default.cpu=8
         job small rich at=1 cpu=1
         job large poor at=2 cpu=2
         job other right at=3 cpu=4
         decide => large",
    );
}

#[test]
fn what_nobody_can_lend_any_more_counts_in_no_share() {
    // `x` was admitted before the quota for memory was lowered.
    check(
        "fair
         queue a in=c reclaim=any default.cpu=0 default.memory=0
         queue b in=c default.cpu=0
         queue lender in=c default.cpu=4 default.memory=0
         held x a default.memory=1
         held b1 b since=1 default.cpu=2
         held b2 b since=2 default.cpu=2
         job a1 a cpu=2
         decide => !b2(fair)",
    );
}
