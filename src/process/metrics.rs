//! Metrics, named after Prometheus' conventions. Labels come from closed sets and from queues, which
//! administrators make; never from jobs or error texts.

use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use sluice_crds::GateStatus;
use sluice_gates::Enforced;
use sluice_webhooks::Observer;

use crate::process::freshness::Freshness;

/// A label for the ClusterQueue.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Queue {
    cluster_queue: String,
}

/// Labels of an eviction.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Eviction {
    cluster_queue: String,
    reason: String,
}

/// A label for the Gate.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GateLabel {
    gate: String,
}

/// Labels of an object without a queue.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UnlabelledLabels {
    action: &'static str,
    mode: &'static str,
}

/// Labels of a write.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteLabels {
    operation: &'static str,
    outcome: &'static str,
}

/// A label for the watched resource.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Resource {
    resource: String,
}

/// From seconds to weeks.
fn gate_wait() -> Histogram {
    Histogram::new([1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0, 604_800.0])
}

fn gate_label(gate: &str) -> GateLabel {
    GateLabel {
        gate: gate.to_owned(),
    }
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    admitted: Family<Queue, Counter>,
    evicted: Family<Eviction, Counter>,
    preempted: Family<Eviction, Counter>,
    pending: Family<Queue, Gauge>,
    reserving: Family<Queue, Gauge>,
    stalled: Family<Queue, Gauge>,
    gated: Gauge,
    held: Family<GateLabel, Gauge>,
    held_since: Family<GateLabel, Gauge>,
    lifted: Family<GateLabel, Counter>,
    expired: Family<GateLabel, Counter>,
    held_seconds: Family<GateLabel, Histogram>,
    unlabelled: Family<UnlabelledLabels, Counter>,
    writes: Family<WriteLabels, Counter>,
    watch_errors: Family<Resource, Counter>,
    events_dropped: Counter,
    invariant_violations: Counter,
    decision_seconds: Histogram,
    admission_wait_seconds: Histogram,
    leader: Gauge,
    freshness: Arc<Freshness>,
}

impl Metrics {
    /// All metrics at zero.
    pub fn new() -> Self {
        // A decision takes microseconds when little has changed and milliseconds at a cold start.
        let decision = Histogram::new([1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]);
        // From at once to days.
        let wait = Histogram::new([0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0]);
        let mut metrics = Self {
            registry: Registry::with_prefix("sluice"),
            admitted: Family::default(),
            evicted: Family::default(),
            preempted: Family::default(),
            pending: Family::default(),
            reserving: Family::default(),
            stalled: Family::default(),
            gated: Gauge::default(),
            held: Family::default(),
            held_since: Family::default(),
            lifted: Family::default(),
            expired: Family::default(),
            held_seconds: Family::new_with_constructor(gate_wait),
            unlabelled: Family::default(),
            writes: Family::default(),
            watch_errors: Family::default(),
            events_dropped: Counter::default(),
            invariant_violations: Counter::default(),
            decision_seconds: decision,
            admission_wait_seconds: wait,
            leader: Gauge::default(),
            freshness: Arc::default(),
        };
        metrics.register();
        metrics
    }

    fn register_of_webhooks(&mut self) {
        self.registry.register(
            "unlabelled_objects",
            "The number of objects that were created without a queue where one is required, by what became of them (action) and whether that was enforced or only reported (mode)",
            self.unlabelled.clone(),
        );
    }

    fn register(&mut self) {
        self.register_of_webhooks();
        let Self { registry, .. } = self;
        registry.register(
            "admitted_workloads",
            "The number of admitted workloads",
            self.admitted.clone(),
        );
        registry.register(
            "evicted_workloads",
            "The number of evicted workloads",
            self.evicted.clone(),
        );
        registry.register(
            "preempted_workloads",
            "The number of preempted workloads, by the reason of the preemption",
            self.preempted.clone(),
        );
        registry.register(
            "pending_workloads",
            "The number of pending workloads",
            self.pending.clone(),
        );
        registry.register(
            "reserving_workloads",
            "The number of workloads with reserved quota",
            self.reserving.clone(),
        );
        registry.register(
            "stalled_workloads",
            "The number of evicted workloads whose pods have not stopped in time",
            self.stalled.clone(),
        );
        registry.register(
            "gated_jobs",
            "The number of jobs that a gate holds before the queue",
            self.gated.clone(),
        );
        registry.register(
            "gate_held_objects",
            "The number of objects that a gate holds, by its Gate",
            self.held.clone(),
        );
        registry.register(
            "gate_oldest_held_timestamp_seconds",
            "When the oldest object was created that a gate holds, by its Gate; 0 if it holds none",
            self.held_since.clone(),
        );
        registry.register(
            "gate_lifted",
            "The number of objects that a gate was lifted from, by its Gate",
            self.lifted.clone(),
        );
        registry.register(
            "gate_expired",
            "The number of objects for which the deadline of a gate has passed, by its Gate",
            self.expired.clone(),
        );
        registry.register_with_unit(
            "gate_wait",
            "The time from the creation of an object until a gate is lifted from it, by its Gate",
            Unit::Seconds,
            self.held_seconds.clone(),
        );
        registry.register(
            "api_writes",
            "The number of writes to the API server",
            self.writes.clone(),
        );
        registry.register(
            "watch_errors",
            "The number of watches that failed and were restarted",
            self.watch_errors.clone(),
        );
        registry.register(
            "events_dropped",
            "The number of events that were dropped because too many waited",
            self.events_dropped.clone(),
        );
        registry.register(
            "invariant_violations",
            "The number of states of usage that must not occur; each is a bug",
            self.invariant_violations.clone(),
        );
        registry.register_with_unit(
            "decision",
            "The time of one decision: all cycles after a change",
            Unit::Seconds,
            self.decision_seconds.clone(),
        );
        registry.register_with_unit(
            "admission_wait",
            "The time from the creation of a Workload to its admission",
            Unit::Seconds,
            self.admission_wait_seconds.clone(),
        );
        registry.register(
            "leader",
            "1 while this process holds the Lease",
            self.leader.clone(),
        );
    }

    /// A Workload was admitted after waiting this long.
    pub fn admitted(&self, queue: &str, waited_seconds: f64) {
        self.admitted
            .get_or_create(&Queue {
                cluster_queue: queue.to_owned(),
            })
            .inc();
        self.admission_wait_seconds.observe(waited_seconds);
    }

    /// A Workload was evicted.
    pub fn evicted(&self, queue: &str, reason: &str) {
        self.evicted
            .get_or_create(&Eviction {
                cluster_queue: queue.to_owned(),
                reason: reason.to_owned(),
            })
            .inc();
    }

    /// A Workload was preempted.
    pub fn preempted(&self, queue: &str, right: &str) {
        self.preempted
            .get_or_create(&Eviction {
                cluster_queue: queue.to_owned(),
                reason: right.to_owned(),
            })
            .inc();
    }

    /// How a ClusterQueue stands.
    pub fn queue(&self, queue: &str, pending: usize, reserving: usize) {
        let label = Queue {
            cluster_queue: queue.to_owned(),
        };
        self.pending
            .get_or_create(&label)
            .set(i64::try_from(pending).unwrap_or(i64::MAX));
        self.reserving
            .get_or_create(&label)
            .set(i64::try_from(reserving).unwrap_or(i64::MAX));
    }

    /// A ClusterQueue is gone.
    pub fn forget_queue(&self, queue: &str) {
        let label = Queue {
            cluster_queue: queue.to_owned(),
        };
        self.pending.remove(&label);
        self.reserving.remove(&label);
    }

    /// The ClusterQueues that evicted Workloads hold quota of beyond their time, one for each.
    pub fn stalled<'a>(&self, queues: impl Iterator<Item = &'a str>) {
        self.stalled.clear();
        for queue in queues {
            let label = Queue {
                cluster_queue: queue.to_owned(),
            };
            self.stalled.get_or_create(&label).inc();
        }
    }

    /// How many jobs are held by gates.
    pub fn gated(&self, count: i64) {
        self.gated.set(count);
    }

    /// What a Gate holds.
    pub fn gate(&self, gate: &str, status: &GateStatus) {
        let since = status.oldest_since.as_ref();
        self.held
            .get_or_create(&gate_label(gate))
            .set(i64::from(status.held));
        self.held_since
            .get_or_create(&gate_label(gate))
            .set(since.map_or(0, |since| since.0.as_second()));
    }

    /// A gate that has a Gate was lifted from an object that was created so long ago.
    pub fn gate_lifted(&self, gate: &str, held_seconds: f64) {
        self.lifted.get_or_create(&gate_label(gate)).inc();
        self.held_seconds
            .get_or_create(&gate_label(gate))
            .observe(held_seconds);
    }

    /// The deadline of a Gate has passed for an object.
    pub fn gate_expired(&self, gate: &str) {
        self.expired.get_or_create(&gate_label(gate)).inc();
    }

    /// A Gate is gone.
    pub fn forget_gate(&self, gate: &str) {
        let label = gate_label(gate);
        self.held.remove(&label);
        self.held_since.remove(&label);
        self.lifted.remove(&label);
        self.expired.remove(&label);
        self.held_seconds.remove(&label);
    }

    /// A write has ended.
    pub fn write(&self, operation: &'static str, outcome: &'static str) {
        self.writes
            .get_or_create(&WriteLabels { operation, outcome })
            .inc();
    }

    /// Which watches are heard.
    pub fn freshness(&self) -> &Arc<Freshness> {
        &self.freshness
    }

    /// A watch has failed.
    pub fn watch_error(&self, resource: &str) {
        self.watch_errors
            .get_or_create(&Resource {
                resource: resource.to_owned(),
            })
            .inc();
    }

    /// A resource is not watched any more.
    pub fn forget_watch(&self, resource: &str) {
        self.watch_errors.remove(&Resource {
            resource: resource.to_owned(),
        });
    }

    /// An event was dropped.
    pub fn event_dropped(&self) {
        self.events_dropped.inc();
    }

    /// Decides, and measures how long that takes on this machine.
    pub fn time_decision<T>(&self, decide: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let decided = decide();
        self.decision_seconds.observe(begun.elapsed().as_secs_f64());
        decided
    }

    /// So many states that must not occur have been found since this process leads. Returns whether there are
    /// new ones.
    pub fn violations(&self, found: u64) -> bool {
        let new = found.saturating_sub(self.invariant_violations.get());
        self.invariant_violations.inc_by(new);
        0 < new
    }

    /// Whether this process holds the Lease.
    pub fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// All metrics in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
impl Observer for Metrics {
    fn enforced(&self, enforced: Enforced) {
        let labels = UnlabelledLabels {
            action: enforced.unlabelled.name(),
            mode: if enforced.is_dry_run {
                "DryRun"
            } else {
                "Enforced"
            },
        };
        self.unlabelled.get_or_create(&labels).inc();
    }
}
