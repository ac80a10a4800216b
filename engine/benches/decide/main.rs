//! How long the engine takes for one event, and for a cold start. How to run these and what they
//! showed is in `../README.md`.
#![allow(missing_docs, clippy::unwrap_used)]

mod configuration;
mod preemption;
mod sharing;
mod steady;
mod world;

fn main() {
    divan::main();
}
