//! The one table of metrics: each name, its labels, and what it means. What is registered, the page docs/metrics.md,
//! and what boards and alerts may use follow from it.
//!
//! Names are Kueue's behind `sluice_` where the meaning is the same. Labels come from closed sets and from what
//! administrators make: never from jobs or error texts.
#![allow(missing_docs, reason = "each metric says what it means in its `help`")]

/// How a metric is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// It only goes up.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution, with these upper bounds.
    Histogram(&'static [f64]),
}

/// Who serves a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Every replica.
    Replica,
    /// The replica that leads; of the others there are no series, or zeros.
    Leader,
}

/// A metric.
#[derive(Debug)]
pub struct Definition {
    /// The name, as a query has it.
    pub name: &'static str,
    /// How it is counted.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, without a full stop.
    pub help: &'static str,
    /// Kueue's name, if Kueue has a metric of the same meaning.
    pub kueue: Option<&'static str>,
    /// Who serves it.
    pub server: Server,
    /// Whether what it tells of is a defect that somebody has to mend. Such a metric has an alert.
    pub is_defect: bool,
}

impl Definition {
    const fn new(
        kind: Kind,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            labels,
            help,
            kueue: None,
            server: Server::Leader,
            is_defect: false,
        }
    }

    const fn like(self, kueue: &'static str) -> Self {
        Self {
            kueue: Some(kueue),
            ..self
        }
    }

    const fn of_every_replica(self) -> Self {
        Self {
            server: Server::Replica,
            ..self
        }
    }

    const fn of_a_defect(self) -> Self {
        Self {
            is_defect: true,
            ..self
        }
    }

    /// The name without what the encoder adds.
    pub(super) fn family(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition::new(Kind::Counter, name, labels, help)
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition::new(Kind::Gauge, name, labels, help)
}

const fn histogram(
    name: &'static str,
    buckets: &'static [f64],
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition::new(Kind::Histogram(buckets), name, labels, help)
}

/// From a second to a week.
const WAITS: &[f64] = &[
    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 2560.0, 5120.0, 10_240.0,
    20_480.0, 40_960.0, 86_400.0, 604_800.0,
];
/// From a second to weeks: what people decide.
const DAYS: &[f64] = &[
    1.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    86_400.0,
    604_800.0,
    2_419_200.0,
];
/// A decision takes microseconds when little has changed and milliseconds at a cold start.
const DECISIONS: &[f64] = &[1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];
/// Answers over a network.
const ANSWERS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// Answers over a network for one of many who are served in turn: a wave of jobs takes minutes.
const TURNS: &[f64] = &[
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0,
];

const QUEUE: &[&str] = &["cluster_queue"];
const QUEUE_CLASS: &[&str] = &["cluster_queue", "priority_class"];
const QUEUE_REASON: &[&str] = &["cluster_queue", "reason"];
const QUEUE_CELL: &[&str] = &["cohort", "cluster_queue", "flavor", "resource"];
const COHORT: &[&str] = &["cohort"];
const COHORT_CELL: &[&str] = &["cohort", "flavor", "resource"];
const LOCAL: &[&str] = &["namespace", "name"];
const LOCAL_CLASS: &[&str] = &["namespace", "name", "priority_class"];
const LOCAL_REASON: &[&str] = &["namespace", "name", "reason"];
const LOCAL_CELL: &[&str] = &["namespace", "name", "flavor", "resource"];
const GATE: &[&str] = &["gate"];
const QUEUE_GATE: &[&str] = &["cluster_queue", "gate"];
const LOCAL_GATE: &[&str] = &["namespace", "name", "gate"];

macro_rules! table {
    ($($(#[$doc:meta])* $name:ident = $definition:expr;)*) => {
        $(pub static $name: Definition = $definition;)*
        /// All metrics, in the order of the reference page.
        pub static TABLE: &[&Definition] = &[$(&$name),*];
    };
}

table! {
    // What becomes of workloads.
    ADMITTED_WORKLOADS = counter("sluice_admitted_workloads_total", QUEUE_CLASS, "The number of admissions of workloads, pods that are admitted by themselves included").like("kueue_admitted_workloads_total");
    ADMISSION_WAIT = histogram("sluice_admission_wait_time_seconds", WAITS, QUEUE_CLASS, "The time from the creation of a workload, or from its last eviction, to its admission").like("kueue_admission_wait_time_seconds");
    READY_WAIT = histogram("sluice_ready_wait_time_seconds", WAITS, QUEUE_CLASS, "The time from the creation of a Workload, or from its last eviction, until all its pods are ready").like("kueue_ready_wait_time_seconds");
    ADMITTED_UNTIL_READY = histogram("sluice_admitted_until_ready_wait_time_seconds", WAITS, QUEUE_CLASS, "The time from the admission of a Workload until all its pods are ready").like("kueue_admitted_until_ready_wait_time_seconds");
    FINISHED_WORKLOADS = counter("sluice_finished_workloads_total", &["cluster_queue", "priority_class", "result"], "The number of admitted Workloads whose job has finished: Succeeded or Failed");
    FINISH_WAIT = histogram("sluice_finish_wait_time_seconds", WAITS, QUEUE_CLASS, "The time from the creation of a Workload until its job has finished");
    EVICTED_WORKLOADS = counter("sluice_evicted_workloads_total", QUEUE_REASON, "The number of evicted workloads").like("kueue_evicted_workloads_total");
    PREEMPTED_WORKLOADS = counter("sluice_preempted_workloads_total", QUEUE_REASON, "The number of preempted workloads, by the ClusterQueue that they were preempted in and the rule that allowed it");
    DEACTIVATED_WORKLOADS = counter("sluice_deactivated_workloads_total", QUEUE_REASON, "The number of Workloads whose spec.active was set to false: by Sluice after too many backoffs (RequeuingLimitExceeded), or by a user (User)");
    RELEASED_JOBS = counter("sluice_released_jobs_total", QUEUE, "The number of admitted jobs and pod groups that were released: unsuspended, or the first of their gated pods ungated");
    RELEASE_SECONDS = histogram("sluice_release_seconds", TURNS, QUEUE, "The time from the decision that admits a job or pod group, which follows at once when quota is freed, until it is seen released");
    STALLED_WORKLOADS = gauge("sluice_stalled_workloads", QUEUE, "The number of workloads that were evicted or deleted and have not stopped in time").of_a_defect();
    WITHOUT_PODS = gauge("sluice_workloads_without_pods", QUEUE, "The number of admitted workloads whose jobs should have pods and have had none for 5 minutes").of_a_defect();

    // ClusterQueues.
    PENDING_WORKLOADS = gauge("sluice_pending_workloads", &["cluster_queue", "status"], "The number of pending workloads: active ones may be admitted as soon as it is their turn, inadmissible ones only when something is freed or changed: also those of a LocalQueue or ClusterQueue that admits nothing, and those that back off. Told apart every 10 s").like("kueue_pending_workloads");
    PENDING_BY_REASON = gauge("sluice_pending_workloads_by_reason", QUEUE_REASON, "The number of pending jobs, pod groups and pods that are admitted by themselves, by why they wait: the reason in the condition QuotaReserved, for a pod as it was found last; empty until there is one. Those that their user holds, that gates hold, that are deactivated or that have no priority do not wait for quota, and are not in it. Counted every 10 s");
    PENDING_REQUESTS = gauge("sluice_cluster_queue_resource_pending", &["cluster_queue", "resource"], "What all pending workloads request together, of each resource that the queue has quota for, and of 32 others at most").like("kueue_cluster_queue_resource_pending");
    RESERVING_WORKLOADS = gauge("sluice_reserving_active_workloads", QUEUE, "The number of workloads that hold quota").like("kueue_reserving_active_workloads");
    ADMITTED_ACTIVE_WORKLOADS = gauge("sluice_admitted_active_workloads", QUEUE, "The number of workloads that hold quota by a stored admission and are not evicted").like("kueue_admitted_active_workloads");
    CLUSTER_QUEUE_STATUS = gauge("sluice_cluster_queue_status", &["cluster_queue", "status"], "1 for the status of the ClusterQueue, active or pending: a pending one admits nothing, and its condition Active says why").like("kueue_cluster_queue_status");
    CLUSTER_QUEUE_INFO = gauge("sluice_cluster_queue_info", &["cluster_queue", "parent_cohort", "root_cohort"], "1, with the cohort of the ClusterQueue and the root above that, to add up other metrics by: both empty without a cohort, the root also in a tree that is inactive").like("kueue_cluster_queue_info");
    NOMINAL_QUOTA = gauge("sluice_cluster_queue_nominal_quota", QUEUE_CELL, "The nominal quota, in units of the resource: cores, bytes, pieces").like("kueue_cluster_queue_nominal_quota");
    BORROWING_LIMIT = gauge("sluice_cluster_queue_borrowing_limit", QUEUE_CELL, "The borrowing limit. No series: no limit").like("kueue_cluster_queue_borrowing_limit");
    LENDING_LIMIT = gauge("sluice_cluster_queue_lending_limit", QUEUE_CELL, "The lending limit. No series: no limit").like("kueue_cluster_queue_lending_limit");
    QUEUE_USAGE = gauge("sluice_cluster_queue_resource_usage", QUEUE_CELL, "The quota that workloads of the ClusterQueue hold").like("kueue_cluster_queue_resource_usage");
    QUEUE_RESERVED = gauge("sluice_cluster_queue_resource_reserved", QUEUE_CELL, "The part of it that is held for pods that are not bound to a node yet");
    QUEUE_BORROWED = gauge("sluice_cluster_queue_resource_borrowed", QUEUE_CELL, "The part of the held quota that is above the nominal quota");
    QUEUE_SHARE = gauge("sluice_cluster_queue_weighted_share", &["cohort", "cluster_queue"], "With fair sharing: the dominant share of what the cohort lends, divided by the weight; 1 is everything, +Inf is above all others");

    // Cohorts.
    COHORT_INFO = gauge("sluice_cohort_info", &["cohort", "parent_cohort", "root_cohort"], "1, with the cohort above this one and the root, which may be the cohort itself; empty if there is none, the root also in a tree that is inactive").like("kueue_cohort_info");
    COHORT_NOMINAL = gauge("sluice_cohort_nominal_quota", COHORT_CELL, "The nominal quota of the cohort itself");
    COHORT_BORROWING_LIMIT = gauge("sluice_cohort_borrowing_limit", COHORT_CELL, "The borrowing limit. No series: no limit");
    COHORT_LENDING_LIMIT = gauge("sluice_cohort_lending_limit", COHORT_CELL, "The lending limit. No series: no limit");
    COHORT_QUOTA = gauge("sluice_cohort_subtree_quota", COHORT_CELL, "What the cohort and all below it may use without borrowing from its parent, as far as it is lent to the cohort").like("kueue_cohort_subtree_quota");
    COHORT_USAGE = gauge("sluice_cohort_resource_usage", COHORT_CELL, "The usage of that quota");
    COHORT_BORROWED = gauge("sluice_cohort_resource_borrowed", COHORT_CELL, "The part of the usage that is above that quota, so borrowed from its parent");
    COHORT_RESERVATIONS = gauge("sluice_cohort_subtree_resource_reservations", COHORT_CELL, "The quota that workloads of all ClusterQueues below it hold").like("kueue_cohort_subtree_resource_reservations");
    COHORT_RESERVED = gauge("sluice_cohort_subtree_resource_reserved", COHORT_CELL, "The part of it that is held for pods that are not bound to a node yet");
    COHORT_PENDING = gauge("sluice_cohort_subtree_resource_pending", &["cohort", "resource"], "What all pending workloads of ClusterQueues below it request together, of each resource that there is quota for");
    COHORT_ADMITTED = gauge("sluice_cohort_subtree_admitted_active_workloads", COHORT, "The number of workloads of ClusterQueues below it that hold quota by a stored admission and are not evicted").like("kueue_cohort_subtree_admitted_active_workloads");
    COHORT_SHARE = gauge("sluice_cohort_weighted_share", COHORT, "The same as for ClusterQueues, of what the parent lends");

    // LocalQueues.
    LOCAL_PENDING = gauge("sluice_local_queue_pending_workloads", LOCAL, "The number of pending workloads of the LocalQueue. Metrics of LocalQueues are served with --local-queue-metrics").like("kueue_local_queue_pending_workloads");
    LOCAL_PENDING_BY_REASON = gauge("sluice_local_queue_pending_workloads_by_reason", LOCAL_REASON, "The number of pending jobs, pod groups and pods of the LocalQueue, by why they wait, as for ClusterQueues");
    LOCAL_PENDING_REQUESTS = gauge("sluice_local_queue_resource_pending", &["namespace", "name", "resource"], "What all its pending workloads request together, of the same resources as for ClusterQueues");
    LOCAL_RESERVING = gauge("sluice_local_queue_reserving_active_workloads", LOCAL, "The number of its workloads that hold quota").like("kueue_local_queue_reserving_active_workloads");
    LOCAL_ADMITTED = gauge("sluice_local_queue_admitted_active_workloads", LOCAL, "The number of its workloads that hold quota by a stored admission and are not evicted").like("kueue_local_queue_admitted_active_workloads");
    LOCAL_STATUS = gauge("sluice_local_queue_status", &["namespace", "name", "active"], "1 for what its condition Active says: True or False").like("kueue_local_queue_status");
    LOCAL_USAGE = gauge("sluice_local_queue_resource_usage", LOCAL_CELL, "The quota that its workloads hold").like("kueue_local_queue_resource_usage");
    LOCAL_RESERVED = gauge("sluice_local_queue_resource_reserved", LOCAL_CELL, "The part of it that is held for pods that are not bound to a node yet");
    LOCAL_ADMITTED_WORKLOADS = counter("sluice_local_queue_admitted_workloads_total", LOCAL_CLASS, "The number of admissions of its workloads").like("kueue_local_queue_admitted_workloads_total");
    LOCAL_ADMISSION_WAIT = histogram("sluice_local_queue_admission_wait_time_seconds", WAITS, LOCAL_CLASS, "The time from the creation of a workload, or from its last eviction, to its admission").like("kueue_local_queue_admission_wait_time_seconds");
    LOCAL_READY_WAIT = histogram("sluice_local_queue_ready_wait_time_seconds", WAITS, LOCAL_CLASS, "The time from the creation of a Workload, or from its last eviction, until all its pods are ready").like("kueue_local_queue_ready_wait_time_seconds");
    LOCAL_ADMITTED_UNTIL_READY = histogram("sluice_local_queue_admitted_until_ready_wait_time_seconds", WAITS, LOCAL_CLASS, "The time from the admission of a Workload until all its pods are ready").like("kueue_local_queue_admitted_until_ready_wait_time_seconds");
    LOCAL_FINISHED_WORKLOADS = counter("sluice_local_queue_finished_workloads_total", &["namespace", "name", "priority_class", "result"], "The number of its admitted Workloads whose job has finished: Succeeded or Failed");
    LOCAL_FINISH_WAIT = histogram("sluice_local_queue_finish_wait_time_seconds", WAITS, LOCAL_CLASS, "The time from the creation of a Workload until its job has finished");
    LOCAL_EVICTED_WORKLOADS = counter("sluice_local_queue_evicted_workloads_total", LOCAL_REASON, "The number of its workloads that were evicted").like("kueue_local_queue_evicted_workloads_total");

    // Gates.
    GATED_JOBS = gauge("sluice_gated_jobs", &[], "The number of jobs and pods that a gate holds before the queue");
    GATE_HELD = gauge("sluice_gate_held_objects", GATE, "The number of objects that a gate holds, by its Gate");
    GATE_OLDEST = gauge("sluice_gate_oldest_held_timestamp_seconds", GATE, "When the oldest object was created that a gate holds, by its Gate; 0 if it holds none");
    QUEUE_GATE_HELD = gauge("sluice_cluster_queue_gate_held_objects", QUEUE_GATE, "The number of objects of a ClusterQueue that a gate holds, by its Gate. The gates without a Gate are one series with an empty gate, in which an object counts once for each of them. No series: none are held");
    QUEUE_GATE_OLDEST = gauge("sluice_cluster_queue_gate_oldest_held_timestamp_seconds", QUEUE_GATE, "When the oldest of these objects was created");
    LOCAL_GATE_HELD = gauge("sluice_local_queue_gate_held_objects", LOCAL_GATE, "The same as for ClusterQueues, of the objects of a LocalQueue. Served with --local-queue-metrics");
    LOCAL_GATE_OLDEST = gauge("sluice_local_queue_gate_oldest_held_timestamp_seconds", LOCAL_GATE, "When the oldest of these objects was created. Served with --local-queue-metrics");
    GATE_BACKLOGGED = gauge("sluice_gate_backlogged", GATE, "1 while a Gate holds more than it should, or for longer: its condition Backlogged").of_a_defect();
    GATE_LIFTED = counter("sluice_gate_lifted_total", GATE, "The number of objects that a gate was lifted from, by its Gate");
    GATE_EXPIRED = counter("sluice_gate_expired_total", GATE, "The number of objects for which the deadline of a gate has passed, by its Gate");
    GATE_WAIT = histogram("sluice_gate_wait_seconds", DAYS, GATE, "The time from the creation of an object until a gate is lifted from it, by its Gate");

    // The controller.
    LEADER = gauge("sluice_leader", &[], "1 while this process holds the Lease").of_every_replica();
    LOOP_SILENCE = gauge("sluice_loop_silence_seconds", &[], "The time since the loop of the controller last began a turn; it does so every second at least. 0 while this process does not lead").of_every_replica().of_a_defect();
    DECISION_SECONDS = histogram("sluice_decision_seconds", DECISIONS, &[], "The time of one decision: all cycles after a change");
    INVARIANT_VIOLATIONS = counter("sluice_invariant_violations_total", &[], "The number of states that must not occur, of usage and of all else; each is a bug").of_every_replica().of_a_defect();
    UNREADABLE_OBJECTS = gauge("sluice_unreadable_objects", &["kind"], "The number of objects that can't be read, by kind: what they said before stays in force, or what depends on them waits. An event of each says what is wrong").of_a_defect();
    JOB_KIND_READY = gauge("sluice_job_kind_ready", &["job_kind", "reason"], "1 while objects of the JobKind are managed, 0 while they are not, with the reason of its condition Ready: 0 with the reason Waiting says that the kind is not served, so there are no objects").of_a_defect();
    PODS_NOT_LABELLED = counter("sluice_pods_not_labelled_total", &[], "The number of times that a pod which runs with a queue label and without sluice.dev/managed could not be given that in three tries. Its usage does not count meanwhile; it is tried again after 30 s").of_a_defect();
    API_WRITES = counter("sluice_api_writes_total", &["operation", "outcome"], "The number of writes to the API server by how they ended: done, conflict, refused, throttled, unknown").of_every_replica();
    API_WRITE_SECONDS = histogram("sluice_api_write_seconds", ANSWERS, &["operation"], "The time of a write to the API server, with reading the object again after a conflict");
    WATCH_ERRORS = counter("sluice_watch_errors_total", &["resource"], "The number of watches that failed and were restarted").of_every_replica().of_a_defect();
    WATCH_SILENCE = gauge("sluice_watch_silence_seconds", &["resource"], "The time since a watch was last heard: of the longest silent one of the resource. Watches are renewed every 20 s; after 30 s the process is not ready").of_every_replica().of_a_defect();
    EVENTS_DROPPED = counter("sluice_events_dropped_total", &[], "The number of events that were dropped, because too many waited or the API server did not take them").of_every_replica().of_a_defect();

    // Webhooks.
    WEBHOOK_REQUESTS = counter("sluice_webhook_requests_total", &["webhook", "verdict"], "The number of admission requests by webhook (mutate, validate) and verdict: allowed, refused, retry (asked to come again), unreadable").of_every_replica();
    WEBHOOK_SECONDS = histogram("sluice_webhook_seconds", ANSWERS, &["webhook"], "The time from the headers of an admission request to its answer").of_every_replica();
    UNLABELLED_OBJECTS = counter("sluice_unlabelled_objects_total", &["action", "mode"], "The number of objects that were created without a queue where one is required, by what became of them (action: Default, Hold, Refuse) and whether that was enforced or only reported (mode: Enforced, DryRun)").of_every_replica();
    CERTIFICATE_EXPIRATION = gauge("sluice_webhook_certificate_expiration_timestamp_seconds", &[], "When the serving certificate of the webhooks ends; 0 before there is one").of_every_replica().of_a_defect();
    VISIBILITY_UNAVAILABLE = gauge("sluice_visibility_unavailable", &[], "1 while this process refuses connections for visibility.sluice.dev, which it is to serve: it knows no front proxy of the API server, or can't serve at all").of_every_replica().of_a_defect();

    // The process.
    BUILD_INFO = gauge("sluice_build_info", &["version"], "1, with the version of this process").like("kueue_build_info").of_every_replica();
    // Named as Prometheus and Alertmanager name theirs.
    CONFIG_VALID = gauge("sluice_config_last_reload_successful", &[], "Whether the configuration file, as it is now, could be used").of_every_replica().of_a_defect();
    CONFIG_RESTART = gauge("sluice_config_restart_required", &[], "1 if the configuration has changed in fields that are read at the start").of_every_replica().of_a_defect();
    LOG_LINES_DROPPED = counter("sluice_log_lines_dropped_total", &[], "The number of lines of the log that were dropped, because nobody read those before them").of_every_replica().of_a_defect();
    SERIES_DROPPED = counter("sluice_metric_series_dropped_total", &[], "The number of updates that were dropped because a metric has 20,000 series").of_every_replica().of_a_defect();
    PROCESS_CPU = counter("process_cpu_seconds_total", &[], "The CPU time of this process, in seconds").of_every_replica();
    PROCESS_RESIDENT = gauge("process_resident_memory_bytes", &[], "The resident memory of this process").of_every_replica();
    PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", &[], "The virtual memory of this process").of_every_replica();
    PROCESS_OPEN_FDS = gauge("process_open_fds", &[], "The number of open file descriptors").of_every_replica();
    PROCESS_MAX_FDS = gauge("process_max_fds", &[], "The most file descriptors that may be open").of_every_replica();
    PROCESS_START = gauge("process_start_time_seconds", &[], "When this process started").of_every_replica();
}

/// The gauges of queues, of cohorts, of gates by queue, and of JobKinds, which are gathered in one round.
pub static GATHERED: &[&Definition] = &[
    &PENDING_WORKLOADS,
    &PENDING_BY_REASON,
    &PENDING_REQUESTS,
    &RESERVING_WORKLOADS,
    &ADMITTED_ACTIVE_WORKLOADS,
    &CLUSTER_QUEUE_STATUS,
    &CLUSTER_QUEUE_INFO,
    &NOMINAL_QUOTA,
    &BORROWING_LIMIT,
    &LENDING_LIMIT,
    &QUEUE_USAGE,
    &QUEUE_RESERVED,
    &QUEUE_BORROWED,
    &QUEUE_SHARE,
    &COHORT_INFO,
    &COHORT_NOMINAL,
    &COHORT_BORROWING_LIMIT,
    &COHORT_LENDING_LIMIT,
    &COHORT_QUOTA,
    &COHORT_USAGE,
    &COHORT_BORROWED,
    &COHORT_RESERVATIONS,
    &COHORT_RESERVED,
    &COHORT_PENDING,
    &COHORT_ADMITTED,
    &COHORT_SHARE,
    &LOCAL_PENDING,
    &LOCAL_PENDING_BY_REASON,
    &LOCAL_PENDING_REQUESTS,
    &LOCAL_RESERVING,
    &LOCAL_ADMITTED,
    &LOCAL_STATUS,
    &LOCAL_USAGE,
    &LOCAL_RESERVED,
    &QUEUE_GATE_HELD,
    &QUEUE_GATE_OLDEST,
    &LOCAL_GATE_HELD,
    &LOCAL_GATE_OLDEST,
    &JOB_KIND_READY,
];
