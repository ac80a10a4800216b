//! Writes under way: at most one for each job or pod and a bounded number in all, those that let jobs go
//! before those that only explain.

use std::collections::VecDeque;

use kube::api::ApiResource;
use tokio::task::JoinSet;

use crate::api::write::{Reply, Writer};
use crate::cache::Uid;
use crate::plan::{JobPurpose, Note, PodPurpose, StatusPurpose, Write};
use crate::process::hashing::HashMap;

/// Writes at the same time. Each takes some milliseconds; more only queue up in the API server.
const CONCURRENCY: usize = 24;
/// Of those, how many may be explanations.
const EXPLAINING_MAX: usize = 4;

/// A write that waits or is under way.
#[derive(Debug, Clone)]
pub struct Flight {
    /// The job, group or pod that it is for.
    pub subject: Uid,
    /// The write.
    pub write: Write,
    /// The resource of the subject.
    pub resource: ApiResource,
    /// What to tell the user once it is done.
    pub notes: Vec<Note>,
}

/// A write that has ended.
#[derive(Debug)]
pub struct Landing {
    /// What was under way.
    pub flight: Flight,
    /// How it ended.
    pub reply: Reply,
}

/// All writes for jobs, groups and pods.
pub struct Flights {
    writer: Writer,
    waiting: VecDeque<Flight>,
    explaining: VecDeque<Flight>,
    running: JoinSet<Landing>,
    /// What is under way or waits, by subject.
    by_subject: HashMap<Uid, Kind>,
    explaining_now: usize,
}

/// What a flight means for the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An admission: the engine assumes it.
    Admission,
    /// An explanation: the job keeps its place in the queue.
    Explanation,
    /// A step of a job's way into its queue.
    Queueing,
    /// Anything else.
    Other,
}

impl Flights {
    /// No writes.
    pub fn new(writer: Writer) -> Self {
        Self {
            writer,
            waiting: VecDeque::new(),
            explaining: VecDeque::new(),
            running: JoinSet::new(),
            by_subject: HashMap::default(),
            explaining_now: 0,
        }
    }

    /// What is under way for a job, group or pod.
    pub fn of(&self, subject: &str) -> Option<Kind> {
        self.by_subject.get(subject).copied()
    }

    /// The jobs and groups whose way into their queue is being written.
    pub fn queueing(&self) -> impl Iterator<Item = &Uid> {
        let all = self.by_subject.iter();
        all.filter_map(|(uid, kind)| (*kind == Kind::Queueing).then_some(uid))
    }

    /// Sends a write as soon as a slot is free. Its subject must have none.
    pub fn send(&mut self, flight: Flight) {
        let kind = kind_of(&flight.write);
        self.by_subject.insert(flight.subject.clone(), kind);
        if kind == Kind::Explanation {
            self.explaining.push_back(flight);
        } else {
            self.waiting.push_back(flight);
        }
        self.fill();
    }

    /// Drops an explanation that has not been sent: there is something better to say.
    pub fn withdraw_explanation(&mut self, subject: &Uid) {
        if self.of(subject) == Some(Kind::Explanation)
            && let Some(at) = self
                .explaining
                .iter()
                .position(|flight| flight.subject == *subject)
        {
            self.explaining.remove(at);
            self.by_subject.remove(subject);
        }
    }

    /// The next write that has ended. None if none is under way.
    pub async fn next(&mut self) -> Option<Landing> {
        let landing = self.running.join_next().await?;
        Some(self.landed(landing))
    }

    /// A further write that has ended already.
    pub fn try_next(&mut self) -> Option<Landing> {
        let landing = self.running.try_join_next()?;
        Some(self.landed(landing))
    }

    /// Waits for what is under way; what has not been sent is dropped.
    pub async fn finish(&mut self) {
        self.waiting.clear();
        self.explaining.clear();
        while self.running.join_next().await.is_some() {}
    }

    #[allow(clippy::panic)] // A panic in a task aborts the process in release; in tests it must not pass unseen.
    fn landed(&mut self, landing: Result<Landing, tokio::task::JoinError>) -> Landing {
        let landing = match landing {
            Ok(landing) => landing,
            Err(error) => panic!("a write ended without a reply: {error}"),
        };
        self.by_subject.remove(&landing.flight.subject);
        if is(&landing.flight, StatusPurpose::Explain) {
            self.explaining_now = self.explaining_now.saturating_sub(1);
        }
        self.fill();
        landing
    }

    fn fill(&mut self) {
        while self.running.len() < CONCURRENCY {
            let flight = match self.waiting.pop_front() {
                Some(flight) => flight,
                None if self.explaining_now < EXPLAINING_MAX => match self.explaining.pop_front() {
                    Some(flight) => {
                        self.explaining_now += 1;
                        flight
                    }
                    None => return,
                },
                None => return,
            };
            let writer = self.writer.clone();
            self.running.spawn(async move {
                let reply = writer
                    .send(flight.write.clone(), flight.resource.clone())
                    .await;
                Landing { flight, reply }
            });
        }
    }
}

fn kind_of(write: &Write) -> Kind {
    match write {
        write if is_admission(write) => Kind::Admission,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Explain,
            ..
        } => Kind::Explanation,
        Write::CreateWorkload(_)
        | Write::UpdateWorkloadSpec { .. }
        | Write::PatchJob {
            purpose: JobPurpose::Suspend,
            ..
        } => Kind::Queueing,
        _ => Kind::Other,
    }
}

/// Whether this write admits a job or a pod.
pub fn is_admission(write: &Write) -> bool {
    matches!(
        write,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Admit,
            ..
        } | Write::PatchPod {
            purpose: PodPurpose::Admit,
            ..
        }
    )
}

fn is(flight: &Flight, wanted: StatusPurpose) -> bool {
    matches!(&flight.write, Write::SetWorkloadStatus { purpose, .. } if *purpose == wanted)
}
