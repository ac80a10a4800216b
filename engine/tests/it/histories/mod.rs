//! Random histories, played by the engine and by the oracle side by side. How the oracle decides is in `oracle`.

mod combinations;
mod explained;
mod play;
mod properties;
mod random;
mod steps;
mod worlds;

use proptest::test_runner::{Config, RngSeed};

/// As many cases as HISTORIES says, and always the same.
fn properties_config() -> Config {
    Config {
        cases: std::env::var("HISTORIES").map_or(300, |n| n.parse().unwrap()),
        rng_seed: RngSeed::Fixed(0),
        failure_persistence: None,
        ..Config::default()
    }
}
