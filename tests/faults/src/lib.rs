//! How it stays so: what holds Sluice to its invariants while everything around it fails.
//!
//! * [`etcd`] reads every revision of every object out of etcd, [`audit`] says who wrote it; together
//!   they are a [`history`].
//! * [`check`] holds the invariants against a history: pure code.
//! * [`proxy`] stands between Sluice and the API server and makes faults happen.
//! * [`load`] and [`plan`] draw from a seed what is submitted in a round, and what goes wrong in it.
//!
//! The rounds themselves, with a real control plane and a real Sluice, are in `rounds/`: a test of the
//! root package. `docs/faults.md` tells the rest.

#![allow(
    clippy::indexing_slicing,
    reason = "only JSON is indexed, where what is not there is null"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what is made with json!() is given away where it is made"
)]

pub mod audit;
pub mod check;
pub mod etcd;
pub mod history;
pub mod load;
pub mod plan;
pub mod proxy;
