//! Rounds of faults: a real control plane, a real Sluice, a load drawn from a seed, and something that
//! goes wrong. Afterwards every revision of etcd is checked, and everything must have come to a good end.
//! `docs/faults.md` says how to run them and what they found.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a failed assumption is a failed test, and says where"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "a test binary offers nothing to anybody"
)]

mod bed;
mod client;
mod kills;
mod random;
mod round;
mod stored;
mod upgrade;

use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use sluice_faults::load::Load;
use tokio::sync::Semaphore;

use crate::bed::Bed;

/// Two at a time: each has a control plane to itself, waits for most of its time, and has Leases to renew in time.
static TURN: Semaphore = Semaphore::const_new(2);

/// The seed of the short round.
const SEED: u64 = 1;

/// A number from the environment, as `make faults` sets it.
fn number(name: &str) -> Result<Option<u64>> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty());
    let number = text.map(|text| text.parse().with_context(|| format!("{name}={text}")));
    number.transpose()
}

/// Where nothing goes wrong, nothing is wrong: without this no violation would mean anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_without_faults_breaks_nothing() -> Result<()> {
    let _turn = TURN.acquire().await?;
    let bed = Bed::start(1).await?;
    let draw = |namespace: &str| Load::draw(&mut Rng::with_seed(1), namespace, 24);
    let figures = round::play(&bed, draw, async || Ok(())).await?;
    figures.print("no faults");
    Ok(())
}

/// Without `make faults`, which says for how long and draws a seed, a short round, always with the same
/// faults.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_faults_break_nothing() -> Result<()> {
    let _turn = TURN.acquire().await?;
    let minutes = number("FAULTS_MINUTES")?;
    let drawn = || {
        if minutes.is_some() {
            fastrand::u64(1..1_000_000)
        } else {
            SEED
        }
    };
    let seed = number("FAULTS_SEED")?.unwrap_or_else(drawn);
    // Past the Lease, if there is time.
    let longest = if minutes.is_some() { 25 } else { 4 };
    let time = Duration::from_mins(minutes.unwrap_or(0));
    random::play(seed, time, Duration::from_secs(longest)).await
}

/// All points with `make faults`, some without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_a_write_it_goes_on_as_if_it_had_not_been() -> Result<()> {
    let _turn = TURN.acquire().await?;
    let is_long = number("FAULTS_MINUTES")?.is_some_and(|minutes| 30 <= minutes);
    kills::sweep(if is_long { 1 } else { 11 }).await
}

/// From the version that `make upgrade` names, and back; without it from this version to itself, which is to see
/// replicas replaced one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_and_downgraded_under_load_nothing_is_lost() -> Result<()> {
    let _turn = TURN.acquire().await?;
    upgrade::play().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgraded_crds_keep_every_field_of_stored_objects() -> Result<()> {
    let _turn = TURN.acquire().await?;
    stored::play().await
}
