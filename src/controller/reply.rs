//! What follows from how a write ended. A reply is an observation: it goes the same way as what a
//! watch shows, so that the next plan is made from it.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use sluice_engine::{Event, WorkloadId};
use tokio::time::Instant;
use tracing::warn;

use super::Controller;
use super::flights::{Flight, Landing};
use crate::plan::{Note, StatusPurpose, Write};
use crate::watch::Source;
use crate::world::Uid;
use crate::write::Reply;

/// First and longest wait after a write that did not happen.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How often a job's writes have failed in a row.
#[derive(Debug, Default)]
pub struct Attempts(std::collections::HashMap<Uid, u32>);

impl Attempts {
    fn wait(&mut self, uid: &Uid) -> Duration {
        let failed = self.0.entry(uid.clone()).or_default();
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

    fn succeeded(&mut self, uid: &Uid) {
        self.0.remove(uid);
    }
}

impl Controller {
    pub(super) fn land(&mut self, landing: Landing) {
        let Landing { flight, reply } = landing;
        match reply {
            Reply::Done(object) => self.done(flight, object.map(|o| *o)),
            Reply::Conflict(object) => self.conflict(&flight, object.map(|o| *o)),
            Reply::Refused(message) => self.refused(&flight, &message),
            Reply::Unknown(why) => self.unknown(flight, &why),
        }
    }

    fn done(&mut self, flight: Flight, object: Option<DynamicObject>) {
        let uid = flight.job.clone();
        self.attempts.succeeded(&uid);
        self.take_in(&flight.write, object);
        match &flight.write {
            Write::SetWorkloadStatus {
                purpose: StatusPurpose::Admit,
                status,
                ..
            } => {
                let created = self.world.workload_of(&uid).and_then(|(_, w)| w.created);
                let waited = created.map_or(0.0, |created| {
                    Timestamp::now()
                        .duration_since(created)
                        .as_secs_f64()
                        .max(0.0)
                });
                let queue = status
                    .admission
                    .as_ref()
                    .map_or("", |a| a.cluster_queue.as_str());
                self.metrics.admitted(queue, waited);
            }
            Write::CreateWorkload(_) => self.unexplained.push_back((Instant::now(), uid.clone())),
            Write::SetWorkloadStatus {
                purpose: StatusPurpose::Requeue,
                ..
            } => {
                self.unexplained.push_back((Instant::now(), uid.clone()));
            }
            _ => {}
        }
        // A job that was let go without a queue is not looked after any more, so its key may be gone.
        let key = match &flight.write {
            Write::PatchJob { key, .. } => Some(key.clone()),
            _ => self.world.job_key(&uid).cloned(),
        };
        if let Some(key) = key {
            for note in flight.notes {
                self.tell(&key, &uid, note);
            }
        }
        self.again(&uid);
    }

    /// The object has changed: what it is now has been read, and the job is planned again.
    fn conflict(&mut self, flight: &Flight, object: Option<DynamicObject>) {
        let uid = flight.job.clone();
        self.take_back(flight);
        self.take_in(&flight.write, object);
        if let Write::CreateWorkload(_) = &flight.write
            && self.world.workload_of(&uid).is_none()
            && let Some(key) = self.world.job_key(&uid).cloned()
        {
            let text = "There is an object with the name of this job's Workload that is not Sluice's: delete it";
            self.tell(&key, &uid, Note::warning("WorkloadNameConflict", text));
        }
        self.later(&uid);
    }

    fn refused(&mut self, flight: &Flight, message: &str) {
        self.take_back(flight);
        warn!(job = %flight.job, message, "the API server refuses a write");
        if let Some(key) = self.world.job_key(&flight.job).cloned() {
            let text =
                format!("The API server refuses what is to be written: {message}; trying again");
            self.tell(
                &key,
                &flight.job.clone(),
                Note::warning("WriteRefused", text),
            );
        }
        self.later(&flight.job);
    }

    /// Nobody knows whether the write has happened. An admission is sent again as it was: it names
    /// the revision it was planned from, so it happens once at most, and until it is known its
    /// quota stays charged. Everything else is planned again.
    fn unknown(&mut self, flight: Flight, why: &str) {
        warn!(job = %flight.job, why, "a write may or may not have happened");
        let uid = flight.job.clone();
        if is_admission(&flight.write) && self.world.job_key(&uid).is_some() {
            self.unanswered.insert(uid.clone(), flight);
        }
        self.later(&uid);
    }

    /// Undoes what was assumed when the write was sent.
    fn take_back(&mut self, flight: &Flight) {
        let id = WorkloadId::new(flight.job.clone());
        match &flight.write {
            Write::SetWorkloadStatus {
                purpose: StatusPurpose::Admit,
                ..
            } => {
                self.engine.apply(Event::AdmissionFailed(id));
            }
            Write::SetWorkloadStatus {
                purpose: StatusPurpose::Evict,
                ..
            } => {
                self.engine.apply(Event::EvictionFailed(id));
            }
            _ => {}
        }
    }

    fn take_in(&mut self, write: &Write, object: Option<DynamicObject>) {
        match (write, object) {
            (Write::PatchJob { key, .. }, Some(object)) => {
                if let Some(life) = self.kinds.life(&key.kind) {
                    self.applied(&Source::Jobs(key.kind.clone(), life), object);
                }
            }
            // The watch will say that the job is gone.
            (Write::PatchJob { .. } | Write::CreateWorkload(_), None) => {}
            (_, Some(object)) => self.applied(&Source::Workload, object),
            (Write::DeleteWorkload { key, uid, .. }, None) => self.workload_gone(key, Some(uid)),
            (
                Write::UpdateWorkloadSpec { key, .. } | Write::SetWorkloadStatus { key, .. },
                None,
            ) => {
                self.workload_gone(key, None);
            }
        }
    }

    /// Plans a job again at once.
    fn again(&mut self, uid: &Uid) {
        self.dirty.insert(uid.clone());
        self.sync_engine(uid);
    }

    /// Plans a job again after a while, and lets nothing be decided about it until then.
    fn later(&mut self, uid: &Uid) {
        let wait = self.attempts.wait(uid);
        self.resting.insert(uid.clone());
        self.wake.insert(uid.clone(), wait);
        self.sync_engine(uid);
    }

    /// The wait of a job is over.
    pub(super) fn awake(&mut self, uid: &Uid) {
        self.resting.remove(uid);
        if let Some(flight) = self.unanswered.remove(uid) {
            self.flights.send(flight);
            return;
        }
        self.again(uid);
    }
}

/// Whether this write admits a job.
pub fn is_admission(write: &Write) -> bool {
    matches!(
        write,
        Write::SetWorkloadStatus {
            purpose: StatusPurpose::Admit,
            ..
        }
    )
}
