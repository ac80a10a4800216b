//! Answers readers between two cycles, a part at a time. What they are told is `reports/waiting.rs`, `reports/finding.rs`
//! and `reports/tree.rs`.

use tokio::sync::{mpsc, oneshot};

use crate::controller::Controller;
use crate::controller::reports::finding::Finding;
use crate::controller::reports::tree::TakingTree;
use crate::controller::reports::waiting::Taking;
use crate::visibility::{Asked, Findings, Taken, TakenTree};

/// Workloads that are looked at between two cycles: 3 ms in a debug build.
const LOOKED_AT: usize = 1000;

/// Those who ask, and what is being looked at for one of them.
pub struct Readers {
    asked: mpsc::Receiver<Asked>,
    under_way: Option<Answering>,
}

/// An answer, as far as it has come, and where it goes.
enum Answering {
    Pending(Box<Taking>, oneshot::Sender<Option<Taken>>),
    Workload(Box<Finding>, oneshot::Sender<Option<Box<Findings>>>),
    Tree(Box<TakingTree>, oneshot::Sender<Option<TakenTree>>),
}

impl Answering {
    /// Whether nobody waits for it any more.
    fn is_closed(&self) -> bool {
        match self {
            Self::Pending(_, reply) => reply.is_closed(),
            Self::Workload(_, reply) => reply.is_closed(),
            Self::Tree(_, reply) => reply.is_closed(),
        }
    }
}

impl Readers {
    /// Those who ask here.
    pub fn new(asked: mpsc::Receiver<Asked>) -> Self {
        Self {
            asked,
            under_way: None,
        }
    }

    /// Until somebody has asked, or there is an answer to go on with. For ever if nobody can ask.
    pub async fn wait(&mut self) -> Option<Asked> {
        if self.under_way.is_some() {
            return None;
        }
        match self.asked.recv().await {
            Some(asked) => Some(asked),
            None => std::future::pending().await,
        }
    }

    /// Goes on with the answer that is under way, or takes the next question up. Before everything is listed nobody
    /// is told anything: what is missing would look as if it did not wait.
    pub fn work(&mut self, next: Option<Asked>, controller: &Controller) {
        let next = next.or_else(|| self.next());
        // Nobody waits for what those asked who have hung up.
        if let Some(asked) = next.filter(|asked| !asked.is_closed()) {
            if !controller.has_listed() {
                // The reader hears that there is no answer.
                return;
            }
            self.under_way = begin(asked, controller);
        }
        let under_way = self.under_way.take();
        self.under_way = under_way.and_then(|answering| go_on(answering, controller));
    }

    fn next(&mut self) -> Option<Asked> {
        if self.under_way.is_some() {
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
    }
    None
}
