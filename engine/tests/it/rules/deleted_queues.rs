//! ClusterQueues that are deleted while workloads use their quota.

use crate::script::check;

#[test]
fn what_a_deleted_queue_has_borrowed_is_not_lent_again() {
    check(
        "queue a in=c default.cpu=4
         queue b in=c default.cpu=4
         job one a cpu=4
         job two a cpu=4
         decide => one two
         no-queue a
         job new b cpu=4
         decide =>
         why new => couldn't be admitted to ClusterQueue \"b\": insufficient unused quota for cpu in flavor \"default\": \
         requests 4 (nominal quota 4)
         finish one
         decide =>
         finish two
         decide => new",
    );
}

#[test]
fn a_queue_that_is_created_again_takes_its_usage_over() {
    check(
        "queue a in=c default.cpu=4
         queue b in=c default.cpu=4
         job one a cpu=4
         job two a cpu=4
         decide => one two
         no-queue a
         queue a in=c default.cpu=4
         job new b cpu=4
         decide =>
         finish one
         decide => new
         finish two
         job again a cpu=4
         decide => again",
    );
}

#[test]
fn the_admission_says_where_usage_counts_of_a_queue_that_was_never_known() {
    check(
        "queue b in=c default.cpu=4
         held one a default.cpu=4 in=c
         job new b cpu=4
         decide =>
         finish one
         decide => new",
    );
}

#[test]
fn nothing_more_is_admitted_by_a_deleted_queue() {
    check(
        "queue a in=c default.cpu=4
         queue b in=c default.cpu=4
         job one a cpu=1
         decide => one
         no-queue a
         job more a cpu=1
         decide =>
         why more => ClusterQueue \"a\" of LocalQueue \"ns/a\" doesn't exist",
    );
}

#[test]
fn quota_that_a_deleted_queue_uses_is_reclaimed() {
    check(
        "queue a in=c default.cpu=4
         queue b in=c reclaim=any default.cpu=4
         job one a cpu=4
         job two a cpu=4 at=1
         decide => one two
         no-queue a
         job new b cpu=4
         confirm one
         confirm two
         decide => !two(reclaim) !one(reclaim)",
    );
}
