//! A throwaway Kubernetes control plane on this machine, for black-box tests, the demo and the
//! benches: real etcd, API server, controller manager and scheduler; KWOK plays the nodes.
//! Everything listens on loopback only and ends with the process that started it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use sluice_testbed::{ControlPlane, Options};
//!
//! let cp = ControlPlane::start(Options::default()).await?;
//! let nodes = cp.kubectl(["get", "nodes"], None).await?.ok()?;
//! # Ok(())
//! # }
//! ```
//!
//! Pods on the played nodes go Running at once. A pod of a Job then succeeds at once; two
//! annotations on the pod change that: [`RUN_SECONDS`] and [`EXIT`].
//!
//! [`Sluice`] installs Sluice on it and runs it as a process of this machine. Tests that can share
//! one do:
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let shared = sluice_testbed::Sluice::shared("target/debug/sluice");
//! let namespace = shared.control_plane.create_namespace("mine").await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Karpenter`] runs the real Karpenter, with nodes that are played like the others.
//!
//! [`Crds`] are those of other projects, as they publish them, and [`Operators`] runs the real
//! controllers of some.
//!
//! Logs, keys and the audit log lie in a folder that goes with the run; with `TESTBED_KEEP=1` it
//! stays, and its path is printed.

mod controlplane;
mod operators;
mod processes;
mod programs;
mod prometheus;
mod sluice;
mod wait;

pub use controlplane::ControlPlane;
pub use controlplane::certificates::Issued;
pub use controlplane::components::Component;
pub use controlplane::kubectl::KubectlOutput;
pub use controlplane::nodes::NodeSpec;
pub use controlplane::options::Options;
pub use operators::cert_manager::CertManager;
pub use operators::crds::Crds;
pub use operators::karpenter::Karpenter;
pub use operators::{Operator, Operators};
pub use processes::http::{get as http_get, sum_of_series};
pub use processes::ports::free as free_port;
pub use processes::proxy::Proxy;
pub use processes::{Launch, Process, send_signal};
pub use programs::assets::{Assets, repository};
pub use prometheus::Prometheus;
pub use sluice::{NAMESPACE, Shared, Sluice, SluiceOptions, apply_crds, register_visibility};
pub use wait::{eventually, wait_for};

/// Pod annotation: how long the pod runs, in seconds (`"2"`, `"0.5"`) or `"forever"`. Without it
/// a pod of a Job runs for no time at all and any other pod forever.
pub const RUN_SECONDS: &str = "testbed.sluice.dev/run-seconds";

/// Pod annotation: with the value `fail` the pod ends as Failed instead of Succeeded.
pub const EXIT: &str = "testbed.sluice.dev/exit";
