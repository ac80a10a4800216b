//! The engine in random histories, against the oracle, and against an engine that was told the
//! same state from scratch, in another order.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, RngSeed, TestRng, TestRunner};

use crate::histories::{contended_histories, large_histories, tight_histories, wild_histories};
use crate::play::play;
use crate::tally::Tally;

/// As many as take ten seconds in a debug build and on two cores, always the same ones; or, to look
/// further, `PROPTEST_CASES` new ones. Some histories take `times` as long as others, and so there are
/// fewer of them.
fn config(times: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let (cases, rng_seed) = if std::env::var_os("PROPTEST_CASES").is_some() {
        (config.cases, config.rng_seed)
    } else {
        (30, RngSeed::Fixed(0))
    };
    ProptestConfig {
        cases: (cases / times).max(1),
        rng_seed,
        failure_persistence: None,
        ..config
    }
}

proptest! {
    #![proptest_config(config(1))]

    #[test]
    fn the_engine_decides_as_the_oracle_does(history in wild_histories(), salt: u64) {
        play(history, salt, 4);
    }

    #[test]
    fn and_so_it_does_where_room_is_scarce(history in tight_histories(), salt: u64) {
        play(history, salt, 4);
    }

    #[test]
    fn and_so_it_does_where_some_make_room_for_others(
        history in contended_histories(),
        salt: u64,
    ) {
        play(history, salt, 5);
    }
}

proptest! {
    #![proptest_config(config(50))]

    #[test]
    fn and_so_it_does_among_many(history in large_histories(), salt: u64) {
        play(history, salt, 4);
    }

    #[test]
    fn no_other_choice_of_victims_is_better(history in contended_histories(), salt: u64) {
        play(history, salt, 12);
    }
}

/// The histories are worth something only if everything happens in them.
#[test]
fn nothing_is_rare_in_random_histories() {
    let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), seed);
    let mut tally = Tally::default();
    for salt in 0..200 {
        let history = contended_histories()
            .new_tree(&mut runner)
            .unwrap()
            .current();
        tally.add(&play(history, salt, 4));
    }
    for (kind, count) in tally.counts() {
        assert!(count > 0, "{kind} never happened: {tally:#?}");
    }
}
