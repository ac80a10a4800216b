//! The engine from outside: rules as small scripts, and random histories against an oracle.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod account;
mod choice;
mod choice_of_flavor;
mod forest;
mod histories;
mod kept;
mod oracle;
mod play;
mod preemption;
mod questions;
mod quota;
mod random;
mod reasons;
mod recount;
mod rules;
mod script;
mod sharing;
mod tally;
mod time;
mod told;
mod victims;
mod worlds;
