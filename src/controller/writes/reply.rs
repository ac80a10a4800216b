//! What follows from how a write ended. A reply is an observation: it goes the same way as what a
//! watch shows, so that the next plan is made from it.

use std::time::Duration;

use kube::api::DynamicObject;
use sluice_engine::{Event, WorkloadId};
use tokio::time::Instant;
use tracing::warn;

use super::flights::{Flight, Landing, is_admission};
use crate::api::events::pod_reference;
use crate::api::write::{Reply, operation};
use crate::cache::Source;
use crate::cache::Uid;
use crate::cache::workload::group_key;
use crate::controller::Controller;
use crate::controller::reports::progress::told;
use crate::plan::{JobPurpose, Note, PodPurpose, StatusPurpose, Write};
use crate::process::clock;
use crate::process::hashing::{HashMap, HashSet};

/// First and longest wait after a write that did not happen.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A write that succeeds again within this time has changed nothing that lasts.
const LASTING: Duration = Duration::from_secs(10);
/// How often the same write may succeed within that time: a user may well undo one.
const REPEATS_MAX: u32 = 3;

/// How often a job's writes have failed in a row, or succeeded in vain.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: HashMap<Uid, u32>,
    /// The last write of each job in words, when it succeeded first, and how often since.
    repeated: HashMap<Uid, (String, Instant, u32)>,
    /// Those for which a write that happens once at most was sent and not answered.
    in_doubt: HashSet<Uid>,
}

impl Attempts {
    fn wait(&mut self, uid: &Uid) -> Duration {
        let failed = self.failed.entry(uid.clone()).or_default();
        *failed = failed.saturating_add(1);
        let doubled =
            BACKOFF_MIN.saturating_mul(1_u32.checked_shl((*failed).min(12)).unwrap_or(u32::MAX));
        // Jobs that failed together come back apart: up to a fifth more, by their UID.
        let spread = uid.bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let wait = doubled.min(BACKOFF_MAX);
        wait + wait / 5 * (spread % 100) / 100
    }

    /// A write has succeeded. Returns whether it may be expected to last.
    fn succeeded(&mut self, uid: &Uid, write: &Write) -> bool {
        // What a job waits for changes by itself: to say so again is no struggle with anybody.
        if is_explanation(write) {
            self.failed.remove(uid);
            return true;
        }
        let words = in_words(write);
        let now = Instant::now();
        let entry = self.repeated.entry(uid.clone());
        let entry = entry.or_insert_with(|| (words.clone(), now, 0));
        if entry.0 != words || LASTING < now.duration_since(entry.1) {
            *entry = (words, now, 0);
        }
        entry.2 = entry.2.saturating_add(1);
        let lasts = entry.2 <= REPEATS_MAX;
        if lasts {
            self.failed.remove(uid);
        }
        lasts
    }

    pub(in crate::controller) fn forget(&mut self, uid: &Uid) {
        self.failed.remove(uid);
        self.repeated.remove(uid);
        self.in_doubt.remove(uid);
    }

    /// Whether a write that happens once at most was sent for it, and nobody knows whether it has happened.
    fn is_in_doubt(&self, uid: &Uid) -> bool {
        self.in_doubt.contains(uid)
    }
}

impl Controller {
    pub(in crate::controller) fn land(&mut self, landing: Landing) {
        let Landing { flight, reply } = landing;
        match reply {
            Reply::Done(object) => self.done(flight, object.map(|o| *o)),
            Reply::Conflict(object) => self.conflict(&flight, object.map(|o| *o)),
            Reply::Refused(message) => self.refused(flight, &message),
            Reply::Unknown(why) => self.unknown(flight, &why),
        }
    }

    fn done(&mut self, flight: Flight, object: Option<DynamicObject>) {
        let uid = flight.subject.clone();
        self.attempts.in_doubt.remove(&uid);
        self.leaving.remove(&uid);
        let lasts = self.attempts.succeeded(&uid, &flight.write);
        self.take_in(&uid, &flight.write, object);
        if let Write::SetWorkloadStatus {
            purpose: StatusPurpose::Admit,
            status,
            ..
        } = &flight.write
        {
            let created = self.objects.workload_of(&uid).and_then(|(_, w)| w.created);
            let admission = status.admission.as_ref();
            let queue = admission.map_or("", |admission| admission.cluster_queue.as_str());
            self.count_admission(queue, created, clock::now());
        }
        if is_pod_admission(&flight.write) {
            self.pod_admitted(&uid);
        }
        self.told_of(&flight.write, &uid, flight.notes);
        if !lasts {
            let text =
                "Another client reverts each write of Sluice at once: trying again less often";
            let note = Note::warning("ChangedBack", text);
            self.told_of(&flight.write, &uid, vec![note]);
        }
        if let Some(root) = self.released_by(&flight.write, &uid) {
            if lasts {
                self.blocked.remove(&root);
            } else {
                self.is_blocked(&root, "another client reverts each write of Sluice at once");
            }
        }
        self.prune(&uid);
        if lasts {
            self.again(&uid);
        } else {
            self.later(&uid);
        }
    }

    /// The object has changed: what it is now has been read, and the job is planned again.
    fn conflict(&mut self, flight: &Flight, object: Option<DynamicObject>) {
        let uid = flight.subject.clone();
        self.attempts.in_doubt.remove(&uid);
        self.leaving.remove(&uid);
        self.take_back(flight);
        let is_there = object.is_some();
        if is_there && let Some(root) = self.released_by(&flight.write, &uid) {
            self.is_blocked(&root, "it changes each time that it is to be released");
        }
        self.take_in(&uid, &flight.write, object);
        if let Write::CreateWorkload(_) = &flight.write
            && is_there
            && self.objects.workload_of(&uid).is_none()
            && let Some(key) = self.objects.job_key(&uid).cloned()
        {
            let text = "The Workload of this job can't be created: another object has its name, and is not Sluice's; delete that object";
            self.tell(&key, &uid, Note::warning("WorkloadNameConflict", text));
        }
        self.later(&uid);
    }

    fn refused(&mut self, flight: Flight, message: &str) {
        // It was sent before, and may have happened then: that it may not now says nothing of that.
        if happens_once(&flight.write) && self.attempts.is_in_doubt(&flight.subject) {
            return self.unknown(flight, message);
        }
        self.leaving.remove(&flight.subject);
        self.take_back(&flight);
        warn!(subject = %flight.subject, refusal = message, "the API server refuses a write");
        let text = format!("The API server refuses a write of Sluice: {message}; trying again");
        let note = Note::warning("WriteRefused", text);
        self.told_of(&flight.write, &flight.subject, vec![note]);
        if let Some(root) = self.released_by(&flight.write, &flight.subject) {
            self.is_blocked(&root, message);
        }
        self.later(&flight.subject);
    }

    /// Nobody knows whether the write has happened. An admission, or the release of a pod, is sent again
    /// as it was: it happens once at most, and until it is known its quota or its place stays taken.
    /// An eviction is decided again, everything else is planned again.
    fn unknown(&mut self, flight: Flight, why: &str) {
        warn!(subject = %flight.subject, why, "the outcome of a write is unknown");
        let uid = flight.subject.clone();
        if let Some(root) = self.released_by(&flight.write, &uid) {
            self.is_blocked(&root, why);
        }
        if !happens_once(&flight.write) {
            self.take_back(&flight);
        } else if self.is_known(&uid) {
            self.attempts.in_doubt.insert(uid.clone());
            self.unanswered.insert(uid.clone(), flight);
        }
        self.later(&uid);
    }

    /// Undoes what was assumed when the write was sent.
    fn take_back(&mut self, flight: &Flight) {
        let id = WorkloadId::new(flight.subject.clone());
        match &flight.write {
            write if is_admission(write) => {
                self.engine.apply(Event::AdmissionFailed(id));
            }
            Write::SetWorkloadStatus {
                purpose: StatusPurpose::Evict,
                ..
            }
            | Write::DeletePod { .. } => {
                self.engine.apply(Event::EvictionFailed(id));
            }
            _ => {}
        }
    }

    /// What a reply shows. An object that a watch has shown to be gone since stays gone: no watch
    /// would ever take it back.
    fn take_in(&mut self, uid: &Uid, write: &Write, object: Option<DynamicObject>) {
        match (write, object) {
            (Write::PatchJob { key, .. }, Some(object)) => {
                let is_child = self.objects.children.get(key).is_some();
                if (is_child || self.objects.job(key).is_some())
                    && let Some(life) = self.kinds.life(&key.kind)
                {
                    self.applied(&Source::Jobs(key.kind.clone(), life), object);
                }
            }
            (Write::PatchJob { key, .. }, None) => self.job_gone(key, Some(uid)),
            (Write::PatchPod { key, .. }, Some(object)) => {
                if self.objects.pods.get(key).is_some() {
                    self.applied(&Source::Pod, object);
                }
            }
            (Write::PatchPod { key, .. }, None) => self.pod_gone(key, Some(uid)),
            // The watch shows how a deleted pod ends.
            (Write::DeletePod { .. }, _) | (Write::CreateWorkload(_), None) => {}
            (
                Write::UpdateWorkloadSpec { key, .. } | Write::SetWorkloadStatus { key, .. },
                Some(_),
            ) if self.objects.workload(key).is_none() => {}
            (_, Some(object)) => self.applied(&Source::Workload, object),
            (Write::DeleteWorkload { key, uid, .. }, None) => self.workload_gone(key, Some(uid)),
            (
                Write::UpdateWorkloadSpec { key, .. } | Write::SetWorkloadStatus { key, .. },
                None,
            ) => {
                self.workload_not_found(key);
            }
        }
    }

    /// Whether there is anything by this UID.
    fn is_known(&self, uid: &Uid) -> bool {
        self.objects.job_key(uid).is_some()
            || self.objects.pods.key(uid).is_some()
            || group_key(uid).is_some()
    }

    /// The job or group that a write releases, or a pod of it.
    fn released_by(&self, write: &Write, uid: &Uid) -> Option<Uid> {
        match write {
            Write::PatchJob {
                purpose: JobPurpose::Release | JobPurpose::Prepare,
                ..
            } => Some(uid.clone()),
            Write::PatchPod {
                purpose: PodPurpose::Release,
                ..
            } => {
                let (key, pod) = self.objects.pods.of(uid)?;
                self.belongs_to(pod, &key.namespace)
            }
            _ => None,
        }
    }

    /// Tells about the object that a write was for. A job that was released without a queue is not
    /// looked after any more, so it may be known by the write alone.
    fn told_of(&mut self, write: &Write, uid: &Uid, notes: Vec<Note>) {
        for note in notes {
            match write {
                Write::PatchJob {
                    purpose: JobPurpose::Prepare,
                    ..
                } => self.tell_about(uid, note),
                Write::PatchJob { key, .. } => self.tell(&key.clone(), uid, note),
                Write::PatchPod { key, .. } | Write::DeletePod { key, .. } => {
                    let object = pod_reference(&key.namespace, &key.name, uid);
                    self.tell_object(object, uid, note);
                }
                _ => self.tell_about(uid, note),
            }
        }
    }

    /// Plans a job or pod again at once.
    fn again(&mut self, uid: &Uid) {
        if self.objects.pods.key(uid).is_some() {
            return self.pod_changed(uid);
        }
        self.dirty.insert(uid.clone());
        self.sync_engine(uid);
    }

    /// Plans a job again after a while, and lets nothing be decided about it until then.
    fn later(&mut self, uid: &Uid) {
        let wait = self.attempts.wait(uid);
        self.resting.insert(uid.clone());
        self.wake.insert(uid.clone(), wait);
        self.sync(uid);
    }

    /// The wait of a job is over.
    pub(in crate::controller) fn awake(&mut self, uid: &Uid) {
        self.resting.remove(uid);
        self.prune(uid);
        if let Some(flight) = self.unanswered.remove(uid) {
            self.flights.send(flight);
            return;
        }
        self.again(uid);
        // It may be a controller whose pods backed off.
        if let Some(backoff) = self.pod_backoffs.get(uid) {
            for pod in self.objects.pods.children(&backoff.namespace, uid) {
                self.again(&pod);
            }
        }
    }
}

/// What a write does. A job that its user edits again and again asks for something else each time, and
/// one that changes its mind tells something else.
fn in_words(write: &Write) -> String {
    let says = match write {
        Write::UpdateWorkloadSpec { spec, .. } => serde_json::to_string(spec).unwrap_or_default(),
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Report,
            status,
            ..
        } => told(status),
        _ => String::new(),
    };
    operation(write).to_owned() + &says
}

/// Whether this write says what a job waits for.
fn is_explanation(write: &Write) -> bool {
    matches!(
        write,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Explain,
            ..
        }
    )
}

/// Whether a write must not be replaced by another one while nobody knows whether it has happened.
fn happens_once(write: &Write) -> bool {
    let is_release = matches!(
        write,
        Write::PatchPod {
            purpose: PodPurpose::Release,
            ..
        }
    );
    is_release || is_admission(write)
}

fn is_pod_admission(write: &Write) -> bool {
    is_admission(write) && matches!(write, Write::PatchPod { .. })
}
