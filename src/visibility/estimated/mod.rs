//! When a workload will start. The jobs of its cohort tree come from the controller; they are played here, and what a reader
//! may see of that is worked out.
//!
//! Must not know how the controller is asked.

pub mod estimates;
pub mod start_estimate;
pub mod taken;

#[cfg(test)]
mod tests;
