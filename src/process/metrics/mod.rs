//! Metrics, as operators run queues by them, and how they are served.
//!
//! | file | what it holds |
//! |---|---|
//! | `definitions` | every metric by name, labels and meaning: the only place where one is named |
//! | `series`, `registrar` | the series of a metric, by the values of its labels; how they are registered |
//! | `workload_counters`, `gates`, `traffic`, `this_process` | what is counted where it happens |
//! | `gathered` | the levels of queues and cohorts, gathered once a second |
//! | `exposition` | the two formats |
//!
//! Must not know how queues are kept.

pub mod definitions;
mod exposition;
mod gates;
mod gathered;
mod registrar;
mod series;
#[cfg(test)]
mod tests;
mod this_process;
mod traffic;
mod workload_counters;

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use self::exposition::Exposition;
pub use self::gates::GateLevels;
use self::gates::GateSeries;
pub use self::gathered::Gathered;
use self::gathered::GatheredSeries;
use self::registrar::Registrar;
use self::series::Forget;
use self::this_process::ProcessSeries;
pub use self::this_process::count_dropped_lines;
use self::traffic::TrafficSeries;
pub use self::workload_counters::CountedIn;
use self::workload_counters::WorkloadSeries;
use crate::process::pulse::Pulse;
use crate::process::watch_freshness::Freshness;

/// All metrics of the process.
pub struct Metrics {
    registry: Registry,
    /// All series that queues and gates have.
    forgettable: Vec<Box<dyn Forget>>,
    /// What becomes of workloads.
    pub workloads: WorkloadSeries,
    /// The levels of queues and cohorts.
    pub gathered: GatheredSeries,
    /// What gates hold.
    pub gates: GateSeries,
    /// What goes over the network.
    pub traffic: TrafficSeries,
    /// The process.
    pub process: ProcessSeries,
    freshness: Arc<Freshness>,
    pulse: Arc<Pulse>,
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        Self::with(&mut Registrar::new())
    }

    fn with(registrar: &mut Registrar) -> Self {
        let dropped = &definitions::SERIES_DROPPED;
        let counter = registrar.dropped.clone();
        registrar
            .registry
            .register(dropped.family(), dropped.help, counter);
        registrar.registered.push(dropped.name);
        let (workloads, gathered, gates, traffic, process) = (
            WorkloadSeries::new(registrar),
            GatheredSeries::new(registrar),
            GateSeries::new(registrar),
            TrafficSeries::new(registrar),
            ProcessSeries::new(registrar),
        );
        Self {
            registry: std::mem::take(&mut registrar.registry),
            forgettable: std::mem::take(&mut registrar.forgettable),
            workloads,
            gathered,
            gates,
            traffic,
            process,
            freshness: Arc::default(),
            pulse: Arc::default(),
        }
    }

    /// Which watches are heard.
    pub fn freshness(&self) -> &Arc<Freshness> {
        &self.freshness
    }

    /// Whether the loop of the controller goes on.
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// A ClusterQueue is gone.
    pub fn forget_queue(&self, queue: &str) {
        self.forget(&[("cluster_queue", queue)]);
    }

    /// A LocalQueue is gone.
    pub fn forget_local_queue(&self, namespace: &str, name: &str) {
        self.forget(&[("namespace", namespace), ("name", name)]);
    }

    /// A Gate is gone.
    pub fn forget_gate(&self, gate: &str) {
        self.forget(&[("gate", gate)]);
    }

    fn forget(&self, labels: &[(&str, &str)]) {
        for series in &self.forgettable {
            series.forget(labels);
        }
    }

    /// All metrics, in this format.
    pub fn text(&self, exposition: Exposition) -> String {
        self.traffic.read_silences(&self.freshness);
        self.process.read(&self.pulse);
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        exposition.of(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
