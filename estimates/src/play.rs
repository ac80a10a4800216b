//! Plays jobs through the engine in virtual time: arrivals in, what became of each job out. Pure: no
//! files, no clock, no chance, no text.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use sluice_engine::{
    Admission, Amount, Decision, Engine, Event, EvictReason, Time, Workload, WorkloadId,
    WorkloadState,
};

pub use model::{
    Cause, Cell, Cut, Fate, Job, Play, Restart, Rules, Run, RunUsage, Start, id_of, job_of,
};

mod model;

/// Runs that a play may have beside four for each job. Evictions that never come to an end would
/// fill the memory.
const RUNS_MAX: usize = 10_000;

/// Plays `jobs` in the queues of `setup`.
pub fn play(setup: impl IntoIterator<Item = Event>, jobs: &[Job], rules: &Rules) -> Play {
    let mut player = Player::new(jobs, rules);
    for event in setup {
        player.engine.apply(event);
    }
    let mut cut = None;
    while let Some(next) = player.next_moment() {
        if rules.until.is_some_and(|until| until < next) {
            cut = Some(Cut::Until);
            break;
        }
        player.now = next;
        player.take_what_is_due();
        if !player.decide() {
            cut = Some(Cut::TooManyRuns);
            break;
        }
        if player.awaited.as_ref().is_some_and(BTreeSet::is_empty) {
            cut = Some(Cut::Admitted);
            break;
        }
    }
    player.close(cut)
}

/// The player and the engine part, which is a bug: all figures after it would be wrong.
fn parted(how: &str) {
    debug_assert!(false, "{how}");
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    NotArrived,
    Waiting,
    /// With the number of the run.
    Running(usize),
    Stopping(usize),
    Finished(Time),
}

/// A job as it is played.
#[derive(Debug, Clone)]
struct Live {
    stage: Stage,
    /// The work that is left, in pods times milliseconds.
    left: u128,
}

/// What happens to a run at some moment, unless it ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The pods of an evicted job have ended.
    Gone(usize),
    /// The work is done.
    Done(usize),
}

struct Player<'a> {
    jobs: &'a [Job],
    rules: &'a Rules,
    engine: Engine,
    now: Time,
    live: Vec<Live>,
    runs: Vec<Run>,
    usages: BTreeMap<RunUsage, usize>,
    /// The jobs in the order of their arrivals, the last first.
    to_come: Vec<usize>,
    due: BinaryHeap<Reverse<(Time, Due)>>,
    /// The jobs whose admission ends the play, as far as they were not admitted; none if no admission does.
    awaited: Option<BTreeSet<usize>>,
}

impl<'a> Player<'a> {
    fn new(jobs: &'a [Job], rules: &'a Rules) -> Self {
        let mut to_come: Vec<usize> = (0..jobs.len()).collect();
        to_come.sort_by_key(|job| Reverse((jobs.get(*job).map(|job| job.arrival), *job)));
        let live = |job: &Job| Live {
            stage: Stage::NotArrived,
            left: job.work(),
        };
        let awaited: BTreeSet<usize> = rules.until_admitted.iter().copied().collect();
        Self {
            jobs,
            rules,
            engine: Engine::new(rules.settings.clone()),
            now: Time::default(),
            live: jobs.iter().map(live).collect(),
            runs: Vec::new(),
            usages: BTreeMap::new(),
            to_come,
            due: BinaryHeap::new(),
            awaited: (!awaited.is_empty()).then_some(awaited),
        }
    }

    /// When something happens next.
    fn next_moment(&self) -> Option<Time> {
        let arrival = self.to_come.last().and_then(|job| self.jobs.get(*job));
        let arrival = arrival.map(|job| job.arrival);
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        // What is due has been decided already: only what lies ahead moves time.
        let wake = self.engine.next_wake().filter(|wake| self.now < *wake);
        arrival.into_iter().chain(due).chain(wake).min()
    }

    /// Tells the engine all that happens at this moment, so that it decides about all of it at once.
    fn take_what_is_due(&mut self) {
        while let Some(Reverse((at, due))) = self.due.peek().copied()
            && at <= self.now
        {
            self.due.pop();
            match due {
                Due::Done(run) => self.finish(run),
                Due::Gone(run) => self.release(run),
            }
        }
        while let Some(index) = self.to_come.last().copied()
            && let Some(job) = self.jobs.get(index)
            && job.arrival <= self.now
        {
            self.to_come.pop();
            self.arrive(index, job);
        }
    }

    fn arrive(&mut self, index: usize, job: &Job) {
        match &job.start {
            Start::Pending | Start::BackingOff(_) => {
                self.tell(index, WorkloadState::Pending);
                self.set(index, Stage::Waiting);
            }
            Start::Admitted {
                admission, pods, ..
            } => {
                let pods = u128::from((*pods).max(1));
                let done = self.now.since(admission.since).as_millis() * pods;
                let left = job.work().saturating_sub(done);
                if self.rules.restart == Restart::WhereItWas
                    && let Some(live) = self.live.get_mut(index)
                {
                    live.left = left;
                }
                let run = self.begin(index, admission, left);
                self.set(index, Stage::Running(run));
                self.tell(index, WorkloadState::Admitted(admission.clone()));
            }
            Start::Evicting {
                admission,
                preemptor,
            } => {
                let run = self.record(index, admission);
                let gone = (self.now.after(self.rules.eviction), Due::Gone(run));
                self.due.push(Reverse(gone));
                self.set(index, Stage::Stopping(run));
                let state = WorkloadState::Evicting(admission.clone(), preemptor.clone());
                self.tell(index, state);
            }
        }
    }

    /// Lets the engine decide until it has nothing more to say. Returns whether more may be recorded.
    fn decide(&mut self) -> bool {
        let runs_max = RUNS_MAX.saturating_add(self.jobs.len().saturating_mul(4));
        loop {
            let decisions = self.engine.decide(self.now);
            if decisions.is_empty() {
                return true;
            }
            for decision in decisions {
                match decision {
                    Decision::Admit { id, admission } => self.admit(&id, admission),
                    Decision::Evict { id, reason } => self.evict(&id, &reason),
                }
            }
            if runs_max < self.runs.len() {
                return false;
            }
        }
    }

    fn admit(&mut self, id: &WorkloadId, admission: Admission) {
        let Some(index) = job_of(id) else {
            return parted("a workload was admitted that is no job");
        };
        if let Some(awaited) = &mut self.awaited {
            awaited.remove(&index);
        }
        let left = self.live.get(index).map_or(0, |live| live.left);
        let run = self.begin(index, &admission, left);
        self.set(index, Stage::Running(run));
        self.tell(index, WorkloadState::Admitted(admission));
    }

    /// A job begins to run with what it was admitted with, and so much work is left. Returns the number of the run.
    fn begin(&mut self, index: usize, admission: &Admission, left: u128) -> usize {
        let run = self.record(index, admission);
        let pods = self.runs.get(run).map_or(1, |run| run.pods.max(1));
        // With fewer pods the same work takes longer.
        let millis = left.div_ceil(u128::from(pods));
        let takes = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        let done = self.now.after(takes);
        // What never ends leaves nothing to wait for.
        if done < Time::from_millis(i64::MAX) {
            self.due.push(Reverse((done, Due::Done(run))));
        }
        run
    }

    /// Records that a job holds quota from now on. Returns the number of the run.
    fn record(&mut self, index: usize, admission: &Admission) -> usize {
        let run = self.runs.len();
        let usage = self.usage(admission);
        let pods = match self.jobs.get(index).map(|job| &job.start) {
            // Of these some may have ended.
            Some(Start::Admitted {
                admission: first,
                pods,
                ..
            }) if first == admission => *pods,
            _ => (admission.pod_sets.iter())
                .map(|set| set.count)
                .fold(0, u32::saturating_add),
        };
        self.runs.push(Run {
            job: index,
            from: self.now,
            until: self.now,
            usage,
            pods,
            evicted: None,
            preemptor: None,
        });
        run
    }

    fn evict(&mut self, id: &WorkloadId, reason: &EvictReason) {
        let Some(index) = job_of(id) else {
            return parted("a workload was evicted that is no job");
        };
        let (Some(live), Some(admission)) =
            (self.live.get_mut(index), self.engine.admission(id).cloned())
        else {
            return parted("a job was evicted that holds nothing");
        };
        let Stage::Running(number) = live.stage else {
            return parted("a job was evicted that does not run");
        };
        let Some(run) = self.runs.get_mut(number) else {
            return parted("a job runs without a run");
        };
        if self.rules.restart == Restart::WhereItWas {
            let done = self.now.since(run.from).as_millis() * u128::from(run.pods.max(1));
            live.left = live.left.saturating_sub(done);
        }
        let cause = match reason {
            EvictReason::ClusterQueueStopped | EvictReason::LocalQueueStopped => Cause::Stopped,
            EvictReason::ReservationTimedOut => Cause::ReservationTimedOut,
            EvictReason::Preempted { right, .. } => Cause::Preempted(*right),
        };
        run.evicted = Some((self.now, cause));
        if let EvictReason::Preempted { by, .. } = reason {
            run.preemptor = job_of(by);
        }
        let gone = (self.now.after(self.rules.eviction), Due::Gone(number));
        self.due.push(Reverse(gone));
        self.set(index, Stage::Stopping(number));
        self.tell(index, WorkloadState::Evicting(admission, None));
    }

    /// A run has come to its end, unless it was evicted before.
    fn finish(&mut self, number: usize) {
        let Some(run) = self.runs.get_mut(number) else {
            return parted("a run ends that has not begun");
        };
        let job = run.job;
        if self.stage(job) != Some(Stage::Running(number)) {
            return;
        }
        if let Some(run) = self.runs.get_mut(number) {
            run.until = self.now;
        }
        self.set(job, Stage::Finished(self.now));
        self.engine.apply(Event::RemoveWorkload(id_of(job)));
    }

    /// The pods of an evicted run have ended: its job waits again.
    fn release(&mut self, number: usize) {
        let Some(run) = self.runs.get_mut(number) else {
            return parted("a run ends that has not begun");
        };
        run.until = self.now;
        let job = run.job;
        self.set(job, Stage::Waiting);
        self.tell(job, WorkloadState::Pending);
    }

    fn stage(&self, job: usize) -> Option<Stage> {
        self.live.get(job).map(|live| live.stage)
    }

    fn set(&mut self, job: usize, stage: Stage) {
        if let Some(live) = self.live.get_mut(job) {
            live.stage = stage;
        }
    }

    fn tell(&mut self, index: usize, state: WorkloadState) {
        if let Some(job) = self.jobs.get(index) {
            let workload = Workload {
                priority: job.priority,
                created: job.created,
                pod_sets: job.pod_sets.to_vec(),
                not_before: match job.start {
                    Start::BackingOff(until) => Some(until),
                    _ => None,
                },
                evictable: match job.start {
                    Start::Admitted { evictable, .. } => evictable,
                    _ => true,
                },
                state,
                ..Workload::new(id_of(index), job.queue.clone())
            };
            self.engine.apply(Event::UpsertWorkload(workload));
        }
    }

    /// The number of the usage of an admission.
    fn usage(&mut self, admission: &Admission) -> usize {
        let mut cells: BTreeMap<Cell, Amount> = BTreeMap::new();
        for set in &*admission.pod_sets {
            for (resource, amount) in &set.usage {
                if let Some(flavor) = set.flavors.get(resource) {
                    let sum = cells.entry((flavor.clone(), resource.clone())).or_default();
                    *sum = Amount::new(sum.get().saturating_add(amount.get()));
                }
            }
        }
        let usage = RunUsage {
            queue: admission.queue.clone(),
            cells,
        };
        let next = self.usages.len();
        *self.usages.entry(usage).or_insert(next)
    }

    fn close(mut self, cut: Option<Cut>) -> Play {
        let arrivals = self.jobs.iter().map(|job| job.arrival);
        let begin = arrivals.min().unwrap_or_default();
        let until = self.rules.until.filter(|_| cut == Some(Cut::Until));
        let end = until.unwrap_or(self.now).max(begin);
        let fate = |live: &Live| match live.stage {
            Stage::NotArrived => Fate::NotArrived,
            Stage::Waiting => Fate::Waiting,
            Stage::Running(_) => Fate::Running,
            Stage::Stopping(_) => Fate::Stopping,
            Stage::Finished(at) => Fate::Finished(at),
        };
        for live in &self.live {
            if let Stage::Running(run) | Stage::Stopping(run) = live.stage
                && let Some(run) = self.runs.get_mut(run)
            {
                run.until = end;
            }
        }
        let mut usages: Vec<_> = self.usages.into_iter().collect();
        usages.sort_by_key(|(_, number)| *number);
        Play {
            fates: self.live.iter().map(fate).collect(),
            runs: self.runs,
            usages: usages.into_iter().map(|(usage, _)| usage).collect(),
            begin,
            end,
            cut,
            engine: self.engine,
        }
    }
}
