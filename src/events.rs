//! Kubernetes Events: told to the API server in the background, in order, from a bounded queue. An
//! event that can't be sent is dropped and counted; it never holds up a decision.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tracing::debug;

use crate::metrics::Metrics;
use crate::plan::Note;

/// Events that may wait: what a burst of jobs makes in a second or two.
const WAITING_MAX: usize = 8192;
/// Longest time for one event.
const DEADLINE: Duration = Duration::from_secs(5);
/// Events sent at the same time.
const CONCURRENCY: usize = 4;
/// Events sent by one recorder. It remembers each for minutes, so that one that is told again is only
/// counted, and for each that it sends it goes through all that it remembers.
const REMEMBERED_MAX: usize = 1024;
/// Longest note that the events API takes.
const NOTE_BYTES_MAX: usize = 1024;

/// Where events are handed in.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<(ObjectReference, Note)>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// Starts sending in the background, until the last `Events` is dropped.
    pub fn start(client: Client, reporter: String, metrics: Arc<Metrics>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let recorders = Recorders::new(
            client,
            Reporter {
                controller: "sluice".to_owned(),
                instance: Some(reporter),
            },
        );
        tokio::spawn(send_all(recorders, receiver, metrics.clone()));
        Self { sender, metrics }
    }

    /// Tells `note` about `object`.
    pub fn tell(&self, object: ObjectReference, note: Note) {
        if self.sender.try_send((object, note)).is_err() {
            self.metrics.event_dropped();
        }
    }
}

/// Recorders that take turns, each forgotten with all that it remembers.
struct Recorders {
    client: Client,
    reporter: Reporter,
    current: Recorder,
    handed_out: usize,
}

impl Recorders {
    fn new(client: Client, reporter: Reporter) -> Self {
        let current = Recorder::new(client.clone(), reporter.clone());
        Self {
            client,
            reporter,
            current,
            handed_out: 0,
        }
    }

    /// The recorder for the next event.
    fn next(&mut self) -> Recorder {
        if self.handed_out == REMEMBERED_MAX {
            *self = Self::new(self.client.clone(), self.reporter.clone());
        }
        self.handed_out += 1;
        self.current.clone()
    }
}

async fn send_all(
    recorders: Recorders,
    receiver: mpsc::Receiver<(ObjectReference, Note)>,
    metrics: Arc<Metrics>,
) {
    use futures::StreamExt;
    let both = (receiver, recorders);
    let stream = futures::stream::unfold(both, |(mut receiver, mut recorders)| async move {
        let (object, note) = receiver.recv().await?;
        let recorder = recorders.next();
        Some(((object, note, recorder), (receiver, recorders)))
    });
    stream
        .for_each_concurrent(CONCURRENCY, |(object, note, recorder)| {
            let metrics = metrics.clone();
            async move {
                let event = Event {
                    type_: if note.is_warning {
                        EventType::Warning
                    } else {
                        EventType::Normal
                    },
                    reason: note.reason.to_owned(),
                    note: Some(cut(note.message)),
                    action: note.reason.to_owned(),
                    secondary: None,
                };
                let sent = tokio::time::timeout(DEADLINE, recorder.publish(&event, &object)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    debug!(reason = %event.reason, "event was not sent");
                    metrics.event_dropped();
                }
            }
        })
        .await;
}

fn cut(mut note: String) -> String {
    let mut end = note.len().min(NOTE_BYTES_MAX);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.truncate(end);
    note
}
