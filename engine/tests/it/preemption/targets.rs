//! Who has to go for whom, one script each. Amounts and names are small enough to check by hand.

use crate::script::check;

#[test]
fn without_rules_nobody_is_preempted() {
    check(
        "queue a in=c default.cpu=2
         queue b in=c default.cpu=2
         held low a priority=-5 default.cpu=2
         held borrower b default.cpu=2
         job high a priority=9 cpu=2
         decide =>",
    );
}

#[test]
fn a_higher_priority_preempts_a_lower_one_of_its_queue_and_waits_until_it_has_stopped() {
    check(
        "queue q own=lower default.cpu=4
         job low q priority=1 cpu=3
         held same q priority=5 default.cpu=1
         decide => low
         confirm low
         job high q priority=5 cpu=2
         decide => !low(own)
         why high => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         decide =>
         evicting low
         decide =>
         pend low
         decide => high
         why low => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 3 (nominal quota 4)",
    );
}

#[test]
fn one_that_would_not_gain_enough_does_once_others_have_ended() {
    check(
        "queue q own=lower default.cpu=4
         held low q priority=1 default.cpu=2
         held high q priority=9 default.cpu=2
         job one q priority=5 cpu=4
         decide =>
         finish high
         decide => !low(own)",
    );
}

#[test]
fn of_equal_priorities_the_newer_one_is_preempted_if_the_queue_says_so() {
    let script = |rule: &str, expected: &str| {
        check(&format!(
            "queue q own={rule} default.cpu=2
             held older q at=1 default.cpu=1
             held newer q at=9 default.cpu=1
             job between q at=5 cpu=1
             decide => {expected}"
        ));
    };
    script("lower", "");
    script("newer", "!newer(own)");
}

#[test]
fn the_lowest_are_preempted_first_then_the_last_admitted_and_none_in_vain() {
    check(
        "queue q own=lower default.cpu=6
         held a q priority=1 since=5 default.cpu=2
         held b q priority=1 since=7 default.cpu=2
         held c q priority=2 since=9 default.cpu=2
         job one q priority=9 cpu=2
         decide => !b(own)",
    );
    // The small one is taken first, and let be when the big one has to go anyway.
    check(
        "queue q own=lower default.cpu=6
         held small q priority=1 default.cpu=1
         held big q priority=2 default.cpu=5
         job high q priority=9 cpu=5
         decide => !big(own)",
    );
    check(
        "queue q own=lower default.cpu=4
         held low q priority=1 default.cpu=2
         held peer q priority=9 default.cpu=2
         job high q priority=9 cpu=3
         decide =>",
    );
}

#[test]
fn a_queue_takes_back_what_is_its_own() {
    check(
        "queue mine in=c reclaim=any default.cpu=4
         queue theirs in=c default.cpu=4
         held own theirs priority=9 since=1 default.cpu=4
         held more theirs priority=9 since=2 default.cpu=3
         job job mine cpu=4
         decide => !more(reclaim)
         gone more
         decide => job",
    );
    check(
        "queue mine in=c reclaim=lower default.cpu=4
         queue theirs in=c default.cpu=4
         held own theirs priority=9 since=1 default.cpu=4
         held more theirs priority=9 since=2 default.cpu=3
         job job mine priority=9 cpu=4
         decide =>",
    );
    // It would borrow itself.
    check(
        "queue mine in=c reclaim=any default.cpu=4
         queue theirs in=c default.cpu=4
         held more theirs default.cpu=5
         job job mine cpu=5
         decide =>",
    );
}

#[test]
fn nominal_quota_is_not_reclaimed() {
    check(
        "queue mine in=c reclaim=any default.cpu=2
         queue honest in=c default.cpu=4
         queue greedy in=c default.cpu=4
         held h honest priority=-9 default.cpu=4
         held g greedy priority=9 default.cpu=6
         job job mine cpu=2
         decide => !g(reclaim)",
    );
    // In the tree: of a cohort that borrows, the queue that borrows.
    check(
        "cohort left in=root
         cohort right in=root
         queue mine in=left reclaim=any default.cpu=2
         queue honest in=right default.cpu=4
         queue greedy in=right default.cpu=4
         held h honest priority=-9 default.cpu=4
         held g greedy priority=9 default.cpu=6
         job job mine cpu=2
         decide => !g(reclaim)",
    );
}

#[test]
fn a_cohort_takes_back_what_is_its_own_for_a_queue_that_borrows_within_it() {
    check(
        "cohort left in=root default.cpu=4
         cohort right in=root
         queue mine in=left reclaim=any default.cpu=0
         queue theirs in=right default.cpu=2
         held x theirs default.cpu=3
         held y theirs since=1 default.cpu=3
         job job mine cpu=4
         decide => !y(reclaim) !x(reclaim)",
    );
}

#[test]
fn to_borrow_lower_priorities_may_be_preempted_up_to_a_threshold() {
    let script = |rule: &str, expected: &str| {
        check(&format!(
            "queue mine in=c reclaim=any {rule} default.cpu=2
             queue theirs in=c default.cpu=2
             queue idle in=c default.cpu=2
             held v theirs priority=3 default.cpu=6
             job job mine priority=5 cpu=3
             decide => {expected}"
        ));
    };
    script("", "");
    script("borrow=lower", "!v(borrow)");
    script("borrow=3", "!v(borrow)");
    script("borrow=2", "");
}

#[test]
fn to_borrow_nobody_is_preempted_who_would_return_first() {
    // With both gone, `fine` is within what is `theirs` and comes before `big`, which borrows; then there
    // is no room for `big`, and `more` is back too.
    check(
        "queue mine in=c reclaim=lower borrow=lower default.cpu=4
         queue theirs in=c reclaim=lower borrow=lower default.cpu=3
         held fine theirs since=2 default.cpu=3
         held more theirs since=1 default.cpu=4
         job big mine priority=1 cpu=5
         decide =>
         gone fine
         decide => !more(borrow)",
    );
    check(
        "queue mine in=c reclaim=any borrow=lower default.cpu=4
         queue theirs in=c reclaim=any borrow=lower default.cpu=3
         job big theirs priority=2 cpu=7
         held fine mine priority=1 since=2 default.cpu=1
         held more mine priority=1 since=1 default.cpu=5
         decide =>",
    );
    // It is spared, but those who borrow do go.
    check(
        "queue mine in=c reclaim=lower borrow=lower default.cpu=4
         queue theirs in=c default.cpu=3
         queue others in=c default.cpu=0
         queue idle in=c default.cpu=5
         held fine theirs since=3 default.cpu=3
         held more theirs since=2 default.cpu=4
         held most others since=1 default.cpu=5
         job big mine priority=1 cpu=7
         decide => !more(borrow) !most(borrow)",
    );
}

#[test]
fn nobody_is_preempted_who_could_return_by_preempting_in_its_own_queue() {
    let script = |own: &str, expected: &str| {
        check(&format!(
            "queue mine in=c reclaim=any borrow=lower default.cpu=3
             queue theirs in=c {own} default.cpu=4
             job older theirs cpu=4
             job newer theirs cpu=1
             decide => older newer
             confirm older
             confirm newer
             job job mine priority=1 cpu=5
             decide => {expected}"
        ));
    };
    // With `newer` there, `older` is above what is its queue's.
    script("", "!older(borrow)");
    // But it could have `newer` go.
    script("own=newer", "");
}

#[test]
fn borrowers_are_preempted_before_workloads_of_the_own_queue() {
    check(
        "queue mine in=c own=lower reclaim=any default.cpu=4
         queue theirs in=c default.cpu=2
         held own mine priority=-9 default.cpu=2
         held borrower theirs priority=9 default.cpu=4
         job job mine cpu=2
         decide => !borrower(reclaim)",
    );
}

#[test]
fn one_that_is_enough_is_found_behind_another_that_is_not() {
    // Without `h0` its queue no longer borrows, and `h1` would be none to preempt.
    check(
        "queue q0 in=c reclaim=lower borrow=lower default.cpu=1
         queue q1 in=c default.cpu=5
         job h0 q1 priority=0 cpu=2
         job h1 q1 priority=2 cpu=4
         rest => h1 h0
         job j q0 priority=3 cpu=4
         rest => !h1(borrow) j",
    );
}

#[test]
fn two_never_preempt_each_other() {
    // Borrowing, it would come after one that does not borrow, but not in its own queue.
    check(
        "queue q in=c own=lower default.cpu=2
         queue other in=c default.cpu=1
         job v q cpu=1
         decide => v
         confirm v
         job p q priority=5 cpu=3
         decide => !v(own)
         pend v
         decide => p
         decide =>
         confirm p
         decide =>",
    );
}

#[test]
fn one_that_is_gone_is_not_looked_at_when_others_are_admitted() {
    // While `big` waited, whatever was admitted might have given it somebody to take back from.
    check(
        "queue a in=c reclaim=any default.cpu=1
         queue b in=c default.cpu=1
         job big a cpu=9
         decide =>
         gone big
         job small b cpu=1
         decide => small
         job next a cpu=1
         decide => next",
    );
}

#[test]
fn nothing_is_reclaimed_that_is_only_reserved_in_its_queue() {
    // The room that is kept for `more` is not used, and without it `theirs` is within its own.
    check(
        "queue mine in=c reclaim=lower borrow=lower default.cpu=4
         queue theirs in=c default.cpu=3
         held going theirs priority=1 default.cpu=3
         held fine theirs priority=1 default.cpu=3
         evicting going
         job big mine priority=2 cpu=5
         job more theirs cpu=2
         decide =>",
    );
    // And its share is no larger for it.
    check(
        "fair
         queue mine in=c reclaim=any default.cpu=4
         queue theirs in=c default.cpu=3
         queue idle in=c default.cpu=2
         held going theirs default.cpu=4
         held fine theirs default.cpu=4
         evicting going
         job big mine cpu=6
         job more theirs cpu=2
         decide =>",
    );
}

#[test]
fn one_that_is_not_evictable_is_not_preempted() {
    check(
        "queue q own=lower default.cpu=4
         held pod q stays default.cpu=2
         held low q priority=1 default.cpu=2
         job high q priority=9 cpu=2
         decide => !low(own)",
    );
    check(
        "queue q own=lower default.cpu=2
         held pod q stays default.cpu=2
         job high q priority=9 cpu=2
         decide =>",
    );
}

#[test]
fn an_eviction_that_could_not_be_written_is_decided_again() {
    check(
        "queue q own=lower default.cpu=2
         held low q default.cpu=2
         job high q priority=9 cpu=2
         decide => !low(own)
         unevicted low
         decide => !low(own)",
    );
}

#[test]
fn one_that_has_just_been_admitted_is_spared_until_that_is_written() {
    check(
        "queue q own=lower default.cpu=2
         job low q cpu=2
         decide => low
         job high q priority=9 cpu=2
         decide =>
         confirm low
         decide => !low(own)",
    );
}

#[test]
fn nobody_is_preempted_for_the_benefit_of_one_without_the_right() {
    // With `v` gone `big` would come first, and it comes after `v`, since it borrows: `v` would be
    // back, and have to go again.
    check(
        "queue a in=c reclaim=any default.cpu=4
         queue b in=c default.cpu=3
         job v b priority=1 cpu=4
         decide => v
         confirm v
         job big a cpu=5
         job fine a cpu=4
         decide =>
         gone big
         decide => !v(reclaim)
         pend v
         decide => fine",
    );
}

#[test]
fn nobody_is_preempted_for_the_benefit_of_one_that_preempts_the_rest_in_its_own_queue() {
    // With `v` gone `big` would need but what `small` holds, and would drive it out. In the end `v`
    // would be back beside `small`, as both come before `big`, and have to go again for `fine`.
    check(
        "queue a in=c own=lower reclaim=any borrow=lower default.cpu=4
         queue b in=c own=lower reclaim=any borrow=lower default.cpu=3
         job v b priority=2 cpu=6
         job big a priority=1 cpu=7
         job fine a cpu=2
         job small a cpu=1
         decide => v small
         confirm v
         confirm small
         decide =>
         gone big
         decide => !v(reclaim)
         pend v
         decide => fine",
    );
    check(
        "fair
         queue a in=c own=lower reclaim=any default.cpu=4
         queue b in=c own=lower reclaim=any default.cpu=3
         job v b cpu=4
         job small a cpu=2
         job big a priority=2 cpu=6
         job fine a cpu=2
         decide => v small
         confirm v
         confirm small
         decide =>",
    );
}

#[test]
fn nobody_is_preempted_for_a_target_that_is_filled_back() {
    // To take back what `a1` borrows, both of `b` would have to go; but to do without one is enough.
    check(
        "cohort c default.cpu=4
         queue a in=c default.cpu=8
         queue b in=c own=lower reclaim=any default.cpu=4/1
         held a1 a default.cpu=9
         held b1 b default.cpu=1
         held b2 b default.cpu=1
         job b3 b priority=1 cpu=4
         decide => !b2(own)",
    );
}

#[test]
fn no_more_is_reclaimed_than_is_borrowed() {
    // Without `l2`, what is left of `left` is its own, and so `right` gives the rest.
    check(
        "queue mine in=c reclaim=any default.cpu=3
         queue left in=c default.cpu=3
         queue right in=c default.cpu=3
         held l1 left priority=1 since=1 default.cpu=2
         held l2 left priority=1 since=2 default.cpu=2
         held r1 right priority=9 default.cpu=4
         held r2 right priority=2 default.cpu=1
         job j mine cpu=3
         decide => !l2(reclaim) !r2(reclaim)",
    );
}

#[test]
fn one_without_a_flavor_gains_nothing_by_freed_quota() {
    check(
        "queue q own=lower default.cpu=2
         held low q default.cpu=2
         job lost q priority=9 gpu=1
         job high q priority=5 cpu=2
         decide => !low(own)",
    );
}

#[test]
fn by_its_share_nobody_is_preempted_who_would_preempt_those_just_admitted() {
    // Else `top` would come back in the place of `a` and `b`, and these, within what is `owner`'s own, in
    // that of `other`: and so on for ever.
    check(
        "fair
         queue owner in=c weight=0 own=lower reclaim=lower x.cpu=3
         queue borrower in=c reclaim=any x.cpu=1
         held top owner priority=2 x.cpu=2
         held last borrower priority=0 x.cpu=2
         job a owner priority=0 cpu=1
         job b owner priority=1 cpu=1
         job other borrower priority=0 cpu=2
         decide => !last(reclaim)
         finish last
         decide => b a
         confirm a
         confirm b
         decide =>",
    );
}
