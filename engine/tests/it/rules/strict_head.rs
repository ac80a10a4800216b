//! The head of a strict queue that may not reclaim its nominal quota: what becomes free of that is reserved for it.

use crate::script::check;

/// `b` borrows all that is the nominal quota of `q`.
fn script(queue: &str, job: &str, then: &str) {
    check(&format!(
        "queue q in=c {queue} reclaim=lower default.cpu=4
         queue b in=c default.cpu=0
         held b1 b priority=5 default.cpu=1
         held b2 b priority=5 default.cpu=1
         held b3 b priority=5 default.cpu=1
         held b4 b priority=5 default.cpu=1
         job big q priority=5 {job}
         decide =>
         job n1 b priority=5 cpu=1
         job n2 b priority=5 cpu=1
         finish b1
         {then}"
    ));
}

#[test]
fn borrowers_take_nothing_that_the_head_of_a_strict_queue_waits_for() {
    script(
        "strict",
        "cpu=4",
        "decide =>
         why n1 => waits in ClusterQueue \"b\": the unused quota is reserved for workloads that come before this one
         why big => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": requests 4 (nominal quota 4)
         finish b2
         job n3 b priority=9 cpu=1
         decide =>
         finish b3
         decide =>
         finish b4
         decide => big
         finish big
         decide => n3 n1 n2",
    );
    // What it leaves is for others.
    script(
        "strict",
        "cpu=2",
        "decide =>\nfinish b2\ndecide => big\nfinish b3\ndecide => n1",
    );
    script(
        "strict",
        "cpu=1 pods=4 min=2",
        "decide =>\nfinish b2\ndecide => bigx2",
    );
}

#[test]
fn only_a_head_reserves_and_only_nominal_quota() {
    script("", "cpu=4", "decide => n1");
    // It has to borrow, so it waits with the others.
    script("strict", "cpu=5", "decide => n1");
    script("strict", "cpu=4", "decide =>\ngone big\ndecide => n1");
    // One that can never be admitted is passed.
    script("strict", "cpu=9", "job next q cpu=1\ndecide => next");
}

#[test]
fn a_head_that_may_preempt_while_it_borrows_reserves_what_it_would_borrow() {
    let script = |rule: &str, then: &str| {
        check(&format!(
            "queue q in=c strict reclaim=lower {rule} default.cpu=0
             queue b in=c default.cpu=0
             queue lender in=c default.cpu=4
             held b1 b priority=5 default.cpu=1
             held b2 b priority=5 default.cpu=1
             held b3 b priority=5 default.cpu=1
             held b4 b priority=5 default.cpu=1
             job big q priority=5 cpu=4
             decide =>
             job n1 b priority=5 cpu=1
             finish b1
             {then}"
        ));
    };
    script(
        "borrow=lower",
        "decide =>
         finish b2
         finish b3
         decide =>
         finish b4
         decide => big
         finish big
         decide => n1",
    );
    // It has no right to what is others': they take it in turn.
    script("", "decide => n1");
    // Whoever keeps to its own quota need not wait.
    script("borrow=lower", "job own lender cpu=1\ndecide => own");
}

#[test]
fn a_head_that_may_always_reclaim_its_quota_reserves_nothing() {
    let script = |reclaim: &str, then: &str| {
        check(&format!(
            "queue q in=c strict {reclaim} default.cpu=4
             queue b in=c default.cpu=0
             held x q default.cpu=3
             job big q cpu=4
             job n b cpu=1
             decide => {then}"
        ));
    };
    script("reclaim=any", "n");
    // An own job in the way is waited for as a borrower is.
    script("reclaim=lower", "");
    check(
        "queue q in=c strict reclaim=any default.cpu=4
         queue b in=c default.cpu=0
         held x q default.cpu=3
         job big q cpu=4
         job n b cpu=1
         decide => n
         confirm n
         finish x
         decide => !n(reclaim)
         gone n
         decide => big",
    );
}

#[test]
fn a_head_that_may_not_reclaim_as_it_borrows_of_something_else_reserves_what_it_lacks() {
    let script = |rule: &str, first: &str, then: &str| {
        check(&format!(
            "{rule}
             queue q in=c strict reclaim=any default.cpu=4 default.memory=8
             queue b in=c default.cpu=0 default.memory=10
             held x q default.memory=8
             held b1 b default.cpu=2
             held b2 b default.cpu=2
             job big q cpu=4 memory=2
             decide => {first}
             job n1 b cpu=2
             job n2 b cpu=2
             finish b1
             {then}"
        ));
    };
    script("flavor x", "", "decide =>\nfinish b2\ndecide => big");
    // With fair sharing it takes back what it lacks.
    script(
        "fair",
        "!b2(reclaim) !b1(reclaim)",
        "decide =>\nfinish b2\ndecide => big",
    );
}

#[test]
fn of_several_flavors_a_head_reserves_the_one_that_lacks_least() {
    check(
        "queue q in=c strict default.cpu=4 spot.cpu=4
         queue b in=c default.cpu=0 spot.cpu=0
         held long b default.cpu=4
         held s1 b spot.cpu=2
         held s2 b spot.cpu=2
         job big q cpu=4
         decide =>
         job n1 b cpu=2
         job n2 b cpu=2
         finish s1
         decide =>
         finish s2
         decide => big
         finish long
         decide => n1 n2",
    );
    // `default` has memory, and in the second case one CPU, that nobody uses; but that is not what `big` lacks most.
    for (default, requests) in [
        ("default.cpu=4 default.memory=1", "memory=1"),
        ("default.cpu=3 default.memory=1", "memory=1"),
        ("default.cpu=3 default.memory=0", ""),
    ] {
        check(&format!(
            "queue q in=c strict default.cpu=4 default.memory=9 spot.cpu=4 spot.memory=9
             queue b in=c default.cpu=0 default.memory=0 spot.cpu=0 spot.memory=0
             held long b {default}
             held s1 b spot.cpu=2 spot.memory=1
             held s2 b spot.cpu=2 spot.memory=1
             job big q cpu=4 {requests}
             decide =>
             job n1 b cpu=2 {requests}
             job n2 b cpu=2 {requests}
             finish s1
             decide =>
             finish s2
             decide => big"
        ));
    }
}

#[test]
fn a_head_takes_what_it_is_short_of_and_no_more() {
    check(
        "queue q in=c strict default.cpu=4 default.memory=4
         queue b in=c default.cpu=0 default.memory=0
         queue lender in=c default.cpu=1 default.memory=2
         held x q default.cpu=2
         held y b default.memory=6
         job big q cpu=3 memory=1
         decide =>
         job n b cpu=2
         decide =>
         job m b cpu=1
         decide => m
         finish y
         decide =>
         finish x
         decide => big
         finish big
         decide => n",
    );
}

#[test]
fn whoever_keeps_to_its_own_quota_does_not_wait_for_a_head_that_can_not_be_admitted() {
    for fair in ["fair", "flavor x"] {
        check(&format!(
            "{fair}
             queue q in=c strict reclaim=lower default.cpu=4
             queue d in=c reclaim=any default.cpu=2
             queue b in=c default.cpu=0
             held b1 b priority=5 since=1 default.cpu=2
             held b2 b priority=5 since=2 default.cpu=2
             job big q priority=5 cpu=4
             decide =>
             job more b priority=9 cpu=2
             decide =>
             job own d cpu=2
             decide => own
             gone b1
             decide =>
             gone b2
             decide => big"
        ));
    }
}

#[test]
fn of_several_heads_the_one_of_higher_priority_has_its_part_first() {
    for (first, priority) in [("one", 1), ("two", 3)] {
        check(&format!(
            "queue q in=c strict default.cpu=2
             queue r in=c strict default.cpu=2
             queue b in=c default.cpu=0
             held b1 b default.cpu=1
             held b2 b default.cpu=1
             held b3 b default.cpu=1
             held b4 b default.cpu=1
             job one q priority=2 cpu=2
             job two r priority={priority} cpu=2
             decide =>
             gone b1
             decide =>
             gone b2
             decide => {first}"
        ));
    }
}
