//! Steady states: everything is full, and what ends is replaced. These are most of what a
//! controller does all day.

use divan::Bencher;
use divan::counter::ItemsCount;
use sluice_engine::{Engine, Event, Time};

use crate::world::{self, FEW, Layout, MANY, Scale, World, as_is, plain};

/// Plain decisions: there is room for all who wait, and one decision admits them.
#[divan::bench(args = FEW, sample_count = 10, max_time = 3)]
fn admit_all(bencher: Bencher<'_, '_>, scale: Scale) {
    let arrived = || {
        let mut engine = Engine::new(plain());
        for event in world::config(scale, Layout::Roomy, as_is) {
            engine.apply(event);
        }
        for number in 0..scale.pending {
            let workload = world::workload(scale, number, number % scale.queues, 1);
            engine.apply(Event::UpsertWorkload(workload));
        }
        engine
    };
    (bencher.with_inputs(arrived))
        .input_counter(move |_| ItemsCount::new(scale.pending))
        .bench_local_values(|mut engine| {
            assert_eq!(engine.decide(Time::default()).len() as u64, scale.pending);
            engine
        });
}

/// One arrives, is admitted and confirmed, and ends. There is room for it; those who wait need more.
#[divan::bench(args = FEW, max_time = 2)]
fn arrive_admit_and_end(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 3);
    let ended = world.finish();
    assert_eq!(world.engine.decide(Time::default()), []);
    let mut next = world.successor(ended);
    bencher.bench_local(|| {
        world.arrive(next, 0, 1);
        world.admit_one();
        world.finish_last();
        next = world.successor(next);
    });
}

/// One ends, the next is admitted and confirmed, and one more arrives.
fn finish_and_admit(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 1);
    bencher.bench_local(|| {
        let ended = world.finish();
        let next = world.successor(ended);
        world.arrive(next, 0, 1);
        world.admit_one();
    });
}

#[divan::bench(args = FEW, max_time = 2)]
fn finish_and_admit_few_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    finish_and_admit(bencher, scale);
}

#[divan::bench(args = MANY, max_time = 2)]
fn finish_and_admit_many_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    finish_and_admit(bencher, scale);
}

/// All who wait need three places. One place becomes free, which is too little for any of them, and
/// is taken by one that just came.
fn freed_for_nobody(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 3);
    bencher.bench_local(|| {
        let ended = world.finish();
        assert_eq!(world.engine.decide(Time::default()), []);
        let next = world.successor(ended);
        world.arrive(next, 0, 1);
        world.admit_one();
    });
}

#[divan::bench(args = FEW, max_time = 2)]
fn freed_for_nobody_few_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    freed_for_nobody(bencher, scale);
}

#[divan::bench(args = MANY, max_time = 2)]
fn freed_for_nobody_many_shapes(bencher: Bencher<'_, '_>, scale: Scale) {
    freed_for_nobody(bencher, scale);
}

/// One that can't be admitted arrives where its like already wait, and another one leaves.
#[divan::bench(args = FEW, max_time = 2)]
fn arrive_and_leave(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 1);
    let mut next = world.successor(0);
    bencher.bench_local(|| {
        world.arrive(next, 0, 1);
        assert_eq!(world.engine.decide(Time::default()), []);
        world.leave(next);
        assert_eq!(world.engine.decide(Time::default()), []);
        next += 1;
    });
}
