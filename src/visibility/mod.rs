//! The API `visibility.sluice.dev`: who waits in which queue, in order, and why, and how
//! trees of cohorts stand, for people and dashboards to read. The API
//! server passes requests on that it has authenticated and authorized.
//!
//! ```text
//! API server ──TLS──▶ port ──▶ routes ──▶ ViewCache, Explainer, Estimator ── Asked ──▶ the controller, between two cycles
//!                       └─ forward ──▶ the leader, where this replica does not lead
//! ```
//!
//! Nothing here decides anything, and nobody waits for it. It costs nothing while nobody reads.
//!
//! Must not know the controller: it is asked over a channel. Uses `process` and `plan`.

mod caller;
mod cohorts;
mod discovery;
mod estimated;
mod estimator;
mod explained;
mod explainer;
mod fair_semaphore;
mod openapi;
mod pending;
mod port;
mod problem;
mod question;
mod routes;
mod table;
mod views;

pub use cohorts::taken::TakenTree;
pub use estimated::taken::{JOBS_MAX, StandingWorkload, TakenJobs};
pub use estimator::Estimator;
pub use explained::findings::{Findings, Found, HOLDERS_MAX, State, Stated, WorkloadRef};
pub use explainer::Explainer;
pub use pending::queue_ref::{QueueRef, Taken, WAITING_MAX};
pub use pending::waiting::{JobRef, Waiting, Why};
pub use port::serve::{Basis, Visibility};
pub use question::{ASKED_MAX, Asked, Asker};
pub use routes::router;
pub use views::ViewCache;
