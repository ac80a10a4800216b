//! Steady states where the order isn't only one of priority and age: by share, and by use.

use divan::Bencher;
use sluice_engine::{AdmissionScope, ClusterQueue, FairPreemption, Settings};

use crate::world::{FEW, Layout, Scale, World, as_is, plain};

/// All quota is the cohort's. One ends, and the next of the queue with the smallest share is
/// admitted.
#[divan::bench(args = FEW, max_time = 2)]
fn finish_and_admit_by_share(bencher: Bencher<'_, '_>, scale: Scale) {
    let settings = Settings {
        fair_sharing: Some(FairPreemption::DEFAULT.to_vec()),
        ..plain()
    };
    let mut world = World::waiting(scale, Layout::Shared, settings, as_is, 1);
    bencher.bench_local(|| {
        let ended = world.finish();
        let next = world.successor(ended);
        world.arrive(next, 0, 1);
        world.admit_one();
    });
}

/// Each queue looks at what its LocalQueues have used.
#[divan::bench(args = FEW, max_time = 2)]
fn finish_and_admit_by_use(bencher: Bencher<'_, '_>, scale: Scale) {
    let by_use = |queue| ClusterQueue {
        admission_scope: AdmissionScope::ByUsage,
        ..queue
    };
    let mut world = World::waiting(scale, Layout::Own, plain(), by_use, 1);
    bencher.bench_local(|| {
        let ended = world.finish();
        let next = world.successor(ended);
        world.arrive(next, 0, 1);
        world.admit_one();
    });
}
