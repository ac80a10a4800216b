//! How much memory a waiting workload takes: what a process has grown by, once it has told an engine
//! of them all. Each figure is measured in a process of its own, so that none reuses what another
//! one gave back.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::process::{Command, ExitCode};

#[allow(dead_code, reason = "it is made for the benches of time")]
#[path = "decide/world.rs"]
mod world;

use world::{FEW, Layout, MANY, Scale, World, as_is, plain};

/// A waiting workload may take this much.
const BYTES_MAX: u64 = 1024;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, pending, queues, shapes] = words.as_slice()
        && flag == "measure"
    {
        let [pending, queues, shapes] = [pending, queues, shapes].map(|word| word.parse().unwrap());
        println!("{}", measure(world::scale(pending, queues, shapes)));
        return ExitCode::SUCCESS;
    }
    let mut within = true;
    // Below ten thousand the allocator's own pages show.
    for scale in (FEW.into_iter().chain(MANY)).filter(|scale| scale.pending >= 10_000) {
        let bytes = in_its_own_process(scale);
        within &= bytes <= BYTES_MAX;
        println!("{scale}: {bytes} bytes for each that waits");
    }
    if within {
        return ExitCode::SUCCESS;
    }
    println!("more than {BYTES_MAX} bytes: too much");
    ExitCode::FAILURE
}

fn in_its_own_process(scale: Scale) -> u64 {
    let words = [scale.pending, scale.queues, scale.shapes].map(|n| n.to_string());
    let output = Command::new(std::env::current_exe().unwrap())
        .arg("measure")
        .args(words)
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn measure(scale: Scale) -> u64 {
    let mut world = World::full(scale, Layout::Own, plain(), as_is);
    let before = resident();
    let first = world.successor(0);
    for number in first..first + scale.pending {
        world.arrive(number, 0, 1);
    }
    world.engine.decide(sluice_engine::Time::default());
    resident().saturating_sub(before) / scale.pending
}

/// The bytes that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches("kB").trim();
    kib.parse::<u64>().unwrap() * 1024
}
