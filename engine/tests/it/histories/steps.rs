//! Random histories: arrivals, time, and everything that can become of a workload. The
//! configurations in which they take place are `worlds.rs`, how a step is taken is `play.rs`.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_engine::{
    Admission, Amount, Borrowing, ClusterQueue, Event, FlavorQuotas, LocalQueue, LocalQueueKey,
    PodSet, PodSetAssignment, Preemption, QueueingStrategy, Quota, ResourceGroup, Settings, Time,
    Toleration, TolerationOperator, Weight, WhenCanBorrow, Workload, WorkloadId, WorkloadState,
};

use crate::histories::worlds::{
    COHORTS, FLAVORS, RESOURCES, Size, amounts, cohorts, flavors, labelled_flavors, local_key,
    locals, one_of, preemptions, queue_name, queues, settings, worlds,
};

/// What an engine is set to, and what happens.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) settings: Settings,
    pub(crate) steps: Vec<Step>,
}

/// One step of a history. What needs the state (which admission is confirmed) is filled in when
/// the step is taken.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Tell(Event),
    Arrive(Workload),
    Move(WorkloadId, Move),
    /// All admissions that were decided are written.
    ConfirmAll,
    /// No admission that was decided can be recorded.
    FailAll,
    /// All evictions that were decided are told, and those told before are carried out.
    CarryOut,
    /// So many milliseconds pass.
    Pass(i64),
    Decide,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    Pend,
    Confirm,
    /// So many pods of the first pod set are on nodes, one more of the second, and so on.
    Bind(u32),
    /// So many pods of each pod set have ended for good.
    End(u32),
    Evict,
    /// It waits again, and backs off for so many milliseconds.
    Requeue(i64),
    /// Its priority is another one.
    Prioritize(i32),
    /// From now on its pods don't use what it holds, or they do.
    Unused(bool),
    Finish,
    Deactivate,
}

fn workload_id(index: usize) -> WorkloadId {
    WorkloadId::from(format!("w{index}"))
}

fn pod_sets(size: Size) -> impl Strategy<Value = PodSet> {
    let requests = proptest::collection::btree_map(one_of(&RESOURCES[..2]), amounts(size), 0..=2);
    let selector = proptest::option::weighted(0.2, one_of(&FLAVORS));
    let count = prop_oneof![9 => 0..3u32, 1 => Just(u32::MAX)];
    let min_count = proptest::option::weighted(0.3, 0..4u32);
    (requests, count, min_count, selector, any::<bool>()).prop_map(
        |(requests, count, min_count, selector, tolerant)| PodSet {
            count: if requests.len() == 1 {
                count
            } else {
                count.min(1)
            },
            min_count,
            requests: requests
                .into_iter()
                .map(|(r, amount)| (r.into(), amount))
                .collect(),
            node_selector: selector
                .map(|v| ("kind".to_string(), v.to_string()))
                .into_iter()
                .collect(),
            tolerations: if tolerant {
                vec![Toleration {
                    key: Some("spot".into()),
                    operator: TolerationOperator::Exists,
                    value: String::new(),
                    effect: None,
                }]
            } else {
                Vec::new()
            },
            ..PodSet::new("main".into(), 1)
        },
    )
}

/// One pod set, seldom two, that ask for a little of one resource.
fn small_pod_sets() -> impl Strategy<Value = Vec<PodSet>> {
    let pod_set = (
        1..5i128,
        prop_oneof![3 => Just(1u32), 2 => 2..5u32],
        proptest::option::weighted(0.3, 0..3u32),
        proptest::option::weighted(0.1, one_of(&FLAVORS)),
    );
    let pod_set = pod_set.prop_map(|(cpu, count, min_count, kind)| PodSet {
        min_count,
        requests: BTreeMap::from([(
            "cpu".into(),
            Amount::new(if count > 1 { (cpu + 1) / 2 } else { cpu }),
        )]),
        node_selector: (kind.into_iter())
            .map(|v| ("kind".to_string(), v.to_string()))
            .collect(),
        ..PodSet::new("main".into(), count)
    });
    let one_or_two = prop_oneof![5 => Just(1usize), 1 => Just(2)];
    (proptest::collection::vec(pod_set, 2), one_or_two).prop_map(|(mut pod_sets, count)| {
        pod_sets.truncate(count);
        pod_sets
    })
}

fn admissions(size: Size) -> impl Strategy<Value = Admission> {
    let usage = proptest::collection::btree_map(one_of(&RESOURCES), amounts(size), 0..=3);
    let pod_set = (one_of(&["f0", "f1", "gone"]), usage, 0..5u32, bounds()).prop_map(
        |(flavor, usage, count, bound)| PodSetAssignment {
            name: "main".into(),
            count,
            flavors: usage.keys().map(|r| ((*r).into(), flavor.into())).collect(),
            usage: usage
                .into_iter()
                .map(|(r, amount)| (r.into(), amount))
                .collect(),
            bound,
        },
    );
    let pod_sets = proptest::collection::vec(pod_set, 1..=2);
    let unused = proptest::option::weighted(0.3, 0..9i64);
    let cohort = proptest::option::of(one_of(&COHORTS));
    let unused = (unused, any::<bool>());
    let admission = (0..size.queues, cohort, pod_sets, 0..9i64, unused);
    admission.prop_map(
        |(queue, cohort, pod_sets, since, (unused, had_nodes))| Admission {
            queue: queue_name(queue).as_str().into(),
            cohort: cohort.map(Into::into),
            since: Time::from_millis(since),
            unused_since: unused.map(Time::from_millis),
            had_nodes,
            pod_sets: pod_sets.into(),
        },
    )
}

fn bounds() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..4u32, 1 => Just(u32::MAX - 1)]
}

fn workloads(size: Size) -> impl Strategy<Value = Workload> {
    let state = prop_oneof![
        if size.wild { 9 } else { 29 } => Just(WorkloadState::Pending),
        1 => admissions(size).prop_map(WorkloadState::Admitted),
    ];
    let pod_sets = if size.wild {
        proptest::collection::vec(pod_sets(size), 1..=3).boxed()
    } else {
        small_pod_sets().boxed()
    };
    let evictable = proptest::bool::weighted(0.95);
    let within_nominal = proptest::bool::weighted(0.15);
    let not_before = proptest::option::weighted(if size.wild { 0.1 } else { 0.05 }, 0..30i64);
    (
        0..size.workloads,
        0..size.queues + usize::from(size.wild),
        0..4i32,
        0..4i64,
        pod_sets,
        (not_before, evictable, within_nominal),
        state,
    )
        .prop_map(
            |(index, queue, priority, created, mut pod_sets, flags, state)| {
                let (not_before, evictable, within_nominal) = flags;
                if within_nominal {
                    for pod_set in &mut pod_sets {
                        pod_set.borrowing = Borrowing::Forbidden;
                    }
                }
                Workload {
                    evictable,
                    priority,
                    created,
                    pod_sets,
                    not_before: not_before.map(Time::from_millis),
                    state,
                    ..Workload::new(workload_id(index), local_key(queue))
                }
            },
        )
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        1 => Just(Move::Pend),
        3 => Just(Move::Confirm),
        4 => bounds().prop_map(Move::Bind),
        3 => (1..3u32).prop_map(Move::End),
        1 => Just(Move::Evict),
        1 => (0..9i64).prop_map(Move::Requeue),
        2 => (0..4i32).prop_map(Move::Prioritize),
        2 => any::<bool>().prop_map(Move::Unused),
        3 => Just(Move::Finish),
        1 => Just(Move::Deactivate),
    ]
}

fn steps(size: Size) -> impl Strategy<Value = Step> {
    let id = move || (0..size.workloads).prop_map(workload_id);
    let changes = prop_oneof![
        2 => flavors().prop_map(Event::UpsertFlavor),
        6 => cohorts(size).prop_map(Event::UpsertCohort),
        6 => queues(size).prop_map(Event::UpsertClusterQueue),
        6 => locals(size).prop_map(Event::UpsertLocalQueue),
        1 => one_of(&FLAVORS).prop_map(|n| Event::RemoveFlavor(n.into())),
        1 => one_of(&COHORTS).prop_map(|n| Event::RemoveCohort(n.into())),
        1 => (0..size.queues)
            .prop_map(|n| Event::RemoveClusterQueue(queue_name(n).as_str().into())),
        1 => (0..size.queues).prop_map(|n| Event::RemoveLocalQueue(local_key(n))),
    ];
    let mishaps = prop_oneof![
        id().prop_map(Event::RemoveWorkload),
        id().prop_map(Event::AdmissionFailed),
        id().prop_map(Event::EvictionFailed),
    ];
    prop_oneof![
        if size.wild { 24 } else { 4 } => changes.prop_map(Step::Tell),
        24 => workloads(size).prop_map(Step::Arrive),
        16 => (id(), moves()).prop_map(|(id, to)| Step::Move(id, to)),
        4 => mishaps.prop_map(Step::Tell),
        8 => Just(Step::ConfirmAll),
        1 => Just(Step::FailAll),
        6 => Just(Step::CarryOut),
        6 => (1..9i64).prop_map(Step::Pass),
        16 => Just(Step::Decide),
    ]
}

fn all_of(size: Size, most: usize) -> impl Strategy<Value = History> {
    let steps = proptest::collection::vec(steps(size), 1..most);
    let phases = proptest::collection::vec(phases(size), if size.wild { 0..2 } else { 1..5 });
    (settings(), worlds(size), phases, steps).prop_map(move |(settings, world, phases, steps)| {
        let world = world.into_iter().map(Step::Tell);
        let mut phases: Vec<Step> = phases.into_iter().flatten().collect();
        let arrivals = phases.iter_mut().filter_map(|step| match step {
            Step::Arrive(workload) => Some(workload),
            _ => None,
        });
        for (index, workload) in arrivals.enumerate() {
            workload.id = workload_id(index % size.workloads);
        }
        let end = [Step::Decide, Step::ConfirmAll, Step::Decide];
        History {
            settings,
            steps: world.chain(phases).chain(steps).chain(end).collect(),
        }
    })
}

/// Some workloads come, mostly all to the same queue, and are admitted as far as there is room: so
/// those that come later find others that borrow what is theirs.
fn phases(size: Size) -> impl Strategy<Value = Vec<Step>> {
    let arrivals = proptest::collection::vec(workloads(size), 1..=size.workloads / 2);
    let queue = proptest::option::weighted(0.7, 0..size.queues);
    (arrivals, queue, 1..3i64).prop_map(move |(arrivals, queue, millis)| {
        let arrivals = arrivals.into_iter().map(|workload| {
            let queue = queue.map_or(workload.queue.clone(), local_key);
            Step::Arrive(Workload { queue, ..workload })
        });
        let end = [Step::Decide, Step::ConfirmAll, Step::Pass(millis)];
        arrivals.chain(end).collect()
    })
}

/// Anything goes: absurd amounts, flavors that don't exist, cohorts in a circle.
pub(crate) fn wild_histories() -> impl Strategy<Value = History> {
    all_of(Size::WILD, 60)
}

/// A few queues, mostly of one tree, where room is scarce and everybody has some right to evict.
pub(crate) fn contended_histories() -> impl Strategy<Value = History> {
    all_of(Size::SMALL, 24)
}

/// Many queues and workloads.
pub(crate) fn large_histories() -> impl Strategy<Value = History> {
    all_of(Size::LARGE, 160)
}

/// Little room, two flavors, pod sets that may go to one or both: where the choice of one workload
/// or pod set decides what is left to the next. No change of the configuration helps out.
pub(crate) fn tight_histories() -> impl Strategy<Value = History> {
    let cells = proptest::collection::vec((0..5i128, proptest::option::of(0..3i128)), 2);
    let queue = (
        cells,
        any::<bool>(),
        proptest::bool::weighted(0.2),
        any::<bool>(),
    );
    let kind = proptest::option::weighted(0.4, one_of(&FLAVORS));
    let pod_set = (1..4i128, kind, proptest::bool::weighted(0.85));
    let pod_sets = proptest::collection::vec(pod_set, 1..=2);
    let arrival = (0..12usize, 0..3usize, 0..3i32, pod_sets).prop_map(
        |(index, local, priority, pod_sets)| {
            let pod_set = |(cpu, kind, may_borrow): (i128, Option<&str>, bool)| PodSet {
                borrowing: Borrowing::allowed_if(may_borrow),
                requests: BTreeMap::from([("cpu".into(), Amount::new(cpu))]),
                node_selector: kind
                    .map(|v| ("kind".to_string(), v.to_string()))
                    .into_iter()
                    .collect(),
                ..PodSet::new("main".into(), 1)
            };
            Step::Arrive(Workload {
                priority,
                pod_sets: pod_sets.into_iter().map(pod_set).collect(),
                ..Workload::new(workload_id(index), local_key(local))
            })
        },
    );
    let id = || (0..12usize).prop_map(workload_id);
    let step = prop_oneof![
        8 => arrival,
        1 => id().prop_map(|id| Step::Move(id, Move::Finish)),
        1 => (id(), bounds()).prop_map(|(id, bound)| Step::Move(id, Move::Bind(bound))),
        1 => (id(), admissions(Size::SMALL)).prop_map(|(id, held)| Step::Arrive(holder(id, held))),
        1 => Just(Step::Decide),
    ];
    let queues = proptest::collection::vec(queue, 3);
    (queues, proptest::collection::vec(step, 4..50)).prop_map(|(queues, steps)| {
        let queues = queues.into_iter().enumerate();
        let queues = queues.flat_map(|(index, queue)| tight_queue(index, queue));
        let end = std::iter::once(Step::Decide);
        let config = labelled_flavors().into_iter().chain(queues).map(Step::Tell);
        History {
            settings: Settings::new(Amount::new(1)),
            steps: config.chain(steps).chain(end).collect(),
        }
    })
}

/// One flavor in one cohort, and jobs that may drive each other out: where those who went come back and
/// everybody has to come to rest all the same.
pub(crate) fn rival_histories() -> impl Strategy<Value = History> {
    let weight = prop_oneof![3 => Just(1000), 1 => Just(3000), 1 => Just(0)];
    let weight = weight.prop_map(Weight::from_thousandths);
    let queues = proptest::collection::vec((1..5i128, preemptions(), weight), 2..=3);
    let id = || (0..9usize).prop_map(workload_id);
    let step = prop_oneof![
        1 => id().prop_map(|id| vec![Step::Move(id, Move::Finish)]),
        1 => Just(vec![Step::CarryOut]),
        1 => Just(vec![Step::Decide, Step::FailAll]),
        8 => (1..3i64).prop_map(|millis| vec![Step::Decide, Step::ConfirmAll, Step::Pass(millis)]),
    ];
    let steps = proptest::collection::vec(step, 0..4);
    let cpu = prop_oneof![3 => 1..4i128, 1 => 4..9i128];
    let pods = prop_oneof![
        2 => (cpu, Just(1), Just(None)),
        1 => (1..3i128, 2..6u32, proptest::option::weighted(0.8, 1..4u32)),
    ];
    let cpu = (pods, proptest::bool::weighted(0.85));
    let rival = (0..3usize, 0..3i32, 0..4i64, cpu, steps);
    let rivals = proptest::collection::vec(rival, 3..10);
    let is_fair = proptest::bool::weighted(0.6);
    (settings(), is_fair, queues, rivals).prop_map(|(mut settings, is_fair, queues, rivals)| {
        settings.fair_sharing = settings.fair_sharing.filter(|_| is_fair);
        let count = queues.len();
        let queues = queues.into_iter().enumerate();
        let queues = queues.flat_map(|(index, queue)| rival_queue(index, queue));
        let config = labelled_flavors().into_iter().chain(queues).map(Step::Tell);
        let rivals = rivals.into_iter().enumerate();
        let rivals = rivals.flat_map(|(index, (local, priority, created, cpu, steps))| {
            let ((cpu, pods, min_count), may_borrow) = cpu;
            let pod_set = PodSet {
                borrowing: Borrowing::allowed_if(may_borrow),
                min_count,
                requests: BTreeMap::from([("cpu".into(), Amount::new(cpu))]),
                ..PodSet::new("main".into(), pods)
            };
            let arrival = Step::Arrive(Workload {
                priority,
                created,
                pod_sets: vec![pod_set],
                ..Workload::new(workload_id(index), local_key(local % count))
            });
            std::iter::once(arrival).chain(steps.into_iter().flatten())
        });
        History {
            settings,
            steps: config.chain(rivals).collect(),
        }
    })
}

fn rival_queue(
    index: usize,
    (nominal, preemption, fair_weight): (i128, Preemption, Weight),
) -> [Event; 2] {
    let [queue, local] = tight_queue(index, (vec![(nominal, None)], false, false, true));
    match queue {
        Event::UpsertClusterQueue(queue) => {
            let queue = ClusterQueue {
                preemption,
                fair_weight,
                ..queue
            };
            [Event::UpsertClusterQueue(queue), local]
        }
        other => [other, local],
    }
}

/// For each flavor quota and borrowing limit; looks on, strict, shares.
type TightQueue = (Vec<(i128, Option<i128>)>, bool, bool, bool);

fn tight_queue(index: usize, (cells, look_on, strict, shares): TightQueue) -> [Event; 2] {
    let flavor = |(name, (nominal, borrowing)): (&str, (i128, Option<i128>))| {
        let quota = Quota {
            nominal: Amount::new(nominal),
            borrowing_limit: borrowing.map(Amount::new),
            lending_limit: None,
        };
        FlavorQuotas {
            name: name.into(),
            resources: BTreeMap::from([("cpu".into(), quota)]),
        }
    };
    let group = ResourceGroup {
        covered_resources: BTreeSet::from(["cpu".into()]),
        flavors: FLAVORS.into_iter().zip(cells).map(flavor).collect(),
    };
    let name = queue_name(index);
    let mut queue = ClusterQueue {
        cohort: shares.then(|| COHORTS[0].into()),
        resource_groups: vec![group],
        ..ClusterQueue::new(name.as_str().into())
    };
    if strict {
        queue.strategy = QueueingStrategy::StrictFifo;
    }
    if look_on {
        queue.fungibility.when_can_borrow = WhenCanBorrow::TryNextFlavor;
    }
    let local = LocalQueue::new(local_key(index), name.as_str().into());
    [
        Event::UpsertClusterQueue(queue),
        Event::UpsertLocalQueue(local),
    ]
}

/// A workload that was admitted before the engine started.
fn holder(id: WorkloadId, held: Admission) -> Workload {
    Workload {
        state: WorkloadState::Admitted(held),
        ..Workload::new(id, LocalQueueKey::new("ns", "l0"))
    }
}
