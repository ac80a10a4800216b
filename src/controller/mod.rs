//! The controller: observations in, engine in the middle, requests out. It has no I/O and no clock:
//! [`Controller::handle`] takes in one input at a time, [`Controller::cycle`] decides and returns what is to be
//! done. The `shell` does it. What happens in what order can be read here.
//!
//! ```text
//! watches, replies ──▶ Input ──▶ handle: ObjectCache, Cluster, Engine
//!        ▲                                   │
//!        └── shell ◀── Output ◀── cycle: plan, decide
//! ```
//!
//! State has one owner each, with private fields in the file that is named. `impl Controller` only brings them
//! together.
//!
//! | owner | what it holds | file |
//! |---|---|---|
//! | `ObjectCache`, `Cluster` | what is known of objects, and of queues and settings | `crate::cache` |
//! | `Engine` | usage, quota and order | the engine; it is told by `engine_sync.rs` |
//! | `Counters` | the places that gates with a counter have given and no object shows yet | `gates/counters.rs` |
//! | `Satisfied` | what held objects waited for and is true no more, until their gate is lifted | `gates/after.rs` |
//! | `Kinds` | JobKinds, and what is to be done about their tasks | `kinds/` |
//! | `Lists` | lists that are under way | `lists.rs` |
//! | `Phase` | whether everything is listed, and the first decision taken | `decisions/first_decision.rs` |
//! | `Agenda` | what is to be planned, told to the engine, or looked at later | `agenda.rs` |
//! | `Writes` | writes in flight, failed, or not answered | `writes/` |
//! | `Owners` | questions about owners that no watch shows | `intake/owners.rs` |
//! | `Rereads` | jobs that are read again, as something else is added to their pods | `intake/rereads.rs` |
//! | `PodLabels` | where pods can be found by their label | `intake/pods.rs` |
//! | `EndedTermAdmissions` | admissions of ended terms, and the present term | `decisions/ended_term_admissions.rs` |
//! | `Unreleased` | what is admitted and not released in time | `decisions/unreleased.rs` |
//! | `UnusedQuota` | quota that is held and not used | `decisions/unused_quota.rs` |
//! | `Expected` | evictions and deletions that should have had an effect | `decisions/stalls.rs` |
//! | `Orphans`, `ExcessChildren` | jobs that are gone with pods that run; children that may not run | `decisions/` |
//! | `ChildSuspensions` | suspensions of those children | `decisions/child_suspensions.rs` |
//! | `OwnUsage`, `ReplacedPods` | pods with usage of their own; those beyond the admission of their job | `decisions/pod_usage.rs`, `decisions/replaced_pods.rs` |
//! | `AwaitedPods` | jobs whose next pod is waited for | `decisions/pods_to_come.rs` |
//! | `GoneMembers` | pods of groups that are gone: those that had succeeded, and whose they were | `decisions/gone_members.rs` |
//! | `Recorder`, `PendingReasons`, `Reports`, `Statuses`, `UnreadableObjects` | what users have been told | `reports/` |
//! | `FinishedJobs` | how long jobs ran and when they came, for estimates | `sluice_estimates` |
//! | `TermViolations` | whether a state was found that must not occur | `crate::process::invariants` |
//! | `Decided`, `Levels` | what metrics are made of | `reports/turns.rs`, `reports/levels/` |
//!
//! Must not know clients or clocks but in `shell`. Uses all other folders.

mod agenda;
mod cycle;
mod decisions;
mod engine_sync;
mod expiring;
mod gates;
mod housekeeping;
mod intake;
mod kinds;
mod lists;
mod observe;
mod planning;
mod reports;
mod shell;
#[cfg(test)]
mod tests;
mod wakes;
mod writes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::SignedDuration;
use sluice_engine::{Engine, Settings};
use sluice_estimates::finished::FinishedJobs;
use sluice_gates::ManagedNamespaces;
use sluice_kinds::aliases::KeyAliases;
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use tracing::info;

use crate::api::watch::Observation;
use crate::cache::Source;
use crate::cache::cluster::Cluster;
use crate::cache::devices::Devices;
use crate::cache::gates::dependencies::{DependencyOrder, DependencyReport};
use crate::cache::{ObjectCache, Subject, Uid};
use crate::jobkinds::webhook_rules::Rules;
use crate::plan::{Note, engine_state};
use crate::process::clock::Now;
use crate::process::invariants::{self, TermViolations};
use crate::process::metrics::Metrics;
use crate::process::recorded_times::Sight;
use crate::process::term::TermName;
use agenda::Agenda;
use decisions::child_suspensions::{ChildSuspension, ChildSuspensions, EndedSuspension};
use decisions::ended_term_admissions::EndedTermAdmissions;
use decisions::excess::ExcessChildren;
use decisions::first_decision::{AwaitedAtStart, Phase};
use decisions::gone_members::GoneMembers;
use decisions::orphans::Orphans;
use decisions::pod_usage::OwnUsage;
use decisions::pods_to_come::AwaitedPods;
use decisions::replaced_pods::ReplacedPods;
use decisions::stalls::Expected;
use decisions::unreleased::Unreleased;
use decisions::unused_quota::UnusedQuota;
use gates::{Counters, Satisfied};
use intake::owners::{OwnerAnswer, OwnerQuestion, Owners};
use intake::pods::PodLabels;
use intake::rereads::{ReadAgain, Reread, Rereads};
use kinds::{KindReport, Kinds, Order, ReadingBasis};
use lists::Lists;
use observe::Seen;
use reports::events::Recorder;
use reports::explaining::PendingReasons;
use reports::levels::Levels;
use reports::progress::Reports;
use reports::statuses::{self, Statuses};
use reports::turns::Decided;
use reports::unreadable::UnreadableObjects;
pub use shell::Shell;
use wakes::Wake;
use writes::Writes;
use writes::in_flight::{EndedWrite, InFlightWrite};

/// What is due by the clock is not decided sooner than after this: what could not be done a moment ago
/// would be due again at once.
const DUE_AGAIN: Duration = Duration::from_millis(20);

/// The sources that every cluster with Sluice has: nothing is planned before each has been listed.
const FIXED_SOURCES: [Source; 13] = [
    Source::ResourceFlavor,
    Source::Cohort,
    Source::ClusterQueue,
    Source::LocalQueue,
    Source::WorkloadPriorityClass,
    Source::JobKind,
    Source::Gate,
    Source::Workload,
    Source::Pod,
    Source::Namespace,
    Source::LimitRange,
    Source::RuntimeClass,
    Source::PriorityClass,
];

/// What the controller is told at its start.
#[derive(Clone)]
pub struct Options {
    /// The labels that name a queue.
    pub queue_labels: QueueLabels,
    /// The names of the queue gate.
    pub queue_gates: QueueGates,
    /// The other keys for keys of Sluice's own.
    pub key_aliases: KeyAliases,
    /// The name under which events are reported: the pod's.
    pub instance: String,
    /// What holds for all queues.
    pub settings: Settings,
    /// The classes of devices that are counted.
    pub device_classes: DeviceClasses,
    /// Whether there are metrics of LocalQueues.
    pub local_queue_metrics: bool,
    /// The namespaces where objects need a queue.
    pub managed_namespaces: Arc<ManagedNamespaces>,
    /// By how much this process's clock is ahead of that of the leader before it.
    pub clock_ahead: SignedDuration,
}

/// What the controller is told.
enum Input {
    /// A watch has seen something.
    Observed(Observation<Seen>),
    /// A write has ended.
    WriteEnded(Box<EndedWrite>),
    /// The suspension of a child has ended.
    ChildSuspensionEnded(Box<EndedSuspension>),
    /// The write of a status has ended.
    StatusWritten(statuses::StatusKey),
    /// What an owner is.
    OwnerFound(OwnerAnswer),
    /// A job was asked for once more.
    ReadAgain(ReadAgain),
    /// The task of a JobKind has found something out.
    KindReport(KindReport),
    /// The watch of what gates wait for has found something out.
    DependencyReport(DependencyReport),
    /// The configuration has other settings now.
    SettingsChanged(Settings),
    /// A second has passed.
    Tick,
}

/// What the controller wants done. Whatever has an end is told as an [`Input`].
enum Output {
    /// Send a write.
    Write(InFlightWrite),
    /// Suspend a child of a queued object.
    SuspendChild(Box<ChildSuspension>),
    /// Write a status.
    WriteStatus(statuses::StatusReport),
    /// Find out what an owner is.
    LookUpOwner(OwnerQuestion),
    /// Read a job once more.
    ReadAgain(Reread),
    /// Start or end the task of a JobKind.
    Kind(Order),
    /// Start or end the watch of what gates wait for.
    Dependency(DependencyOrder),
    /// Write an event about an object.
    Tell(Box<ObjectReference>, Note),
}

/// All state of the controller.
pub struct Controller {
    metrics: Arc<Metrics>,
    /// The time of the input or cycle that is being handled.
    now: Now,
    /// By how much that is ahead of the clock of the leader before.
    clock_ahead: SignedDuration,
    recorder: Recorder,
    engine: Engine,
    objects: ObjectCache,
    cluster: Cluster,
    kinds: Kinds,
    writes: Writes,
    statuses: Statuses,
    counters: Counters,
    satisfied: Satisfied,
    lists: Lists,
    phase: Phase,
    agenda: Agenda,
    pending_reasons: PendingReasons,
    reports: Reports,
    /// Counts the rounds of housekeeping.
    seconds: u64,
    owners: Owners,
    rereads: Rereads,
    excess_children: ExcessChildren,
    child_suspensions: ChildSuspensions,
    pod_labels: PodLabels,
    ended_terms: EndedTermAdmissions,
    unused: UnusedQuota,
    unreleased: Unreleased,
    orphans: Orphans,
    awaited_pods: AwaitedPods,
    gone_members: GoneMembers,
    own_usage: OwnUsage,
    replaced_pods: ReplacedPods,
    expected: Expected,
    decided: Decided,
    unreadable: UnreadableObjects,
    levels: Levels,
    finished: Arc<FinishedJobs>,
    violations: TermViolations,
}

impl Controller {
    /// A controller that knows nothing yet, and whose admissions name this term.
    fn new(
        options: Options,
        metrics: Arc<Metrics>,
        term: TermName,
        rules: Rules,
        now: Now,
    ) -> Self {
        let cluster = Cluster::new(
            Devices::new(options.device_classes.clone()),
            options.managed_namespaces,
        );
        let mut sources = BTreeSet::from(FIXED_SOURCES);
        if cluster.devices.are_counted() {
            sources.insert(Source::ResourceClaimTemplate);
        }
        let reading = ReadingBasis {
            queue_labels: options.queue_labels.clone(),
            queue_gates: options.queue_gates,
            key_aliases: options.key_aliases.into(),
            device_classes: options.device_classes.into(),
            additions: cluster.additions.clone(),
        };
        Self {
            writes: Writes::default(),
            excess_children: ExcessChildren::default(),
            child_suspensions: ChildSuspensions::default(),
            statuses: Statuses::default(),
            kinds: Kinds::new(metrics.clone(), reading, rules),
            engine: Engine::new(options.settings),
            objects: ObjectCache::default(),
            cluster,
            counters: Counters::default(),
            satisfied: Satisfied::default(),
            lists: Lists::new(sources),
            phase: Phase::Listing,
            agenda: Agenda::default(),
            pending_reasons: PendingReasons::default(),
            reports: Reports::default(),
            owners: Owners::new(options.queue_labels),
            rereads: Rereads::default(),
            pod_labels: PodLabels::default(),
            ended_terms: EndedTermAdmissions::new(term),
            orphans: Orphans::default(),
            awaited_pods: AwaitedPods::default(),
            gone_members: GoneMembers::default(),
            own_usage: OwnUsage::default(),
            replaced_pods: ReplacedPods::default(),
            seconds: 0,
            unused: UnusedQuota::new(now.wall),
            unreleased: Unreleased::default(),
            expected: Expected::default(),
            decided: Decided::default(),
            unreadable: UnreadableObjects::default(),
            levels: Levels::new(options.local_queue_metrics),
            finished: Arc::default(),
            violations: TermViolations::new(invariants::found(), now),
            metrics,
            recorder: Recorder::default(),
            now,
            clock_ahead: options.clock_ahead,
        }
    }

    /// The sources that have not been listed completely yet: at the start all those to be watched.
    fn unlisted(&self) -> impl Iterator<Item = &Source> {
        self.lists.awaited()
    }

    /// Takes in one thing that has happened. Nothing is decided before the next [`Controller::cycle`].
    fn handle(&mut self, input: Input, now: Now) {
        self.now = now;
        match input {
            Input::Observed(observation) => self.observe(observation),
            Input::WriteEnded(ended) => self.write_ended(*ended),
            Input::ChildSuspensionEnded(ended) => self.child_suspension_ended(*ended),
            Input::StatusWritten(place) => self.statuses.ended(&place),
            Input::OwnerFound(answer) => self.owner_found(answer),
            Input::ReadAgain(answer) => self.read_again(answer),
            Input::KindReport(report) => self.kind_report(report),
            Input::DependencyReport(report) => self.cluster.dependencies.report(report),
            Input::SettingsChanged(settings) => self.engine.change_settings(settings),
            Input::Tick => self.housekeep(),
        }
    }

    /// After what time there is something to do though nothing happens.
    fn due(&self, now: Now) -> Option<Duration> {
        let wake = self.agenda.next_wake().map(|at| at.since(now.moment));
        let decision = self.engine.next_wake().filter(|_| self.phase.has_listed());
        let decision = decision.map(|at| at.since(engine_state::time(now.wall)).max(DUE_AGAIN));
        [wake, decision].into_iter().flatten().min()
    }

    /// Nothing is decided any more: returns the last statuses to be written.
    fn finish(&mut self, now: Now) -> Vec<Output> {
        self.now = now;
        if self.phase.has_listed() {
            self.statuses.finish(&self.engine, &self.cluster);
        }
        self.statuses_to_write()
    }

    /// The statuses that may be written now.
    fn statuses_to_write(&mut self) -> Vec<Output> {
        let reports = std::iter::from_fn(|| self.statuses.start(self.now));
        reports.map(Output::WriteStatus).collect()
    }

    fn take_outputs(&mut self) -> Vec<Output> {
        let events = self.recorder.take().into_iter();
        let mut outputs: Vec<_> = events
            .map(|(object, note)| Output::Tell(object, note))
            .collect();
        outputs.extend(self.kinds.take_orders().into_iter().map(Output::Kind));
        let orders = self.cluster.dependencies.take_orders().into_iter();
        outputs.extend(orders.map(Output::Dependency));
        outputs.extend(std::iter::from_fn(|| self.writes.start()).map(Output::Write));
        let suspensions = std::iter::from_fn(|| self.child_suspensions.start());
        outputs.extend(suspensions.map(|sent| Output::SuspendChild(Box::new(sent))));
        outputs.extend(
            std::iter::from_fn(|| self.owners.start(self.now.moment)).map(Output::LookUpOwner),
        );
        outputs.extend(
            std::iter::from_fn(|| self.rereads.start(self.now.moment)).map(Output::ReadAgain),
        );
        outputs.extend(self.statuses_to_write());
        outputs
    }

    /// How recorded times are seen now. What is there before the first decision, leaders before this one recorded.
    fn sight(&self) -> Sight {
        let is_of_others = !self.phase.has_listed();
        Sight {
            now: self.now.wall,
            ahead: if is_of_others {
                self.clock_ahead
            } else {
                SignedDuration::ZERO
            },
        }
    }

    fn wake_after(&mut self, wait: Duration, wake: Wake) {
        self.agenda.wake_at(self.now.moment.after(wait), wake);
    }

    /// Begins once everything has been listed: all that is known is planned, and nothing that was told before the start
    /// is told again.
    fn begin_once_listed(&mut self) {
        let is_listed = self.kinds.all_settled(self.now.moment)
            && self.cluster.dependencies.all_settled(self.now.moment);
        if self.phase.has_listed() || !is_listed {
            return;
        }
        self.phase = Phase::Starting(AwaitedAtStart::new(self.now));
        info!(
            jobs = self.objects.jobs().count(),
            workloads = self.objects.workloads().count(),
            "everything is listed; decisions begin"
        );
        self.agenda.plan_all(
            self.objects
                .jobs()
                .map(|(_, job)| Subject::Job(job.uid.clone())),
        );
        let pods = self.objects.pods.all().map(|(_, pod)| pod.uid.clone());
        let pods: Vec<Uid> = pods.collect();
        for uid in pods {
            self.pod_changed(&uid);
        }
        let owners = self
            .objects
            .workloads()
            .filter_map(|(_, w)| w.owner.as_ref());
        self.agenda
            .plan_all(owners.map(|owner| owner.subject.clone()));
        self.set_doubtful_aside();
        // What jobs were told before the start is not told again.
        self.recorder.set_quiet(true);
        self.decide_unmarked();
        self.decide_again(self.objects.children.waiting());
        self.plan_and_decide();
        self.recorder.set_quiet(false);
    }
}
