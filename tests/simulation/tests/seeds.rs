//! Plays seeds: some by default, as many as `SEEDS` says from `SEED` on with `make simulate`. A seed means
//! something else when what is drawn changes: that faults are found again is seen to by `mutants`.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::print_stdout, reason = "a failed test says why")]
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed assumption is a failed test"
)]

use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use sluice_simulation::play::{Figures, Options, play};

/// Seeds that are played without `SEEDS`, from which one on.
const SEEDS: u64 = 40;
const FIRST: u64 = 100;
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn options() -> Options {
    let jobs = number("JOBS").map(|jobs| usize::try_from(jobs).unwrap());
    Options {
        jobs: jobs.unwrap_or(Options::default().jobs),
        trace: std::env::var_os("TRACE").map(Into::into),
        ..Options::default()
    }
}

/// Plays seeds on all cores; prints what they came to, and fails with those that failed.
fn play_all(seeds: impl Iterator<Item = u64> + Send) {
    let began = Instant::now();
    let (seeds, options) = (Mutex::new(seeds), options());
    let is_enough = std::env::var_os("FIRST_FAILURE").is_some();
    let is_over = AtomicBool::new(false);
    let worker = || {
        let mut sum = Sum::default();
        loop {
            let next = seeds.lock().unwrap().next();
            let Some(seed) = next.filter(|_| !is_over.load(Ordering::Relaxed)) else {
                return sum;
            };
            match play(seed, &options) {
                Ok(figures) => sum += &figures,
                Err(problem) => {
                    println!("seed {seed}: {problem}\nagain: make simulate SEED={seed} SEEDS=1\n");
                    sum.failed.push(seed);
                    is_over.store(is_enough, Ordering::Relaxed);
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            let part = worker.join().unwrap();
            sum += &part.figures;
            // That was the sum of many.
            sum.seeds += part.seeds;
            sum.seeds -= 1;
            sum.failed.extend(part.failed);
        }
    });
    let Sum {
        seeds,
        figures,
        failed,
    } = sum;
    println!(
        "{} seeds: {} jobs, {} revisions checked, {} writes by Sluice, {} faults of the network, {:.1} h of virtual time in {:.0} s; {} failed",
        seeds + failed.len(),
        figures.jobs,
        figures.revisions,
        figures.writes,
        figures.faults,
        figures.time.as_secs_f64() / 3600.0,
        began.elapsed().as_secs_f64(),
        failed.len()
    );
    assert!(failed.is_empty(), "seeds that failed: {failed:?}");
}

#[derive(Default)]
struct Sum {
    seeds: usize,
    figures: Figures,
    failed: Vec<u64>,
}

impl AddAssign<&Figures> for Sum {
    fn add_assign(&mut self, more: &Figures) {
        self.seeds += 1;
        self.figures.jobs += more.jobs;
        self.figures.revisions += more.revisions;
        self.figures.writes += more.writes;
        self.figures.faults += more.faults;
        self.figures.time += more.time;
    }
}

#[test]
fn the_same_seed_shows_the_same() {
    let digest = |seed| play(seed, &Options::default()).unwrap().digest;
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn seeds() {
    let first = number("SEED").unwrap_or(FIRST);
    let count = number("SEEDS").unwrap_or(SEEDS);
    play_all(first..first + count);
}
