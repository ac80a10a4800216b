//! In-flight writes, at most one for each job or pod, and what follows from how they end. What is written is
//! planned elsewhere (`crate::plan`) and sent by `crate::api::write`. A reply goes the way of an observation: it calls
//! `observe.rs`, `intake` and `account.rs`.

pub(super) mod flights;
pub(super) mod reply;
pub(super) mod send;
