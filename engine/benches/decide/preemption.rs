//! One has to go for another: the victim is found and evicted, has gone, and the other one is
//! admitted. Then that one ends, and the victim comes back.

use divan::Bencher;
use sluice_engine::{ClusterQueue, Preemption, ReclaimWithinCohort, WithinClusterQueue};

use crate::world::{FEW, Layout, Scale, World, as_is, plain};

/// In a queue, for one of higher priority. Nobody else may preempt.
#[divan::bench(args = FEW, max_time = 2)]
fn preempt_in_a_queue(bencher: Bencher<'_, '_>, scale: Scale) {
    let lower = |queue| ClusterQueue {
        preemption: Preemption {
            within_cluster_queue: WithinClusterQueue::LowerPriority,
            ..Preemption::default()
        },
        ..queue
    };
    let mut world = World::waiting(scale, Layout::Own, plain(), lower, 1);
    make_room_for(bencher, &mut world, 100);
}

/// From the queues that borrow what the first one isn't using.
#[divan::bench(args = FEW, max_time = 2)]
fn reclaim_in_the_cohort(bencher: Bencher<'_, '_>, scale: Scale) {
    let any = |queue| ClusterQueue {
        preemption: Preemption {
            reclaim_within_cohort: ReclaimWithinCohort::Any,
            ..Preemption::default()
        },
        ..queue
    };
    let mut world = World::waiting(scale, Layout::FirstIsIdle, plain(), any, 1);
    make_room_for(bencher, &mut world, 0);
}

/// Nobody may preempt, so that this is what the above cost without the search for victims.
#[divan::bench(args = FEW, max_time = 2)]
fn nobody_may_preempt(bencher: Bencher<'_, '_>, scale: Scale) {
    let mut world = World::waiting(scale, Layout::Own, plain(), as_is, 1);
    let number = world.successor(0);
    bencher.bench_local(|| {
        world.arrive_in(0, number, 100, 1);
        assert_eq!(world.engine.decide(sluice_engine::Time::default()), []);
        world.leave(number);
    });
}

/// One of the first queue comes, gets the room of another one, and ends.
fn make_room_for(bencher: Bencher<'_, '_>, world: &mut World, priority: i32) {
    let mut number = world.successor(0);
    bencher.bench_local(|| {
        world.arrive_in(0, number, priority, 1);
        let admission = world.make_room();
        world.confirm_in(0, number, admission);
        world.leave(number);
        world.admit_one();
        number += 1;
    });
}
