//! A violated invariant ends the leader's term. It is counted for the whole process, so no other simulation runs in this
//! one.
#![allow(missing_docs, reason = "a test binary offers nothing to anybody")]
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test")]

use sluice_simulation::play::{Options, play};

#[test]
fn a_violated_invariant_ends_the_term_and_jobs_go_on() {
    let options = Options {
        jobs: 5,
        violates: true,
        ..Options::default()
    };
    // Of one replica, and of two.
    for seed in [1, 2, 3, 4] {
        play(seed, &options).unwrap();
    }
}
