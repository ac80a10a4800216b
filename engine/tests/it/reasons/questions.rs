//! What can be asked about queues, cohorts and the state as a whole; and the words for reasons, which
//! conditions and metrics have and nobody may change.

use std::collections::BTreeMap;

use sluice_engine::{
    Admission, Amount, ByFlavor, ClusterQueue, CohortStatus, Event, FlavorName, FlavorQuotas,
    InactiveReason, LocalQueueKey, NodeName, PendingReason, PodSetAssignment, PreemptionRight,
    Quota, ResourceGroup, ResourceName, Share, Time, Workload, WorkloadId, WorkloadState,
};

use crate::script::played;

fn amounts(of: &[(&str, &str, i128)]) -> ByFlavor<Amount> {
    let mut amounts: ByFlavor<Amount> = BTreeMap::new();
    for (flavor, resource, amount) in of {
        let flavor = amounts.entry((*flavor).into()).or_default();
        flavor.insert((*resource).into(), Amount::new(*amount));
    }
    amounts
}

fn billionths(share: Option<Share>) -> Option<i128> {
    share.map(Share::billionths)
}

#[test]
fn each_reason_to_be_pending_has_the_word_of_kueue() {
    let claim = "queue q own=lower default.cpu=3
                 held low q default.cpu=2
                 job high q priority=5 cpu=3
                 job j q cpu=1
                 decide => !low(own)";
    let cases = [
        ("queue q\njob j q\ndecide => j", ""),
        ("held j q default.cpu=1\nevicting j", ""),
        ("job j q\ninactive j", ""),
        ("job j q\nfinish j", ""),
        ("job j q cpu=-1", "Misconfigured"),
        ("job j q", "Misconfigured"),
        ("local q queue=q hold\njob j q", "Suspended"),
        (
            "queue q\nlocal q queue=q unselected\njob j q",
            "Misconfigured",
        ),
        ("local q queue=q\njob j q", "Misconfigured"),
        ("queue q hold\njob j q", "Suspended"),
        ("queue q in=q\ncohort q in=q\njob j q", "Misconfigured"),
        ("queue q\njob j q cpu=1", "NoMatchingFlavor"),
        ("queue q default.cpu=1\njob j q cpu=2", "ExceedsMaxQuota"),
        (
            "queue q default.cpu=1 spot.cpu=1\njob j q cpu=1 / cpu=1 / cpu=1",
            "ExceedsMaxQuota",
        ),
        (
            "queue q default.cpu=1\nheld x q default.cpu=1\njob j q cpu=1",
            "WaitingForQuota",
        ),
        (
            "queue q strict default.cpu=1\njob big q cpu=2\njob j q cpu=1",
            "PendingEvaluation",
        ),
        ("queue q\njob j q after=5\ndecide at=1 =>", "BackingOff"),
        ("queue q max=0\njob j q", "QueueFull"),
        (claim, "WaitingForQuota"),
        (
            &claim
                .replace("high", "k")
                .replace(" j ", " other ")
                .replace(" k ", " j "),
            "WaitingForPreemptedWorkloads",
        ),
        ("queue q\njob j q", "PendingEvaluation"),
    ];
    for (script, word) in cases {
        let engine = played(script);
        let explanation = engine.explain(&"j".into()).unwrap();
        let reason = explanation.pending_reason();
        assert_eq!(reason.map_or("", PendingReason::as_str), word, "{script}");
        // Who waits for its queue to change, or backs off, can't be admitted whatever quota is free.
        let admissible = engine.admissible(&"q".into());
        match word {
            "Misconfigured" | "Suspended" | "BackingOff" | "QueueFull" => {
                assert_eq!(admissible, 0, "{script}");
            }
            "PendingEvaluation" => assert!(1 <= admissible, "{script}"),
            _ => {}
        }
        if explanation.never_fits() {
            assert!(
                reason.is_some_and(PendingReason::is_inadmissible),
                "{script}"
            );
        }
    }
}

#[test]
fn each_right_to_preempt_has_a_word() {
    let words = [
        PreemptionRight::InClusterQueue,
        PreemptionRight::InCohortReclamation,
        PreemptionRight::InCohortReclaimWhileBorrowing,
        PreemptionRight::InCohortFairSharing,
    ];
    assert_eq!(
        words.map(PreemptionRight::reason),
        [
            "InClusterQueue",
            "InCohortReclamation",
            "InCohortReclaimWhileBorrowing",
            "InCohortFairSharing"
        ]
    );
}

#[test]
fn each_reason_to_admit_nothing_has_a_word_and_a_text() {
    let reasons = [
        (InactiveReason::Stopped, "Stopped", "it is stopped"),
        (
            InactiveReason::FlavorNotFound(vec!["f".into()]),
            "FlavorNotFound",
            "ResourceFlavors that don't exist: \"f\"",
        ),
        (
            InactiveReason::CohortCycle(vec!["a".into(), "b".into()]),
            "CohortCycle",
            "cohorts that are each other's parents: \"a\", \"b\"",
        ),
        (
            InactiveReason::CohortTreeTooDeep,
            "CohortTreeTooDeep",
            "the cohort tree has more than 64 levels",
        ),
    ];
    for (reason, word, text) in reasons {
        assert_eq!((reason.reason(), reason.to_string().as_str()), (word, text));
    }
}

#[test]
fn a_local_queue_says_why_nothing_is_admitted_from_it() {
    let cases = [
        ("queue l", Ok(())),
        ("queue l\nlocal l queue=l hold", Err("it is stopped")),
        (
            "local l queue=l unselected",
            Err("ClusterQueue \"l\" doesn't exist"),
        ),
        (
            "queue l hold\nlocal l queue=l unselected",
            Err("its ClusterQueue doesn't select this namespace"),
        ),
        (
            "queue l hold",
            Err("its ClusterQueue is inactive: it is stopped"),
        ),
    ];
    for (script, expected) in cases {
        let status = played(script).local_queue_status(&LocalQueueKey::new("ns", "l"));
        let active = status.unwrap().active.map_err(|reason| reason.to_string());
        assert_eq!(active, expected.map_err(str::to_owned), "{script}");
    }
    let unknown = played("job j l").local_queue_status(&LocalQueueKey::new("ns", "l"));
    assert_eq!(unknown, None);
}

#[test]
fn what_was_used_over_time_is_told_where_it_decides() {
    let consumed = |mode: &str| {
        let engine = played(&format!("queue q {mode}\nlocal l queue=q used=cpu:8"));
        let status = engine.local_queue_status(&LocalQueueKey::new("ns", "l"));
        status.unwrap().consumed.map(|consumed| consumed.amounts)
    };
    let eight = BTreeMap::from([("cpu".into(), Amount::new(8))]);
    assert_eq!(consumed("by-usage"), Some(eight));
    assert_eq!(consumed(""), None);
}

/// `a` keeps 1 of its 4 and lends 3, `team` keeps 4 of its 6 and lends 2. Of the 5 that are used, `a`
/// keeps 1 to itself and `team` the other 4.
const TREE: &str = "cohort root default.cpu=2
                    cohort team in=root default.cpu=3/-/2
                    queue a in=team default.cpu=4/-/3
                    queue other in=root default.cpu=1 spot.cpu=1
                    held x a default.cpu=5
                    decide =>";

#[test]
fn a_cohort_says_what_is_lent_to_it_and_used_of_that() {
    let engine = played(TREE);
    let status = |name: &str| engine.cohort_status(&name.into());
    let team = status("team").unwrap();
    assert_eq!(team.active, Ok(()));
    assert_eq!(team.quota, amounts(&[("default", "cpu", 6)]));
    assert_eq!(team.usage, amounts(&[("default", "cpu", 4)]));
    let root = status("root").unwrap();
    let all = [("default", "cpu", 5), ("spot", "cpu", 1)];
    assert_eq!(root.quota, amounts(&all));
    let used = [("default", "cpu", 0), ("spot", "cpu", 0)];
    assert_eq!(root.usage, amounts(&used));
    assert_eq!((team.share, root.share), (None, None));
    assert_eq!(status("nothing"), None);
    let own = |status: &CohortStatus| {
        let cells = status.configured.values().flat_map(BTreeMap::values);
        let cells = cells.map(|own| (own.nominal, own.borrowing_limit, own.lending_limit));
        cells.collect::<Vec<_>>()
    };
    let cores = |count: i128| Amount::new(count);
    assert_eq!(own(&team), [(cores(3), None, Some(cores(2)))]);
    assert_eq!(own(&root), [(cores(2), None, None)]);
    assert_eq!((team.parent, root.parent), (Some("root".into()), None));
}

#[test]
fn a_cohort_says_what_it_borrows() {
    let engine = played(
        "cohort team in=root
         queue a in=team default.cpu=1
         queue lender in=root default.cpu=4
         held x a default.cpu=3
         decide =>",
    );
    let borrowed = |name: &str| engine.cohort_status(&name.into()).unwrap().borrowed;
    assert_eq!(borrowed("team"), amounts(&[("default", "cpu", 2)]));
    assert_eq!(borrowed("root"), amounts(&[("default", "cpu", 0)]));
}

#[test]
fn a_cohort_that_something_names_has_a_status_and_one_in_a_circle_says_so() {
    let status = |script: &str| played(script).cohort_status(&"c".into()).unwrap();
    let named = status("queue q in=c default.cpu=2");
    assert_eq!(named.quota, amounts(&[("default", "cpu", 2)]));
    assert_eq!(named.active, Ok(()));
    let circle = status("fair\ncohort c in=d\ncohort d in=c");
    assert_eq!(
        circle.active,
        Err(InactiveReason::CohortCycle(vec!["c".into(), "d".into()]))
    );
    assert_eq!((circle.quota, circle.usage), (amounts(&[]), amounts(&[])));
    assert_eq!(circle.share, None);
}

#[test]
fn a_share_is_what_is_borrowed_of_what_the_cohort_above_lends() {
    let engine = played(
        "fair
         cohort left in=root
         queue a in=left weight=500 default.cpu=0
         queue lender in=root default.cpu=4
         queue alone default.cpu=1
         held x a default.cpu=1
         held y alone default.cpu=2
         decide =>",
    );
    let queue = |name: &str| billionths(engine.queue_status(&name.into()).unwrap().share);
    let cohort = |name: &str| billionths(engine.cohort_status(&name.into()).unwrap().share);
    assert_eq!(queue("a"), Some(500_000_000));
    assert_eq!(cohort("left"), Some(250_000_000));
    assert_eq!(cohort("root"), Some(0));
    assert_eq!(queue("lender"), Some(0));
    // There is nobody to borrow from, however much is used.
    assert_eq!(queue("alone"), Some(0));
}

#[test]
fn a_snapshot_has_what_is_charged_and_who_waits_in_order() {
    let script = format!(
        "{TREE}
         job late other priority=1 cpu=9
         job first other priority=2 cpu=9"
    );
    let snapshot = played(&script).snapshot();
    let queues = BTreeMap::from([("a".into(), amounts(&[("default", "cpu", 5)]))]);
    assert_eq!(snapshot.queues, queues);
    let cohorts = BTreeMap::from([("team".into(), amounts(&[("default", "cpu", 4)]))]);
    assert_eq!(snapshot.cohorts, cohorts);
    let waiting: Vec<WorkloadId> = vec!["first".into(), "late".into()];
    assert_eq!(
        snapshot.pending,
        BTreeMap::from([("other".into(), waiting)])
    );
}

#[test]
fn quota_for_a_resource_that_its_group_does_not_cover_is_none() {
    let quota = |nominal| Quota {
        nominal: Amount::new(nominal),
        ..Quota::default()
    };
    let flavor = FlavorQuotas {
        name: "default".into(),
        resources: BTreeMap::from([("cpu".into(), quota(2)), ("gpu".into(), quota(2))]),
    };
    let mut engine = played("local q queue=q\njob j q gpu=1");
    engine.apply(Event::UpsertClusterQueue(ClusterQueue {
        resource_groups: vec![ResourceGroup {
            covered_resources: ["cpu".into()].into(),
            flavors: vec![flavor],
        }],
        ..ClusterQueue::new("q".into())
    }));
    assert_eq!(engine.decide(Time::default()), []);
    let status = engine.queue_status(&"q".into()).unwrap();
    let resources: Vec<_> = status.usage["default"].keys().cloned().collect();
    assert_eq!(resources, ["cpu".into()]);
    let reason = engine.explain(&"j".into()).unwrap().pending_reason();
    assert_eq!(reason, Some(PendingReason::NoMatchingFlavor));
}

#[test]
fn what_is_used_of_no_flavor_is_charged_to_nothing() {
    let mut engine = played("queue q default.cpu=2 default.gpu=2");
    let assignment = PodSetAssignment {
        name: "main".into(),
        count: 1,
        flavors: BTreeMap::from([("cpu".into(), "default".into())]),
        usage: BTreeMap::from([
            ("cpu".into(), Amount::new(1)),
            ("gpu".into(), Amount::new(1)),
        ]),
        bound: 0,
    };
    let admission = Admission {
        queue: "q".into(),
        cohort: None,
        since: Time::default(),
        unused_since: None,
        had_nodes: false,
        pod_sets: [assignment].into(),
    };
    engine.apply(Event::UpsertWorkload(Workload {
        state: WorkloadState::Admitted(admission),
        ..Workload::new("w".into(), LocalQueueKey::new("ns", "q"))
    }));
    let charged = amounts(&[("default", "cpu", 1)]);
    assert_eq!(
        engine.snapshot().queues,
        BTreeMap::from([("q".into(), charged)])
    );
}

#[test]
fn a_tree_says_what_each_node_has_borrows_and_lends() {
    let engine = played(
        "cohort all
         queue a in=all default.cpu=4
         queue b in=all default.cpu=4
         held one a default.cpu=6
         held two b default.cpu=1
         job j a cpu=3
         decide =>",
    );
    let members = engine
        .tree_members(&NodeName::ClusterQueue("a".into()))
        .unwrap();
    assert_eq!(members.len(), 3);
    let of_cohort = engine.tree_members(&NodeName::Cohort("all".into()));
    assert_eq!(of_cohort.as_ref(), Some(&members));
    let found: BTreeMap<_, _> = (engine.tree_nodes(&members).into_iter())
        .map(|node| {
            let cpu = node.amounts[&FlavorName::from("default")][&ResourceName::from("cpu")];
            let amounts = [
                cpu.nominal,
                cpu.quota,
                cpu.used,
                cpu.borrowed,
                cpu.lendable,
                cpu.lent,
            ];
            let counts = (node.pending, node.reserving);
            (node.name, (amounts.map(Amount::get), counts))
        })
        .collect();
    let queue = |name: &str| NodeName::ClusterQueue(name.into());
    let cohort = NodeName::Cohort("all".into());
    assert_eq!(found[&cohort], ([0, 8, 7, 0, 0, 0], (0, 0)));
    assert_eq!(found[&queue("a")], ([4, 4, 6, 2, 4, 0], (1, 1)));
    assert_eq!(found[&queue("b")], ([4, 4, 1, 0, 4, 2], (0, 1)));
    assert_eq!(engine.tree_members(&queue("c")), None);
}
