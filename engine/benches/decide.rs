//! How long one decision takes, and a cold start.
//!
//! `cargo bench --bench decide`
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use divan::Bencher;
use sluice_engine::{
    Amount, ClusterQueue, Decision, Engine, Event, Flavor, FlavorQuotas, LocalQueue, LocalQueueKey,
    PodSet, Quota, ResourceGroup, Settings, Time, Workload, WorkloadId,
};

const GIB: i128 = 1 << 30;
const NANO: i128 = 1_000_000_000;

fn main() {
    divan::main();
}

fn key() -> LocalQueueKey {
    LocalQueueKey::new("team", "main")
}

/// A queue with room for one workload of any shape below.
fn config() -> Vec<Event> {
    let quota = |units: i128| Quota {
        nominal: Amount::new(units * NANO),
        ..Quota::default()
    };
    let resources = [
        ("cpu", quota(2)),
        ("memory", quota(4 * GIB)),
        ("pods", quota(1)),
    ];
    let group = ResourceGroup {
        covered_resources: resources.iter().map(|(name, _)| (*name).into()).collect(),
        flavors: vec![FlavorQuotas {
            name: "default".into(),
            resources: resources
                .into_iter()
                .map(|(name, quota)| (name.into(), quota))
                .collect(),
        }],
    };
    vec![
        Event::UpsertFlavor(Flavor {
            name: "default".into(),
            node_labels: BTreeMap::new(),
            node_taints: Vec::new(),
            tolerations: Vec::new(),
        }),
        Event::UpsertClusterQueue(ClusterQueue {
            cohort: Some("all".into()),
            resource_groups: vec![group],
            ..ClusterQueue::new("team".into())
        }),
        Event::UpsertLocalQueue(LocalQueue::new(key(), "team".into())),
    ]
}

/// The n-th workload; they come in `shapes` shapes.
fn workload(n: u32, shapes: u32) -> Event {
    let requests = [
        ("cpu", Amount::new(NANO + i128::from(n % shapes))),
        ("memory", Amount::new(GIB * NANO)),
    ];
    Event::UpsertWorkload(Workload {
        created: i64::from(n),
        pod_sets: vec![PodSet {
            requests: requests
                .into_iter()
                .map(|(name, amount)| (name.into(), amount))
                .collect(),
            ..PodSet::new("main".into(), 1)
        }],
        ..Workload::new(format!("00000000-0000-0000-0000-{n:012}").into(), key())
    })
}

fn engine(pending: u32, shapes: u32) -> Engine {
    let mut engine = Engine::new(Settings::new(Amount::new(NANO)));
    for event in config() {
        engine.apply(event);
    }
    // One more, which is admitted at once.
    for n in 0..=pending {
        engine.apply(workload(n, shapes));
    }
    engine
}

fn admitted(decisions: &[Decision]) -> WorkloadId {
    match decisions {
        [Decision::Admit { id, .. }] => id.clone(),
        other => unreachable!("one place, one admission, not {other:?}"),
    }
}

/// One workload ends, the next is admitted, and one more arrives.
fn one_decision(bencher: Bencher<'_, '_>, pending: u32, shapes: u32) {
    let mut engine = engine(pending, shapes);
    let mut holds = admitted(&engine.decide(Time::default()));
    let mut next = pending;
    bencher.bench_local(|| {
        next += 1;
        engine.apply(workload(next, shapes));
        engine.apply(Event::RemoveWorkload(holds.clone()));
        holds = admitted(&engine.decide(Time::default()));
    });
}

#[divan::bench(args = [1, 1_000, 100_000])]
fn finish_then_admit_same_shape(bencher: Bencher<'_, '_>, pending: u32) {
    one_decision(bencher, pending, 1);
}

#[divan::bench(args = [1_000, 100_000])]
fn finish_then_admit_1000_shapes(bencher: Bencher<'_, '_>, pending: u32) {
    one_decision(bencher, pending, 1_000);
}

/// What a parked shape costs: an arrival, and a decision that has nothing to look at.
#[divan::bench(args = [100_000])]
fn arrival_of_a_parked_shape(bencher: Bencher<'_, '_>, pending: u32) {
    let mut engine = engine(pending, 1);
    engine.decide(Time::default());
    let mut next = pending;
    bencher.bench_local(|| {
        next += 1;
        engine.apply(workload(next, 1));
        assert!(engine.decide(Time::default()).is_empty());
    });
}

#[divan::bench(args = [1, 1_000, 100_000], sample_count = 10)]
fn cold_start_with_100_000(bencher: Bencher<'_, '_>, shapes: u32) {
    let events = || -> Vec<Event> {
        config()
            .into_iter()
            .chain((0..100_000).map(|n| workload(n, shapes)))
            .collect()
    };
    bencher.with_inputs(events).bench_local_values(|events| {
        let mut engine = Engine::new(Settings::new(Amount::new(NANO)));
        for event in events {
            engine.apply(event);
        }
        admitted(&engine.decide(Time::default()));
        engine
    });
}

/// A thousand queues in one cohort, each with one workload that fits: one decision about all.
#[divan::bench(sample_count = 10)]
fn cold_start_with_1000_queues(bencher: Bencher<'_, '_>) {
    let mut events = config();
    let Some(Event::UpsertClusterQueue(queue)) = events.get(1).cloned() else {
        return;
    };
    let mut names = BTreeSet::new();
    for n in 0..1_000 {
        let name = format!("team-{n}");
        names.insert(name.clone());
        events.push(Event::UpsertClusterQueue(ClusterQueue {
            name: name.as_str().into(),
            ..queue.clone()
        }));
        let key = LocalQueueKey::new("ns", name.as_str());
        let local = LocalQueue::new(key, name.as_str().into());
        events.push(Event::UpsertLocalQueue(local));
        if let Event::UpsertWorkload(workload) = workload(n, 7) {
            let queue = LocalQueueKey::new("ns", name.as_str());
            events.push(Event::UpsertWorkload(Workload { queue, ..workload }));
        }
    }
    bencher
        .with_inputs(|| events.clone())
        .bench_local_values(|events| {
            let mut engine = Engine::new(Settings::new(Amount::new(NANO)));
            for event in events {
                engine.apply(event);
            }
            assert_eq!(engine.decide(Time::default()).len(), names.len());
            engine
        });
}
