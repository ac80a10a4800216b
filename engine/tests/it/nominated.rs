//! Nominated workloads, one script each: quota is reserved for them until their targets have stopped. Which
//! targets those are is `preemption.rs`.

use crate::script::check;

#[test]
fn nobody_takes_the_room_that_is_kept_for_another() {
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
fn what_others_leave_goes_to_those_they_left_for() {
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
fn two_for_whom_others_leave_do_not_lose_it_to_those_before_them() {
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
fn equal_workloads_share_what_is_left_for_one_of_them() {
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
fn nothing_is_promised_by_one_who_stays_after_all() {
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
fn one_that_comes_behind_its_like_may_preempt_too_when_room_is_kept_for_that_one() {
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
fn one_may_preempt_when_room_is_kept_for_the_only_other_one() {
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
fn what_leaves_anyway_is_waited_for() {
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
fn room_that_is_kept_for_one_that_goes_away_is_free() {
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
fn one_before_those_for_whom_room_is_kept_need_not_keep_out_of_their_way_as_its_like_did() {
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
fn nobody_is_spared_for_what_one_of_a_later_job_leaves_besides() {
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
