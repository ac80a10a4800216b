//! The engine from outside: rules as small scripts, and random histories against an oracle.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod histories;
mod oracle;
mod preemption;
mod reasons;
mod rules;
mod script;
