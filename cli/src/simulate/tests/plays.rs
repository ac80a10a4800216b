//! The loop, in cases that can be checked by hand: queues and jobs in a few words, and what became of
//! each job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{
    Amount, ClusterQueue, Flavor, FlavorQuotas, LocalQueue, LocalQueueKey, PodSet, Preemption,
    QueueingStrategy, Quota, ReclaimWithinCohort, ResourceGroup, Settings, Time,
    WithinClusterQueue,
};
use sluice_estimates::play::{Cut, Fate, Job, Play, Restart, Rules, Start, play};

use crate::simulate::basis::Basis;
use crate::simulate::figures::Figures;
use crate::simulate::jobs::{InputJob, Priority};
use crate::simulate::quotas::Quotas;
use crate::simulate::span::Moment;

pub(in crate::simulate::tests) mod any;
mod rivals;

/// Queues with so much cpu each, all in one cohort if `cohort`.
pub(in crate::simulate::tests) fn queues(
    cpus: &[(&str, i128)],
    cohort: bool,
    change: impl Fn(&mut ClusterQueue),
) -> Quotas {
    let mut quotas = Quotas::default();
    let flavor = Flavor {
        name: "default".into(),
        node_labels: BTreeMap::new(),
        node_taints: Vec::new(),
        tolerations: Vec::new(),
    };
    quotas.flavors.insert(flavor.name.clone(), flavor);
    for (name, cpu) in cpus {
        let quota = Quota {
            nominal: Amount::new(*cpu),
            ..Quota::default()
        };
        let mut queue = ClusterQueue {
            cohort: cohort.then(|| "all".into()),
            resource_groups: vec![ResourceGroup {
                covered_resources: BTreeSet::from(["cpu".into()]),
                flavors: vec![FlavorQuotas {
                    name: "default".into(),
                    resources: BTreeMap::from([("cpu".into(), quota)]),
                }],
            }],
            ..ClusterQueue::new((*name).into())
        };
        change(&mut queue);
        let local = LocalQueue::new(LocalQueueKey::new("ns", *name), (*name).into());
        quotas.locals.insert(local.key.clone(), local);
        quotas
            .selectors
            .insert(queue.name.clone(), Some(kube::core::Selector::default()));
        quotas.queues.insert(queue.name.clone(), queue);
    }
    quotas
}

/// A job: its queue, when it comes, how long it takes, how many pods of one cpu it has, and how many will
/// do, all in whole numbers; and its priority.
pub(in crate::simulate::tests) fn job(
    queue: &str,
    arrival: i64,
    duration: u64,
    pods: (u32, Option<u32>),
    priority: i32,
) -> Job {
    let (count, min_count) = pods;
    Job {
        queue: LocalQueueKey::new("ns", queue),
        priority,
        arrival: Time::from_millis(arrival * 1000),
        created: arrival * 1000,
        start: Start::Pending,
        duration: Duration::from_secs(duration),
        pod_sets: Arc::new([PodSet {
            min_count,
            requests: BTreeMap::from([("cpu".into(), Amount::new(1))]),
            ..PodSet::new("main".into(), count)
        }]),
    }
}

pub(in crate::simulate::tests) fn rules() -> Rules {
    Rules {
        settings: Settings::new(Amount::new(1)),
        eviction: Duration::from_secs(30),
        restart: Restart::FromStart,
        until: None,
        until_admitted: Vec::new(),
    }
}

/// Each run as `job: from-until pods`, with the reason if it was evicted; and jobs that did not finish.
fn seen(play: &Play) -> Vec<String> {
    let runs = play.runs.iter().map(|run| {
        let (from, until) = (run.from.as_millis() / 1000, run.until.as_millis() / 1000);
        let evicted = run
            .evicted
            .map(|(at, cause)| format!(" evicted at {} {}", at.as_millis() / 1000, cause.reason()));
        let evicted = evicted.unwrap_or_default();
        format!("{}: {from}-{until} with {}{evicted}", run.job, run.pods)
    });
    let fates = play.fates.iter().enumerate();
    let unfinished = fates.filter(|(_, fate)| !matches!(fate, Fate::Finished(_)));
    runs.chain(unfinished.map(|(job, fate)| format!("{job}: {fate:?}")))
        .collect()
}

#[test]
fn jobs_wait_for_each_other() {
    let strict = |queue: &mut ClusterQueue| queue.strategy = QueueingStrategy::StrictFifo;
    let plain = |_: &mut ClusterQueue| {};
    let alone = |change: fn(&mut ClusterQueue)| queues(&[("a", 4)], false, change);
    let cases = [
        (
            "one after the other",
            alone(plain),
            vec![
                job("a", 0, 10, (3, None), 0),
                job("a", 1, 10, (3, None), 0),
                job("a", 2, 10, (1, None), 0),
            ],
            vec!["0: 0-10 with 3", "2: 2-12 with 1", "1: 10-20 with 3"],
        ),
        (
            "nobody passes the head of a strict queue",
            alone(strict),
            vec![
                job("a", 0, 10, (3, None), 0),
                job("a", 1, 10, (3, None), 0),
                job("a", 2, 10, (1, None), 0),
            ],
            vec!["0: 0-10 with 3", "1: 10-20 with 3", "2: 10-20 with 1"],
        ),
        (
            "higher priority first, then the order of the input",
            alone(plain),
            vec![
                job("a", 0, 5, (4, None), 0),
                job("a", 0, 5, (4, None), 0),
                job("a", 0, 5, (4, None), 7),
            ],
            vec!["2: 0-5 with 4", "0: 5-10 with 4", "1: 10-15 with 4"],
        ),
        (
            "what the other queue leaves is borrowed",
            queues(&[("a", 2), ("b", 2)], true, plain),
            vec![
                job("a", 0, 10, (4, None), 0),
                job("b", 1, 10, (2, None), 0),
                job("a", 2, 10, (2, None), 0),
            ],
            vec!["0: 0-10 with 4", "1: 10-20 with 2", "2: 10-20 with 2"],
        ),
        (
            "what can never fit, or takes no time",
            alone(plain),
            vec![job("a", 0, 10, (5, None), 0), job("a", 3, 0, (4, None), 0)],
            vec!["1: 3-3 with 4", "0: Waiting"],
        ),
        (
            "a queue that doesn't exist",
            alone(plain),
            vec![job("x", 0, 10, (1, None), 0)],
            vec!["0: Waiting"],
        ),
    ];
    for (name, quotas, jobs, expected) in cases {
        let play = play(quotas.events(), &jobs, &rules());
        assert_eq!(seen(&play), expected, "{name}");
        assert_eq!(play.cut, None, "{name}");
    }
}

#[test]
fn a_play_may_end_before_all_is_over() {
    let quotas = queues(&[("a", 4)], false, |_| {});
    let jobs = [
        job("a", 0, 10, (4, None), 0),
        job("a", 0, 10, (4, None), 0),
        job("a", 5, 10, (4, None), 0),
        job("a", 13, 10, (4, None), 0),
    ];
    let rules = Rules {
        until: Some(Time::from_millis(12_000)),
        ..rules()
    };
    let play = play(quotas.events(), &jobs, &rules);
    let expected = [
        "0: 0-10 with 4",
        "1: 10-12 with 4",
        "1: Running",
        "2: Waiting",
        "3: NotArrived",
    ];
    assert_eq!(seen(&play), expected);
    assert_eq!(
        (play.cut, play.end),
        (Some(Cut::Until), Time::from_millis(12_000))
    );
}

#[test]
fn jobs_are_preempted_for_each_other() {
    let preempts = |queue: &mut ClusterQueue| {
        queue.preemption = Preemption {
            within_cluster_queue: WithinClusterQueue::LowerPriority,
            reclaim_within_cohort: ReclaimWithinCohort::Any,
            ..Preemption::default()
        };
    };
    let alone = || queues(&[("a", 4)], false, preempts);
    let from_start = Restart::FromStart;
    let cases = [
        (
            "the other one waits until the pods have ended, and what was done is lost",
            alone(),
            from_start,
            vec![
                job("a", 0, 100, (4, None), 0),
                job("a", 40, 10, (4, None), 5),
            ],
            vec![
                "0: 0-70 with 4 evicted at 40 InClusterQueue",
                "1: 70-80 with 4",
                "0: 80-180 with 4",
            ],
        ),
        (
            "or not, with a checkpoint",
            alone(),
            Restart::WhereItWas,
            vec![
                job("a", 0, 100, (4, None), 0),
                job("a", 40, 10, (4, None), 5),
            ],
            vec![
                "0: 0-70 with 4 evicted at 40 InClusterQueue",
                "1: 70-80 with 4",
                "0: 80-140 with 4",
            ],
        ),
        (
            "what was lent is taken back",
            queues(&[("a", 2), ("b", 2)], true, preempts),
            from_start,
            vec![
                job("a", 0, 100, (4, None), 9),
                job("b", 10, 20, (2, None), 0),
            ],
            vec![
                "0: 0-40 with 4 evicted at 10 InCohortReclamation",
                "1: 40-60 with 2",
                "0: 60-160 with 4",
            ],
        ),
        (
            "a job that ends by itself before its pods are gone has been evicted all the same",
            alone(),
            from_start,
            vec![
                job("a", 0, 50, (4, None), 0),
                job("a", 40, 10, (4, None), 5),
            ],
            vec![
                "0: 0-70 with 4 evicted at 40 InClusterQueue",
                "1: 70-80 with 4",
                "0: 80-130 with 4",
            ],
        ),
    ];
    for (name, quotas, restart, jobs, expected) in cases {
        let rules = Rules { restart, ..rules() };
        assert_eq!(
            seen(&play(quotas.events(), &jobs, &rules)),
            expected,
            "{name}"
        );
    }
}

#[test]
fn a_job_with_fewer_pods_takes_longer() {
    let quotas = queues(&[("a", 4)], false, |_| {});
    let jobs = [
        job("a", 0, 100, (3, None), 0),
        // 6 pods for 10 seconds are 60, which one pod does in 60 and three do in 20.
        job("a", 0, 10, (6, Some(1)), 0),
        job("a", 0, 10, (6, Some(3)), 0),
    ];
    let seen = seen(&play(quotas.events(), &jobs, &rules()));
    let expected = ["0: 0-100 with 3", "1: 0-60 with 1", "2: 100-115 with 4"];
    assert_eq!(seen, expected);
}

#[test]
fn figures_can_be_checked_by_hand() {
    // 40 of 80 seconds of 4 cpus in a, all of them lent by b at first.
    let quotas = queues(&[("a", 2), ("b", 2)], true, |_| {});
    let jobs = [
        job("a", 0, 40, (4, None), 0),
        job("b", 20, 40, (2, None), 0),
        job("b", 20, 10, (9, None), 0),
    ];
    let figures = figures(&quotas, &jobs, &rules());
    assert_eq!(figures.makespan_seconds.0, 80_000);
    let uses: Vec<_> = figures
        .quotas
        .iter()
        .map(|row| (row.utilisation.unwrap(), row.borrowing_seconds.0 / 1000))
        .collect();
    // All and the cohort: (160 + 80) of 320. a: 160 of 160, twice its quota for 40 s. b: 80 of 160.
    assert_eq!(uses, [(0.75, 0), (0.75, 0), (1.0, 40), (0.5, 0)]);
    let wait = figures.all.wait.unwrap();
    assert_eq!(
        (wait.average_seconds.0, wait.max_seconds.0),
        (10_000, 20_000)
    );
    assert_eq!((figures.all.finished, figures.all.never_admitted), (2, 1));
    // b's job waits from 20 to 40, that which never fits from 20 to 80: a step is a third of a second.
    let waiting = figures.series.waiting.get("b").unwrap();
    let sum: f64 = waiting.iter().sum();
    assert!((sum / 3.0 - 80.0).abs() < 0.1, "{sum}");
}

/// A moment and length for a job that is told as it is played.
fn input(job: &Job) -> InputJob {
    InputJob {
        name: "ns/job".into(),
        queue: job.queue.clone(),
        priority: Priority {
            class: None,
            value: job.priority,
        },
        arrival: Some(Moment::After(job.arrival.since(Time::default()))),
        duration: Some(job.duration),
        kind: "Job".into(),
        seen: None,
        pod_sets: job.pod_sets.clone(),
    }
}

fn figures(quotas: &Quotas, jobs: &[Job], rules: &Rules) -> Figures {
    let input: Vec<_> = jobs.iter().map(input).collect();
    Figures::of(Basis {
        input: &input,
        jobs,
        quotas,
        restart: rules.restart,
        play: &play(quotas.events(), jobs, rules),
    })
}
