//! What holds in any tree when one workload comes and others hold quota: whoever's request fits its nominal quota,
//! and may reclaim, gets it; and nobody is evicted who needn't be. The arithmetic is the oracle's.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_engine::{
    Admission, Amount, BorrowWithinCohort, ClusterQueue, ClusterQueueName, Cohort, Decision,
    Engine, Event, FairPreemption, Flavor, FlavorQuotas, LocalQueue, LocalQueueKey, PodSet,
    PodSetAssignment, Preemption, Quota, ReclaimWithinCohort, ResourceGroup, Settings, Time,
    Weight, WithinClusterQueue, Workload, WorkloadId, WorkloadState,
};

use crate::histories::worlds::any_of;
use crate::oracle::Oracle;
use crate::oracle::quota::Charge;

#[derive(Clone, Debug)]
struct Holder {
    queue: usize,
    cpu: i128,
    priority: i32,
}

/// The workload that comes is of the first queue.
#[derive(Clone, Debug)]
struct Scene {
    fair: Option<Vec<FairPreemption>>,
    /// The cohort above each cohort but the first, and what each has.
    parents: Vec<usize>,
    cohorts: Vec<i128>,
    /// Cohort, nominal quota, lending limit, weight.
    queues: Vec<(usize, i128, Option<i128>, u32)>,
    preemption: Preemption,
    holders: Vec<Holder>,
    cpu: i128,
    priority: i32,
}

fn scenes() -> impl Strategy<Value = Scene> {
    let strategies = any_of([
        FairPreemption::DEFAULT.to_vec(),
        vec![FairPreemption::LessThanInitialShare],
        vec![FairPreemption::LessThanOrEqualToFinalShare],
    ]);
    let own = any_of([
        WithinClusterQueue::Never,
        WithinClusterQueue::LowerPriority,
        WithinClusterQueue::LowerOrNewerEqualPriority,
    ]);
    let borrow = any_of([
        BorrowWithinCohort::Never,
        BorrowWithinCohort::LowerPriority {
            max_priority_threshold: None,
        },
    ]);
    let lending = proptest::option::weighted(0.2, 0..4i128);
    let queue = (
        0..4usize,
        0..6i128,
        lending,
        any_of([0u32, 1000, 1000, 3000]),
    );
    let holder = (0..5usize, 1..4i128, 0..4i32).prop_map(|(queue, cpu, priority)| Holder {
        queue,
        cpu,
        priority,
    });
    let rules = (own, borrow, proptest::option::weighted(0.5, strategies));
    (
        rules,
        (0..1usize, 0..2usize, 0..3usize),
        proptest::collection::vec(0..3i128, 4),
        proptest::collection::vec(queue, 5),
        proptest::collection::vec(holder, 1..9),
        (1..7i128, 0..5i32),
    )
        .prop_map(
            |((own, borrow, fair), parents, cohorts, queues, holders, job)| Scene {
                fair,
                parents: vec![parents.0, parents.1, parents.2],
                cohorts,
                queues,
                preemption: Preemption {
                    within_cluster_queue: own,
                    reclaim_within_cohort: ReclaimWithinCohort::Any,
                    borrow_within_cohort: borrow,
                },
                holders,
                cpu: job.0,
                priority: job.1,
            },
        )
}

fn group(nominal: i128, lending_limit: Option<i128>) -> ResourceGroup {
    let quota = Quota {
        nominal: Amount::new(nominal),
        lending_limit: lending_limit.map(Amount::new),
        ..Quota::default()
    };
    ResourceGroup {
        covered_resources: BTreeSet::from(["cpu".into()]),
        flavors: vec![FlavorQuotas {
            name: "f".into(),
            resources: BTreeMap::from([("cpu".into(), quota)]),
        }],
    }
}

fn held(index: usize) -> WorkloadId {
    WorkloadId::from(format!("h{index}"))
}

/// What an engine and an oracle are told about a scene.
fn events(scene: &Scene) -> Vec<Event> {
    let mut events = vec![Event::UpsertFlavor(Flavor {
        name: "f".into(),
        node_labels: BTreeMap::new(),
        node_taints: Vec::new(),
        tolerations: Vec::new(),
    })];
    for (index, nominal) in scene.cohorts.iter().enumerate() {
        let parent = index.checked_sub(1).map(|above| scene.parents[above]);
        events.push(Event::UpsertCohort(Cohort {
            parent: parent.map(|parent| format!("c{parent}").as_str().into()),
            resource_groups: vec![group(*nominal, None)],
            ..Cohort::new(format!("c{index}").as_str().into())
        }));
    }
    for (index, (cohort, nominal, lending, weight)) in scene.queues.iter().enumerate() {
        let name = ClusterQueueName::from(format!("q{index}").as_str());
        events.push(Event::UpsertClusterQueue(ClusterQueue {
            cohort: Some(format!("c{cohort}").as_str().into()),
            resource_groups: vec![group(*nominal, *lending)],
            fair_weight: Weight::from_thousandths(*weight),
            preemption: scene.preemption,
            ..ClusterQueue::new(name.clone())
        }));
        let key = LocalQueueKey::new("ns", format!("q{index}"));
        events.push(Event::UpsertLocalQueue(LocalQueue::new(key, name)));
    }
    for (index, holder) in scene.holders.iter().enumerate() {
        let pod_set = PodSetAssignment {
            name: "main".into(),
            count: 1,
            flavors: BTreeMap::from([("cpu".into(), "f".into())]),
            usage: BTreeMap::from([("cpu".into(), Amount::new(holder.cpu))]),
            bound: 1,
        };
        let admission = Admission {
            queue: ClusterQueueName::from(format!("q{}", holder.queue).as_str()),
            cohort: None,
            since: Time::from_millis(i64::try_from(index).unwrap()),
            unused_since: None,
            had_nodes: false,
            pod_sets: vec![pod_set].into(),
        };
        let queue = format!("q{}", holder.queue);
        let state = WorkloadState::Admitted(admission);
        events.push(told(
            held(index),
            &queue,
            holder.priority,
            holder.cpu,
            state,
        ));
    }
    let state = WorkloadState::Pending;
    events.push(told("j".into(), "q0", scene.priority, scene.cpu, state));
    events
}

fn told(id: WorkloadId, queue: &str, priority: i32, cpu: i128, state: WorkloadState) -> Event {
    Event::UpsertWorkload(Workload {
        priority,
        // It comes last, so equal ones of its queue are not newer.
        created: i64::from(id.as_str() == "j"),
        pod_sets: vec![PodSet {
            requests: BTreeMap::from([("cpu".into(), Amount::new(cpu))]),
            ..PodSet::new("main".into(), 1)
        }],
        state,
        ..Workload::new(id, LocalQueueKey::new("ns", queue))
    })
}

/// What came of it: who is evicted, and whether the workload is admitted, at once or when those have gone.
fn outcome(scene: &Scene) -> (BTreeSet<usize>, bool) {
    let settings = Settings {
        fair_sharing: scene.fair.clone(),
        ..Settings::new(Amount::new(1))
    };
    let mut engine = Engine::new(settings);
    for event in events(scene) {
        engine.apply(event);
    }
    let mut evicted = BTreeSet::new();
    for now in 100..200 {
        let decisions = engine.decide(Time::from_millis(now));
        let mut gone = Vec::new();
        for decision in decisions {
            match decision {
                Decision::Admit { .. } => return (evicted, true),
                Decision::Evict { id, .. } => {
                    evicted.insert(id.as_str()[1..].parse().unwrap());
                    gone.push(id);
                }
            }
        }
        if gone.is_empty() {
            return (evicted, false);
        }
        for id in gone {
            engine.apply(Event::RemoveWorkload(id));
        }
    }
    panic!("no rest");
}

/// Whether the workload fits if only these others hold quota.
fn fits(scene: &Scene, gone: &BTreeSet<usize>) -> bool {
    let mut oracle = Oracle::new(Settings::new(Amount::new(1)));
    for event in events(scene) {
        oracle.apply(event);
    }
    for index in gone {
        oracle.apply(Event::RemoveWorkload(held(*index)));
    }
    let queue = ClusterQueueName::from("q0");
    let tree = oracle.tree(&oracle.root(&queue).unwrap());
    let cell = tree.cell(&("f".into(), "cpu".into()));
    let charge: Charge = [(cell, scene.cpu)].into_iter().collect();
    let view = oracle.view(&tree, true);
    tree.all_fit(&view, tree.queue(&queue).unwrap(), &charge)
}

impl Scene {
    fn may_evict_own(&self, holder: &Holder) -> bool {
        self.preemption.within_cluster_queue != WithinClusterQueue::Never
            && holder.priority < self.priority
    }

    /// What the queue would use with the workload, without these.
    fn own_usage(&self, gone: impl Fn(usize, &Holder) -> bool) -> i128 {
        let own = self.holders.iter().enumerate();
        let own = own.filter(|(index, holder)| holder.queue == 0 && !gone(*index, holder));
        own.map(|(_, holder)| holder.cpu).sum::<i128>() + self.cpu
    }
}

proptest! {
    #![proptest_config(super::properties_config())]

    #[test]
    fn whoever_fits_its_nominal_quota_and_may_reclaim_gets_it(scene in scenes()) {
        let nominal = scene.queues[0].1;
        if scene.own_usage(|_, holder| scene.may_evict_own(holder)) <= nominal {
            let (evicted, is_admitted) = outcome(&scene);
            prop_assert!(is_admitted, "evicted {evicted:?}");
        }
    }

    #[test]
    fn nobody_is_evicted_if_the_workload_fits_without(scene in scenes()) {
        let (evicted, _) = outcome(&scene);
        let is_own = |index: usize| scene.holders[index].queue == 0;
        // Own ones may have to go so that the queue keeps to its quota and may reclaim.
        let reclaims = evicted.iter().any(|index| !is_own(*index));
        for index in &evicted {
            let mut fewer = evicted.clone();
            fewer.remove(index);
            let is_price = reclaims && evicted.iter().any(|index| is_own(*index));
            prop_assert!(is_price || scene.fair.is_some() || !fits(&scene, &fewer), "{evicted:?}");
            prop_assert!(reclaims || !fits(&scene, &fewer), "{evicted:?}");
        }
    }

    #[test]
    fn of_a_queues_own_no_higher_one_is_preempted_where_lower_ones_would_do(scene in scenes()) {
        let (evicted, _) = outcome(&scene);
        let own = || evicted.iter().filter(|index| scene.holders[**index].queue == 0);
        let highest = own().map(|index| scene.holders[*index].priority).max();
        if let Some(highest) = highest {
            let foreign = evicted.iter().filter(|index| scene.holders[**index].queue != 0);
            let mut lower: BTreeSet<usize> = foreign.copied().collect();
            let has_foreign = !lower.is_empty();
            let may = |holder: &Holder| {
                holder.queue == 0 && holder.priority < highest && scene.may_evict_own(holder)
            };
            let all = scene.holders.iter().enumerate();
            lower.extend(all.filter(|(_, holder)| may(holder)).map(|(index, _)| index));
            let keeps = scene.own_usage(|index, _| lower.contains(&index)) <= scene.queues[0].1;
            let would_do = fits(&scene, &lower) && (!has_foreign || keeps);
            prop_assert!(!would_do, "{evicted:?} where {lower:?} would do");
        }
    }
}
