//! What time brings, and what of that is called off: backing off, timeouts, and use over time.

use crate::script::check;

/// In which half of what was used is forgotten, in milliseconds.
const WEEK: i64 = 7 * 24 * 3_600_000;

#[test]
fn one_that_no_longer_waits_is_due_no_more() {
    check(
        "queue q default.cpu=1
         job a q after=500 cpu=1
         decide at=1 =>
         wake => 500
         job a q after=900 cpu=1
         wake => 900
         finish a
         wake =>
         decide at=900 =>",
    );
}

#[test]
fn a_timeout_that_changes_moves_the_moment_of_those_that_may_time_out() {
    // `b` uses what it holds, and `c` is on its way already.
    check(
        "queue q timeout=100 default.cpu=3
         held a q unused=50 default.cpu=1
         held b q default.cpu=1
         held c q unused=40 default.cpu=1
         evicting c
         decide at=60 =>
         wake => 150
         queue q timeout=300 default.cpu=3
         wake => 350
         queue q default.cpu=3
         wake =>
         decide at=200 =>
         queue q timeout=300 default.cpu=3
         wake => 350
         decide at=349 =>
         decide at=350 => !a(timeout)
         queue q timeout=900 default.cpu=3
         wake =>
         decide at=950 =>",
    );
}

#[test]
fn who_has_had_its_nodes_times_out_by_another_timeout() {
    check(
        "queue q timeout=100 recovery=500 default.cpu=2
         held a q unused=50 had-nodes default.cpu=1
         held b q unused=50 default.cpu=1
         wake => 150
         decide at=150 => !b(timeout)
         wake => 550
         queue q timeout=100 default.cpu=2
         wake =>
         decide at=600 =>
         queue q timeout=100 recovery=700 default.cpu=2
         wake => 750
         decide at=750 => !a(timeout)",
    );
}

#[test]
fn one_that_is_preempted_does_not_time_out_as_well() {
    check(
        "queue q own=lower timeout=100 default.cpu=2
         held low q unused=50 default.cpu=2
         job high q priority=9 cpu=2
         decide at=60 => !low(own)
         wake =>
         decide at=150 =>",
    );
}

#[test]
fn an_older_record_of_what_was_used_does_not_count() {
    check(
        "queue q by-usage default.cpu=1
         local heavy queue=q used=cpu:8
         local light queue=q used=cpu:1
         decide at=1 =>
         local heavy queue=q used=cpu:0
         job h heavy priority=9 cpu=1
         job l light cpu=1
         decide at=1 => l",
    );
    // One of the same moment does.
    check(
        "queue q by-usage default.cpu=1
         local heavy queue=q used=cpu:8
         local light queue=q used=cpu:1
         decide =>
         local heavy queue=q used=cpu:0
         job h heavy cpu=1
         job l light priority=9 cpu=1
         decide => h",
    );
}

#[test]
fn what_was_used_is_forgotten_with_the_local_queue_and_its_last_workload() {
    let script = |before: &str, after: &str, expected: &str| {
        check(&format!(
            "queue q by-usage default.cpu=1
             local heavy queue=q used=cpu:8
             local light queue=q used=cpu:1
             {before}
             no-local heavy
             {after}
             local heavy queue=q
             job l light priority=9 cpu=1
             job h heavy cpu=1
             decide => {expected}"
        ));
    };
    script("", "", "h");
    script("job stays heavy cpu=9", "", "l");
    script("job goes heavy cpu=9", "gone goes", "h");
}

#[test]
fn time_alone_moves_a_reservation_to_another_that_has_used_less() {
    // At first `a` has used 2 of 3 and `b` 1. A week later half of 2 is forgotten, while `b` has
    // been using 1 for that long.
    check(&format!(
        "queue q by-usage default.cpu=3
         local a queue=q used=cpu:2
         local b queue=q
         held x q default.cpu=2
         evicting x
         held b1 b from=q default.cpu=1
         job a1 a cpu=2
         job b2 b cpu=2
         decide =>
         why a1 => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 3)
         why b2 => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         decide at={WEEK} =>
         why a1 => waits in ClusterQueue \"q\" for evicted workloads to stop: their quota is reserved for this one
         why b2 => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 3)
         gone x
         decide at={WEEK} => a1"
    ));
}

#[test]
fn time_alone_lets_one_preempt_whose_quota_another_would_have_taken() {
    // If `v` went at first, `young` would gain, since `b` has used less: 3 of 4, and `a` 4 + 1. A week
    // later `a` has used 2 + 0.5 + 1, and `b` 1.5 + 3.
    check(&format!(
        "queue q by-usage own=lower default.cpu=4
         local a queue=q used=cpu:4
         local b queue=q
         held v a from=q priority=1 default.cpu=1
         held pod b from=q stays default.cpu=3
         job high a priority=9 cpu=1
         job young b cpu=1
         decide =>
         decide at={WEEK} => !v(own)
         gone v
         decide at={WEEK} => high"
    ));
}

#[test]
fn what_ended_since_the_last_decision_was_used_until_now() {
    let script = |between: &str| {
        check(&format!(
            "queue q by-usage default.cpu=8
             local a queue=q
             local b queue=q
             job a1 a cpu=8
             decide => a1
             confirm a1
             decide =>
             {between}
             finish a1
             job a2 a cpu=8
             job b1 b cpu=8
             decide at={WEEK} => b1"
        ));
    };
    script("");
    script(&format!("decide at={} =>", WEEK - 1));
    // What began since then was not used before.
    check(&format!(
        "queue q by-usage default.cpu=8
         local a queue=q used=cpu:2
         local b queue=q used=cpu:1
         decide =>
         held b1 b from=q default.cpu=8
         decide at={WEEK} =>
         finish b1
         job a2 a priority=9 cpu=8
         job b2 b cpu=8
         decide at={WEEK} => b2"
    ));
    // But what ran before the engine started was.
    check(&format!(
        "queue q by-usage default.cpu=8
         local a queue=q used=cpu:2
         local b queue=q used=cpu:1
         held b1 b from=q default.cpu=8
         decide at={WEEK} =>
         finish b1
         job a2 a cpu=8
         job b2 b priority=9 cpu=8
         decide at={WEEK} => a2"
    ));
}
