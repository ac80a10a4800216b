//! Whole replicas of Sluice in virtual time. From a seed everything follows: what users do, what the network and
//! the API server do to each request, when a replica is killed. A day passes in seconds, and the same seed shows
//! the same again.
//!
//! * [`api`] is a model of the API server; `tests/conformance.rs` compares it with a real one.
//! * [`cluster`] is the Job controller, the scheduler, the kubelets and the garbage collector.
//! * [`network`] is what requests of a replica pass, and what goes wrong there.
//! * [`replica`] runs replicas, one life after the other: the library that the executable is made of.
//! * [`users`] draws what users do, [`hasty`] those who change a job between its admission and its release.
//! * [`play`] plays a seed and checks what came of it.
//!
//! The invariants are those of the rounds against a real control plane: `sluice_faults::check`.
#![allow(
    clippy::indexing_slicing,
    reason = "only JSON is indexed, where what is not there is null"
)]

pub mod api;
pub mod cluster;
pub mod exam;
pub mod hasty;
pub mod network;
pub mod play;
pub mod replica;
mod trace;
pub mod users;
