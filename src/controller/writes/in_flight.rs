//! Writes in flight: at most one for each subject and a bounded number in all, those that release jobs before those
//! that only explain. Each namespace has its turn.

use kube::api::ApiResource;

use crate::api::fair_queue::FairQueue;
use crate::api::write::Reply;
use crate::cache::Subject;
use crate::plan::{Note, Write, WriteKind};
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// Writes at the same time. Each takes some milliseconds; more only queue up in the API server.
const CONCURRENCY: usize = 24;
/// Of those, how many may be explanations.
const EXPLAINING_MAX: usize = 4;

/// A write that waits or is under way.
#[derive(Debug, Clone)]
pub struct InFlightWrite {
    /// The job, group or pod that it is for.
    pub subject: Subject,
    /// The write.
    pub write: Write,
    /// The resource of the subject.
    pub resource: ApiResource,
    /// What to tell the user once it is done.
    pub notes: Vec<Note>,
}

impl InFlightWrite {
    /// What the write means.
    pub fn kind(&self) -> WriteKind {
        self.write.kind()
    }
}

/// A write that has ended.
#[derive(Debug)]
pub struct EndedWrite {
    /// What was in flight.
    pub sent: InFlightWrite,
    /// How it ended.
    pub reply: Reply,
}

/// Why a write did not happen, or may not have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFailure {
    /// The API server refuses it.
    Refused,
    /// The API server has too much to do.
    Throttled,
    /// Nobody has answered.
    Unanswered,
}

/// The writes in flight, and those that wait for their turn.
#[derive(Default)]
pub struct InFlightWrites {
    waiting: FairQueue<InFlightWrite>,
    explaining: FairQueue<InFlightWrite>,
    running: usize,
    /// What is under way or waits, by subject.
    by_subject: HashMap<Subject, WriteKind>,
    explaining_now: usize,
    /// Whether anything but explanations was sent since that was last asked.
    has_moved: bool,
}

impl InFlightWrites {
    /// What is under way for a job, group or pod.
    pub fn of(&self, subject: &Subject) -> Option<WriteKind> {
        self.by_subject.get(subject).copied()
    }

    /// The jobs and groups whose way into their queue is being written.
    pub fn queueing(&self) -> impl Iterator<Item = &Subject> {
        let all = self.by_subject.iter();
        all.filter_map(|(subject, kind)| (*kind == WriteKind::Queueing).then_some(subject))
    }

    /// Sends a write as soon as it is its turn. Its subject must have none.
    pub fn send(&mut self, write: InFlightWrite) {
        let kind = write.kind();
        let before = self.by_subject.insert(write.subject.clone(), kind);
        if before.is_some() {
            violated("a subject has one write in flight");
        }
        let queue = if kind == WriteKind::Explanation {
            &mut self.explaining
        } else {
            &mut self.waiting
        };
        queue.push(write.write.namespace(), write);
    }

    /// Drops an explanation that has not been sent: there is something better to say.
    pub fn withdraw_explanation(&mut self, subject: &Subject) {
        if self.of(subject) == Some(WriteKind::Explanation)
            && self
                .explaining
                .remove(|write| write.subject == *subject)
                .is_some()
        {
            self.by_subject.remove(subject);
        }
    }

    /// The next write to be sent, if there may be one more at the same time.
    pub fn start(&mut self) -> Option<InFlightWrite> {
        if CONCURRENCY <= self.running {
            return None;
        }
        let write = match self.waiting.pop() {
            Some(write) => {
                self.has_moved = true;
                write
            }
            None if self.explaining_now < EXPLAINING_MAX => {
                let write = self.explaining.pop()?;
                self.explaining_now += 1;
                write
            }
            None => return None,
        };
        self.running += 1;
        Some(write)
    }

    /// Whether anything but explanations was sent since this was last asked, or is to be.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
            || !self.waiting.is_empty()
            || self.explaining_now < self.running
    }

    /// A write has ended.
    pub fn ended(&mut self, write: &InFlightWrite) {
        if self.running == 0 || self.by_subject.remove(&write.subject).is_none() {
            violated("a write that ends was in flight");
        }
        self.running = self.running.saturating_sub(1);
        if write.kind() == WriteKind::Explanation {
            self.explaining_now = self.explaining_now.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Uid, WorkloadKey};

    fn mk_write(namespace: &str, number: usize) -> InFlightWrite {
        let name = format!("{namespace}-{number}");
        InFlightWrite {
            subject: Subject::Job(Uid::from(name.as_str())),
            write: Write::DeleteWorkload {
                key: WorkloadKey {
                    namespace: namespace.into(),
                    name: name.into(),
                },
                uid: String::new(),
                unless: None,
            },
            resource: ApiResource::erase::<sluice_crds::Workload>(&()),
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_writes_of_one_namespace_delay_no_other() {
        let mut writes = InFlightWrites::default();
        for number in 0..1000 {
            writes.send(mk_write("blue", number));
        }
        writes.send(mk_write("green", 0));
        let sent: Vec<Subject> = std::iter::from_fn(|| writes.start())
            .map(|write| write.subject)
            .collect();
        assert_eq!(sent.len(), CONCURRENCY);
        let of = |name: &str| Subject::Job(Uid::from(name));
        assert_eq!(sent[..3], [of("blue-0"), of("green-0"), of("blue-1")]);
    }
}
