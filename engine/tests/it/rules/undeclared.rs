//! Resources that a queue does not cover: whether they block, and that what is ignored is not charged.

use crate::script::check;

#[test]
fn what_a_queue_does_not_cover_blocks_or_is_not_counted_as_it_says() {
    check(
        "queue block undeclared=block default.cpu=4
         queue ignore undeclared=ignore default.cpu=4
         queue some undeclared=disk default.cpu=4
         job a block cpu=1 disk=9
         job b ignore cpu=1 disk=9 gpu=9
         job c some cpu=1 disk=9
         job d some cpu=1 disk=9 gpu=1
         decide => b c
         why a => ClusterQueue \"block\" has no quota for resource \"disk\"
         why d => ClusterQueue \"some\" has no quota for resource \"gpu\"",
    );
}

#[test]
fn what_is_covered_counts_whatever_the_queue_ignores() {
    check(
        "queue q undeclared=ignore default.cpu=4 default.disk=5
         job a q cpu=1 disk=9
         job b q cpu=1 disk=5
         decide => b",
    );
}

#[test]
fn queues_of_a_tree_that_differ_in_what_they_ignore_share_no_plan() {
    check(
        "queue block in=c undeclared=block default.cpu=4
         queue ignore in=c undeclared=ignore default.cpu=4
         job a block cpu=1 disk=9
         job b ignore cpu=1 disk=9
         decide => b
         queue block in=c undeclared=ignore default.cpu=4
         decide => a",
    );
}

#[test]
fn other_settings_count_for_queues_that_say_nothing() {
    check(
        "queue unset default.cpu=4
         queue block undeclared=block default.cpu=4
         job a unset cpu=1 disk=9
         job b block cpu=1 disk=9
         decide =>
         settings ignore
         decide => a
         why b => ClusterQueue \"block\" has no quota for resource \"disk\"
         settings plain
         job c unset cpu=1 disk=9
         decide =>",
    );
}
