//! Changes of the configuration, and a start from nothing.

use divan::Bencher;
use sluice_engine::{Engine, Event, Time};

use crate::world::{self, FEW, Layout, MANY, Scale, World, as_is, plain};

/// A queue gets a little more quota, and back; nobody who waits can use it.
fn change_quota(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 1);
    let mut more = 0;
    bencher.bench_local(|| {
        more = 1 - more;
        let queue = world::cluster_queue(0, more, Layout::Own, as_is);
        world.engine.apply(Event::UpsertClusterQueue(queue));
        assert_eq!(world.engine.decide(Time::default()), []);
    });
}

#[divan::bench(args = FEW, max_time = 2)]
fn change_quota_few_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    change_quota(bencher, scale);
}

#[divan::bench(args = MANY, max_time = 2)]
fn change_quota_many_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    change_quota(bencher, scale);
}

const COLD: [Scale; 4] = [
    world::scale(100_000, 10, 3),
    world::scale(100_000, 1_000, 3),
    world::scale(100_000, 10, 1_000),
    world::scale(100_000, 1_000, 1_000),
];

/// The engine is told everything, and decides for the first time. The making of the events doesn't
/// count.
#[divan::bench(args = COLD, sample_count = 10)]
fn cold_start(bencher: Bencher<'_, '_>, scale: Scale) {
    let events = || -> Vec<Event> {
        let workload = |number| world::workload(scale, number, number % scale.queues, 1);
        world::config(scale, Layout::Own, as_is)
            .into_iter()
            .chain((0..scale.pending).map(|number| Event::UpsertWorkload(workload(number))))
            .collect()
    };
    bencher.with_inputs(events).bench_local_values(|events| {
        let mut engine = Engine::new(plain());
        for event in events {
            engine.apply(event);
        }
        assert!(!engine.decide(Time::default()).is_empty());
        engine
    });
}
