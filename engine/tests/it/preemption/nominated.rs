//! Nominated workloads, one script each: quota is reserved for them until their targets have stopped. Which
//! targets those are is `targets.rs`.

use crate::script::check;

#[test]
fn nobody_takes_quota_that_is_reserved_for_another() {
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=4
         job high q priority=9 cpu=3
         decide => !low(own)
         job small q priority=1 cpu=1
         job smaller q cpu=1
         decide =>
         gone low
         decide => high small",
    );
}

#[test]
fn freed_quota_is_for_those_whom_it_was_freed_for() {
    let script = |then: &str| {
        check(&format!(
            "queue a in=c reclaim=any default.cpu=3
             queue b in=c default.cpu=1
             job theirs b priority=2 cpu=2
             decide => theirs
             confirm theirs
             job mine a priority=2 cpu=3
             decide => !theirs(reclaim)
             job small a cpu=1
             decide => small
             confirm small
             evicting theirs
             decide =>
             pend theirs
             {then}"
        ));
    };
    // With `small` both would borrow, and `theirs` was there before `mine`.
    script("decide => mine");
    // One that comes before it in its own queue gets the room, if it can use it.
    script(
        "job first a priority=3 cpu=2
         decide => first",
    );
    script(
        "job first a priority=3 cpu=5
         decide => mine",
    );
    // There is nobody any more for whom it left.
    script(
        "gone mine
         decide => theirs",
    );
}

#[test]
fn whoever_asks_for_something_else_meanwhile_comes_first_no_longer() {
    let script = |edit: &str, then: &str| {
        check(&format!(
            "queue a in=c own=lower default.cpu=1
             queue b in=c default.cpu=4
             local other queue=a
             held t a default.cpu=1
             held x b default.cpu=4
             job j a priority=1 cpu=1
             decide => !t(own)
             job w b priority=1000 cpu=4
             {edit}
             decide =>
             finish x
             decide => {then}"
        ));
    };
    // With 4 it would borrow, and `w` would not.
    script("job j a priority=1 cpu=4", "w");
    script("job j a priority=1 cpu=4\ngone t", "w");
    script("evicting t\njob j a priority=1 cpu=4", "w");
    let script = |edit: &str, then: &str| {
        check(&format!(
            "queue a in=c own=lower default.cpu=0
             queue b in=c default.cpu=0
             queue lender in=c default.cpu=1
             local other queue=b
             held t a default.cpu=1
             job j a priority=2 cpu=1
             decide => !t(own)
             job w b priority=5 cpu=1
             {edit}
             finish t
             decide => {then}"
        ));
    };
    script("", "j");
    script("job j a priority=3 cpu=1", "j");
    script("job j a priority=1 cpu=1", "w");
    script("job j other priority=2 cpu=1", "w");
    script("job j a priority=2 cpu=1 memory=0", "w");
    // What comes under the same id is another one.
    script("gone j\njob j a priority=2 cpu=1", "w");
    script("no-local a\nlocal a queue=b", "w");
    script("local a queue=b", "w");
    // When `t` has stopped, too.
    script("gone t\ngone j\njob j a priority=2 cpu=1", "w");
    script("gone t\njob j a priority=1 cpu=1", "w");
    // The targets are for what it requests when it preempts again.
    check(
        "queue q own=lower default.cpu=2
         queue b in=c default.cpu=0
         held t q default.cpu=1
         held u q default.cpu=1
         job j q priority=2 cpu=1
         decide => !u(own)
         job j q priority=2 cpu=2
         decide => !t(own)
         job w q priority=1 cpu=1
         gone t
         decide =>
         gone u
         decide => j",
    );
}

#[test]
fn a_nominated_one_passes_a_strict_head_that_does_not_need_the_quota() {
    let script = |cpu: u32, then: &str| {
        check(&format!(
            "queue q strict own=lower default.cpu=4
             held low q default.cpu=2
             held high q priority=9 default.cpu=2
             job j q priority=1 cpu=2
             decide => !low(own)
             job head q priority=5 cpu={cpu}
             decide =>
             gone low
             decide => {then}"
        ));
    };
    script(3, "j");
    script(2, "head");
}

#[test]
fn one_before_it_that_needs_something_else_takes_nothing_from_a_nominated_one() {
    // `e` waits for the GPU of `g`, whoever has the CPUs.
    check(
        "queue a in=c own=lower default.cpu=0 default.gpu=1
         queue b in=c default.cpu=0 default.gpu=0
         queue lender in=c default.cpu=2 default.gpu=0
         held g a priority=20 default.gpu=1
         evicting g
         held t a default.cpu=2
         job e a priority=9 gpu=1
         job n a priority=1 cpu=2
         decide => !t(own)
         job r b priority=10 cpu=2
         decide =>
         gone t
         decide => n
         gone g
         decide => e",
    );
    check(
        "queue q strict own=lower default.cpu=4 default.gpu=1
         held g q priority=20 default.gpu=1
         held low q default.cpu=4
         job n q priority=1 cpu=4
         decide => !low(own)
         evicting g
         job e q priority=9 gpu=1
         decide =>
         gone low
         decide => n",
    );
    // `e` fits at once, but as it borrows its turn is after that of `r`.
    check(
        "queue a in=c own=lower default.cpu=2 default.gpu=0
         queue b in=c default.cpu=0 default.gpu=0
         queue lender in=c default.cpu=0 default.gpu=1
         held t a default.cpu=2
         job n a priority=1 cpu=2
         decide => !t(own)
         job r b priority=10 cpu=2
         decide =>
         job e a priority=9 gpu=1
         gone t
         decide => n e",
    );
    // One that would get some of it comes first, whether or not it would find as much elsewhere.
    let script = |spot: &str, then: &str| {
        check(&format!(
            "queue q own=lower default.cpu=2 spot.cpu=2
             held low q default.cpu=2
             held other q priority=2 spot.cpu=2
             job n q priority=1 cpu=2
             decide => !low(own)
             {spot}
             job e q priority=9 cpu=2 tolerate=z
             gone low
             decide => {then}"
        ));
    };
    script("gone other", "e n");
    script("", "e");
}

#[test]
fn one_whose_admission_fails_is_nominated_still() {
    let script = |then: &str| {
        check(&format!(
            "queue a in=c own=lower default.cpu=0
             queue b in=c default.cpu=0
             queue lender in=c default.cpu=1
             held t a default.cpu=1
             job n a priority=2 cpu=1
             decide => !t(own)
             job r b priority=5 cpu=1
             gone t
             decide => n
             {then}"
        ));
    };
    script("fail n\ndecide => n\nfail n\ndecide => n");
    // It requests something else, is another one, or was admitted and is queued again.
    script("job n a priority=1 cpu=1\nfail n\ndecide => r");
    script("gone n\njob n a priority=2 cpu=1\ndecide => r");
    script("confirm n\nevicting n\ndecide =>\npend n\ndecide => r");
    // For no more pods than its target was evicted for.
    check(
        "queue blue in=c reclaim=any default.cpu=2
         queue red in=c reclaim=any default.cpu=3
         held t red pods=5 default.cpu=5
         job n blue cpu=1 pods=5 min=2
         decide => !t(reclaim)
         gone t
         decide => nx2
         fail n
         decide => nx2",
    );
}

/// It comes first in its queue: nobody who is nominated starts before it with quota that it would use.
#[test]
fn one_before_it_that_would_get_some_of_the_quota_comes_first() {
    // Beside another one that is evicted.
    check(
        "queue q own=lower default.cpu=4
         held t q default.cpu=2
         held o q priority=20 default.cpu=2
         job n q priority=1 cpu=2
         decide => !t(own)
         evicting o
         job e q priority=9 cpu=2 tolerate=z
         gone t
         decide => e
         gone o
         decide => n",
    );
    // It evicts no more important one for its sake.
    check(
        "queue q own=lower default.cpu=5
         held t q default.cpu=2
         held s q priority=2 default.cpu=1
         held m q priority=5 default.cpu=2
         job n q priority=1 cpu=2
         decide => !t(own)
         job e q priority=9 cpu=3
         decide => !s(own)",
    );
    // It starts with all its pods.
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job n q priority=1 cpu=3
         decide => !low(own)
         job e q priority=9 cpu=1 pods=4 min=1
         decide =>
         gone low
         decide => e",
    );
    // Two of them, each of which would find as much elsewhere.
    check(
        "queue q own=lower default.cpu=2 spot.cpu=2
         held t q default.cpu=2
         held o q priority=20 spot.cpu=2
         job n q priority=1 cpu=2
         decide => !t(own)
         job e1 q priority=9 cpu=2 tolerate=z
         job e2 q priority=8 cpu=2 tolerate=z
         gone o
         gone t
         decide => e1 e2",
    );
}

/// It has its turn among all others: it may not take nominal quota of others by this.
#[test]
fn one_before_it_that_needs_some_of_the_quota_passes_no_other_queue() {
    let script = |requested: &str| {
        check(&format!(
            "queue q in=c own=lower default.cpu=1
             queue o in=c reclaim=any default.cpu=10
             held low q default.cpu=1
             held x o default.cpu=10
             job n q priority=1 cpu=1
             decide => !low(own)
             evicting low
             job j o priority=100 cpu=10
             job e q priority=2 cpu={requested}
             gone x
             decide => j"
        ));
    };
    script("10");
    script("11");
}

#[test]
fn one_before_it_that_gets_more_pods_with_the_quota_has_it() {
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         job n q priority=1 cpu=2
         held high q priority=20 default.cpu=2
         decide => !low(own)
         gone high
         job e q priority=9 cpu=1 pods=4 min=2
         gone low
         decide => e",
    );
}

#[test]
fn two_nominated_ones_do_not_lose_quota_to_those_before_them() {
    // Either of `huge` and `large` would find room if all of it were free, and comes before those in its
    // queue for whom the others left.
    check(
        "queue a in=c own=lower default.cpu=4
         queue b in=c reclaim=any default.cpu=3
         job large a priority=1 cpu=5
         job two a cpu=2
         decide => large two
         confirm large
         confirm two
         job huge b cpu=6
         job three b cpu=3
         decide => !large(reclaim)
         job other a priority=1 cpu=3
         decide => !two(own)
         evicting large
         evicting two
         pend large
         pend two
         decide => other three",
    );
}

#[test]
fn equal_workloads_share_what_is_freed_for_one_of_them() {
    check(
        "queue q own=lower default.cpu=1
         job low q cpu=1
         decide => low
         confirm low
         job high q priority=1 cpu=1
         decide => !low(own)
         job earlier q priority=1 at=0 cpu=1
         evicting low
         decide =>
         pend low
         decide => earlier",
    );
}

#[test]
fn a_preemption_that_is_withdrawn_nominates_nobody() {
    check(
        "queue q in=c own=lower default.cpu=1
         queue r in=c default.cpu=1
         job low q cpu=2
         decide => low
         confirm low
         job high q priority=1 cpu=2
         decide => !low(own)
         unevicted low
         queue q in=c default.cpu=1
         decide =>
         finish low
         job rival r priority=2 cpu=2
         decide => rival",
    );
}

#[test]
fn one_behind_its_like_may_preempt_too_when_quota_is_reserved_for_that_one() {
    check(
        "queue q own=lower default.cpu=4
         held low q since=2 default.cpu=2
         held lower q since=1 default.cpu=2
         job first q priority=2 cpu=2
         job last q cpu=2
         decide => !low(own)
         decide =>
         job second q priority=1 cpu=2
         decide => !lower(own)",
    );
}

#[test]
fn one_may_preempt_when_quota_is_reserved_for_the_only_other_one() {
    check(
        "queue q own=lower default.cpu=4
         held low q since=2 default.cpu=2
         held lower q since=1 default.cpu=2
         job first q priority=2 cpu=2
         decide => !low(own)
         job second q priority=1 cpu=1
         decide => !lower(own)",
    );
}

#[test]
fn what_is_evicted_anyway_is_waited_for() {
    check(
        "queue q own=lower default.cpu=4
         held leaving q priority=3 default.cpu=2
         held low q default.cpu=2
         evicting leaving
         job high q priority=9 cpu=2
         decide =>
         why high => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         gone leaving
         decide => high",
    );
}

#[test]
fn a_reservation_of_one_that_is_deleted_is_free() {
    check(
        "queue q own=lower default.cpu=3
         held low q default.cpu=2
         job high q priority=5 cpu=3
         job small q cpu=1
         decide => !low(own)
         decide =>
         gone high
         decide => small",
    );
}

#[test]
fn what_is_reserved_for_one_that_must_not_be_queued_any_more_is_free() {
    check(
        "queue q in=c own=lower max=2 default.cpu=3
         queue b in=c default.cpu=4
         held x b priority=9 default.cpu=4
         held low q default.cpu=2
         job w0 q priority=9 cpu=6
         job j q priority=5 cpu=3
         decide => !low(own)
         job n b cpu=1
         decide =>
         job w1 q priority=9 cpu=6
         decide => n",
    );
}

#[test]
fn one_before_those_with_reservations_need_not_respect_them_as_its_like_did() {
    // `behind` waits for nothing but the room that is kept for `first`.
    check(
        "queue q default.cpu=2
         held a q default.cpu=1
         held b q default.cpu=1
         job first q priority=5 cpu=2
         job behind q priority=1 cpu=1
         decide =>
         finish a
         evicting b
         decide =>
         job before q priority=9 cpu=1
         decide => before",
    );
    // Room is kept for `like` too, elsewhere, and nothing is left for any other.
    check(
        "queue q default.cpu=2 spot.cpu=1
         held a q default.cpu=1
         held b q default.cpu=1
         held c q spot.cpu=1
         job first q priority=5 cpu=2
         job like q priority=3 cpu=1
         job other q priority=1 cpu=1 tolerate=z
         decide =>
         finish a
         evicting b
         evicting c
         decide =>
         job before q priority=9 cpu=1
         decide => before",
    );
}

#[test]
fn nobody_is_spared_for_quota_that_a_later_preemption_frees_besides() {
    // `b` leaves 4, of which `p` could borrow what `a` leaves: but it came first.
    check(
        "queue q1 in=c own=lower default.cpu=2
         queue q2 in=c own=lower default.cpu=4
         held a q1 default.cpu=2
         held b q2 default.cpu=4
         job p q1 priority=5 cpu=2
         job r q2 priority=4 cpu=2
         decide => !a(own) !b(own)
         gone a
         decide => p
         gone b
         decide => r",
    );
}
