//! Preemption comes to an end: nobody is preempted twice unless something else changes in between.

use crate::script::check;

/// Four jobs of which each may preempt the next: by priority, by its share, by priority, and by nominal quota.
/// `a-low` was preempted and is admitted again, so `a-high` may not preempt it now.
const CIRCLE: &str = "fair initial
     queue a in=c own=newer reclaim=any weight=3000 default.cpu=1
     queue b in=c reclaim=any default.cpu=3
     queue d in=c own=lower reclaim=any default.cpu=2
     job a-high a priority=2 at=0 cpu=1 within-nominal
     job d-high d priority=2 at=0 cpu=3
     job a-low a at=0 cpu=2
     rest => a-high a-low d-high
     job other b at=0 cpu=2 within-nominal
     job d-low d at=0 cpu=2 within-nominal
     rest => !d-high(reclaim) !a-low(reclaim) other a-low !a-high(reclaim) d-low
     decide =>
     why a-high => waits in ClusterQueue \"a\": its preemption targets were already preempted, and are not preempted again until something else changes in the cohort
     ";

#[test]
fn a_circle_of_preemptions_ends_and_goes_round_once_for_each_change() {
    check(&format!(
        "{CIRCLE}
         job new b cpu=100
         rest => !a-low(own) !d-low(own) a-high d-high !d-high(fair) a-low !a-high(reclaim) d-low"
    ));
}

#[test]
fn what_others_change_in_the_tree_ends_the_round() {
    for (change, expected) in [
        ("job new b cpu=100", "!a-low(own) !d-low(own)"),
        (
            "job d-high d priority=1 at=0 cpu=3",
            "!a-low(own) !d-low(own)",
        ),
        ("gone d-high", "!a-low(own)"),
        ("inactive d-high", "!a-low(own)"),
        ("finish other", "!a-low(own)"),
        ("end other 1", "!a-low(own)"),
        ("held d-low d stays default.cpu=2", "!a-low(own)"),
        ("evicting d-low", "!a-low(own)"),
        ("flavor default label=kind:new", "!a-low(own) !d-low(own)"),
        ("cohort c default.cpu=0", "!a-low(own) !d-low(own)"),
        ("local d queue=d weight=2000", "!a-low(own) !d-low(own)"),
        ("local more queue=d", "!a-low(own) !d-low(own)"),
        ("local d queue=d hold", "!a-low(own)"),
    ] {
        check(&format!("{CIRCLE}\n{change}\ndecide => {expected}"));
    }
    check(&format!(
        "{CIRCLE}
         job late b cpu=100 after=99
         rest => !a-low(own) !d-low(own) a-high d-high !d-high(fair) a-low !a-high(reclaim) d-low
         decide at=98 =>
         decide at=99 => !a-low(own) !d-low(own)"
    ));
}

#[test]
fn what_changes_nothing_or_was_decided_does_not_end_the_round() {
    for step in [
        "bind a-low 1",
        "confirm other",
        "flavor default",
        "queue e in=other default.cpu=1",
        "job new e cpu=1",
        "fail d-high",
        "unevicted d-low",
        "decide at=99",
    ] {
        check(&format!("{CIRCLE}\n{step}\ndecide =>"));
    }
}
