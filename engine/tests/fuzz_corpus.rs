//! What the fuzzer has found worth keeping (`engine/fuzz/corpus/events`), and a short run over
//! pseudo-random bytes. `make fuzz` looks further.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used
)]

use std::path::Path;

#[path = "../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../fuzz/src/events.rs"]
mod events;
#[path = "../fuzz/src/history.rs"]
mod history;
#[path = "../fuzz/src/quota.rs"]
mod quota;

#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/events");
    let mut played = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        // Shown only if it fails.
        eprintln!("{}", path.display());
        history::check(&std::fs::read(path).unwrap());
        played += 1;
    }
    assert!(played > 0, "there is a corpus");
}

/// Some seconds in a debug build.
const RUNS: u64 = 100;

#[test]
fn pseudo_random_bytes_hold() {
    for run in 0..RUNS {
        let mut state = run;
        let bytes: Vec<u8> = (0..1_000).map(|_| pseudo_random(&mut state)).collect();
        // Shown only if it fails.
        eprintln!("run {run}");
        history::check(&bytes);
    }
}

/// SplitMix64.
fn pseudo_random(state: &mut u64) -> u8 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed.to_le_bytes()[7]
}
