//! The rules of usage, one script each: what is allocated, what is reserved, what is pending.

use crate::script::check;

#[test]
fn what_is_charged_is_reserved_until_its_pods_are_on_nodes() {
    check(
        "queue q in=c default.cpu=5 default.pods=9
         queue lender in=c default.cpu=5
         job j q cpu=2 pods=3
         decide => j
         parts q => default.cpu=0+6 default.pods=0+3
         local-parts q => default.cpu=0+6 default.pods=0+3
         confirm j
         parts q => default.cpu=0+6 default.pods=0+3
         bind j 1
         parts q => default.cpu=2+4 default.pods=1+2
         local-parts q => default.cpu=2+4 default.pods=1+2
         use q => default.cpu=6+1 default.pods=3+0
         bind j 3
         parts q => default.cpu=6+0 default.pods=3+0
         bind j 2
         parts q => default.cpu=4+2 default.pods=2+1
         evicting j
         parts q => default.cpu=4+2 default.pods=2+1
         bind j 1
         parts q => default.cpu=2+4 default.pods=1+2
         local-parts q => default.cpu=2+4 default.pods=1+2
         finish j
         parts q =>
         local-parts q =>",
    );
}

#[test]
fn what_is_allocated_is_rounded_down_and_never_more_than_all() {
    check(
        "queue q default.cpu=9
         held j q pods=3 bound=1 default.cpu=7
         parts q => default.cpu=2+5
         bind j 2
         parts q => default.cpu=4+3
         bind j 7
         parts q => default.cpu=7+0
         held none q pods=0 default.cpu=1
         parts q => default.cpu=8+0",
    );
}

#[test]
fn the_pod_sets_of_a_flavor_and_the_workloads_of_a_queue_add_up() {
    check(
        "flavor spot label=kind:spot
         queue q default.cpu=9 spot.cpu=9
         local l queue=q
         job j q cpu=2 pods=2 / cpu=1 / cpu=3 pods=2 select=kind:spot
         job k l cpu=1 pods=2
         decide => j k
         bind j 1 1 1
         bind k 1
         parts q => default.cpu=4+3 spot.cpu=3+3
         local-parts q => default.cpu=3+2 spot.cpu=3+3
         local-parts l => default.cpu=1+1
         gone j
         parts q => default.cpu=1+1
         local-parts q =>",
    );
}

#[test]
fn an_absurd_usage_is_split_without_overflow() {
    check(
        "queue q default.cpu=1
         held j q pods=4294967295 bound=4294967294 \
         default.cpu=170141183460469231731687303715884105727
         parts q => default.cpu=79228162495817593515539431422+18446744078004518914
         gone j
         parts q =>",
    );
}

#[test]
fn a_local_queue_says_what_its_workloads_hold_wherever_they_hold_it() {
    check(
        "queue a default.cpu=2
         queue b default.cpu=2
         local l queue=a
         job j l cpu=2
         decide => j
         local l queue=b
         bind j 1
         parts a => default.cpu=2+0
         parts b =>
         local-parts l => default.cpu=2+0
         no-queue a
         bind j 0
         local-parts l => default.cpu=0+2
         queue a default.cpu=2
         parts a => default.cpu=0+2",
    );
}

#[test]
fn where_pods_are_moves_no_quota_and_is_no_second_admission() {
    check(
        "queue q default.cpu=4
         job j q cpu=1 pods=3
         decide => j
         counts q => 0 1 0
         job big q cpu=2
         decide =>
         bind j 2
         counts q => 1 1 1
         local-counts q => 1 1 1
         decide =>
         bind j 0
         bind j 3
         counts q => 1 1 1
         local-counts q => 1 1 1
         decide =>
         use q => default.cpu=3+0
         fail j
         decide =>
         use q => default.cpu=3+0
         evicting j
         counts q => 1 1 0
         bind j 1
         counts q => 1 1 0
         finish j
         counts q => 1 0 0
         decide => big",
    );
}

#[test]
fn a_different_charge_is_a_change_whatever_is_bound() {
    check(
        "queue q default.cpu=4
         held j q pods=2 bound=1 default.cpu=4
         job next q cpu=2
         decide =>
         held j q pods=2 bound=1 default.cpu=2
         decide => next
         parts q => default.cpu=1+3
         held j q pods=4 bound=1 default.cpu=2
         parts q => default.cpu=0+4
         held j q default.cpu=1 / default.cpu=1
         job third q cpu=1
         job fourth q cpu=1
         decide =>
         held j q default.cpu=1
         decide => third
         held j q spot.cpu=1
         decide => fourth
         use q => default.cpu=4+0 spot.cpu=1+1",
    );
    check(
        "queue a default.cpu=2
         queue b default.cpu=2
         held j a default.cpu=2
         job next a cpu=2
         decide =>
         held j a from=b default.cpu=2
         decide => next
         use b => default.cpu=2+0
         local-counts a => 0 2 1
         held j b from=b bound=1 default.cpu=2
         parts b => default.cpu=2+0
         local-parts a => default.cpu=0+2
         local-parts b => default.cpu=2+0",
    );
}

#[test]
fn an_eviction_is_asked_for_once_wherever_the_pods_are() {
    check(
        "queue q default.cpu=2
         job j q cpu=1 pods=2
         decide => j
         bind j 1
         queue q drain default.cpu=2
         decide => !j
         bind j 2
         decide =>
         bind j 0
         decide =>",
    );
}

#[test]
fn what_waits_is_added_up_with_its_pods() {
    check(
        "queue q default.cpu=4
         local l queue=q hold
         job one q cpu=5 memory=1 pods=2
         job two q cpu=5 gpu=0 / cpu=1 pods=2
         job three l cpu=5 memory=7
         asked q => cpu=22 memory=9 pods=6
         local-asked q => cpu=17 memory=2 pods=5
         local-asked l => cpu=5 memory=7 pods=1
         decide =>
         asked q => cpu=22 memory=9 pods=6
         gone one
         asked q => cpu=12 memory=7 pods=4
         local-asked q => cpu=7 pods=3
         inactive three
         asked q => cpu=7 pods=3
         local-asked l =>
         counts q => 1 0 0",
    );
}

#[test]
fn what_is_admitted_no_longer_waits_until_that_fails() {
    check(
        "queue q default.cpu=2
         job a q cpu=1
         job b q cpu=2
         asked q => cpu=3 pods=2
         decide => a
         asked q => cpu=2 pods=1
         local-asked q => cpu=2 pods=1
         pend a
         asked q => cpu=2 pods=1
         fail a
         asked q => cpu=3 pods=2
         local-asked q => cpu=3 pods=2
         counts q => 2 0 0
         decide => a
         confirm a
         asked q => cpu=2 pods=1
         evicting a
         asked q => cpu=2 pods=1
         pend a
         asked q => cpu=3 pods=2
         job b q cpu=1
         asked q => cpu=2 pods=2
         decide => a b
         asked q =>
         local-asked q =>",
    );
}

#[test]
fn what_can_not_be_counted_waits_and_asks_for_nothing() {
    check(
        "queue q default.cpu=2
         job huge q cpu=170141183460469231731687303715884105727
         job negative q cpu=3 / cpu=-1
         job fine q cpu=9
         decide =>
         counts q => 3 0 0
         asked q => cpu=9 pods=1
         gone huge
         gone negative
         asked q => cpu=9 pods=1
         counts q => 1 0 0",
    );
}

#[test]
fn what_waits_in_a_local_queue_goes_where_that_points() {
    check(
        "job early l cpu=7
         queue a default.cpu=1
         queue b default.cpu=1
         asked a =>
         local l queue=a
         job late l cpu=8
         job own b cpu=9
         asked a => cpu=15 pods=2
         asked b => cpu=9 pods=1
         local l queue=b
         asked a =>
         counts a => 0 0 0
         asked b => cpu=24 pods=3
         counts b => 3 0 0
         local l queue=b drain
         asked b => cpu=24 pods=3
         no-queue b
         gone early
         queue b default.cpu=1
         asked b => cpu=17 pods=2
         no-local l
         asked b => cpu=9 pods=1
         counts b => 1 0 0
         local l queue=a
         asked a => cpu=8 pods=1
         local-counts l => 1 0 0",
    );
}

#[test]
fn single_pods_of_siblings_share_what_their_parent_has() {
    check(
        "cohort root default.cpu=9
         cohort team in=root default.cpu=3/0 default.pods=4/0
         queue a in=team default.cpu=0 default.pods=0
         queue b in=team default.cpu=0 default.pods=0
         queue other in=root default.cpu=0 default.pods=9
         job a1 a cpu=1
         job b1 b cpu=1
         job a2 a cpu=1
         job b2 b cpu=1
         decide => a1 b1 a2
         bind a1 1
         bind a2 1
         decide =>
         why b2 => couldn't be admitted to ClusterQueue \"b\": insufficient unused quota for cpu in flavor \
         \"default\": requests 1 (nominal quota 0, may borrow 3)
         job free1 b
         job free2 a
         decide => free1
         use b => default.cpu=1+1 default.pods=2+2
         job c other cpu=6
         decide => c
         finish a1
         decide => b2
         finish b1
         decide => free2
         parts a => default.cpu=1+0 default.pods=1+1",
    );
}

#[test]
fn a_pod_that_asks_for_nothing_is_one_pod_where_pods_are_counted_and_else_nothing() {
    check(
        "queue q default.cpu=0 default.pods=2
         job a q
         job b q cpu=0
         job c q
         asked q => pods=3
         decide => a b
         use q => default.pods=2+0
         bind a 1
         parts q => default.pods=1+1
         asked q => pods=1
         why c => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for pods in flavor \
         \"default\": requests 1 (nominal quota 2)
         queue r default.cpu=0
         job d r
         decide => d
         use r =>
         counts r => 0 1 0
         bind d 1
         parts r =>
         counts r => 0 1 1",
    );
}

#[test]
fn quota_of_pods_that_have_ended_for_good_is_free() {
    check(
        "queue q default.cpu=6 default.pods=9
         job j q cpu=2 pods=3
         job next q cpu=2
         job large q cpu=4
         decide => j
         bind j 3
         parts q => default.cpu=6+0 default.pods=3+0
         end j 1
         parts q => default.cpu=4+0 default.pods=2+0
         decide => next
         use q => default.cpu=6+0 default.pods=3+0
         counts q => 1 2 1
         end j 2
         decide => large
         use q => default.cpu=6+0 default.pods=2+0
         counts q => 0 3 1
         finish j
         use q => default.cpu=6+0 default.pods=2+0
         counts q => 0 2 0",
    );
}

#[test]
fn pods_that_have_ended_give_back_what_was_borrowed_first() {
    check(
        "queue a in=c default.cpu=2
         queue b in=c default.cpu=2
         job j a cpu=1 pods=4
         decide => j
         use a => default.cpu=4+2
         job own b cpu=2
         job small b cpu=1
         decide =>
         end j 1
         decide => small
         use a => default.cpu=3+1
         end j 1
         decide =>
         use a => default.cpu=2+0
         why own => couldn't be admitted to ClusterQueue \"b\": insufficient unused quota for cpu in flavor \
         \"default\": requests 2 (nominal quota 2, may borrow 2)
         finish small
         decide => own
         use b => default.cpu=2+0",
    );
}

#[test]
fn what_is_evicted_also_frees_quota_of_pods_that_have_ended() {
    check(
        "queue q default.cpu=4
         local l queue=q
         held j q pods=2 default.cpu=2 / pods=2 default.cpu=2
         job next l cpu=1
         decide =>
         evicting j
         end j 1 0
         decide => next
         use q => default.cpu=4+0
         local-parts q => default.cpu=0+3
         local-counts q => 0 1 0
         end j 0 2
         parts q => default.cpu=0+2
         pend j
         decide => j",
    );
}

#[test]
fn an_end_that_frees_nothing_wakes_nobody_and_asks_for_no_second_eviction() {
    check(
        "queue q default.cpu=2
         held j q pods=2 default.cpu=2
         job next q cpu=2
         decide =>
         end j 0
         decide =>
         queue q drain default.cpu=2
         decide => !j
         end j 1
         decide =>
         use q => default.cpu=1+0",
    );
}
