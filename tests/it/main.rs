//! Black-box tests: they apply YAML to a real API server and look at objects, and know nothing of
//! the code. Most share one control plane with one Sluice, each in a namespace of its own; those that
//! kill something have a control plane to themselves. They mostly wait: `RUST_TEST_THREADS=8` makes
//! the suite several times faster than one thread for each core.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a failed assumption is a failed test, and says where"
)]
#![allow(
    clippy::needless_pass_by_value,
    reason = "what is made with json!() is given away where it is made"
)]
#![allow(
    missing_docs,
    unreachable_pub,
    reason = "a test binary offers nothing to anybody"
)]

mod enforcement;
mod gate_objects;
mod gates;
mod installation;
mod jobs;
mod kinds;
mod leaders;
mod observability;
mod pods;
mod protection;
mod queues;
mod release;
mod support;
