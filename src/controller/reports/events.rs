//! Events about jobs, groups and pods: each is told once, until something else is told. How events are sent lies in
//! `crate::api::events`.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use tracing::info;

use crate::api::events::{pod_reference, reference};
use crate::cache::{JobKey, Subject, Uid};
use crate::controller::Controller;
use crate::plan::Note;
use crate::process::clock::{Moment, Now};
use crate::process::hashing::HashMap;

/// API servers keep an event for an hour, unless they are told otherwise. Sooner than that it is told again what a
/// pod waits for, and why something has no Workload, which is written nowhere else.
const FORGOTTEN_SOON: Duration = Duration::from_mins(30);

/// Tells users what is news to them.
#[derive(Default)]
pub struct Recorder {
    /// Events to be written.
    events: Vec<(Box<ObjectReference>, Note)>,
    /// What was told last about each subject.
    told: HashMap<Subject, Told>,
    /// Whether only warnings are told.
    is_quiet: bool,
}

/// What was told about a subject.
struct Told {
    /// A digest of it.
    digest: u64,
    /// When it was told first.
    at: Moment,
    /// Whether nothing else says so, as long as it is so.
    is_lasting: bool,
}

impl Recorder {
    /// Lets only warnings be told from now on, or again everything.
    pub fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Whether only warnings are told.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether the last that was told about a subject was something else.
    pub fn is_news(&self, subject: &Subject, note: &Note) -> bool {
        let told = self.told.get(subject);
        told.is_none_or(|told| told.digest != digest(note))
    }

    /// Lets be told again what was told so long ago that the API server is about to forget the event.
    pub fn expire(&mut self, subject: &Subject, now: Now) {
        if self.is_forgotten_soon(subject, now) {
            self.told.remove(subject);
        }
    }

    /// Whether the API server is about to forget the event that told this subject something.
    pub fn is_forgotten_soon(&self, subject: &Subject, now: Now) -> bool {
        let told = self.told.get(subject);
        told.is_some_and(|told| FORGOTTEN_SOON <= now.since(told.at))
    }

    /// What a subject was told last is so until something is done, and nothing else says it.
    pub fn note_lasting(&mut self, subject: &Subject) {
        if let Some(told) = self.told.get_mut(subject) {
            told.is_lasting = true;
        }
    }

    /// Whether the last that a subject was told is like this.
    pub fn is_lasting(&self, subject: &Subject) -> bool {
        self.told.get(subject).is_some_and(|told| told.is_lasting)
    }

    /// Tells something, however often it has been told: the event counts.
    pub fn repeat(&mut self, object: ObjectReference, note: Note) {
        self.events.push((Box::new(object), note));
    }

    /// Takes out the events to be written.
    pub fn take(&mut self) -> Vec<(Box<ObjectReference>, Note)> {
        std::mem::take(&mut self.events)
    }

    /// Forgets a subject of which nothing is left.
    pub fn forget(&mut self, subject: &Subject) {
        self.told.remove(subject);
    }

    /// Tells something about a subject, if it is news.
    fn tell(&mut self, object: ObjectReference, subject: &Subject, note: Note, now: Now) {
        if !self.is_news(subject, &note) {
            return;
        }
        let told = Told {
            digest: digest(&note),
            at: now.moment,
            is_lasting: false,
        };
        self.told.insert(subject.clone(), told);
        if self.is_quiet && !note.is_warning {
            return;
        }
        if note.is_warning {
            info!(
                kind = object.kind,
                namespace = object.namespace,
                name = object.name,
                reason = note.reason,
                told = %note.message,
                "problem"
            );
        }
        self.repeat(object, note);
    }
}

impl Controller {
    /// Tells the user about a job, once.
    pub(in crate::controller) fn tell(&mut self, key: &JobKey, uid: &Uid, note: Note) {
        if let Some(object) = self.reference(key, uid) {
            self.tell_object(object, &Subject::Job(uid.clone()), note);
        }
    }

    /// A job, to tell something about.
    pub(in crate::controller) fn reference(
        &self,
        key: &JobKey,
        uid: &Uid,
    ) -> Option<ObjectReference> {
        let resource = self.kinds.resource(&key.kind)?;
        let kind = (resource.api_version.as_str(), resource.kind.as_str());
        Some(reference(kind, &key.namespace, &key.name, uid))
    }

    /// Tells the user about a job, a pod or a group, once. A group is told by its oldest pod.
    pub(in crate::controller) fn tell_about(&mut self, subject: &Subject, note: Note) {
        let pod = match subject {
            Subject::Job(uid) => {
                if let Some(key) = self.objects.job_key(uid).cloned() {
                    self.tell(&key, uid, note);
                }
                return;
            }
            // Who waits for a group looks at a pod that has not ended.
            Subject::Group(_) => {
                let pods = self.objects.pods_by_age(subject);
                let live = pods.iter().find(|(_, pod)| pod.is_live());
                live.or(pods.first()).copied()
            }
            Subject::Pod(uid) => self.objects.pods.of(uid),
        };
        if let Some((key, pod)) = pod {
            let object = pod_reference(&key.namespace, &key.name, &pod.uid);
            self.tell_object(object, subject, note);
        }
    }

    /// Tells something about a subject by an event of this object.
    pub(in crate::controller) fn tell_object(
        &mut self,
        object: ObjectReference,
        subject: &Subject,
        note: Note,
    ) {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if self.cluster.is_terminating(namespace) {
            return;
        }
        self.recorder.tell(object, subject, note, self.now);
    }
}

fn digest(note: &Note) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(note)
}
