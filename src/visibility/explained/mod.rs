//! How one workload stands, and why. What is found comes from the controller; what has to end for it, and what a reader
//! may see of that, is worked out here.
//!
//! Must not know how the controller is asked.

pub mod explanation;
pub mod findings;
pub mod quota_holders;

#[cfg(test)]
mod tests;
