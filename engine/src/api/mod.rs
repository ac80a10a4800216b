//! What goes into the engine and what comes out of it, as plain data: configuration, workloads, events,
//! decisions, and the answers to questions.
//!
//! Must not know how anything is decided, nor the engine's state. Uses no other folder; every other
//! folder may use it.

pub(crate) mod amount;
pub(crate) mod event;
pub(crate) mod explanation;
pub(crate) mod flavor;
pub mod limits;
pub(crate) mod names;
pub(crate) mod node_selection;
pub(crate) mod outlook;
pub(crate) mod preemption;
pub(crate) mod queues;
pub(crate) mod quota;
pub(crate) mod settings;
pub(crate) mod share;
pub(crate) mod status;
pub(crate) mod time;
pub(crate) mod workload;
