//! The API `visibility.sluice.dev`: who waits in which queue, in order, for people and dashboards to read. The API server
//! passes requests on that it has authenticated and authorized.
//!
//! ```text
//! API server ──TLS──▶ serve ──▶ routes ──▶ Desk ──▶ views ── Asked ──▶ the controller, between two cycles
//!                       └─ forward ──▶ the leader, where this replica does not lead
//! ```
//!
//! Nothing here decides anything, and nobody waits for it. It costs nothing while nobody reads.
//!
//! Must not know the controller: it is asked over a channel. Uses `process`.

mod discovery;
mod forward;
mod front_proxy;
mod page;
mod problem;
mod question;
mod routes;
mod serve;
mod summary;
mod view;
mod views;
mod waiting;

pub use question::{ASKED_MAX, Asked, Place, Taken, WAITING_MAX};
pub use routes::router;
pub use serve::{Basis, Visibility};
pub use views::Desk;
pub use waiting::{Job, Waiting, Why};
