//! The engine from outside: rules as small scripts, and random histories against an oracle.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod choice;
mod choice_of_flavor;
mod cohort_trees;
mod deleted_queues;
mod events;
mod explained;
mod histories;
mod never_fits;
mod nominated;
mod oracle;
mod outlook;
mod play;
mod preemption;
mod preemption_rounds;
mod properties;
mod questions;
mod quota;
mod random;
mod reasons;
mod reclaim;
mod recount;
mod rules;
mod script;
mod sharing;
mod tally;
mod targets;
mod time;
mod undeclared;
mod usage;
mod within_nominal;
mod worlds;
