//! The only place of the controller with tokio, clients and a clock: watches and replies become inputs of
//! the [`Controller`], and its outputs become requests. Nothing is decided here.
//!
//! Must not know why anything is written.

mod claim_templates;
mod dependency_task;
mod kind_task;
pub(super) mod readers;
mod retry;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use sluice_engine::Settings;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::kinds::{KindReport, Order};
use super::observe::Seen;
use super::writes::in_flight::EndedWrite;
use super::{Controller, Input, Options, Output};
use crate::api::client::Clients;
use crate::api::events::Events;
use crate::api::lookup::{look_up, read_job};
use crate::api::openapi::OpenApi;
use crate::api::watch::Observation;
use crate::api::write::Writer;
use crate::cache::JobKey;
use crate::cache::gates::dependencies::{DependencyOrder, DependencyReport};
use crate::controller::decisions::child_suspensions::EndedSuspension;
use crate::controller::intake::owners::OwnerAnswer;
use crate::controller::intake::rereads::ReadAgain;
use crate::jobkinds::webhook_rules::Rules;
use crate::process::clock::{Now, WallClock};
use crate::process::hashing::HashMap;
use crate::process::metrics::Metrics;
use crate::process::pulse::Pulse;
use crate::process::term::Term;
use crate::visibility::Asked;
use dependency_task::DependencyTask;
use kind_task::Task;
use readers::Readers;

/// Observations that may wait before watches are held back: some pages of a list.
const OBSERVATIONS_MAX: usize = 2048;
/// Observations that are taken in before anything is decided: a burst is decided as one.
const BATCH_MAX: usize = 512;
/// Reports of the tasks of JobKinds that may wait, and of those of what gates wait for.
const REPORTS_MAX: usize = 64;
/// How often statuses and explanations are looked after. It is decided then too, so that nothing that is
/// due is ever late by more, whatever becomes of the clock.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long the end waits for statuses.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A controller, and what connects it with the API server.
pub struct Shell {
    controller: Controller,
    clock: WallClock,
    clients: Clients,
    writer: Writer,
    events: Events,
    metrics: Arc<Metrics>,
    published: Arc<OpenApi>,
    /// Requests under way that change jobs, pods and Workloads; statuses; and questions about owners.
    writes: JoinSet<Input>,
    statuses: JoinSet<Input>,
    questions: JoinSet<Input>,
    /// The tasks of JobKinds by the life of their watch, and those of what gates wait for.
    kinds: HashMap<u64, AbortHandle>,
    dependencies: HashMap<u64, AbortHandle>,
    observations: Channel<Observation<Seen>>,
    reports: Channel<KindReport>,
    dependency_reports: Channel<DependencyReport>,
    readers: Readers,
}

/// Both ends of a channel: tasks get copies of the sender.
struct Channel<T> {
    sender: mpsc::Sender<T>,
    receiver: mpsc::Receiver<T>,
}

impl<T> Channel<T> {
    fn new(size: usize) -> Self {
        let (sender, receiver) = mpsc::channel(size);
        Self { sender, receiver }
    }
}

impl Shell {
    /// A controller that knows nothing yet and may write within `term`. What is asked over `asked` it answers.
    pub fn new(
        options: Options,
        clients: Clients,
        metrics: Arc<Metrics>,
        term: Arc<Term>,
        rules: Rules,
        clock: WallClock,
        asked: mpsc::Receiver<Asked>,
    ) -> Self {
        let events = Events::start(
            clients.write.clone(),
            options.instance.clone(),
            metrics.clone(),
        );
        let name = term.name();
        Self {
            controller: Controller::new(options, metrics.clone(), name, rules, Now::read(clock)),
            clock,
            writer: Writer::new(clients.write.clone(), metrics.clone(), term),
            published: Arc::new(OpenApi::new(clients.read.clone())),
            clients,
            events,
            metrics,
            writes: JoinSet::new(),
            statuses: JoinSet::new(),
            questions: JoinSet::new(),
            kinds: HashMap::default(),
            dependencies: HashMap::default(),
            observations: Channel::new(OBSERVATIONS_MAX),
            reports: Channel::new(REPORTS_MAX),
            dependency_reports: Channel::new(REPORTS_MAX),
            readers: Readers::new(asked),
        }
    }

    /// Runs until `stop`, with the `settings` as they change; then writes under way are given time to end. Cancels `stop`
    /// if the term has to end.
    pub async fn run(
        mut self,
        mut settings: watch::Receiver<Settings>,
        pulse: Arc<Pulse>,
        stop: CancellationToken,
    ) -> Result<()> {
        for source in self.controller.unlisted() {
            let observations = &self.observations.sender;
            watches::start(source, &self.clients.read, observations, &self.metrics);
        }
        let mut housekeeping = interval(HOUSEKEEPING);
        housekeeping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pulse.beat();
            let due = self.controller.due(Now::read(self.clock));
            let mut question = None;
            let input = tokio::select! {
                // The order is of no account: whatever else has come meanwhile is taken in below.
                biased;
                () = stop.cancelled() => break,
                _ = housekeeping.tick() => Some(Input::Tick),
                Ok(()) = settings.changed() => {
                    Some(Input::SettingsChanged(settings.borrow_and_update().clone()))
                }
                Some(report) = self.reports.receiver.recv() => Some(Input::KindReport(report)),
                Some(report) = self.dependency_reports.receiver.recv() => Some(Input::DependencyReport(report)),
                Some(answer) = self.questions.join_next() => Some(ended(answer)),
                Some(written) = self.statuses.join_next() => Some(ended(written)),
                Some(written) = self.writes.join_next() => Some(ended(written)),
                Some(seen) = self.observations.receiver.recv() => Some(Input::Observed(seen)),
                () = sleep(due.unwrap_or_default()), if due.is_some() => None,
                asked = self.readers.wait() => {
                    question = asked;
                    None
                }
            };
            let now = Now::read(self.clock);
            if let Some(input) = input {
                self.controller.handle(input, now);
            }
            self.drain_channels(now);
            for output in self.controller.cycle(now) {
                self.carry_out(output);
            }
            self.readers.work(question, &self.controller);
            if self.controller.must_end_term() {
                stop.cancel();
            }
        }
        info!("stopping: waiting for in-flight writes");
        pulse.end();
        while self.writes.join_next().await.is_some() {}
        let last = self.write_last_statuses();
        if timeout(LAST_WRITES, last).await.is_err() {
            warn!("the usage of some LocalQueues was not recorded: the API server is slow");
        }
        Ok(())
    }

    /// Takes in what has come meanwhile, replies and observations: all of it is decided as one.
    fn drain_channels(&mut self, now: Now) {
        // Before the observations: what a task has found of a kind belongs before its first list.
        while let Ok(report) = self.reports.receiver.try_recv() {
            self.controller.handle(Input::KindReport(report), now);
        }
        while let Ok(report) = self.dependency_reports.receiver.try_recv() {
            self.controller.handle(Input::DependencyReport(report), now);
        }
        for requests in [&mut self.writes, &mut self.statuses, &mut self.questions] {
            while let Some(done) = requests.try_join_next() {
                self.controller.handle(ended(done), now);
            }
        }
        for _ in 0..BATCH_MAX {
            let Ok(seen) = self.observations.receiver.try_recv() else {
                break;
            };
            self.controller.handle(Input::Observed(seen), now);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Write(sent) => {
                let writer = self.writer.clone();
                self.writes.spawn(async move {
                    let (write, resource) = (sent.write.clone(), sent.resource.clone());
                    let reply = writer.send(write, resource).await;
                    Input::WriteEnded(Box::new(EndedWrite { sent, reply }))
                });
            }
            Output::SuspendChild(sent) => {
                let writer = self.writer.clone();
                self.writes.spawn(async move {
                    let (write, resource) = (sent.write.clone(), sent.resource.clone());
                    let reply = writer.send(write, resource).await;
                    Input::ChildSuspensionEnded(Box::new(EndedSuspension { sent: *sent, reply }))
                });
            }
            Output::WriteStatus(report) => {
                let writer = self.writer.clone();
                self.statuses.spawn(async move {
                    let (_, namespace, name) = &report.place;
                    let namespace = Some(namespace.as_str()).filter(|n| !n.is_empty());
                    let status = report.status;
                    writer
                        .status(&report.resource, namespace, name, status)
                        .await;
                    Input::StatusWritten(report.place)
                });
            }
            Output::LookUpOwner(question) => {
                let client = self.clients.read.clone();
                self.questions.spawn(async move {
                    let found = look_up(&client, &question.namespace, &question.owner).await;
                    Input::OwnerFound(OwnerAnswer { question, found })
                });
            }
            Output::ReadAgain(reread) => {
                let client = self.clients.read.clone();
                self.questions.spawn(async move {
                    let JobKey {
                        namespace, name, ..
                    } = &reread.key;
                    let found = read_job(&client, &reread.resource, namespace, name).await;
                    Input::ReadAgain(ReadAgain { reread, found })
                });
            }
            Output::Tell(object, note) => self.events.tell(*object, note),
            Output::Kind(Order::Start { life, reader }) => {
                let task = Task {
                    name: reader.name.clone(),
                    life,
                    kind: reader.kind.clone(),
                    client: self.clients.read.clone(),
                    published: self.published.clone(),
                    reports: self.reports.sender.clone(),
                    reader,
                };
                let observations = self.observations.sender.clone();
                let task = tokio::spawn(task.run(observations, self.metrics.clone()));
                self.kinds.insert(life, task.abort_handle());
            }
            Output::Kind(Order::Stop { life }) => {
                if let Some(task) = self.kinds.remove(&life) {
                    task.abort();
                }
            }
            Output::Dependency(DependencyOrder::Start { life, kind, rules }) => {
                let task = DependencyTask {
                    kind,
                    life,
                    rules: rules.into(),
                    client: self.clients.read.clone(),
                    reports: self.dependency_reports.sender.clone(),
                };
                let observations = self.observations.sender.clone();
                let task = tokio::spawn(task.run(observations, self.metrics.clone()));
                self.dependencies.insert(life, task.abort_handle());
            }
            Output::Dependency(DependencyOrder::Stop { life }) => {
                if let Some(task) = self.dependencies.remove(&life) {
                    task.abort();
                }
            }
        }
    }

    /// Records what LocalQueues have used, for the next controller to begin with.
    async fn write_last_statuses(&mut self) {
        let mut outputs = self.controller.finish(Now::read(self.clock));
        loop {
            for output in outputs {
                self.carry_out(output);
            }
            let Some(written) = self.statuses.join_next().await else {
                return;
            };
            self.controller
                .handle(ended(written), Now::read(self.clock));
            outputs = self.controller.statuses_to_write();
        }
    }
}

/// What a request came to.
#[allow(
    clippy::panic,
    reason = "a panic in a task aborts the process in release; in tests it must not pass unseen"
)]
fn ended(joined: Result<Input, JoinError>) -> Input {
    match joined {
        Ok(input) => input,
        Err(error) => panic!("a request ended without a reply: {error}"),
    }
}
