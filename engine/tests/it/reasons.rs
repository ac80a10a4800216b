//! What is said about those that wait: the stable reason, and how things stand at the moment.

use crate::script::check;

#[test]
fn the_outlook_says_what_is_short_who_is_first_and_after_whom_there_is_room() {
    check(
        "queue q own=lower default.cpu=4
         held a q priority=5 since=1 default.cpu=2
         held b q priority=5 since=2 default.cpu=1
         held pod q stays default.cpu=1
         job big q priority=5 cpu=9
         job two q priority=5 cpu=2
         decide =>
         outlook big => is the first of its queue; in flavor \"default\" it needs cpu 9, 0 is free: \
         ClusterQueue \"q\" has no more; nobody has to make room: 1 would not go if told to, 2 of \
         its own queue don't come after it
         outlook two => comes after big; in flavor \"default\" it needs cpu 2, 0 is free: \
         ClusterQueue \"q\" has no more; nobody has to make room: 1 would not go if told to, 2 of \
         its own queue don't come after it; there will be room after pod, b",
    );
}

#[test]
fn the_outlook_says_why_other_queues_give_nothing() {
    let script = |rules: &str, reason: &str| {
        check(&format!(
            "queue mine in=c {rules} default.cpu=2
             queue theirs in=c default.cpu=2
             queue honest in=c default.cpu=2
             held x theirs priority=7 default.cpu=4
             held y honest priority=7 default.cpu=2
             job two mine priority=5 cpu=2
             job three mine priority=5 cpu=3
             decide =>
             outlook three => comes after two; in flavor \"default\" it needs cpu 3, 0 is free: \
             cohort \"c\" has no more; nobody has to make room: {reason}; there will be room after x"
        ));
    };
    script(
        "",
        "2 of other queues are safe (reclaimWithinCohort is Never)",
    );
    script(
        "reclaim=lower",
        "1 of other queues are not of lower priority, 1 are of queues that use no more than is theirs",
    );
}

#[test]
fn the_outlook_names_those_that_leave() {
    check(
        "queue q own=lower default.cpu=2
         held low q default.cpu=2
         job high q priority=5 cpu=1
         job next q cpu=2
         decide => !low(own)
         outlook high => is the first of its queue; in flavor \"default\" it needs cpu 1, 0 is free: \
         ClusterQueue \"q\" has no more; on their way out: low
         why next => couldn't be admitted to ClusterQueue \"q\": needs cpu 2 in flavor \"default\": \
         more than is free now (nominal quota 2)",
    );
}

#[test]
fn room_that_is_kept_for_another_is_not_called_free() {
    check(
        "queue q own=lower default.cpu=3
         held low q default.cpu=2
         job high q priority=5 cpu=3
         job small q cpu=1
         decide => !low(own)
         why small => waits in ClusterQueue \"q\": what is free is kept for workloads that come \
         before this one and wait for others to stop",
    );
}

#[test]
fn what_fits_in_part_does_not_count_as_too_large() {
    check(
        "queue q default.cpu=4
         held x q default.cpu=3
         job part q pods=8 min=2 cpu=1
         decide =>
         why part => couldn't be admitted to ClusterQueue \"q\": needs cpu 2 in flavor \"default\": \
         more than is free now (nominal quota 4)
         job never q pods=8 min=5 cpu=1
         why never => can never be admitted to ClusterQueue \"q\": needs cpu 5 in flavor \
         \"default\": more than there can ever be (nominal quota 4)",
    );
}
