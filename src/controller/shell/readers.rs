//! Answers readers between two cycles, a part at a time: the answers under way take turns, so that nobody who asks about
//! one workload waits until a long list is taken. What they are told is `reports/waiting.rs`, `reports/finding.rs`,
//! `reports/tree.rs` and `reports/standing.rs`.

use std::collections::VecDeque;

use tokio::sync::{mpsc, oneshot};

use crate::controller::Controller;
use crate::controller::reports::finding::Finding;
use crate::controller::reports::standing::TakingJobs;
use crate::controller::reports::tree::TakingTree;
use crate::controller::reports::waiting::Taking;
use crate::visibility::{Asked, Findings, Taken, TakenJobs, TakenTree};

/// Workloads that are looked at between two cycles: 3 ms in a debug build.
const LOOKED_AT: usize = 1000;
/// Answers that may be under way. Those who ask for lists do so one at a time, and so do those who ask for explanations, and for
/// estimates.
const UNDER_WAY_MAX: usize = 4;

/// Those who ask, and what is being looked at for some of them.
pub struct Readers {
    asked: mpsc::Receiver<Asked>,
    /// The one whose turn is next is the first.
    under_way: VecDeque<Answering>,
}

/// An answer, as far as it has come, and where it goes.
enum Answering {
    Pending(Box<Taking>, oneshot::Sender<Option<Taken>>),
    Workload(Box<Finding>, oneshot::Sender<Option<Box<Findings>>>),
    Tree(Box<TakingTree>, oneshot::Sender<Option<TakenTree>>),
    Jobs(Box<TakingJobs>, oneshot::Sender<Option<Box<TakenJobs>>>),
}

impl Answering {
    /// Whether nobody waits for it any more.
    fn is_closed(&self) -> bool {
        match self {
            Self::Pending(_, reply) => reply.is_closed(),
            Self::Workload(_, reply) => reply.is_closed(),
            Self::Tree(_, reply) => reply.is_closed(),
            Self::Jobs(_, reply) => reply.is_closed(),
        }
    }
}

impl Readers {
    /// Those who ask here.
    pub fn new(asked: mpsc::Receiver<Asked>) -> Self {
        Self {
            asked,
            under_way: VecDeque::new(),
        }
    }

    /// Until somebody has asked, or there is an answer to go on with. For ever if nobody can ask.
    pub async fn wait(&mut self) -> Option<Asked> {
        if !self.under_way.is_empty() {
            return None;
        }
        match self.asked.recv().await {
            Some(asked) => Some(asked),
            None => std::future::pending().await,
        }
    }

    /// Takes the next question up, and goes on with the answer whose turn it is. Before everything is listed nobody
    /// is told anything: what is missing would look as if it did not wait.
    pub fn work(&mut self, next: Option<Asked>, controller: &Controller) {
        let next = next.or_else(|| self.next());
        // Nobody waits for what those asked who have hung up.
        if let Some(asked) = next.filter(|asked| !asked.is_closed()) {
            if !controller.has_listed() {
                // The reader hears that there is no answer.
                return;
            }
            self.under_way.extend(begin(asked, controller));
        }
        let next = self.under_way.pop_front();
        let left = next.and_then(|answering| go_on(answering, controller));
        self.under_way.extend(left);
    }

    fn next(&mut self) -> Option<Asked> {
        if UNDER_WAY_MAX <= self.under_way.len() {
            return None;
        }
        self.asked.try_recv().ok()
    }
}

/// Takes a question up. None if that was the answer: there is nothing of that name.
fn begin(asked: Asked, controller: &Controller) -> Option<Answering> {
    match asked {
        Asked::Pending { place, reply } => match controller.begin_taking(&place) {
            Some(taking) => return Some(Answering::Pending(Box::new(taking), reply)),
            None => drop(reply.send(None)),
        },
        Asked::Workload { named, reply } => match controller.begin_finding(&named) {
            Some(finding) => return Some(Answering::Workload(Box::new(finding), reply)),
            None => drop(reply.send(None)),
        },
        Asked::Tree { of, reply } => match controller.begin_tree(&of) {
            Some(taking) => return Some(Answering::Tree(Box::new(taking), reply)),
            None => drop(reply.send(None)),
        },
        Asked::Standing { named, reply } => {
            let standing = controller.standing_workload(&named);
            drop(reply.send(standing.map(Box::new)));
        }
        Asked::Jobs { of, reply } => match controller.begin_jobs(&of) {
            Some(taking) => return Some(Answering::Jobs(Box::new(taking), reply)),
            None => drop(reply.send(None)),
        },
    }
    None
}

/// Looks at one more part. None if that was the last one, or nobody waits for it any more.
fn go_on(answering: Answering, controller: &Controller) -> Option<Answering> {
    if answering.is_closed() {
        return None;
    }
    match answering {
        Answering::Pending(mut taking, reply) => {
            if !controller.go_on_taking(&mut taking, LOOKED_AT) {
                return Some(Answering::Pending(taking, reply));
            }
            let _ = reply.send(Some(taking.end()));
        }
        Answering::Workload(mut finding, reply) => {
            if !controller.go_on_finding(&mut finding, LOOKED_AT) {
                return Some(Answering::Workload(finding, reply));
            }
            let _ = reply.send(Some(Box::new(finding.end())));
        }
        Answering::Tree(mut taking, reply) => {
            if !controller.go_on_tree(&mut taking, LOOKED_AT) {
                return Some(Answering::Tree(taking, reply));
            }
            let _ = reply.send(Some(taking.end()));
        }
        Answering::Jobs(mut taking, reply) => {
            if !controller.go_on_jobs(&mut taking, LOOKED_AT) {
                return Some(Answering::Jobs(taking, reply));
            }
            let _ = reply.send(Some(Box::new(taking.end())));
        }
    }
    None
}
