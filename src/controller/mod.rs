//! The one task that holds all state: observations in, engine in the middle, writes out. No lock is
//! needed, and what happens in what order can be read here. I/O runs in tasks of its own, bounded.
//!
//! ```text
//! watches ──▶ observe ──▶ World, Cluster, Engine ──▶ settle ──▶ Writes
//!                ▲                                               │
//!                └─────────────── replies are observations ◀─────┘
//! ```
//!
//! State has one owner each, with private fields in the file that is named. `impl Controller` only brings them
//! together.
//!
//! | owner | what it holds | file |
//! |---|---|---|
//! | `World`, `Cluster` | what is known of objects, and of queues and settings | `crate::cache` |
//! | `Engine` | usage, quota and order | the engine; it is told by `engine_sync.rs` |
//! | `Kinds` | JobKinds and their tasks | `kinds/` |
//! | `Lists` | lists that are under way | `lists.rs` |
//! | `Phase` | whether everything is listed, and the first decision taken | `decisions/opening.rs` |
//! | `Agenda` | what is to be planned, told to the engine, or looked at later | `agenda.rs` |
//! | `Writes` | writes in flight, failed, or not answered | `writes/` |
//! | `Owners` | questions about owners that no watch shows | `intake/owners.rs` |
//! | `PodLabels` | where pods can be found by their label | `intake/pods.rs` |
//! | `LateAdmissions` | admissions of ended terms, and the present term | `decisions/late.rs` |
//! | `UnusedQuota` | quota that is held and not used | `decisions/reservations.rs` |
//! | `Expected` | evictions and releases that should have had an effect | `decisions/stalls.rs` |
//! | `Orphans`, `ExcessChildren` | jobs that are gone with pods that run; children that may not run | `decisions/` |
//! | `Recorder`, `PendingReasons`, `Reports`, `Statuses` | what users have been told | `reports/` |

mod agenda;
mod decisions;
mod engine_sync;
mod intake;
mod kinds;
mod lists;
mod observe;
mod planning;
mod reports;
mod settle;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kube::api::ApiResource;
use sluice_crds as crds;
use sluice_engine::{Engine, Settings};
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::api::client::Clients;
use crate::api::events::Events;
use crate::api::watch::{self, Observation};
use crate::api::write::Writer;
use crate::cache::Source;
use crate::cache::cluster::Cluster;
use crate::cache::devices::Devices;
use crate::cache::{Subject, Uid, World};
use crate::jobkinds::webhook_rules::Rules;
use crate::process::clock;
use crate::process::metrics::Metrics;
use crate::process::pulse::Pulse;
use crate::process::term::Term;
use agenda::Agenda;
use decisions::excess::ExcessChildren;
use decisions::late::LateAdmissions;
use decisions::opening::{Opening, Phase};
use decisions::orphans::Orphans;
use decisions::reservations::UnusedQuota;
use decisions::stalls::Expected;
use intake::owners::Owners;
use intake::pods::PodLabels;
use kinds::{Kinds, Reading};
use lists::Lists;
use observe::Seen;
use reports::events::Recorder;
use reports::explaining::PendingReasons;
use reports::progress::Reports;
use reports::statuses::Statuses;
use writes::Writes;

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
    recorder: Recorder,
    engine: Engine,
    world: World,
    cluster: Cluster,
    kinds: Kinds,
    writes: Writes,
    statuses: Statuses,
    lists: Lists,
    phase: Phase,
    agenda: Agenda,
    pending_reasons: PendingReasons,
    reports: Reports,
    /// Counts the rounds of housekeeping.
    seconds: u64,
    owners: Owners,
    excess_children: ExcessChildren,
    pod_labels: PodLabels,
    late: LateAdmissions,
    unused: UnusedQuota,
    orphans: Orphans,
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
            writes: Writes::new(writer.clone()),
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
            world: World::default(),
            cluster,
            lists: Lists::default(),
            phase: Phase::Listing,
            agenda: Agenda::default(),
            pending_reasons: PendingReasons::default(),
            reports: Reports::default(),
            owners: Owners::new(clients.read.clone(), options.queue_labels.clone()),
            pod_labels: PodLabels::default(),
            late: LateAdmissions::new(name),
            orphans: Orphans::default(),
            seconds: 0,
            unused: UnusedQuota::default(),
            expected: Expected::default(),
            options,
            clients,
            metrics,
            recorder: Recorder::new(events),
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
                Some(wake) = self.agenda.next_wake() => self.awake(wake),
                Some(report) = self.kinds.next_report() => self.kind_report(report),
                Some(answer) = self.owners.next() => self.owner_found(answer),
                Some(()) = self.statuses.next() => {}
                Some(ended) = self.writes.next() => self.write_ended(ended),
                Some(observation) = self.receiver.recv() => self.observe(observation),
                () = sleep(due.unwrap_or_default()), if due.is_some() => {}
            }
            self.drain_channels();
            if self.is_ready() {
                self.settle();
            }
        }
        info!("stopping: waiting for writes under way");
        pulse.end();
        self.writes.finish().await;
        self.excess_children.finish().await;
        if self.phase.has_listed() {
            self.statuses.finish(&self.engine, &self.cluster).await;
        }
        Ok(())
    }

    /// After what time there is something to decide though nothing happens, if that is before the next
    /// housekeeping.
    fn due(&self) -> Option<Duration> {
        let at = self.engine.next_wake()?;
        let wait = at.since(engine_sync::time(clock::now())).max(DUE_AGAIN);
        (self.phase.has_listed() && wait < HOUSEKEEPING).then_some(wait)
    }

    /// Takes in what has come meanwhile, replies and observations: all of it is decided as one.
    fn drain_channels(&mut self) {
        while let Some(ended) = self.writes.try_next() {
            self.write_ended(ended);
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
        if !self.phase.has_listed() && self.lists.are_complete() && self.kinds.all_settled() {
            self.phase = Phase::Opening(Opening::new());
            info!(
                jobs = self.world.jobs().count(),
                workloads = self.world.workloads().count(),
                "everything is listed, deciding begins"
            );
            self.agenda.plan_all(
                self.world
                    .jobs()
                    .map(|(_, job)| Subject::Job(job.uid.clone())),
            );
            let pods = self.world.pods.all().map(|(_, pod)| pod.uid.clone());
            let pods: Vec<Uid> = pods.collect();
            for uid in pods {
                self.pod_changed(&uid);
            }
            let owners = self.world.workloads().filter_map(|(_, w)| w.owner.as_ref());
            self.agenda
                .plan_all(owners.map(|owner| owner.subject.clone()));
            self.set_doubtful_aside();
            // What jobs were told before the start is not told again.
            self.recorder.set_quiet(true);
            self.decide_again(self.world.children.waiting());
            self.settle();
            self.recorder.set_quiet(false);
        }
        self.phase.has_listed()
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
            self.lists.await_first(source.clone());
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
