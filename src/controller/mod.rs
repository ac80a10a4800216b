//! The one task that holds all state: observations in, engine in the middle, writes out. No lock is
//! needed, and what happens in what order can be read here. I/O runs in tasks of its own, bounded.
//!
//! ```text
//! watches ──▶ observe ──▶ ObjectCache, Cluster, Engine ──▶ settle ──▶ Flights (writes)
//!                ▲                                                  │
//!                └──────────────── replies are observations ◀───────┘
//! ```

mod account;
mod decisions;
mod intake;
mod kinds;
mod observe;
mod reports;
mod settle;
mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_crds as crds;
use sluice_engine::{Engine, Settings};
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tracing::info;

use crate::api::client::Clients;
use crate::api::events::Events;
use crate::api::watch::{self, Observation};
use crate::api::write::Writer;
use crate::cache::Source;
use crate::cache::cluster::Cluster;
use crate::cache::devices::Devices;
use crate::cache::{ObjectCache, Template, Uid};
use crate::jobkinds::webhook_rules::Rules;
use crate::process::clock;
use crate::process::hashing::{HashMap, HashSet};
use crate::process::metrics::Metrics;
use crate::process::pulse::Pulse;
use crate::process::term::{Term, TermName};
use decisions::excess::ExcessChildren;
use decisions::opening::Opening;
use decisions::orphans::Orphans;
use decisions::reservations::{Blocked, PodBackoff};
use decisions::stalls::Expected;
use intake::owners::Owners;
use kinds::{Kinds, Reading};
use observe::Seen;
use reports::progress::Reports;
use reports::statuses::Statuses;
use writes::flights::Flights;
use writes::reply::Attempts;

/// Observations that may wait before watches are held back: some pages of a list.
const OBSERVATIONS_MAX: usize = 2048;
/// Observations that are taken in before anything is decided: a burst is decided as one.
const BATCH_MAX: usize = 512;
/// How often statuses and explanations are looked after. It is decided then too, so that nothing that is
/// due is ever late by more, whatever becomes of the clock.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// What is due by the clock is not decided sooner than after this: what could not be done a moment ago
/// would be due again at once.
const DUE_AGAIN: Duration = Duration::from_millis(20);

/// The namespace and name of an object.
type Place = (Arc<str>, Arc<str>);

/// What the controller is told at its start.
#[derive(Clone)]
pub struct Options {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// The name under which events are reported: the pod's.
    pub instance: String,
    /// What holds for all queues.
    pub settings: Settings,
    /// The classes of devices that are counted.
    pub device_classes: DeviceClasses,
}

/// All state of the controller.
pub struct Controller {
    options: Options,
    clients: Clients,
    metrics: Arc<Metrics>,
    events: Events,
    engine: Engine,
    objects: ObjectCache,
    cluster: Cluster,
    kinds: Kinds,
    flights: Flights,
    statuses: Statuses,
    /// For each list that is under way, what it has shown so far.
    listings: HashMap<Source, HashSet<Place>>,
    /// Fixed kinds whose first list is not complete.
    unsynced: BTreeSet<Source>,
    /// Whether everything has been listed once. Nothing is planned before.
    started: bool,
    /// What the first decision waits for, until it is taken.
    opening: Option<Opening>,
    /// Jobs, groups and pods to be planned, by UID.
    dirty: BTreeSet<Uid>,
    /// Jobs and groups whose pods have changed.
    recount: BTreeSet<Uid>,
    /// Templates of claims by which jobs have to be counted anew.
    changed_templates: BTreeSet<Template>,
    /// Jobs, groups and pods to be planned later; and controllers whose pods back off until then.
    wake: DelayQueue<Uid>,
    /// A digest of what was last said about a job, so that it isn't said twice.
    told: HashMap<Uid, u64>,
    /// Whether only warnings are told.
    is_quiet: bool,
    /// Waiting jobs, with the time since when they wait or were last looked at.
    unexplained: VecDeque<(Instant, Uid)>,
    /// The same jobs, to find them by.
    is_unexplained: HashSet<Uid>,
    reports: Reports,
    /// Counts the rounds of housekeeping.
    seconds: u64,
    /// How many waiting pods may still be told in this second what they wait for.
    pod_notes: usize,
    /// Jobs, groups and pods whose last write failed, until they are woken.
    resting: HashSet<Uid>,
    /// Admissions that nobody knows the outcome of, to be sent again.
    unanswered: HashMap<Uid, writes::flights::Flight>,
    attempts: Attempts,
    owners: Owners,
    excess_children: ExcessChildren,
    /// JobKinds whose objects' pods are found by their label.
    shows_pods: HashSet<Arc<str>>,
    /// The term of this leader.
    term: TermName,
    /// Jobs and groups whose admission came in late and does not count.
    late: BTreeSet<Uid>,
    /// Pods that an ended leader has admitted by themselves, until that is decided about.
    late_pods: BTreeSet<Uid>,
    /// Pods of jobs and groups for which the write is under way that releases them.
    leaving: HashSet<Uid>,
    /// Controllers whose pods have timed out.
    pod_backoffs: HashMap<Uid, PodBackoff>,
    /// Jobs that are gone and whose pods run on, with usage.
    orphans: Orphans,
    /// Pods that may run and have lost the label they are watched by.
    unlabelled: HashSet<Uid>,
    /// Admitted jobs without pods that should have some, and since when.
    empty_since: HashMap<Uid, Timestamp>,
    /// Admitted jobs and groups that can't be released.
    blocked: HashMap<Uid, Blocked>,
    /// Jobs and groups that should stop, or start, by what was written.
    expected: Expected,
    sender: mpsc::Sender<Observation<Seen>>,
    receiver: mpsc::Receiver<Observation<Seen>>,
}

impl Controller {
    /// A controller that knows nothing yet and may write within `term`.
    pub fn new(
        options: Options,
        clients: Clients,
        metrics: Arc<Metrics>,
        term: Arc<Term>,
        rules: Rules,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(OBSERVATIONS_MAX);
        let cluster = Cluster::new(Devices::new(options.device_classes.clone()));
        let name = term.name();
        let writer = Writer::new(clients.write.clone(), metrics.clone(), term);
        let events = Events::start(
            clients.write.clone(),
            options.instance.clone(),
            metrics.clone(),
        );
        Self {
            flights: Flights::new(writer.clone()),
            excess_children: ExcessChildren::new(writer.clone()),
            statuses: Statuses::new(writer),
            kinds: Kinds::new(
                clients.clone(),
                sender.clone(),
                metrics.clone(),
                Reading {
                    queue_labels: options.queue_labels.clone(),
                    queue_gates: options.queue_gates.clone(),
                    additions: cluster.additions.clone(),
                },
                rules,
            ),
            engine: Engine::new(options.settings.clone()),
            objects: ObjectCache::default(),
            cluster,
            listings: HashMap::default(),
            unsynced: BTreeSet::new(),
            started: false,
            opening: None,
            dirty: BTreeSet::new(),
            wake: DelayQueue::new(),
            told: HashMap::default(),
            is_quiet: false,
            unexplained: VecDeque::new(),
            is_unexplained: HashSet::default(),
            reports: Reports::default(),
            resting: HashSet::default(),
            unanswered: HashMap::default(),
            attempts: Attempts::default(),
            recount: BTreeSet::new(),
            changed_templates: BTreeSet::new(),
            pod_notes: 0,
            owners: Owners::new(clients.read.clone(), options.queue_labels.clone()),
            shows_pods: HashSet::default(),
            term: name,
            late: BTreeSet::new(),
            late_pods: BTreeSet::new(),
            leaving: HashSet::default(),
            orphans: Orphans::default(),
            unlabelled: HashSet::default(),
            empty_since: HashMap::default(),
            seconds: 0,
            pod_backoffs: HashMap::default(),
            blocked: HashMap::default(),
            expected: Expected::default(),
            options,
            clients,
            metrics,
            events,
            sender,
            receiver,
        }
    }

    /// Runs until `stop`; then writes under way are given time to end.
    pub async fn run(mut self, pulse: Arc<Pulse>, stop: CancellationToken) -> Result<()> {
        self.start_watches();
        let mut housekeeping = interval(HOUSEKEEPING);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pulse.beat();
            let due = self.due();
            tokio::select! {
                // The order is of no account: whatever else has come meanwhile is taken in below.
                biased;
                () = stop.cancelled() => break,
                _ = housekeeping.tick() => self.housekeep(),
                Some(expired) = futures::StreamExt::next(&mut self.wake) => {
                    self.awake(&expired.into_inner());
                }
                Some(report) = self.kinds.next_report() => self.kind_report(report),
                Some(answer) = self.owners.next() => self.owner_found(answer),
                Some(()) = self.statuses.next() => {}
                Some(landing) = self.flights.next() => self.land(landing),
                Some(observation) = self.receiver.recv() => self.observe(observation),
                () = sleep(due.unwrap_or_default()), if due.is_some() => {}
            }
            self.take_in_what_came();
            if self.is_ready() {
                self.settle();
            }
        }
        info!("stopping: waiting for in-flight writes");
        pulse.end();
        self.flights.finish().await;
        self.excess_children.finish().await;
        if self.started {
            self.statuses.finish(&self.engine, &self.cluster).await;
        }
        Ok(())
    }

    /// After what time there is something to decide though nothing happens, if that is before the next
    /// housekeeping.
    fn due(&self) -> Option<Duration> {
        let at = self.engine.next_wake()?;
        let wait = at.since(account::time(clock::now())).max(DUE_AGAIN);
        (self.started && wait < HOUSEKEEPING).then_some(wait)
    }

    /// Takes in what has come: replies to writes, and observations. All of it is decided as one.
    fn take_in_what_came(&mut self) {
        while let Some(landing) = self.flights.try_next() {
            self.land(landing);
        }
        for _ in 0..BATCH_MAX {
            match self.receiver.try_recv() {
                Ok(observation) => self.observe(observation),
                Err(_) => break,
            }
        }
    }

    /// Whether everything has been listed once.
    fn is_ready(&mut self) -> bool {
        if !self.started && self.unsynced.is_empty() && self.kinds.all_settled() {
            self.started = true;
            self.opening = Some(Opening::new());
            info!(
                jobs = self.objects.jobs().count(),
                workloads = self.objects.workloads().count(),
                "everything is listed; decisions begin"
            );
            self.dirty
                .extend(self.objects.jobs().map(|(_, job)| job.uid.clone()));
            let pods = self.objects.pods.all().map(|(_, pod)| pod.uid.clone());
            let pods: Vec<Uid> = pods.collect();
            for uid in pods {
                self.pod_changed(&uid);
            }
            let owners = self.objects.workloads().filter_map(|(_, w)| w.job.as_ref());
            let owners: Vec<Uid> = owners.map(|owner| owner.uid.clone()).collect();
            self.dirty.extend(owners);
            self.set_doubtful_aside();
            // What jobs were told before the start is not told again.
            self.is_quiet = true;
            self.decide_again(self.objects.children.waiting());
            self.settle();
            self.is_quiet = false;
        }
        self.started
    }

    fn start_watches(&mut self) {
        let resource_of = |group: &str, version: &str, kind: &str, plural: &str| ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        let own = |kind: &str, plural: &str| resource_of(crds::GROUP, crds::VERSION, kind, plural);
        let table = [
            (
                Source::ResourceFlavor,
                own("ResourceFlavor", "resourceflavors"),
            ),
            (Source::Cohort, own("Cohort", "cohorts")),
            (Source::ClusterQueue, own("ClusterQueue", "clusterqueues")),
            (Source::LocalQueue, own("LocalQueue", "localqueues")),
            (
                Source::WorkloadPriorityClass,
                own("WorkloadPriorityClass", "workloadpriorityclasses"),
            ),
            (Source::JobKind, own("JobKind", "jobkinds")),
            (Source::Workload, own("Workload", "workloads")),
            (Source::Pod, resource_of("", "v1", "Pod", "pods")),
            (
                Source::Namespace,
                resource_of("", "v1", "Namespace", "namespaces"),
            ),
            (
                Source::LimitRange,
                resource_of("", "v1", "LimitRange", "limitranges"),
            ),
            (
                Source::RuntimeClass,
                resource_of("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses"),
            ),
            (
                Source::PriorityClass,
                resource_of(
                    "scheduling.k8s.io",
                    "v1",
                    "PriorityClass",
                    "priorityclasses",
                ),
            ),
        ];
        self.watch_templates();
        for (source, resource) in table {
            self.unsynced.insert(source.clone());
            tokio::spawn(watch::watch(
                self.clients.read.clone(),
                resource,
                source,
                |object| Seen::Object(Box::new(object)),
                self.sender.clone(),
                self.metrics.clone(),
            ));
        }
    }
}
