//! Random configurations: flavors, cohorts, queues and LocalQueues. What happens in them is
//! `steps.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sluice_engine::{
    AdmissionScope, Amount, BorrowWithinCohort, ClusterQueue, Cohort, Consumed, Event,
    FairPreemption, Flavor, FlavorFungibility, FlavorPreference, FlavorQuotas, LocalQueue,
    LocalQueueKey, Preemption, QueueingStrategy, Quota, ReclaimWithinCohort, ResourceGroup,
    Settings, StopPolicy, Taint, TaintEffect, Time, UndeclaredResources, Weight, WhenCanBorrow,
    WhenCanPreempt, WithinClusterQueue,
};

pub(crate) const FLAVORS: [&str; 2] = ["f0", "f1"];
pub(crate) const COHORTS: [&str; 4] = ["c0", "c1", "c2", "c3"];
pub(crate) const RESOURCES: [&str; 3] = ["cpu", "mem", "pods"];

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) queues: usize,
    pub(crate) workloads: usize,
    /// Whether absurd amounts and references to nothing occur.
    pub(crate) wild: bool,
}

impl Size {
    pub(crate) const WILD: Self = Self {
        queues: 4,
        workloads: 12,
        wild: true,
    };
    pub(crate) const SMALL: Self = Self {
        queues: 3,
        workloads: 14,
        wild: false,
    };
    pub(crate) const LARGE: Self = Self {
        queues: 12,
        workloads: 40,
        wild: false,
    };
}

pub(crate) fn queue_name(index: usize) -> String {
    format!("q{index}")
}

/// There are a few more of them than queues.
pub(crate) fn local_key(index: usize) -> LocalQueueKey {
    LocalQueueKey::new("ns", format!("l{index}"))
}

pub(crate) fn amounts(size: Size) -> BoxedStrategy<Amount> {
    if !size.wild {
        return (0i128..7).prop_map(Amount::new).boxed();
    }
    prop_oneof![
        60 => (0i128..9).prop_map(Amount::new),
        1 => prop_oneof![
            Just(Amount::new(i128::MAX)),
            Just(Amount::new(i128::MIN)),
            Just(Amount::LIMIT),
            Just(Amount::new(-1)),
        ],
    ]
    .boxed()
}

pub(crate) fn one_of(names: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(names)
}

/// One of several values that are equally likely.
pub(crate) fn any_of<T: Clone + std::fmt::Debug + 'static>(
    values: impl Into<Vec<T>>,
) -> impl Strategy<Value = T> {
    proptest::sample::select(values.into())
}

pub(crate) fn settings() -> impl Strategy<Value = Settings> {
    use FairPreemption::{LessThanInitialShare, LessThanOrEqualToFinalShare};
    let strategies = any_of([
        FairPreemption::DEFAULT.to_vec(),
        vec![LessThanOrEqualToFinalShare],
        vec![LessThanInitialShare],
        vec![LessThanInitialShare, LessThanOrEqualToFinalShare],
    ]);
    let fair_sharing = proptest::option::weighted(0.5, strategies);
    (fair_sharing, any_of([1u64, 7, 1000])).prop_map(|(fair_sharing, half_life)| Settings {
        fair_sharing,
        usage_half_life: Duration::from_millis(half_life),
        ..Settings::new(Amount::new(1))
    })
}

fn quotas(size: Size) -> impl Strategy<Value = Quota> {
    let limit = || proptest::option::weighted(if size.wild { 0.4 } else { 0.25 }, amounts(size));
    (amounts(size), limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    })
}

/// One group of one or two flavors; sometimes `mem` is a group of its own.
fn groups(size: Size) -> impl Strategy<Value = Vec<ResourceGroup>> {
    let cells = proptest::collection::vec(quotas(size), 6);
    let resources = if size.wild { 1..=3usize } else { 1..=2usize };
    let resources = prop_oneof![2 => Just(1usize), 1 => resources];
    (cells, 1..=2usize, any::<bool>(), resources).prop_map(|(cells, flavors, split, resources)| {
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

fn stops(size: Size) -> impl Strategy<Value = StopPolicy> {
    prop_oneof![
        if size.wild { 8 } else { 48 } => Just(StopPolicy::None),
        1 => Just(StopPolicy::Hold),
        1 => Just(StopPolicy::HoldAndDrain),
    ]
}

fn weights() -> impl Strategy<Value = Weight> {
    prop_oneof![
        5 => Just(Weight::ONE),
        3 => any_of([500u32, 2000, 0, 333]).prop_map(Weight::from_thousandths),
    ]
}

/// Mostly some right or other.
pub(crate) fn preemptions() -> impl Strategy<Value = Preemption> {
    use ReclaimWithinCohort as Reclaim;
    use WithinClusterQueue as Within;
    let within = any_of([
        Within::Never,
        Within::Never,
        Within::LowerPriority,
        Within::LowerOrNewerEqualPriority,
    ]);
    let reclaim = any_of([
        Reclaim::Never,
        Reclaim::LowerPriority,
        Reclaim::Any,
        Reclaim::Any,
    ]);
    let lower = |max_priority_threshold| BorrowWithinCohort::LowerPriority {
        max_priority_threshold,
    };
    let borrow = any_of([
        BorrowWithinCohort::Never,
        lower(None),
        lower(None),
        lower(Some(1)),
    ]);
    (within, reclaim, borrow).prop_map(|(within, reclaim, borrow)| Preemption {
        within_cluster_queue: within,
        reclaim_within_cohort: reclaim,
        borrow_within_cohort: borrow,
    })
}

fn fungibilities() -> impl Strategy<Value = FlavorFungibility> {
    let borrow = any_of([WhenCanBorrow::MayStopSearch, WhenCanBorrow::TryNextFlavor]);
    let preempt = any_of([WhenCanPreempt::MayStopSearch, WhenCanPreempt::TryNextFlavor]);
    let preference = any_of([
        FlavorPreference::BorrowingOverPreemption,
        FlavorPreference::PreemptionOverBorrowing,
    ]);
    (borrow, preempt, preference).prop_map(|(borrow, preempt, preference)| FlavorFungibility {
        when_can_borrow: borrow,
        when_can_preempt: preempt,
        preference,
    })
}

/// What becomes of `cpu` and `mem` where they are not covered.
fn undeclared() -> impl Strategy<Value = UndeclaredResources> {
    any_of([
        UndeclaredResources::Block,
        UndeclaredResources::Ignore,
        UndeclaredResources::IgnoreOnly(Arc::new(["mem".into()].into())),
    ])
}

pub(crate) fn queues(size: Size) -> impl Strategy<Value = ClusterQueue> {
    let cohort = prop_oneof![
        if size.wild { 1 } else { 6 } => Just(COHORTS[0]),
        3 => one_of(&COHORTS),
    ];
    let cohort = proptest::option::weighted(if size.wild { 0.8 } else { 0.9 }, cohort);
    let rare = |p| proptest::bool::weighted(p);
    let rules = (
        rare(0.2),
        fungibilities(),
        preemptions(),
        weights(),
        rare(0.2),
    );
    let limits = (
        proptest::option::weighted(0.1, 0..4usize),
        (
            proptest::option::weighted(0.2, 0..20u64),
            proptest::option::weighted(0.2, 0..20u64),
        ),
        proptest::option::weighted(0.3, undeclared()),
    );
    (
        0..size.queues,
        cohort,
        groups(size),
        stops(size),
        rules,
        limits,
    )
        .prop_map(|(index, cohort, resource_groups, stop, rules, limits)| {
            let (strict, fungibility, preemption, fair_weight, by_usage) = rules;
            let (max_pending, (timeout, recovery), undeclared_resources) = limits;
            ClusterQueue {
                cohort: cohort.map(Into::into),
                strategy: if strict {
                    QueueingStrategy::StrictFifo
                } else {
                    QueueingStrategy::BestEffortFifo
                },
                resource_groups,
                stop,
                fungibility,
                preemption,
                fair_weight,
                admission_scope: if by_usage {
                    AdmissionScope::ByUsage
                } else {
                    AdmissionScope::ByOrder
                },
                max_pending,
                reservation_timeout: timeout.map(Duration::from_millis),
                recovery_timeout: recovery.map(Duration::from_millis),
                undeclared_resources,
                ..ClusterQueue::new(queue_name(index).as_str().into())
            }
        })
}

pub(crate) fn cohorts(size: Size) -> impl Strategy<Value = Cohort> {
    // Mostly a later one as parent, so that cycles are rare but there.
    let cycles = if size.wild { 10 } else { 1 };
    let names = prop_oneof![
        90 => (0..3usize, 1..4usize).prop_map(|(a, b)| (a, (a + b).min(3))),
        cycles => (0..4usize, 0..4usize),
    ];
    let groups = proptest::option::weighted(if size.wild { 0.9 } else { 0.4 }, groups(size));
    (names, proptest::bool::weighted(0.4), groups, weights()).prop_map(
        |((name, parent), root, groups, fair_weight)| Cohort {
            parent: (!root).then(|| COHORTS[parent].into()),
            resource_groups: groups.unwrap_or_default(),
            fair_weight,
            ..Cohort::new(COHORTS[name].into())
        },
    )
}

pub(crate) fn flavors() -> impl Strategy<Value = Flavor> {
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

pub(crate) fn locals(size: Size) -> impl Strategy<Value = LocalQueue> {
    let amounts = proptest::collection::btree_map(one_of(&RESOURCES), 0..9i128, 0..3);
    let consumed = (0..30i64, amounts).prop_map(|(at, amounts)| Consumed {
        at: Time::from_millis(at),
        amounts: (amounts.into_iter())
            .map(|(resource, amount)| (resource.into(), Amount::new(amount)))
            .collect(),
    });
    (
        0..size.queues + 2,
        0..size.queues,
        stops(size),
        proptest::bool::weighted(0.95),
        weights(),
        proptest::option::weighted(0.2, consumed),
    )
        .prop_map(
            |(local, queue, stop, namespace_selected, fair_weight, consumed)| LocalQueue {
                stop,
                namespace_selected,
                fair_weight,
                consumed,
                ..LocalQueue::new(local_key(local), queue_name(queue).as_str().into())
            },
        )
}

/// Flavors that a node selector can tell apart.
pub(crate) fn labelled_flavors() -> [Event; 2] {
    FLAVORS.map(|name| {
        Event::UpsertFlavor(Flavor {
            name: name.into(),
            node_labels: BTreeMap::from([("kind".to_string(), name.to_string())]),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
        })
    })
}

/// A configuration in which something can happen: each queue is there, with a LocalQueue.
pub(crate) fn worlds(size: Size) -> impl Strategy<Value = Vec<Event>> {
    let (least, most) = if size.wild {
        (size.queues, size.queues)
    } else {
        (2, size.queues)
    };
    (
        proptest::collection::vec(queues(size), least..=most),
        proptest::collection::vec(locals(size), size.queues + 2),
        proptest::collection::vec(cohorts(size), 0..=3),
    )
        .prop_map(move |(queues, locals, cohorts)| {
            let count = queues.len();
            let named = |(index, queue): (usize, ClusterQueue)| {
                Event::UpsertClusterQueue(ClusterQueue {
                    name: queue_name(index).as_str().into(),
                    ..queue
                })
            };
            let keyed = |(index, local): (usize, LocalQueue)| {
                let key = local_key(index);
                let pointed = if index < count && !size.wild {
                    queue_name(index).as_str().into()
                } else {
                    local.cluster_queue.clone()
                };
                Event::UpsertLocalQueue(LocalQueue {
                    key,
                    cluster_queue: pointed,
                    ..local
                })
            };
            (labelled_flavors().into_iter())
                .chain(queues.into_iter().enumerate().map(named))
                .chain(locals.into_iter().enumerate().map(keyed))
                .chain(cohorts.into_iter().map(Event::UpsertCohort))
                .collect()
        })
}
