//! Runs the plugin as a user does, on the shipped JobKinds and on files of its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod audit;
mod completion;
mod gates;
mod gates_cluster;
mod jobkind;
mod live_cluster;
mod live_forms;
mod live_refused;
mod proxies;
mod public_traces;
mod simulate;
mod web;
