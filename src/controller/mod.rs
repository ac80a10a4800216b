//! The controller: all state in one owner, observations in, engine in the middle, requests out. It has no
//! I/O and no clock: [`Controller::handle`] takes in one input at a time, [`Controller::cycle`] decides and
//! returns what is to be done. The [`shell`] does it. What happens in what order can be read here.
//!
//! ```text
//! watches, replies ──▶ Input ──▶ handle: World, Cluster, Engine
//!        ▲                                   │
//!        └── shell ◀── Output ◀── cycle: plan, decide
//! ```

mod account;
mod decisions;
mod intake;
mod kinds;
mod observe;
mod planning;
mod reports;
mod settle;
mod shell;
mod wakes;
mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use sluice_engine::{Engine, Settings};
use sluice_kinds::devices::DeviceClasses;
use sluice_kinds::pod::QueueGates;
use sluice_kinds::view::QueueLabels;
use tracing::info;

use crate::api::watch::Observation;
use crate::cache::Source;
use crate::cache::cluster::Cluster;
use crate::cache::devices::Devices;
use crate::cache::{Subject, Template, Uid, World};
use crate::jobkinds::webhook_rules::Rules;
use crate::plan::{Note, Write};
use crate::process::clock::{Moment, Now};
use crate::process::hashing::{HashMap, HashSet};
use crate::process::metrics::Metrics;
use crate::process::term::TermName;
use decisions::excess::ExcessChildren;
use decisions::opening::Opening;
use decisions::orphans::Orphans;
use decisions::reservations::{Blocked, PodBackoff};
use decisions::stalls::Expected;
use intake::owners::{Answer, Owners, Question};
use kinds::{Kinds, Order, Reading, Report};
use observe::Seen;
use reports::progress::Reports;
use reports::statuses::{self, Statuses};
pub use shell::Shell;
use wakes::{Wake, Wakes};
use writes::flights::{Flight, Flights, Landing};
use writes::reply::Attempts;

/// What is due by the clock is not decided sooner than after this: what could not be done a moment ago
/// would be due again at once.
const DUE_AGAIN: Duration = Duration::from_millis(20);

/// The sources that every cluster with Sluice has: nothing is planned before each has been listed.
const FIXED_SOURCES: [Source; 12] = [
    Source::ResourceFlavor,
    Source::Cohort,
    Source::ClusterQueue,
    Source::LocalQueue,
    Source::WorkloadPriorityClass,
    Source::JobKind,
    Source::Workload,
    Source::Pod,
    Source::Namespace,
    Source::LimitRange,
    Source::RuntimeClass,
    Source::PriorityClass,
];

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

/// What the controller is told.
enum Input {
    /// A watch has seen something.
    Observed(Observation<Seen>),
    /// A write has ended.
    WriteEnded(Box<Landing>),
    /// The suspension of a child has ended.
    ChildWritten,
    /// The write of a status has ended.
    StatusWritten(statuses::Place),
    /// What an owner is.
    OwnerFound(Answer),
    /// The task of a JobKind has found something out.
    KindReport(Report),
    /// A second has passed.
    Tick,
}

/// What the controller wants done. Whatever has an end is told as an [`Input`].
enum Output {
    /// Send a write.
    Write(Flight),
    /// Suspend a child of a queued object.
    SuspendChild {
        /// The suspension.
        write: Write,
        /// The resource of the child.
        resource: ApiResource,
    },
    /// Write a status.
    WriteStatus(statuses::Report),
    /// Find out what an owner is.
    LookUpOwner(Question),
    /// Start or end the task of a JobKind.
    Kind(Order),
    /// Write an event about an object.
    Tell(Box<ObjectReference>, Note),
}

/// All state of the controller.
pub struct Controller {
    metrics: Arc<Metrics>,
    /// The time of the input or cycle that is being handled.
    now: Now,
    /// Events to be written.
    events: Vec<(Box<ObjectReference>, Note)>,
    engine: Engine,
    world: World,
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
    /// Jobs, groups and pods to be planned.
    dirty: BTreeSet<Subject>,
    /// Jobs and groups whose pods have changed.
    recount: BTreeSet<Subject>,
    /// Templates of claims by which jobs have to be counted anew.
    changed_templates: BTreeSet<Template>,
    /// What is to be looked at later.
    wakes: Wakes,
    /// A digest of what was last said about a job, so that it isn't said twice.
    told: HashMap<Subject, u64>,
    /// Whether only warnings are told.
    is_quiet: bool,
    /// Waiting jobs, with the time since when they wait or were last looked at.
    unexplained: VecDeque<(Moment, Subject)>,
    /// The same jobs, to find them by.
    is_unexplained: HashSet<Subject>,
    reports: Reports,
    /// Counts the rounds of housekeeping.
    seconds: u64,
    /// How many waiting pods may still be told in this second what they wait for.
    pod_notes: usize,
    /// Jobs, groups and pods whose last write failed, until they are woken.
    resting: HashSet<Subject>,
    /// Admissions that nobody knows the outcome of, to be sent again.
    unanswered: HashMap<Subject, Flight>,
    attempts: Attempts,
    owners: Owners,
    excess_children: ExcessChildren,
    /// JobKinds whose objects' pods are found by their label.
    shows_pods: HashSet<Arc<str>>,
    /// The term of this leader.
    term: TermName,
    /// Jobs and groups whose admission came in late and does not count.
    late: BTreeSet<Subject>,
    /// Pods that an ended leader has admitted by themselves, until that is decided about.
    late_pods: BTreeSet<Uid>,
    /// Pods of jobs and groups for which the write is under way that releases them.
    leaving: HashSet<Subject>,
    /// Controllers whose pods have timed out.
    pod_backoffs: HashMap<Uid, PodBackoff>,
    /// Jobs that are gone and whose pods run on, charged.
    orphans: Orphans,
    /// Pods that may run and have lost the label they are watched by.
    unlabelled: HashSet<Uid>,
    /// Admitted jobs without pods that should have some, and since when.
    empty_since: HashMap<Subject, Timestamp>,
    /// Admitted jobs and groups that can't be released.
    blocked: HashMap<Subject, Blocked>,
    /// Jobs and groups that should stop, or start, by what was written.
    expected: Expected,
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
        let cluster = Cluster::new(Devices::new(options.device_classes));
        let mut unsynced = BTreeSet::from(FIXED_SOURCES);
        if cluster.devices.are_counted() {
            unsynced.insert(Source::ResourceClaimTemplate);
        }
        let reading = Reading {
            queue_labels: options.queue_labels.clone(),
            queue_gates: options.queue_gates,
            additions: cluster.additions.clone(),
        };
        Self {
            flights: Flights::default(),
            excess_children: ExcessChildren::default(),
            statuses: Statuses::default(),
            kinds: Kinds::new(metrics.clone(), reading, rules),
            engine: Engine::new(options.settings),
            world: World::default(),
            cluster,
            listings: HashMap::default(),
            unsynced,
            started: false,
            opening: None,
            dirty: BTreeSet::new(),
            wakes: Wakes::default(),
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
            owners: Owners::new(options.queue_labels),
            shows_pods: HashSet::default(),
            term,
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
            metrics,
            now,
            events: Vec::new(),
        }
    }

    /// The sources that have not been listed completely yet: at the start all those to be watched.
    fn unlisted(&self) -> impl Iterator<Item = &Source> {
        self.unsynced.iter()
    }

    /// Takes in one thing that has happened. Nothing is decided before the next [`Controller::cycle`].
    fn handle(&mut self, input: Input, now: Now) {
        self.now = now;
        match input {
            Input::Observed(observation) => self.observe(observation),
            Input::WriteEnded(landing) => self.land(*landing),
            Input::ChildWritten => self.excess_children.ended(),
            Input::StatusWritten(place) => self.statuses.ended(&place),
            Input::OwnerFound(answer) => self.owner_found(answer),
            Input::KindReport(report) => self.kind_report(report),
            Input::Tick => self.housekeep(),
        }
    }

    /// Plans what has changed or is due, lets the engine decide, and returns what is to be done.
    fn cycle(&mut self, now: Now) -> Vec<Output> {
        self.now = now;
        while let Some(wake) = self.wakes.take_due(now.moment) {
            self.awake(wake);
        }
        if self.is_ready() {
            self.settle();
        }
        self.take_outputs()
    }

    /// After what time there is something to do though nothing happens.
    fn due(&self, now: Now) -> Option<Duration> {
        let wake = self.wakes.next().map(|at| at.since(now.moment));
        let decision = self.engine.next_wake().filter(|_| self.started);
        let decision = decision.map(|at| at.since(account::time(now.wall)).max(DUE_AGAIN));
        [wake, decision].into_iter().flatten().min()
    }

    /// Nothing is decided any more: returns the last statuses to be written.
    fn finish(&mut self, now: Now) -> Vec<Output> {
        self.now = now;
        if self.started {
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
        let events = std::mem::take(&mut self.events).into_iter();
        let mut outputs: Vec<_> = events
            .map(|(object, note)| Output::Tell(object, note))
            .collect();
        outputs.extend(self.kinds.take_orders().into_iter().map(Output::Kind));
        outputs.extend(std::iter::from_fn(|| self.flights.start()).map(Output::Write));
        let suspensions = std::iter::from_fn(|| self.excess_children.start());
        outputs
            .extend(suspensions.map(|(write, resource)| Output::SuspendChild { write, resource }));
        outputs.extend(std::iter::from_fn(|| self.owners.start()).map(Output::LookUpOwner));
        outputs.extend(self.statuses_to_write());
        outputs
    }

    /// Has an event written about an object.
    fn tell_event(&mut self, object: ObjectReference, note: Note) {
        self.events.push((Box::new(object), note));
    }

    fn wake_after(&mut self, wait: Duration, wake: Wake) {
        self.wakes.set(self.now.moment.after(wait), wake);
    }

    /// Whether everything has been listed once.
    fn is_ready(&mut self) -> bool {
        if !self.started && self.unsynced.is_empty() && self.kinds.all_settled(self.now.moment) {
            self.started = true;
            self.opening = Some(Opening::new(self.now.moment));
            info!(
                jobs = self.world.jobs().count(),
                workloads = self.world.workloads().count(),
                "everything is listed, deciding begins"
            );
            self.dirty.extend(
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
            self.dirty.extend(owners.map(|owner| owner.subject.clone()));
            self.set_doubtful_aside();
            // What jobs were told before the start is not told again.
            self.is_quiet = true;
            self.decide_again(self.world.children.waiting());
            self.settle();
            self.is_quiet = false;
        }
        self.started
    }
}
