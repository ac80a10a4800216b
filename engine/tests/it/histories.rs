//! Random histories: configurations, arrivals, and everything that can become of a workload.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_engine::{
    Admission, Amount, ClusterQueue, Cohort, Event, Flavor, FlavorFungibility, FlavorQuotas,
    LocalQueue, LocalQueueKey, PodSet, PodSetAssignment, QueueingStrategy, Quota, ResourceGroup,
    StopPolicy, Taint, TaintEffect, Time, Toleration, TolerationOperator, Weight, WhenCanBorrow,
    Workload, WorkloadId, WorkloadState,
};

const FLAVORS: [&str; 2] = ["f0", "f1"];
const COHORTS: [&str; 4] = ["c0", "c1", "c2", "c3"];
const QUEUES: [&str; 4] = ["q0", "q1", "q2", "q3"];
const LOCALS: [&str; 5] = ["l0", "l1", "l2", "l3", "l4"];
const RESOURCES: [&str; 3] = ["cpu", "mem", "pods"];
const WORKLOADS: [&str; 12] = [
    "w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9", "w10", "w11",
];

/// One step of a history. What needs the state (which admission is confirmed) is filled in when
/// the step is taken.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Tell(Event),
    Arrive(Workload),
    Move(WorkloadId, Move),
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
    Finish,
    Deactivate,
}

fn amounts() -> impl Strategy<Value = Amount> {
    prop_oneof![
        60 => (0i128..9).prop_map(Amount::new),
        1 => prop_oneof![
            Just(Amount::new(i128::MAX)),
            Just(Amount::new(i128::MIN)),
            Just(Amount::LIMIT),
            Just(Amount::new(-1)),
        ],
    ]
}

fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(names)
}

fn quotas() -> impl Strategy<Value = Quota> {
    let limit = || proptest::option::weighted(0.4, amounts());
    (amounts(), limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    })
}

/// One group of one or two flavors; sometimes `mem` is a group of its own.
fn groups() -> impl Strategy<Value = Vec<ResourceGroup>> {
    let cells = proptest::collection::vec(quotas(), 6);
    (cells, 1..=2usize, any::<bool>(), 1..=3usize).prop_map(|(cells, flavors, split, resources)| {
        let covered: Vec<&str> = RESOURCES.into_iter().take(resources).collect();
        let group = |covered: &[&str]| ResourceGroup {
            covered_resources: covered.iter().copied().map(Into::into).collect(),
            flavors: (0..flavors)
                .map(|flavor| FlavorQuotas {
                    name: FLAVORS[flavor].into(),
                    resources: (covered.iter().enumerate())
                        .map(|(index, r)| ((*r).into(), cells[flavor * 3 + index]))
                        .collect(),
                })
                .collect(),
        };
        if split && covered.len() > 1 {
            vec![group(&covered[..1]), group(&covered[1..])]
        } else {
            vec![group(&covered)]
        }
    })
}

fn stops() -> impl Strategy<Value = StopPolicy> {
    prop_oneof![
        8 => Just(StopPolicy::None),
        1 => Just(StopPolicy::Hold),
        1 => Just(StopPolicy::HoldAndDrain),
    ]
}

fn queues() -> impl Strategy<Value = ClusterQueue> {
    let cohort = proptest::option::weighted(0.8, one_of(&COHORTS));
    (
        one_of(&QUEUES),
        cohort,
        any::<bool>(),
        groups(),
        stops(),
        any::<bool>(),
    )
        .prop_map(
            |(name, cohort, strict, resource_groups, stop, look_on)| ClusterQueue {
                cohort: cohort.map(Into::into),
                strategy: strategy(strict),
                resource_groups,
                stop,
                fungibility: fungibility(look_on),
                ..ClusterQueue::new(name.into())
            },
        )
}

fn cohorts() -> impl Strategy<Value = Cohort> {
    // Mostly a later one as parent, so that cycles are rare but there.
    let names = prop_oneof![
        9 => (0..3usize, 1..4usize).prop_map(|(a, b)| (a, (a + b).min(3))),
        1 => (0..4usize, 0..4usize),
    ];
    (names, any::<bool>(), groups()).prop_map(|((name, parent), root, resource_groups)| Cohort {
        parent: (!root).then(|| COHORTS[parent].into()),
        resource_groups,
        ..Cohort::new(COHORTS[name].into())
    })
}

fn flavors() -> impl Strategy<Value = Flavor> {
    (
        one_of(&FLAVORS),
        any::<bool>(),
        proptest::bool::weighted(0.2),
    )
        .prop_map(|(name, labelled, tainted)| Flavor {
            name: name.into(),
            node_labels: if labelled {
                BTreeMap::from([("kind".to_string(), name.to_string())])
            } else {
                BTreeMap::new()
            },
            node_taints: if tainted {
                vec![Taint {
                    key: "spot".into(),
                    value: String::new(),
                    effect: TaintEffect::NoSchedule,
                }]
            } else {
                Vec::new()
            },
            tolerations: Vec::new(),
        })
}

fn locals() -> impl Strategy<Value = LocalQueue> {
    (
        one_of(&LOCALS),
        one_of(&QUEUES),
        stops(),
        proptest::bool::weighted(0.95),
    )
        .prop_map(|(name, queue, stop, namespace_selected)| LocalQueue {
            key: LocalQueueKey::new("ns", name),
            cluster_queue: queue.into(),
            stop,
            namespace_selected,
            fair_weight: Weight::ONE,
            consumed: None,
        })
}

fn pod_sets() -> impl Strategy<Value = PodSet> {
    let requests = proptest::collection::btree_map(one_of(&RESOURCES[..2]), amounts(), 0..=2);
    let selector = proptest::option::weighted(0.2, one_of(&FLAVORS));
    let count = prop_oneof![9 => 0..3u32, 1 => Just(u32::MAX)];
    (requests, count, selector, any::<bool>()).prop_map(|(requests, count, selector, tolerant)| {
        PodSet {
            name: "main".into(),
            count: if requests.len() == 1 {
                count
            } else {
                count.min(1)
            },
            requests: requests
                .into_iter()
                .map(|(r, amount)| (r.into(), amount))
                .collect(),
            node_selector: selector
                .map(|v| ("kind".to_string(), v.to_string()))
                .into_iter()
                .collect(),
            min_count: None,
            affinity: Vec::new(),
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
        }
    })
}

fn admissions() -> impl Strategy<Value = Admission> {
    let usage = proptest::collection::btree_map(one_of(&RESOURCES), amounts(), 0..=3);
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
    (one_of(&QUEUES), pod_sets).prop_map(|(queue, pod_sets)| Admission {
        queue: queue.into(),
        since: Time::default(),
        unused_since: None,
        pod_sets,
    })
}

fn bounds() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..4u32, 1 => Just(u32::MAX - 1)]
}

fn workloads() -> impl Strategy<Value = Workload> {
    let state = prop_oneof![
        9 => Just(WorkloadState::Pending),
        1 => admissions().prop_map(WorkloadState::Admitted),
    ];
    let pod_sets = proptest::collection::vec(pod_sets(), 1..=3);
    (
        one_of(&WORKLOADS),
        one_of(&LOCALS),
        0..3i32,
        0..4i64,
        pod_sets,
        state,
    )
        .prop_map(|(id, queue, priority, created, pod_sets, state)| Workload {
            id: id.into(),
            queue: LocalQueueKey::new("ns", queue),
            priority,
            created,
            pod_sets,
            not_before: None,
            evictable: true,
            state,
        })
}

fn steps() -> impl Strategy<Value = Step> {
    let moves = prop_oneof![
        1 => Just(Move::Pend),
        3 => Just(Move::Confirm),
        4 => bounds().prop_map(Move::Bind),
        3 => (1..3u32).prop_map(Move::End),
        1 => Just(Move::Evict),
        3 => Just(Move::Finish),
        1 => Just(Move::Deactivate),
    ];
    let id = || one_of(&WORKLOADS).prop_map(WorkloadId::from);
    prop_oneof![
        2 => flavors().prop_map(Event::UpsertFlavor).prop_map(Step::Tell),
        6 => cohorts().prop_map(Event::UpsertCohort).prop_map(Step::Tell),
        6 => queues().prop_map(Event::UpsertClusterQueue).prop_map(Step::Tell),
        6 => locals().prop_map(Event::UpsertLocalQueue).prop_map(Step::Tell),
        1 => one_of(&FLAVORS).prop_map(|n| Step::Tell(Event::RemoveFlavor(n.into()))),
        1 => one_of(&COHORTS).prop_map(|n| Step::Tell(Event::RemoveCohort(n.into()))),
        1 => one_of(&QUEUES).prop_map(|n| Step::Tell(Event::RemoveClusterQueue(n.into()))),
        1 => one_of(&LOCALS)
            .prop_map(|n| Step::Tell(Event::RemoveLocalQueue(LocalQueueKey::new("ns", n)))),
        24 => workloads().prop_map(Step::Arrive),
        16 => (id(), moves).prop_map(|(id, to)| Step::Move(id, to)),
        2 => id().prop_map(|id| Step::Tell(Event::RemoveWorkload(id))),
        2 => id().prop_map(|id| Step::Tell(Event::AdmissionFailed(id))),
        1 => id().prop_map(|id| Step::Tell(Event::EvictionFailed(id))),
        16 => Just(Step::Decide),
    ]
}

/// A configuration in which something can happen, then random steps.
pub(crate) fn histories() -> impl Strategy<Value = Vec<Step>> {
    let start = (
        proptest::collection::vec(queues(), 4),
        proptest::collection::vec(locals(), 5),
        proptest::collection::vec(cohorts(), 3),
    );
    (start, proptest::collection::vec(steps(), 1..60)).prop_map(
        |((queues, locals, cohorts), steps)| {
            let named = |(index, queue): (usize, ClusterQueue)| {
                Event::UpsertClusterQueue(ClusterQueue {
                    name: QUEUES[index].into(),
                    ..queue
                })
            };
            let keyed = |(index, local): (usize, LocalQueue)| {
                let key = LocalQueueKey::new("ns", LOCALS[index]);
                Event::UpsertLocalQueue(LocalQueue { key, ..local })
            };
            let config = (labelled_flavors().into_iter())
                .chain(queues.into_iter().enumerate().map(named))
                .chain(locals.into_iter().enumerate().map(keyed))
                .chain(cohorts.into_iter().map(Event::UpsertCohort));
            config.map(Step::Tell).chain(steps).collect()
        },
    )
}

/// Little room, two flavors, pod sets that may go to one or both: where the choice of one workload
/// or pod set decides what is left to the next. No change of the configuration helps out.
pub(crate) fn tight_histories() -> impl Strategy<Value = Vec<Step>> {
    let cells = proptest::collection::vec((0..5i128, proptest::option::of(0..3i128)), 2);
    let queue = (
        cells,
        any::<bool>(),
        proptest::bool::weighted(0.2),
        any::<bool>(),
    );
    let pod_set = (1..4i128, proptest::option::weighted(0.4, one_of(&FLAVORS)));
    let pod_sets = proptest::collection::vec(pod_set, 1..=2);
    let arrival = (one_of(&WORKLOADS), 0..3usize, 0..3i32, pod_sets).prop_map(
        |(id, local, priority, pod_sets)| {
            let pod_set = |(cpu, kind): (i128, Option<&str>)| PodSet {
                name: "main".into(),
                count: 1,
                requests: BTreeMap::from([("cpu".into(), Amount::new(cpu))]),
                node_selector: kind
                    .map(|v| ("kind".to_string(), v.to_string()))
                    .into_iter()
                    .collect(),
                min_count: None,
                affinity: Vec::new(),
                tolerations: Vec::new(),
            };
            Step::Arrive(Workload {
                id: id.into(),
                queue: LocalQueueKey::new("ns", LOCALS[local]),
                priority,
                created: 0,
                pod_sets: pod_sets.into_iter().map(pod_set).collect(),
                not_before: None,
                evictable: true,
                state: WorkloadState::Pending,
            })
        },
    );
    let step = prop_oneof![
        8 => arrival,
        1 => one_of(&WORKLOADS).prop_map(|id| Step::Move(id.into(), Move::Finish)),
        1 => (one_of(&WORKLOADS), bounds())
            .prop_map(|(id, bound)| Step::Move(id.into(), Move::Bind(bound))),
        1 => (one_of(&WORKLOADS), admissions())
            .prop_map(|(id, held)| Step::Arrive(holder(id, held))),
        1 => Just(Step::Decide),
    ];
    let queues = proptest::collection::vec(queue, 3);
    (queues, proptest::collection::vec(step, 4..50)).prop_map(|(queues, steps)| {
        let queues = queues.into_iter().enumerate();
        let queues = queues.flat_map(|(index, queue)| tight_queue(index, queue));
        let end = std::iter::once(Step::Decide);
        let config = labelled_flavors().into_iter().chain(queues).map(Step::Tell);
        config.chain(steps).chain(end).collect()
    })
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
    let queue = ClusterQueue {
        cohort: shares.then(|| "c0".into()),
        strategy: strategy(strict),
        resource_groups: vec![group],
        fungibility: fungibility(look_on),
        ..ClusterQueue::new(QUEUES[index].into())
    };
    let local = LocalQueue {
        key: LocalQueueKey::new("ns", LOCALS[index]),
        cluster_queue: QUEUES[index].into(),
        stop: StopPolicy::None,
        namespace_selected: true,
        fair_weight: Weight::ONE,
        consumed: None,
    };
    [
        Event::UpsertClusterQueue(queue),
        Event::UpsertLocalQueue(local),
    ]
}

fn strategy(strict: bool) -> QueueingStrategy {
    if strict {
        QueueingStrategy::StrictFifo
    } else {
        QueueingStrategy::BestEffortFifo
    }
}

fn fungibility(look_on: bool) -> FlavorFungibility {
    let when_can_borrow = if look_on {
        WhenCanBorrow::TryNextFlavor
    } else {
        WhenCanBorrow::MayStopSearch
    };
    FlavorFungibility {
        when_can_borrow,
        ..FlavorFungibility::default()
    }
}

/// Flavors that a node selector can tell apart.
fn labelled_flavors() -> [Event; 2] {
    FLAVORS.map(|name| {
        Event::UpsertFlavor(Flavor {
            name: name.into(),
            node_labels: BTreeMap::from([("kind".to_string(), name.to_string())]),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
        })
    })
}

/// A workload that was admitted before the engine started.
fn holder(id: &str, held: Admission) -> Workload {
    Workload {
        id: id.into(),
        queue: LocalQueueKey::new("ns", "l0"),
        priority: 0,
        created: 0,
        pod_sets: Vec::new(),
        not_before: None,
        evictable: true,
        state: WorkloadState::Admitted(held),
    }
}
