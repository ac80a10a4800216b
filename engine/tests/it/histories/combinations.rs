//! What holds when one workload comes that may get several combinations of flavors, for its pod sets and resource groups:
//! whoever fits its nominal quota in any, and may reclaim, gets it; nobody is evicted where others fit without, nobody of
//! its own queue where those of other queues suffice, and nobody who is back at once; and nobody is evicted for it a
//! second time.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use sluice_engine::{
    Admission, Amount, BorrowWithinCohort, ClusterQueue, ClusterQueueName, Cohort, Decision,
    Engine, Event, EvictReason, FairPreemption, Flavor, FlavorFungibility, FlavorName,
    FlavorPreference, FlavorQuotas, LocalQueue, LocalQueueKey, PodSet, PodSetAssignment,
    Preemption, Quota, ReclaimWithinCohort, ResourceGroup, ResourceName, Settings, Time,
    WhenCanBorrow, WhenCanPreempt, WithinClusterQueue, Workload, WorkloadId, WorkloadState,
};

use crate::histories::worlds::any_of;

const FLAVORS: [&str; 2] = ["f0", "f1"];
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// Amounts of each resource.
type Amounts = [i128; 2];

#[derive(Clone, Debug)]
struct Holder {
    queue: usize,
    flavor: usize,
    uses: Amounts,
    priority: i32,
}

/// The workload that comes is of the first queue, and of priority 2.
#[derive(Clone, Debug)]
struct Scene {
    fair: Option<Vec<FairPreemption>>,
    /// Whether each resource has a group of its own.
    is_split: bool,
    /// For each queue, what it has of each flavor.
    queues: Vec<[Amounts; 2]>,
    /// The cohort of each: each is within the one before.
    cohorts: [usize; 3],
    own: WithinClusterQueue,
    borrow: BorrowWithinCohort,
    fungibility: FlavorFungibility,
    holders: Vec<Holder>,
    /// What each pod set requests, and the only flavor that suits it.
    pod_sets: Vec<(Amounts, Option<usize>)>,
}

const PRIORITY: i32 = 2;

fn scenes() -> impl Strategy<Value = Scene> {
    let strategies = any_of([
        FairPreemption::DEFAULT.to_vec(),
        vec![FairPreemption::LessThanInitialShare],
        vec![FairPreemption::LessThanOrEqualToFinalShare],
    ]);
    let own = any_of([WithinClusterQueue::Never, WithinClusterQueue::LowerPriority]);
    let fungibility = (
        any_of([WhenCanBorrow::MayStopSearch, WhenCanBorrow::TryNextFlavor]),
        any_of([WhenCanPreempt::MayStopSearch, WhenCanPreempt::TryNextFlavor]),
        any_of([
            FlavorPreference::BorrowingOverPreemption,
            FlavorPreference::PreemptionOverBorrowing,
        ]),
    );
    let fungibility =
        fungibility.prop_map(
            |(when_can_borrow, when_can_preempt, preference)| FlavorFungibility {
                when_can_borrow,
                when_can_preempt,
                preference,
            },
        );
    let borrow = any_of([
        BorrowWithinCohort::Never,
        BorrowWithinCohort::LowerPriority {
            max_priority_threshold: None,
        },
    ]);
    let amounts = |most: i128| [0..most, 0..most];
    let holder = (0..3usize, 0..2usize, amounts(4), 0..4i32);
    let holder = holder.prop_map(|(queue, flavor, uses, priority)| Holder {
        queue,
        flavor,
        uses,
        priority,
    });
    let queue = [amounts(7), amounts(7)];
    let pod_set = (amounts(4), proptest::option::weighted(0.4, 0..2usize));
    (
        (proptest::option::weighted(0.5, strategies), any::<bool>()),
        (
            proptest::collection::vec(queue, 3),
            [0..3usize, 0..3usize, 0..3usize],
        ),
        (own, borrow, fungibility),
        proptest::collection::vec(holder, 1..9),
        proptest::collection::vec(pod_set, 1..4),
    )
        .prop_map(
            |(
                (fair, is_split),
                (queues, cohorts),
                (own, borrow, fungibility),
                holders,
                pod_sets,
            )| Scene {
                fair,
                is_split,
                queues,
                cohorts,
                own,
                borrow,
                fungibility,
                holders,
                pod_sets,
            },
        )
}

fn requests(amounts: Amounts) -> BTreeMap<ResourceName, Amount> {
    let amounts = RESOURCES.into_iter().zip(amounts);
    let above_zero = amounts.filter(|(_, amount)| *amount > 0);
    above_zero
        .map(|(resource, amount)| (resource.into(), Amount::new(amount)))
        .collect()
}

impl Scene {
    /// The resources of each group, by their numbers.
    fn groups(&self) -> Vec<Vec<usize>> {
        if self.is_split {
            vec![vec![0], vec![1]]
        } else {
            vec![vec![0, 1]]
        }
    }

    fn resource_groups(&self, has: &[Amounts; 2]) -> Vec<ResourceGroup> {
        let flavor = |covered: &[usize], flavor: usize| FlavorQuotas {
            name: FLAVORS[flavor].into(),
            resources: covered
                .iter()
                .map(|resource| {
                    let quota = Quota {
                        nominal: Amount::new(has[flavor][*resource]),
                        ..Quota::default()
                    };
                    (RESOURCES[*resource].into(), quota)
                })
                .collect(),
        };
        let group = |covered: Vec<usize>| ResourceGroup {
            covered_resources: covered.iter().map(|r| RESOURCES[*r].into()).collect(),
            flavors: (0..2).map(|number| flavor(&covered, number)).collect(),
        };
        self.groups().into_iter().map(group).collect()
    }

    /// What an engine is told, if the first queue may preempt by these rules, and the others by those.
    fn events(&self, rules: Preemption, others: Preemption) -> Vec<Event> {
        let flavor = |name: &str| {
            Event::UpsertFlavor(Flavor {
                name: name.into(),
                node_labels: BTreeMap::from([("kind".into(), name.into())]),
                node_taints: Vec::new(),
                tolerations: Vec::new(),
            })
        };
        let mut events: Vec<Event> = FLAVORS.into_iter().map(flavor).collect();
        let cohort = |number: usize| format!("c{number}").as_str().into();
        events.extend((0..3usize).map(|number| {
            Event::UpsertCohort(Cohort {
                parent: number.checked_sub(1).map(cohort),
                ..Cohort::new(format!("c{number}").as_str().into())
            })
        }));
        for (index, has) in self.queues.iter().enumerate() {
            let name = ClusterQueueName::from(format!("q{index}").as_str());
            events.push(Event::UpsertClusterQueue(ClusterQueue {
                cohort: Some(cohort(self.cohorts[index])),
                resource_groups: self.resource_groups(has),
                preemption: if index == 0 { rules } else { others },
                fungibility: self.fungibility,
                ..ClusterQueue::new(name.clone())
            }));
            let key = LocalQueueKey::new("ns", format!("q{index}"));
            events.push(Event::UpsertLocalQueue(LocalQueue::new(key, name)));
        }
        for (index, holder) in self.holders.iter().enumerate() {
            events.push(Self::held(index, holder));
        }
        let pod_sets = self.pod_sets.iter().enumerate();
        let pod_sets = pod_sets.map(|(index, (amounts, flavor))| PodSet {
            requests: requests(*amounts),
            node_selector: flavor
                .iter()
                .map(|flavor| ("kind".into(), FLAVORS[*flavor].into()))
                .collect(),
            ..PodSet::new(index.to_string().as_str().into(), 1)
        });
        events.push(Event::UpsertWorkload(Workload {
            priority: PRIORITY,
            created: 1,
            pod_sets: pod_sets.collect::<Vec<_>>(),
            ..Workload::new("j".into(), LocalQueueKey::new("ns", "q0"))
        }));
        events
    }

    fn held(index: usize, holder: &Holder) -> Event {
        let queue = format!("q{}", holder.queue);
        let flavor = FlavorName::from(FLAVORS[holder.flavor]);
        let uses = requests(holder.uses);
        let pod_set = PodSetAssignment {
            name: "main".into(),
            count: 1,
            flavors: uses.keys().map(|r| (r.clone(), flavor.clone())).collect(),
            usage: uses.clone(),
            bound: 1,
        };
        let admission = Admission {
            queue: queue.as_str().into(),
            cohort: None,
            since: Time::from_millis(i64::try_from(index).unwrap()),
            unused_since: None,
            had_nodes: false,
            pod_sets: vec![pod_set].into(),
        };
        Event::UpsertWorkload(Workload {
            priority: holder.priority,
            pod_sets: vec![PodSet {
                requests: uses,
                ..PodSet::new("main".into(), 1)
            }],
            state: WorkloadState::Admitted(admission),
            ..Workload::new(
                format!("h{index}").as_str().into(),
                LocalQueueKey::new("ns", queue),
            )
        })
    }

    fn rules(&self) -> Preemption {
        Preemption {
            within_cluster_queue: self.own,
            reclaim_within_cohort: ReclaimWithinCohort::Any,
            borrow_within_cohort: self.borrow,
        }
    }

    /// Whether its queue tries all flavors before others are evicted.
    fn rather_borrows(&self) -> bool {
        self.fungibility.when_can_preempt == WhenCanPreempt::TryNextFlavor
            && self.fungibility.preference == FlavorPreference::BorrowingOverPreemption
    }

    /// Whether it fits the nominal quota of its queue in any combination of flavors, beside what that queue has admitted
    /// and keeps: what uses nothing that the job lacks is not evicted for the right to reclaim.
    fn fits_nominal(&self, keeps: impl Fn(&Holder) -> bool) -> bool {
        let mut used = [[0; 2]; 2];
        for holder in self.holders.iter().filter(|h| h.queue == 0 && keeps(h)) {
            for (used, uses) in used[holder.flavor].iter_mut().zip(holder.uses) {
                *used += uses;
            }
        }
        let mut ways = vec![used];
        for (amounts, only) in &self.pod_sets {
            for covered in self.groups() {
                let suits = |flavor: &usize| only.is_none_or(|only| only == *flavor);
                let with = |way: [Amounts; 2], flavor: usize| {
                    let mut way = way;
                    for resource in &covered {
                        way[flavor][*resource] += amounts[*resource];
                    }
                    way
                };
                let flavors: Vec<usize> = (0..2).filter(suits).collect();
                let each = |way| flavors.iter().map(move |flavor| with(way, *flavor));
                ways = ways.into_iter().flat_map(each).collect();
            }
        }
        // What it requests nothing of may be above its quota.
        let wanted = |flavor: usize, resource: usize, way: &[Amounts; 2]| {
            way[flavor][resource] > used[flavor][resource]
        };
        ways.iter().any(|way| {
            (0..2).all(|flavor| {
                (0..2).all(|resource| {
                    !wanted(flavor, resource, way)
                        || way[flavor][resource] <= self.queues[0][flavor][resource]
                })
            })
        })
    }

    fn engine(&self, events: &[Event]) -> Engine {
        let mut engine = Engine::new(Settings {
            fair_sharing: self.fair.clone(),
            ..Settings::new(Amount::new(1))
        });
        for event in events {
            engine.apply(event.clone());
        }
        engine
    }

    /// All that is decided if only the first queue may preempt, and those evicted wait again; and what comes of it.
    fn played(&self) -> (Vec<Vec<Decision>>, Engine) {
        let events = self.events(self.rules(), Preemption::default());
        let mut engine = self.engine(&events);
        let workloads = events.into_iter().filter_map(|event| match event {
            Event::UpsertWorkload(workload) => Some((workload.id.clone(), workload)),
            _ => None,
        });
        let workloads: BTreeMap<WorkloadId, Workload> = workloads.collect();
        let mut played = Vec::new();
        for now in 100..200 {
            let decisions = engine.decide(Time::from_millis(now));
            if decisions.is_empty() {
                return (played, engine);
            }
            for decision in &decisions {
                let (id, states) = match decision {
                    Decision::Admit { id, admission } => {
                        (id, vec![WorkloadState::Admitted(admission.clone())])
                    }
                    Decision::Evict { id, reason } => {
                        let EvictReason::Preempted { by, .. } = reason else {
                            panic!("evicted for {reason:?}")
                        };
                        let admission = engine.admission(id).unwrap().clone();
                        let evicting = WorkloadState::Evicting(admission, Some(by.clone()));
                        (id, vec![evicting, WorkloadState::Pending])
                    }
                };
                for state in states {
                    engine.apply(Event::UpsertWorkload(Workload {
                        state,
                        ..workloads[id].clone()
                    }));
                }
            }
            played.push(decisions);
        }
        panic!("no rest");
    }

    /// Who is evicted, decision by decision, each carried out before the next; and whether the workload is admitted.
    fn outcome(&self, rules: Preemption) -> (Vec<BTreeSet<WorkloadId>>, bool) {
        let mut engine = self.engine(&self.events(rules, rules));
        let mut evicted = Vec::new();
        for now in 100..200 {
            let mut gone = BTreeSet::new();
            for decision in engine.decide(Time::from_millis(now)) {
                match decision {
                    Decision::Admit { .. } => return (evicted, true),
                    Decision::Evict { id, .. } => {
                        gone.insert(id);
                    }
                }
            }
            if gone.is_empty() {
                return (evicted, false);
            }
            for id in &gone {
                engine.apply(Event::RemoveWorkload(id.clone()));
            }
            evicted.push(gone);
        }
        panic!("no rest");
    }
}

/// For whom somebody is evicted.
fn preemptor(decision: &Decision) -> Option<&str> {
    match decision {
        Decision::Evict {
            reason: EvictReason::Preempted { by, .. },
            ..
        } => Some(by.as_str()),
        _ => None,
    }
}

proptest! {
    #![proptest_config(super::properties_config())]

    #[test]
    fn whoever_fits_its_nominal_quota_in_any_flavors_and_may_reclaim_gets_it(scene in scenes()) {
        if scene.fits_nominal(|_| true) {
            let (evicted, is_admitted) = scene.outcome(scene.rules());
            prop_assert!(is_admitted, "evicted {evicted:?}");
        }
    }

    #[test]
    fn whoever_fits_by_preempting_in_its_own_queue_gets_it(scene in scenes()) {
        let mut scene = scene;
        scene.own = WithinClusterQueue::LowerPriority;
        // Nobody else lends or borrows anything.
        scene.queues.truncate(1);
        scene.holders.retain(|holder| holder.queue == 0);
        if scene.fits_nominal(|holder| holder.priority >= PRIORITY) {
            for reclaim in [ReclaimWithinCohort::Never, ReclaimWithinCohort::Any] {
                let rules = Preemption {
                    reclaim_within_cohort: reclaim,
                    ..scene.rules()
                };
                let (evicted, is_admitted) = scene.outcome(rules);
                prop_assert!(is_admitted, "evicted {evicted:?}");
            }
        }
    }

    #[test]
    fn nobody_is_evicted_if_the_workload_fits_in_other_flavors(scene in scenes()) {
        let (_, fits) = scene.outcome(Preemption::default());
        if fits && scene.rather_borrows() {
            let (evicted, is_admitted) = scene.outcome(scene.rules());
            prop_assert!(is_admitted && evicted.is_empty(), "evicted {evicted:?}");
        }
    }

    #[test]
    fn nobody_is_evicted_in_vain_or_for_a_second_time(scene in scenes()) {
        let (evicted, is_admitted) = scene.outcome(scene.rules());
        prop_assert!(evicted.len() < 2, "evicted {evicted:?}");
        prop_assert!(is_admitted || evicted.is_empty(), "evicted {evicted:?}");
    }

    #[test]
    fn nobody_is_evicted_who_is_back_at_once(scene in scenes()) {
        let (played, engine) = scene.played();
        let evicted_for_it = |decision: &Decision| preemptor(decision) == Some("j");
        for decided in &played {
            let starts = |decision: &Decision| {
                matches!(decision, Decision::Admit { id, .. } if id.as_str() == "j")
            };
            let is_at_once = decided.iter().any(starts) && decided.iter().any(evicted_for_it);
            prop_assert!(!is_at_once, "it starts before those have left: {played:?}");
        }
        // Those evicted may preempt others in turn, once they wait again.
        let mut preemptors = played.iter().flatten().filter_map(preemptor);
        if preemptors.all(|by| by == "j") {
            for (index, holder) in scene.holders.iter().enumerate() {
                let id = WorkloadId::from(format!("h{index}"));
                let is_evicted = |decision: &Decision| {
                    matches!(decision, Decision::Evict { id: evicted, .. } if *evicted == id)
                };
                let is_back = engine.admission(&id).is_some_and(|admission| {
                    let mut flavors = admission.pod_sets.iter().flat_map(|set| set.flavors.values());
                    flavors.all(|flavor| flavor.as_str() == FLAVORS[holder.flavor])
                });
                let was_evicted = played.iter().flatten().any(is_evicted);
                prop_assert!(!(was_evicted && is_back), "{id} is back: {played:?}");
            }
        }
    }

    #[test]
    fn nobody_of_its_own_queue_is_evicted_where_others_suffice(scene in scenes()) {
        let mut scene = scene;
        // Of several slots, each has the best for itself.
        scene.pod_sets.truncate(1);
        scene.is_split = false;
        let others = Preemption {
            within_cluster_queue: WithinClusterQueue::Never,
            ..scene.rules()
        };
        let (_, others_suffice) = scene.outcome(others);
        if others_suffice && scene.rather_borrows() {
            let (evicted, is_admitted) = scene.outcome(scene.rules());
            let is_own = |id: &WorkloadId| {
                scene.holders[id.as_str()[1..].parse::<usize>().unwrap()].queue == 0
            };
            prop_assert!(is_admitted && !evicted.iter().flatten().any(is_own), "{evicted:?}");
        }
    }
}
