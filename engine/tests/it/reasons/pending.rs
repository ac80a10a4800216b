//! What is said about those that wait: the stable reason, and how things stand at the moment.

use sluice_engine::{ClusterQueue, Event, ResourceGroup, Time};

use crate::script::{check, played};

#[test]
fn the_outlook_says_what_is_short_who_is_first_and_after_whom_it_fits() {
    check(
        "queue q own=lower default.cpu=4
         held a q priority=5 since=1 default.cpu=2
         held b q priority=5 since=2 default.cpu=1
         held pod q stays default.cpu=1
         job big q priority=5 cpu=9
         job two q priority=5 cpu=2
         decide =>
         outlook big => is the first of its queue; in flavor \"default\" it needs cpu 9, 0 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted, 2 of \
         its own queue don't come after it
         outlook two => comes after big; in flavor \"default\" it needs cpu 2, 0 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted, 2 of \
         its own queue don't come after it; fits after pod, b",
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
             cohort \"c\" has no more; not preempted: {reason}; fits after x"
        ));
    };
    script("", "2 of other queues (reclaimWithinCohort is Never)");
    script(
        "reclaim=lower",
        "1 of other queues are not of lower priority, 1 of queues within their nominal quota",
    );
}

#[test]
fn the_outlook_names_the_evicted() {
    check(
        "queue q own=lower default.cpu=2
         held low q default.cpu=2
         job high q priority=5 cpu=1
         job next q cpu=2
         decide => !low(own)
         outlook high => is the first of its queue; in flavor \"default\" it needs cpu 1, 0 is free: \
         ClusterQueue \"q\" has no more; stopping: low
         why next => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 2)",
    );
}

#[test]
fn quota_that_is_reserved_for_another_is_not_called_free() {
    check(
        "queue q own=lower default.cpu=3
         held low q default.cpu=2
         job high q priority=5 cpu=3
         job small q cpu=1
         decide => !low(own)
         why small => waits in ClusterQueue \"q\": the unused quota is reserved for workloads that come before this one",
    );
}

#[test]
fn what_fits_in_part_does_not_count_as_too_large() {
    check(
        "queue q default.cpu=4
         held x q default.cpu=3
         job part q pods=8 min=2 cpu=1
         decide =>
         why part => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \"default\": \
         requests 2 (nominal quota 4)
         job never q pods=8 min=5 cpu=1
         why never => can never be admitted to ClusterQueue \"q\": insufficient quota for cpu in flavor \
         \"default\": requests 5, more than the maximum capacity (nominal quota 4)",
    );
}

#[test]
fn only_who_is_queued_has_an_outlook() {
    let engine = played(
        "cohort round in=round
         queue q max=1 default.cpu=1
         queue circle in=round default.cpu=1
         local astray queue=nothing
         held x q default.cpu=1
         job first q cpu=1
         job outside q cpu=1
         job late q after=500 cpu=1
         job lost nowhere cpu=1
         job stray astray cpu=1
         job dizzy circle cpu=1
         decide =>",
    );
    let has = |job: &str| engine.outlook(&job.into()).is_some();
    assert!(has("first"));
    for job in ["nobody", "x", "outside", "late", "lost", "stray", "dizzy"] {
        assert!(!has(job), "{job}");
    }
}

#[test]
fn the_outlook_counts_those_that_come_before() {
    check(
        "queue q default.cpu=1
         held x q stays default.cpu=1
         job a q priority=3 cpu=1
         job b q priority=2 cpu=1
         job c q priority=1 cpu=1
         decide =>
         outlook c => comes after 2, the first being a; in flavor \"default\" it needs cpu 1, 0 is \
         free: ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted; \
         fits after x",
    );
}

#[test]
fn the_outlook_says_why_others_of_the_queue_stay() {
    let script = |rules: &str, held: &str, reason: &str, after: &str| {
        check(&format!(
            "queue q {rules} default.cpu=3
             held pod q stays since=1 default.cpu=1
             held x q {held} since=2 default.cpu=2
             job j q priority=5 at=5 cpu=3
             decide =>
             outlook j => is the first of its queue; in flavor \"default\" it needs cpu 3, 0 is \
             free: ClusterQueue \"q\" has no more; not preempted: 1 can't be evicted, {reason}; fits after {after}"
        ));
    };
    let safe = "1 of its own queue (withinClusterQueue is Never)";
    let order = "1 of its own queue don't come after it";
    let little = "1 may be preempted, but hold too little quota together";
    script("", "at=9", safe, "x, pod");
    script("own=lower", "at=9", little, "x, pod");
    script("own=lower", "priority=5 at=9", order, "pod, x");
    script("own=newer", "at=1", little, "x, pod");
    script("own=newer", "priority=5 at=9", little, "pod, x");
    script("own=newer", "priority=5 at=1", order, "pod, x");
    script("own=newer", "priority=6 at=9", order, "pod, x");
}

#[test]
fn the_outlook_says_why_others_of_the_cohort_stay_if_there_is_something_to_take_back() {
    let script = |first: &str, rules: &str, reason: &str| {
        check(&format!(
            "{first}
             queue mine in=c reclaim=any {rules} default.cpu=2
             queue theirs in=c default.cpu=2
             held pod theirs stays default.cpu=3
             held v theirs default.cpu=1
             job j mine priority=5 cpu=3
             decide =>
             outlook j => is the first of its queue; in flavor \"default\" it needs cpu 3, 0 is \
             free: cohort \"c\" has no more; not preempted: 1 can't be evicted, \
             {reason}; fits after pod"
        ));
    };
    let borrows = "1 of other queues, as this queue would have to borrow";
    let little = "1 may be preempted, but hold too little quota together";
    script("flavor x", "", borrows);
    script("flavor x", "borrow=lower", little);
    script("fair", "", little);
    // All that it asks for is its own.
    check(
        "queue mine in=c reclaim=any default.cpu=4
         queue theirs in=c default.cpu=2
         held pod theirs stays default.cpu=3
         held v theirs default.cpu=1
         job j mine cpu=4
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 4, 2 is free: \
         cohort \"c\" has no more; not preempted: 1 can't be evicted, 1 may be preempted, \
         but hold too little quota together; fits after pod",
    );
}

#[test]
fn the_outlook_does_not_count_the_evicted_among_the_others() {
    check(
        "queue q own=lower default.cpu=4
         held low q default.cpu=2
         held same q priority=5 default.cpu=2
         job high q priority=5 cpu=1
         job next q cpu=4
         decide => !low(own)
         outlook next => comes after high; in flavor \"default\" it needs cpu 4, 0 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 of its own queue don't come \
         after it; stopping: low; fits after same",
    );
}

#[test]
fn the_outlook_names_only_the_first_few() {
    check(
        "queue q default.cpu=5
         held a q default.cpu=1
         held b q default.cpu=1
         held c q default.cpu=1
         held d q default.cpu=1
         held e q default.cpu=1
         evicting a
         evicting b
         evicting c
         evicting d
         evicting e
         job j q cpu=5
         decide =>
         outlook j => is the first of its queue; in flavor \"default\" it needs cpu 5, 0 is free: \
         ClusterQueue \"q\" has no more; stopping: a, b, c and 2 more",
    );
}

#[test]
fn only_what_is_short_is_spoken_of() {
    // Nothing is wanted of `gpu`; and what `q` has of `disk` is kept for it, though the cohort, which has
    // none, has 1 in use.
    check(
        "queue q in=c default.cpu=4 default.disk=2/-/0 default.gpu=0 default.memory=1/1
         queue lender in=c default.cpu=0 default.disk=0 default.memory=2
         held x q default.memory=1
         held y lender default.disk=1
         job j q cpu=1 disk=2 gpu=0 memory=2
         decide =>
         why j => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for memory in flavor \"default\": \
         requests 2 (nominal quota 1, may borrow 1)
         outlook j => is the first of its queue; in flavor \"default\" it needs memory 2, 1 is free: \
         ClusterQueue \"q\" has no more; not preempted: 1 of its own queue \
         (withinClusterQueue is Never); fits after x",
    );
    check(
        "queue q default.cpu=1 spot.cpu=1 | x.gpu=1
         job none q cpu=0 gpu=2
         job one q cpu=1 gpu=2
         decide =>
         why none => can never be admitted to ClusterQueue \"q\": insufficient quota for gpu in flavor \"x\": requests 2, more than the maximum capacity (nominal quota 1)
         why one => can never be admitted to ClusterQueue \"q\": insufficient quota for gpu in flavor \"x\": requests 2, more than the maximum capacity (nominal quota 1)",
    );
}

#[test]
fn what_an_earlier_pod_set_happens_to_take_is_in_the_way_of_a_later_one() {
    // The first takes both of `default`, as of `spot` one is used; the second can go nowhere else.
    check(
        "flavor default label=kind:default
         flavor spot label=kind:spot
         queue q default.cpu=2 default.memory=2 spot.cpu=2 spot.memory=2
         held x q spot.memory=1
         job pair q memory=2 / cpu=0 memory=1 select=kind:default
         decide =>
         why pair => couldn't be admitted to ClusterQueue \"q\": pod set \"1\": insufficient unused quota for memory in \
         flavor \"default\": requests 1 (nominal quota 2); flavor \"spot\": its nodes \
         don't have the label kind=default of the node selector",
    );
}

#[test]
fn a_flavor_without_quota_for_a_resource_is_not_for_those_that_ask_for_it() {
    check(
        "queue q default.cpu=4 spot.memory=4
         queue other default.memory=4 spot.cpu=4
         job both q cpu=1 memory=1
         job one q cpu=1
         decide => one
         why both => can never be admitted to ClusterQueue \"q\": flavor \"default\": it has no quota \
         for \"memory\"; flavor \"spot\": it has no quota for \"cpu\"
         outlook both => is the first of its queue",
    );
}

#[test]
fn of_many_flavors_only_the_first_few_are_spoken_of() {
    let script = |flavors: usize, rest: &str| {
        let names: Vec<String> = (1..=flavors).map(|number| format!("f{number}")).collect();
        let declared: Vec<String> = names.iter().map(|name| format!("flavor {name}")).collect();
        let quotas: Vec<String> = names.iter().map(|name| format!("{name}.cpu=1")).collect();
        let shown = names.iter().take(4).map(|name| {
            format!(
                "insufficient quota for cpu in flavor \"{name}\": requests 2, more than the maximum capacity (nominal quota 1)"
            )
        });
        let shown: Vec<String> = shown.collect();
        check(&format!(
            "{}
             queue q {}
             job j q cpu=2
             why j => can never be admitted to ClusterQueue \"q\": {}{rest}",
            declared.join("\n"),
            quotas.join(" "),
            shown.join("; ")
        ));
    };
    script(4, "");
    script(5, "; and 1 more flavor");
    script(6, "; and 2 more flavors");
}

#[test]
fn of_many_flavors_that_do_not_exist_only_the_first_few_are_named() {
    let script = |quotas: &str, text: &str| {
        check(&format!(
            "queue q {quotas}
             job j q cpu=1
             why j => ClusterQueue \"q\" is inactive: ResourceFlavors that don't exist: {text}"
        ));
    };
    script("a.cpu=1 b.cpu=1 c.cpu=1", "\"a\", \"b\", \"c\"");
    script(
        "a.cpu=1 b.cpu=1 c.cpu=1 d.cpu=1",
        "\"a\", \"b\", \"c\" and 1 more",
    );
}

#[test]
fn a_resource_that_no_flavor_has_is_said_to_have_none() {
    let mut engine = played("local q queue=q\njob j q gpu=1");
    let group = ResourceGroup {
        covered_resources: ["gpu".into()].into(),
        flavors: Vec::new(),
    };
    engine.apply(Event::UpsertClusterQueue(ClusterQueue {
        resource_groups: vec![group],
        ..ClusterQueue::new("q".into())
    }));
    assert_eq!(engine.decide(Time::default()), []);
    let explanation = engine.explain(&"j".into()).unwrap();
    assert_eq!(
        explanation
            .display(&|_, amount| amount.to_string())
            .to_string(),
        "can never be admitted to ClusterQueue \"q\": it has no flavor for the requested resources"
    );
}

#[test]
fn it_is_said_where_a_workload_is_on_its_way() {
    check(
        "queue q default.cpu=1
         job j q cpu=1
         inactive j
         why j => the workload is inactive
         pend j
         why j => queued in ClusterQueue \"q\"
         decide => j
         why j => admitted by ClusterQueue \"q\"
         confirm j
         evicting j
         why j => evicted; still uses quota of ClusterQueue \"q\" until it has stopped
         finish j
         why j => the workload has finished",
    );
}

#[test]
fn the_head_of_a_strict_queue_waits_for_quota_and_the_others_for_the_head() {
    let script = |mode: &str, head: &str, behind: &str| {
        check(&format!(
            "queue q strict {mode} default.cpu=2
             local heavy queue=q used=cpu:8
             local light queue=q
             held x q default.cpu=2
             job high heavy priority=9 cpu=1
             job low light cpu=1
             decide =>
             why {head} => couldn't be admitted to ClusterQueue \"q\": insufficient unused quota for cpu in flavor \
             \"default\": requests 1 (nominal quota 2)
             why {behind} => waits in ClusterQueue \"q\" (StrictFIFO) behind a workload that \
             doesn't fit"
        ));
    };
    script("", "high", "low");
    script("by-usage", "low", "high");
}
