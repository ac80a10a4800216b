//! The controller of Sluice as a library of its executable, and of the simulation that runs whole replicas of
//! it in virtual time (`tests/simulation`). It offers nothing to others.
//!
//! Folders, from the bottom up; each knows only the folders before it:
//!
//! | folder | what lives there |
//! |---|---|
//! | `process` | arguments, configuration, clock, Lease and term, certificate, metrics, health |
//! | `cache` | what is known of the cluster |
//! | `plan` | what to write for one job, group or pod: pure |
//! | `api` | the way to the API server: clients, watches, writes, events |
//! | `jobkinds` | JobKinds outside of the controller: the policy of the webhooks, and their rules |
//! | `visibility` | the API for readers: who waits in which queue |
//! | `controller` | watches in, the engine in the middle, writes out |
//! | `pods_without_managed_label` | pods that run with a queue label and without the label `sluice.dev/managed` |
//! | `run` | wires the folders together |
#![forbid(unsafe_code)]
#![allow(
    unreachable_pub,
    reason = "`pub` says what a folder offers to the others"
)]

mod api;
mod cache;
mod controller;
mod jobkinds;
mod plan;
mod pods_without_managed_label;
mod process;
mod run;
mod visibility;

pub use api::client::Clients;
pub use process::args::{Args, Command, CommandLine, ConfigCommand, log};
pub use process::clock;
pub use process::invariants::violated;
pub use process::metrics::definitions as metrics;
pub use run::{Identity, Replica, run};
pub use sluice_configuration::Configuration;
