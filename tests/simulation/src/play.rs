//! One seed: a load, trouble meanwhile, then all is healed; what has come of it is checked at every revision, and
//! in the end everything has ended and nothing is written any more.

use std::future::pending;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sluice::clock::{self, WallClock};
use sluice_faults::check::{Checker, Violation};
use sluice_faults::history::{Key, Kind, Revision};
use tokio::time::{Instant, sleep};

use crate::api::Server;
use crate::api::resource::Place;
use crate::api::store::Change;
use crate::cluster;
use crate::exam;
use crate::hasty::Hasty;
use crate::replica::Slot;
use crate::trace::{digest, line, told};
use crate::users::{self, NAMESPACE, Script};

/// When every simulation begins.
const BEGIN: &str = "2026-01-05T08:00:00Z";
/// For so long after all is healed jobs may take to end: they run for seconds one after the other, a Lease takes
/// 15 s to expire, a job that lost its quota waits a minute.
const END: Duration = Duration::from_mins(15);
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// For so long after that nothing is written.
const QUIET: Duration = Duration::from_mins(2);
/// A term is ended by a violated invariant if it has lasted for this long.
const TERM: Duration = Duration::from_mins(11);
/// By then a process that gave the Lease back for it has started anew, and somebody leads.
const NEXT_TERM: Duration = Duration::from_mins(3);
/// Clocks are drawn by themselves: seeds play as they did where clocks are right.
const CLOCKS: u64 = 0x636c_6f63_6b73;
/// So are hasty users.
const HASTY: u64 = 0x0068_6173_7479;
/// The most by which the clock of a replica is wrong, in seconds.
const CLOCK_WRONG_MAX: i64 = 3600;

/// What a seed is played with.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many jobs are submitted.
    pub jobs: usize,
    /// Where the whole history is written to, a line for each change, if anywhere.
    pub trace: Option<PathBuf>,
    /// Whether an invariant is violated when all has ended. All simulations of the process hear of it.
    pub violates: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            jobs: 20,
            trace: None,
            violates: false,
        }
    }
}

/// What a seed came to.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Jobs and bare pods that were created.
    pub jobs: usize,
    /// Revisions of all objects.
    pub revisions: usize,
    /// Writes by Sluice.
    pub writes: usize,
    /// Faults of the network.
    pub faults: usize,
    /// Virtual time.
    pub time: Duration,
    /// A digest of the whole history: the same for the same seed.
    pub digest: u64,
}

/// Plays a seed.
///
/// # Errors
/// What did not hold, with the end of the history.
///
/// # Panics
/// No runtime can be made.
#[allow(
    clippy::expect_used,
    reason = "without a runtime nothing can be played"
)]
pub fn play(seed: u64, options: &Options) -> Result<Figures, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let played = runtime.block_on(Simulation::play(seed, options));
    runtime.shutdown_background();
    played
}

/// What goes wrong with a replica.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill(usize),
    End(usize),
    Hang(usize, Duration),
    HangWithStatus(usize, Duration),
    DeleteLease,
    Compact,
    /// It hangs, and what happened meanwhile is forgotten: it has to list again.
    HangAndForget(usize, Duration),
    WebhooksDown(Duration),
}

struct Simulation {
    server: Arc<Server>,
    slots: Vec<Arc<Slot>>,
    checker: Checker,
    /// How far the history was checked.
    checked: usize,
}

impl Simulation {
    async fn play(seed: u64, options: &Options) -> Result<Figures, String> {
        let begin: Timestamp = BEGIN.parse().unwrap_or_default();
        clock::simulate(begin);
        let began = Instant::now();
        let mut rng = Rng::with_seed(seed);
        let script = Script::draw(&mut rng, options.jobs);
        let server = Server::new(rng.u64(..), &foundations());
        // They are installed, and nobody serves them yet.
        drop(server.reviews.fail());
        cluster::start(&server, &mut rng);
        let mut clocks = Rng::with_seed(seed ^ CLOCKS);
        let replicas = 1 + rng.usize(0..2);
        let slots: Vec<_> = (0..replicas)
            .map(|_| {
                let percent = *[0, 2, 5, 10, 20].get(rng.usize(0..5)).unwrap_or(&0);
                Slot::new(server.clone(), rng.fork(), percent, draw_clock(&mut clocks))
            })
            .collect();
        for (slot, name) in slots.iter().zip(["one", "two"]) {
            tokio::spawn(slot.clone().keep_running(name));
        }
        let mut simulation = Self {
            server,
            slots,
            checker: Checker::default(),
            checked: 0,
        };
        let hasty = Hasty::draw(&mut Rng::with_seed(seed ^ HASTY), &script);
        let mut outcome = simulation.run(&script, hasty, &mut rng).await;
        if options.violates && outcome.is_ok() {
            outcome = simulation.violate().await;
        }
        let store = simulation.server.store();
        let history = store.history();
        let figures = Figures {
            jobs: history
                .iter()
                .filter(|change| is_new_subject(change))
                .count(),
            revisions: history.len(),
            writes: simulation.slots.iter().map(|slot| slot.writes()).sum(),
            faults: simulation.slots.iter().map(|slot| slot.faults()).sum(),
            time: began.elapsed(),
            digest: digest(history),
        };
        if let Some(path) = &options.trace {
            let lines: Vec<_> = history.iter().map(line).collect();
            std::fs::write(path, lines.join("\n")).map_err(|error| error.to_string())?;
        }
        outcome
            .map(|()| figures)
            .map_err(|problem| format!("{problem}\n{}", told(history)))
    }

    async fn run(&mut self, script: &Script, hasty: Hasty, rng: &mut Rng) -> Result<(), String> {
        let admin = "admin".into();
        for object in &script.queues {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let namespace = text(&object["metadata"]["namespace"]);
            let place = Place::of(&text(&object["kind"]), &namespace, "");
            let created = self.server.create(&admin, place, object.clone()).await;
            created.map_err(|refusal| refusal.message)?;
        }
        let blows = self.draw_blows(rng);
        let trouble = self.trouble(blows);
        let work = async {
            for (pause, deed) in &script.deeds {
                sleep(*pause).await;
                users::act(&self.server, deed).await;
            }
        };
        let all_done = async { tokio::join!(trouble, work) };
        let server = self.server.clone();
        tokio::select! {
            _ = all_done => {}
            () = async { hasty.act(&server).await; pending().await } => {}
        }
        for slot in &self.slots {
            slot.heal();
        }
        self.check()?;
        for deed in &script.endings {
            users::act(&self.server, deed).await;
        }
        self.all_ended(script).await?;
        self.check()?;
        self.quiet().await?;
        exam::nothing_is_left(&self.server)?;
        exam::sit(&self.server).await?;
        self.check()?;
        let unfinished = self.checker.unfinished(NAMESPACE);
        judge(&unfinished)
    }

    fn draw_blows(&self, rng: &mut Rng) -> Vec<(Duration, Blow)> {
        let count = rng.usize(0..6);
        let blow = |rng: &mut Rng| {
            let which = rng.usize(0..self.slots.len());
            match rng.u8(0..14) {
                0..4 => Blow::Kill(which),
                4 => Blow::End(which),
                5 | 6 => Blow::Hang(which, Duration::from_millis(rng.u64(500..40_000))),
                7 => Blow::DeleteLease,
                8 => Blow::Compact,
                9 | 10 => {
                    Blow::HangWithStatus(which, Duration::from_millis(rng.u64(5_000..40_000)))
                }
                11 | 12 => Blow::HangAndForget(which, Duration::from_millis(rng.u64(500..8_000))),
                _ => Blow::WebhooksDown(Duration::from_millis(rng.u64(500..20_000))),
            }
        };
        (0..count)
            .map(|_| (Duration::from_millis(rng.u64(0..12_000)), blow(rng)))
            .collect()
    }

    async fn trouble(&self, blows: Vec<(Duration, Blow)>) {
        for (pause, blow) in blows {
            sleep(pause).await;
            match blow {
                Blow::Kill(which) => self.slots[which].kill(),
                Blow::End(which) => self.slots[which].end_gently(),
                Blow::Hang(which, time) => self.slots[which].hang(time),
                Blow::HangWithStatus(which, time) => self.slots[which].hang_with_status(time),
                Blow::DeleteLease => {
                    let place = Place::of("Lease", "sluice-system", "sluice");
                    drop(self.server.delete(&"admin".into(), &place, &Value::Null));
                }
                Blow::Compact => self.server.store().compact(),
                Blow::HangAndForget(which, time) => {
                    self.slots[which].hang(time);
                    sleep(time).await;
                    self.server.store().compact();
                }
                Blow::WebhooksDown(time) => {
                    let router = self.server.reviews.fail();
                    sleep(time).await;
                    self.server.reviews.restore(router);
                }
            }
        }
    }

    /// Holds the invariants against what has happened since the last time.
    fn check(&mut self) -> Result<(), String> {
        let store = self.server.store();
        for change in store.history().iter().skip(self.checked) {
            if let Some(revision) = revision_of(change) {
                self.checker.apply(&revision);
            }
        }
        self.checked = store.history().len();
        judge(&self.checker.take())
    }

    async fn all_ended(&self, script: &Script) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return Ok(());
            }
            if END < began.elapsed() {
                return Err(format!("not ended: {}", left.join("; ")));
            }
            // What was not answered before is put right now.
            if began.elapsed().as_secs().is_multiple_of(60) {
                for deed in &script.endings {
                    users::act(&self.server, deed).await;
                }
            }
            sleep(LOOK).await;
        }
    }

    /// The jobs and pods that have not ended.
    fn left(&self) -> Vec<String> {
        let store = self.server.store();
        let mut left = Vec::new();
        for kind in ["Job", "Pod"] {
            let resource = Place::of(kind, "", "").resource;
            for (place, object) in store.list(resource, NAMESPACE) {
                if !has_ended(object) {
                    left.push(format!("{kind} {}", place.name));
                }
            }
        }
        left
    }

    /// An invariant is violated: the term ends, and whoever leads next admits jobs. Another violation soon after does not end
    /// that term.
    async fn violate(&mut self) -> Result<(), String> {
        sleep(TERM).await;
        let before = self.lease_transitions();
        plant_violation();
        sleep(NEXT_TERM).await;
        let after = self.lease_transitions();
        plant_violation();
        sleep(NEXT_TERM).await;
        let later = self.lease_transitions();
        if (after, later) != (before + 1, before + 1) {
            return Err(format!("terms of the Lease: {before}, {after}, {later}"));
        }
        exam::sit(&self.server).await?;
        self.check()
    }

    /// How often the Lease was acquired.
    fn lease_transitions(&self) -> u64 {
        let store = self.server.store();
        let resource = Place::of("Lease", "", "").resource;
        let leases = store.list(resource, "sluice-system");
        let transitions = (leases.into_iter())
            .filter_map(|(_, lease)| lease["spec"]["leaseTransitions"].as_u64());
        transitions.max().unwrap_or_default()
    }

    /// Nothing is written any more.
    async fn quiet(&self) -> Result<(), String> {
        let writes = || self.slots.iter().map(|slot| slot.writes()).sum::<usize>();
        // Statuses of queues follow within seconds; a group keeps its Workload for a minute.
        sleep(QUIET).await;
        let before = writes();
        sleep(QUIET).await;
        let after = writes();
        if after == before {
            return Ok(());
        }
        Err(format!("{} writes though nothing happens", after - before))
    }
}

/// States that an invariant rules out are counted before builds with debug assertions panic.
fn plant_violation() {
    let _ = catch_unwind(|| sluice::violated("planted by the simulation"));
}

/// Two of three replicas know what time it is.
fn draw_clock(rng: &mut Rng) -> WallClock {
    let seconds = match rng.u8(0..3) {
        0 => rng.i64(-CLOCK_WRONG_MAX..=CLOCK_WRONG_MAX),
        _ => 0,
    };
    WallClock::fast_by(SignedDuration::from_secs(seconds))
}

fn has_ended(object: &Value) -> bool {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    ["Succeeded", "Failed"].contains(&phase)
        || conditions.any(|condition| {
            (condition["type"] == "Complete" || condition["type"] == "Failed")
                && condition["status"] == "True"
        })
}

fn judge(violations: &[Violation]) -> Result<(), String> {
    if violations.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = violations.iter().take(5).map(ToString::to_string).collect();
    Err(lines.join("\n"))
}

/// What there is before anybody does anything.
fn foundations() -> Vec<Value> {
    let namespace = |name: &str| json!({"kind": "Namespace", "metadata": {"name": name}});
    let kind = include_str!("../../../config/jobkinds/job.yaml");
    let kind: Value = serde_saphyr::from_str(kind).unwrap_or_default();
    vec![namespace("sluice-system"), namespace(NAMESPACE), kind]
}

fn is_new_subject(change: &Change) -> bool {
    let kind = change.place.resource.kind;
    let is_bare = |object: &Value| object["metadata"]["ownerReferences"].is_null();
    change.before.is_none()
        && (kind == "Job" || (kind == "Pod" && change.after.as_ref().is_some_and(|o| is_bare(o))))
}

/// A change as checks have it.
fn revision_of(change: &Change) -> Option<Revision> {
    let kind = match change.place.resource.kind {
        "Job" => Kind::Job,
        "Pod" => Kind::Pod,
        "Workload" => Kind::Workload,
        "ClusterQueue" => Kind::ClusterQueue,
        "Cohort" => Kind::Cohort,
        "Lease" => Kind::Lease,
        _ => return None,
    };
    let mut object = change.after.as_deref().cloned();
    // etcd keeps it beside the object.
    if let Some(metadata) = object.as_mut().and_then(|o| o["metadata"].as_object_mut()) {
        metadata.remove("resourceVersion");
    }
    Some(Revision {
        number: change.number,
        key: Key {
            kind,
            namespace: change.place.namespace.clone(),
            name: change.place.name.clone(),
        },
        object,
        author: Some(change.author.clone()),
    })
}
