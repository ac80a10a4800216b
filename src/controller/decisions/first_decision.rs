//! The first decision of a leader. While nobody led, jobs came that have no Workload yet: to decide before
//! they have one would give their quota to whoever has, whatever the priorities. So it waits for the
//! Workloads that the first plans create, and for the owners that tell whether an object is a job at all.
//! It also waits until jobs have stopped that run without a Workload, as somebody deleted it while nobody
//! led, or as they were there before Sluice: nobody knows what quota they use.
//! What comes after that waits for nothing here.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_kinds::view::LabelledQueue;
use tracing::info;

use crate::cache::{JobKey, JobRecord, Subject};
use crate::controller::Controller;
use crate::plan::WriteKind;
use crate::plan::engine_state::may_run_without_workload;
use crate::process::clock::{Moment, Now};

/// The first decision waits no longer than this: an API server that answers slowly, or one tenant's
/// many jobs, must not keep everybody waiting.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// How far a leader is.
pub enum Phase {
    /// Not everything has been listed once. Nothing is planned.
    Listing,
    /// The first decision waits for this.
    Starting(AwaitedAtStart),
    /// The engine decides.
    Deciding,
}

impl Phase {
    /// Whether everything has been listed once.
    pub fn has_listed(&self) -> bool {
        !matches!(self, Self::Listing)
    }

    /// Whether the engine has decided.
    pub fn has_decided(&self) -> bool {
        matches!(self, Self::Deciding)
    }
}

/// What the first decision waits for.
pub struct AwaitedAtStart {
    since: Moment,
    /// Whether the first plans have been made: before that nobody knows what is awaited.
    is_planned: bool,
    /// Jobs and groups whose way into their queue is being written.
    subjects: BTreeSet<Subject>,
    /// Objects whose owner is being looked up.
    unsorted: BTreeSet<JobKey>,
    /// Jobs that run without a Workload, until they have stopped.
    stopping: BTreeSet<JobKey>,
}

impl AwaitedAtStart {
    /// Nothing has been planned yet.
    pub fn new(now: Now) -> Self {
        Self {
            since: now.moment,
            is_planned: false,
            subjects: BTreeSet::new(),
            unsorted: BTreeSet::new(),
            stopping: BTreeSet::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.subjects.is_empty() && self.unsorted.is_empty() && self.stopping.is_empty()
    }
}

impl Controller {
    /// Lets the engine decide once all that was there at the start stands in its queue; returns whether it may. To be
    /// called when everything that was touched has been planned.
    pub(in crate::controller) fn advance_to_deciding(&mut self) -> bool {
        let mut awaited = match std::mem::replace(&mut self.phase, Phase::Deciding) {
            Phase::Starting(awaited) => awaited,
            Phase::Deciding => return true,
            Phase::Listing => {
                self.phase = Phase::Listing;
                return false;
            }
        };
        if !awaited.is_planned {
            awaited.is_planned = true;
            awaited.subjects = self.writes.queueing().cloned().collect();
            awaited.unsorted = self.objects.children.waiting().into_iter().collect();
            awaited.stopping = self.running_without_workload();
        }
        self.sort_out(&mut awaited);
        let waited = self.now.since(awaited.since);
        if awaited.is_over() || WAIT_MAX <= waited {
            info!(
                not_queued = awaited.subjects.len() + awaited.unsorted.len(),
                not_stopped = awaited.stopping.len(),
                waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                "all jobs created meanwhile are queued; the first decision follows"
            );
            return true;
        }
        self.phase = Phase::Starting(awaited);
        false
    }

    /// Drops what is awaited no more. A job whose owner is known now is awaited until it is queued; a
    /// write that failed is not: it is tried again in its own time.
    fn sort_out(&self, awaited: &mut AwaitedAtStart) {
        let AwaitedAtStart {
            subjects,
            unsorted,
            stopping,
            ..
        } = awaited;
        // An owner that can't be read is asked for again later: nobody waits for that.
        let asked = self.owners.asked();
        unsorted.retain(|key| {
            let child = self.objects.children.get(key);
            let owner = child.and_then(|child| child.waits_for.as_ref());
            let waits = owner.is_some_and(|owner| asked.contains(owner));
            if !waits && let Some(job) = self.objects.job(key) {
                subjects.insert(Subject::Job(job.uid.clone()));
            }
            waits
        });
        subjects.retain(|subject| self.writes.of(subject) == Some(WriteKind::Queueing));
        stopping.retain(|key| self.objects.job(key).is_some_and(may_run));
    }

    /// Queued jobs that are not suspended and have no Workload. The first plans suspend them.
    fn running_without_workload(&self) -> BTreeSet<JobKey> {
        let runs = |job: &JobRecord| {
            let subject = Subject::Job(job.uid.clone());
            matches!(job.queue, LabelledQueue::Named(_))
                && !job.deleting
                && job.suspended == Some(false)
                && may_run(job)
                && self.objects.workload_of(&subject).is_none()
        };
        let jobs = self.objects.jobs().filter(|(_, job)| runs(job));
        jobs.map(|(key, _)| key.clone()).collect()
    }
}

/// Whether pods of a job run or may be made. Nobody knows of one that can't be read, and Sluice does not stop it.
fn may_run(job: &JobRecord) -> bool {
    job.reading.is_ok() && may_run_without_workload(job, || false)
}
