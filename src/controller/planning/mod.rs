//! The plans of jobs, groups and pods: what `crate::plan` is told of each, and that its write is sent. What should
//! be done lies in `crate::plan`, and nothing is taken in here. Called by `cycle.rs`.
//!
//! Must not know what fits where, nor clients.

mod jobs;
mod pods;
mod priorities;
