//! The engine in random histories, against the oracle, and against an engine that was told the
//! same state from scratch, in another order.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, RngSeed, TestRng, TestRunner};

use crate::histories::play::play;
use crate::histories::steps::{
    contended_histories, large_histories, rival_histories, tight_histories, wild_histories,
};
use crate::oracle::tally::Tally;

/// How many histories are played, if `HISTORIES` doesn't say. `make oracle` plays a
/// hundred thousand.
const HISTORIES: u32 = 500;

/// The same ones each time; or others, if `PROPTEST_RNG_SEED` is set. Some histories take longer than
/// others, so there are fewer of them: `share` of a thousand.
fn config(share: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let histories = std::env::var("HISTORIES").map(|text| text.parse().unwrap());
    let histories: u32 = histories.unwrap_or(HISTORIES);
    let is_seeded = std::env::var_os("PROPTEST_RNG_SEED").is_some();
    ProptestConfig {
        cases: histories.saturating_mul(share).div_ceil(1000),
        rng_seed: if is_seeded {
            config.rng_seed
        } else {
            RngSeed::Fixed(0)
        },
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config(550))]

    #[test]
    fn the_engine_decides_as_the_oracle_does_where_quota_is_scarce(
        history in tight_histories(),
        salt: u64,
    ) {
        play(history, salt, 4);
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn and_so_it_does_whatever_happens(history in wild_histories(), salt: u64) {
        play(history, salt, 4);
    }

    #[test]
    fn and_so_it_does_where_some_preempt_others(
        history in contended_histories(),
        salt: u64,
    ) {
        play(history, salt, 5);
    }

    #[test]
    fn and_so_it_does_among_rivals(history in rival_histories(), salt: u64) {
        play(history, salt, 7);
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn and_so_it_does_among_many(history in large_histories(), salt: u64) {
        play(history, salt, 4);
    }

    #[test]
    fn no_other_choice_of_targets_is_better(history in contended_histories(), salt: u64) {
        play(history, salt, 12);
    }
}

/// Histories of one kind in which each thing has to happen at least once. What is as rare as once in several
/// hundred is still there often enough in as many.
const NOTHING_RARER: u64 = 3000;

/// The histories are worth something only if everything happens in them.
#[test]
fn nothing_is_rare_in_random_histories() {
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), seed);
    let mut tally = Tally::default();
    for salt in 0..NOTHING_RARER {
        let history = contended_histories()
            .new_tree(&mut runner)
            .unwrap()
            .current();
        tally.add(&play(history, salt, 4));
        if tally.counts().iter().all(|(_, count)| *count > 0) {
            return;
        }
    }
    let counts = tally.counts().into_iter();
    let never: Vec<_> = counts.filter(|(_, count)| *count == 0).collect();
    panic!("{never:?} never happened: {tally:#?}");
}
