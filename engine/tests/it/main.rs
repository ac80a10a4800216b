//! The engine from outside: rules as small scripts, and random histories against an oracle.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod account;
mod histories;
mod oracle;
mod random;
mod recount;
mod rules;
mod script;
