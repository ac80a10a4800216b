//! Kubernetes Events: sent in the background from a bounded queue, up to four at a time, so that a repeated event may be
//! counted late. An event that can't be sent is dropped and counted; it never holds up a decision.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

use crate::plan::Note;
use crate::process::answer::ApiAnswer;
use crate::process::clock;
use crate::process::hashing::HashMap;
use crate::process::metrics::Metrics;

/// Events that may wait: what a burst of jobs makes in a second or two.
const WAITING_MAX: usize = 8192;
/// Longest time for one event.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often an event is sent that was not answered, and how long after each.
const TRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(1);
/// Events sent at the same time.
const CONCURRENCY: usize = 4;
/// How many events are remembered, so that one that is told again is only counted, and for how long:
/// as long as client-go does.
const REMEMBERED_MAX: usize = 1024;
const REMEMBERED_FOR: SignedDuration = SignedDuration::from_mins(6);
/// Longest name of an object: a DNS subdomain (RFC 1123).
const NAME_BYTES_MAX: usize = 253;
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
        let recent = RecentEvents::new(reporter);
        tokio::spawn(send_all(client, recent, receiver, metrics.clone()));
        Self { sender, metrics }
    }

    /// Tells `note` about `object`.
    pub fn tell(&self, object: ObjectReference, note: Note) {
        if self.sender.try_send((object, note)).is_err() {
            self.metrics.traffic.event_dropped();
        }
    }
}

/// The object of a namespace that an event is about.
pub fn reference(
    (api_version, kind): (&str, &str),
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

/// A pod, to tell something about.
pub fn pod_reference(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    reference(("v1", "Pod"), namespace, name, uid)
}

/// What makes two events the same. client-go and kube leave the text out, so that what is told the
/// second time shows the text of the first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EventKey {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    note: Note,
}

/// The events of the last minutes.
struct RecentEvents {
    reporter: String,
    events: HashMap<EventKey, Event>,
}

impl RecentEvents {
    fn new(reporter: String) -> Self {
        Self {
            reporter,
            events: HashMap::default(),
        }
    }

    /// The event to be sent: a new one, or one of the last minutes, counted once more.
    fn event(&mut self, object: ObjectReference, note: Note, now: Timestamp) -> Event {
        if REMEMBERED_MAX <= self.events.len() {
            self.forget(now);
        }
        let key = EventKey {
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            note: note.clone(),
        };
        if let Some(known) = self.events.get_mut(&key)
            && now.duration_since(last_told(known)) < REMEMBERED_FOR
        {
            let count = known.series.as_ref().map_or(1, |series| series.count);
            known.series = Some(EventSeries {
                count: count.saturating_add(1),
                last_observed_time: MicroTime(now),
            });
            return known.clone();
        }
        let event = self.first(object, note, now);
        self.events.insert(key, event.clone());
        event
    }

    fn first(&self, object: ObjectReference, note: Note, now: Timestamp) -> Event {
        let type_ = if note.is_warning { "Warning" } else { "Normal" };
        let name = object.name.as_deref().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                namespace: Some(object.namespace.clone().unwrap_or("default".to_owned())),
                name: Some(event_name(name, now)),
                ..ObjectMeta::default()
            },
            action: Some(note.reason.to_owned()),
            reason: Some(note.reason.to_owned()),
            note: Some(truncate_note(note.message)),
            type_: Some(type_.to_owned()),
            event_time: Some(MicroTime(now)),
            regarding: Some(object),
            reporting_controller: Some("sluice".to_owned()),
            reporting_instance: Some(self.reporter.clone()),
            ..Event::default()
        }
    }

    /// Forgets what was told long ago, or else all.
    fn forget(&mut self, now: Timestamp) {
        self.events
            .retain(|_, event| now.duration_since(last_told(event)) < REMEMBERED_FOR);
        if REMEMBERED_MAX <= self.events.len() {
            self.events.clear();
        }
    }
}

fn last_told(event: &Event) -> Timestamp {
    let series = event.series.as_ref();
    let last = series.map(|series| &series.last_observed_time);
    last.or(event.event_time.as_ref())
        .map_or(Timestamp::UNIX_EPOCH, |at| at.0)
}

async fn send_all(
    client: Client,
    recent: RecentEvents,
    receiver: mpsc::Receiver<(ObjectReference, Note)>,
    metrics: Arc<Metrics>,
) {
    let both = (receiver, recent);
    let stream = futures::stream::unfold(both, |(mut receiver, mut recent)| async move {
        let (object, note) = receiver.recv().await?;
        let event = recent.event(object, note, clock::now());
        Some((event, (receiver, recent)))
    });
    stream
        .for_each_concurrent(CONCURRENCY, |event| {
            let (client, metrics) = (client.clone(), metrics.clone());
            async move {
                if !send(&client, &event).await {
                    debug!(reason = ?event.reason, "event was not sent");
                    metrics.traffic.event_dropped();
                }
            }
        })
        .await;
}

/// Whether an event is sent, after some tries: a server may be busy, or gone for a moment.
async fn send(client: &Client, event: &Event) -> bool {
    for attempt in 0..TRIES {
        if 0 < attempt {
            tokio::time::sleep(RETRY).await;
        }
        match tokio::time::timeout(DEADLINE, publish(client.clone(), event)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => match ApiAnswer::of(&error) {
                ApiAnswer::Throttled | ApiAnswer::Unknown => {}
                // Its namespace is gone, or it is refused: it will be again.
                ApiAnswer::Forbidden
                | ApiAnswer::NotFound
                | ApiAnswer::Conflict
                | ApiAnswer::Refused => {
                    return false;
                }
            },
            Err(_) => {}
        }
    }
    false
}

/// Sends an event, or counts it once more. One that is not there any more is told anew.
async fn publish(client: Client, event: &Event) -> Result<(), Error> {
    let metadata = &event.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Event> = Api::namespaced(client, namespace);
    if let (Some(series), Some(name)) = (&event.series, &metadata.name) {
        let patch = Patch::Merge(json!({ "series": series }));
        match api.patch(name, &PatchParams::default(), &patch).await {
            Err(error) if ApiAnswer::of(&error) == ApiAnswer::NotFound => {}
            counted => return counted.map(drop),
        }
    }
    let first = Event {
        series: None,
        ..event.clone()
    };
    match api.create(&PostParams::default(), &first).await {
        // It was sent before, and the reply was lost.
        Err(error) if ApiAnswer::of(&error) == ApiAnswer::Conflict => Ok(()),
        created => created.map(drop),
    }
}

/// The name of an event about the object `name`: a DNS subdomain, also if the object's own name is as long as one may be.
fn event_name(name: &str, now: Timestamp) -> String {
    let time = format!(".{:x}", now.as_nanosecond());
    let left = NAME_BYTES_MAX.saturating_sub(time.len());
    let name = name.get(..name.floor_char_boundary(left)).unwrap_or(name);
    let name = name.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{name}{time}")
}

fn truncate_note(mut note: String) -> String {
    note.truncate(note.floor_char_boundary(NOTE_BYTES_MAX));
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_is_no_longer_than_one_may_be() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let time = format!(".{:x}", now.as_nanosecond());
        let long = format!("{}-.{}", "a".repeat(252 - time.len()), "b".repeat(200));
        let table = [
            ("train", format!("train{time}")),
            (&long, format!("{}{time}", "a".repeat(252 - time.len()))),
            (
                &"c".repeat(253),
                format!("{}{time}", "c".repeat(253 - time.len())),
            ),
        ];
        for (name, expected) in table {
            assert_eq!(event_name(name, now), expected);
            assert!(expected.len() <= NAME_BYTES_MAX);
        }
    }

    fn job() -> ObjectReference {
        ObjectReference {
            kind: Some("Job".to_owned()),
            namespace: Some("blue".to_owned()),
            name: Some("train".to_owned()),
            uid: Some("u-1".to_owned()),
            ..ObjectReference::default()
        }
    }

    fn told(recent: &mut RecentEvents, message: &str, seconds: i64) -> (String, String, i32) {
        let at = Timestamp::from_second(seconds).unwrap();
        let event = recent.event(job(), Note::normal("Admitted", message), at);
        let count = event.series.map_or(1, |series| series.count);
        (event.metadata.name.unwrap(), event.note.unwrap(), count)
    }

    #[test]
    fn only_the_same_text_is_counted_instead_of_told() {
        let mut recent = RecentEvents::new("here".to_owned());
        let (first, _, count) = told(&mut recent, "with flavor a", 1);
        assert_eq!(count, 1);
        let (second, note, count) = told(&mut recent, "with flavor b", 2);
        assert_eq!((note.as_str(), count), ("with flavor b", 1));
        assert_ne!(first, second);
        let again = told(&mut recent, "with flavor a", 3);
        assert_eq!(again, (first.clone(), "with flavor a".to_owned(), 2));
        let (third, _, count) = told(&mut recent, "with flavor a", 3 + 6 * 60);
        assert_eq!(count, 1, "that was too long ago");
        assert_ne!(first, third);
    }

    #[test]
    fn no_more_is_remembered_than_may_be() {
        let mut recent = RecentEvents::new("here".to_owned());
        for number in 0..3000 {
            told(&mut recent, &number.to_string(), 1);
        }
        assert!(recent.events.len() <= REMEMBERED_MAX);
    }
}
