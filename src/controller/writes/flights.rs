//! Writes under way: at most one for each job or pod and a bounded number in all, those that let jobs go
//! before those that only explain.

use std::collections::VecDeque;

use kube::api::ApiResource;

use crate::api::write::Reply;
use crate::cache::Subject;
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
    pub subject: Subject,
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
#[derive(Default)]
pub struct Flights {
    waiting: VecDeque<Flight>,
    explaining: VecDeque<Flight>,
    running: usize,
    /// What is under way or waits, by subject.
    by_subject: HashMap<Subject, Kind>,
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
    /// What is under way for a job, group or pod.
    pub fn of(&self, subject: &Subject) -> Option<Kind> {
        self.by_subject.get(subject).copied()
    }

    /// The jobs and groups whose way into their queue is being written.
    pub fn queueing(&self) -> impl Iterator<Item = &Subject> {
        let all = self.by_subject.iter();
        all.filter_map(|(subject, kind)| (*kind == Kind::Queueing).then_some(subject))
    }

    /// Sends a write as soon as there is room. Its subject must have none.
    pub fn send(&mut self, flight: Flight) {
        let kind = kind_of(&flight.write);
        self.by_subject.insert(flight.subject.clone(), kind);
        if kind == Kind::Explanation {
            self.explaining.push_back(flight);
        } else {
            self.waiting.push_back(flight);
        }
    }

    /// Drops an explanation that has not been sent: there is something better to say.
    pub fn withdraw_explanation(&mut self, subject: &Subject) {
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

    /// The next write to be sent, if there may be one more at the same time.
    pub fn start(&mut self) -> Option<Flight> {
        if CONCURRENCY <= self.running {
            return None;
        }
        let flight = match self.waiting.pop_front() {
            Some(flight) => flight,
            None if self.explaining_now < EXPLAINING_MAX => {
                let flight = self.explaining.pop_front()?;
                self.explaining_now += 1;
                flight
            }
            None => return None,
        };
        self.running += 1;
        Some(flight)
    }

    /// A write has ended.
    pub fn ended(&mut self, flight: &Flight) {
        self.running = self.running.saturating_sub(1);
        self.by_subject.remove(&flight.subject);
        if is(flight, StatusPurpose::Explain) {
            self.explaining_now = self.explaining_now.saturating_sub(1);
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
