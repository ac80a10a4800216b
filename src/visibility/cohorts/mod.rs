//! A tree of cohorts as it stands: its nodes in order, with what each has, uses, borrows and lends. What is found comes from
//! the controller.
//!
//! Must not know how the controller is asked.

pub mod quota_tree;
pub mod taken;

#[cfg(test)]
mod tests;
