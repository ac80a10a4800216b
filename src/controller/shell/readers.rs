//! Answers readers between two cycles, a part of a list at a time. What they are told is `reports/waiting.rs`.

use tokio::sync::{mpsc, oneshot};

use crate::controller::Controller;
use crate::controller::reports::waiting::Taking;
use crate::visibility::{Asked, Taken};

/// Workloads that are looked at between two cycles: 3 ms in a debug build.
const LOOKED_AT: usize = 1000;

/// Those who ask, and the list that is being taken.
pub struct Readers {
    asked: mpsc::Receiver<Asked>,
    taking: Option<(Taking, oneshot::Sender<Option<Taken>>)>,
}

impl Readers {
    /// Those who ask here.
    pub fn new(asked: mpsc::Receiver<Asked>) -> Self {
        Self {
            asked,
            taking: None,
        }
    }

    /// Until somebody has asked, or there is a list to go on with. For ever if nobody can ask.
    pub async fn wait(&mut self) -> Option<Asked> {
        if self.taking.is_some() {
            return None;
        }
        match self.asked.recv().await {
            Some(asked) => Some(asked),
            None => std::future::pending().await,
        }
    }

    /// Goes on with the list that is being taken, or takes the next question up. Before everything is listed nobody
    /// is told anything: what is missing would look as if it did not wait.
    pub fn work(&mut self, next: Option<Asked>, controller: &Controller) {
        if let Some(asked) = next.or_else(|| self.next()) {
            if !controller.has_listed() {
                // The reader hears that there is no answer.
                return;
            }
            match controller.begin_taking(&asked.place) {
                Some(taking) => self.taking = Some((taking, asked.reply)),
                None => drop(asked.reply.send(None)),
            }
        }
        let Some((mut taking, reply)) = self.taking.take() else {
            return;
        };
        if reply.is_closed() {
            return;
        }
        if controller.go_on_taking(&mut taking, LOOKED_AT) {
            let _ = reply.send(Some(taking.end()));
        } else {
            self.taking = Some((taking, reply));
        }
    }

    fn next(&mut self) -> Option<Asked> {
        if self.taking.is_some() {
            return None;
        }
        self.asked.try_recv().ok()
    }
}
