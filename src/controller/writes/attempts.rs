//! How often the writes of a subject have failed in a row, or succeeded in vain; and which of them nobody knows the
//! outcome of. How long it backs off follows from that.

use std::time::Duration;

use super::doubts::Doubts;
use crate::api::write::operation;
use crate::cache::Subject;
use crate::plan::progress::told;
use crate::plan::{StatusPurpose, Write, WriteKind};
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;

/// First and longest wait after a write that did not happen.
const BACKOFF_MIN: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// A write that succeeds again within this time, beside what it had to wait, has changed nothing that lasts.
const LASTING: Duration = Duration::from_secs(10);
/// How often the same write may succeed so: a user may well undo one.
const REPEATS_MAX: u32 = 3;
/// So many different writes that follow each other again and again undo each other. A job that is evicted, queued, admitted
/// and released anew goes through more of them.
const CYCLE_MAX: usize = 3;

/// A write that nobody answered may still take effect for this long: the API server ends a request after a minute
/// (`--request-timeout`), and then a watch may lag.
pub const IN_DOUBT_FOR: Duration = Duration::from_secs(90);

/// How often a job's writes have failed in a row, or succeeded in vain.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: HashMap<Subject, u32>,
    recent: HashMap<Subject, Recent>,
    /// Writes that happen once at most.
    in_doubt: Doubts,
}

/// The last different writes of a job.
#[derive(Debug)]
struct Recent {
    /// The newest comes last.
    writes: Vec<Repeated>,
    /// When the newest succeeded.
    last: Moment,
    /// How long the job was not written to after that.
    waited: Duration,
}

#[derive(Debug)]
struct Repeated {
    /// What the write does.
    words: String,
    /// How often it has succeeded without lasting.
    count: u32,
}

impl Recent {
    /// Takes in a write that has succeeded, and repeats the last one or one shortly before. Returns whether it may be
    /// expected to last.
    fn take_in(&mut self, write: &Write, now: Moment) -> bool {
        let words = in_words(write);
        let first = self.writes.len().saturating_sub(reach(write));
        let mut last = self.writes.iter().skip(first);
        let known = last.position(|known| known.words == words);
        let before = known.map_or(0, |at| self.writes.remove(first + at).count);
        let count = before.saturating_add(1);
        self.writes.push(Repeated { words, count });
        let beyond = self.writes.len().saturating_sub(CYCLE_MAX);
        self.writes.drain(..beyond);
        self.last = now;
        self.waited = Duration::ZERO;
        count <= REPEATS_MAX
    }

    /// Whether one of them was undone again and again.
    fn is_struggle(&self) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|write| REPEATS_MAX < write.count)
    }
}

impl Attempts {
    /// A write has failed, or was in vain. Returns how often that was so in a row.
    pub(super) fn note_failure(&mut self, subject: &Subject) -> u32 {
        let failed = self.failed.entry(subject.clone()).or_default();
        *failed = failed.saturating_add(1);
        *failed
    }

    pub(super) fn wait(&mut self, subject: &Subject) -> Duration {
        let failed = self.note_failure(subject);
        let doubled =
            BACKOFF_MIN.saturating_mul(1_u32.checked_shl(failed.min(12)).unwrap_or(u32::MAX));
        // Jobs that failed together come back apart: up to a fifth more, by their names.
        let spread = subject.to_string().bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let wait = doubled.min(BACKOFF_MAX);
        let wait = wait + wait / 5 * (spread % 100) / 100;
        if let Some(recent) = self.recent.get_mut(subject) {
            recent.waited = wait;
        }
        wait
    }

    /// A write has succeeded. Returns whether it may be expected to last.
    pub(super) fn succeeded(&mut self, subject: &Subject, write: &Write, now: Moment) -> bool {
        // A step of a release that may fail, or be reverted, tells nothing of that.
        if write.kind() == WriteKind::Preparation {
            return true;
        }
        let known = self.recent.remove(subject);
        let known = known.filter(|known| now.since(known.last) <= known.waited + LASTING);
        let mut recent = known.unwrap_or(Recent {
            writes: Vec::new(),
            last: now,
            waited: Duration::ZERO,
        });
        // What a job waits for changes by itself: to say so again is no struggle with anybody.
        let lasts = write.kind() == WriteKind::Explanation || recent.take_in(write, now);
        if !recent.is_struggle() {
            self.failed.remove(subject);
        }
        self.recent.insert(subject.clone(), recent);
        lasts
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.failed.remove(subject);
        self.recent.remove(subject);
        self.in_doubt.forget(subject);
    }

    /// A write that happens once at most was sent for it, and nobody knows whether it has happened.
    pub(super) fn doubt(&mut self, subject: &Subject, now: Moment) {
        self.in_doubt.note(subject, now, IN_DOUBT_FOR);
    }

    /// It is known how its last write ended.
    pub(super) fn answered(&mut self, subject: &Subject) {
        self.in_doubt.forget(subject);
    }

    /// Whether a write that happens once at most was sent for it, and may yet turn out to have happened.
    pub(super) fn is_in_doubt(&self, subject: &Subject, now: Moment) -> bool {
        self.in_doubt.contains(subject, now)
    }

    /// For how long it may yet turn out to have happened; none if it can't.
    pub(super) fn in_doubt_for(&self, subject: &Subject, now: Moment) -> Option<Duration> {
        self.in_doubt.left(subject, now)
    }

    /// For how long nobody has answered it, however often it was sent.
    pub(super) fn unanswered_for(&self, subject: &Subject, now: Moment) -> Duration {
        self.in_doubt.lasting(subject, now)
    }

    /// How often its writes have failed in a row.
    pub(super) fn failures(&self, subject: &Subject) -> u32 {
        self.failed.get(subject).copied().unwrap_or_default()
    }
}

/// How many of the writes before it a write may repeat. What tells what a job is follows the job, which may come back to
/// what it was as often as its user and its pods like. Who is admitted and who is evicted follows the quota, which others
/// may take as often as they come.
fn reach(write: &Write) -> usize {
    match write {
        Write::UpdateWorkloadSpec { .. }
        | Write::SetWorkloadStatus {
            purpose:
                StatusPurpose::Admit
                | StatusPurpose::Evict
                | StatusPurpose::Requeue
                | StatusPurpose::Report,
            ..
        } => 1,
        _ => CYCLE_MAX,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{JobKey, PodKey, Revision, WorkloadKey};
    use crate::plan::{JobPatch, JobPurpose, PodPurpose};

    fn mk_release(name: &str) -> Write {
        Write::PatchPod {
            key: PodKey {
                namespace: "blue".into(),
                name: name.into(),
            },
            patch: serde_json::Value::Null,
            purpose: PodPurpose::Release,
        }
    }

    fn at(millis: u128) -> Moment {
        Moment::from_millis(u64::try_from(millis).unwrap())
    }

    /// A write to the job `a`.
    fn mk_write(purpose: JobPurpose) -> Write {
        let name = |name: &str| name.into();
        Write::PatchJob {
            key: JobKey {
                kind: name("job"),
                namespace: name("blue"),
                name: name("a"),
            },
            patch: JobPatch::Merge(serde_json::Value::Null),
            purpose,
        }
    }

    /// A write of the status of the Workload `a`.
    fn mk_status(purpose: StatusPurpose) -> Write {
        Write::SetWorkloadStatus {
            key: WorkloadKey {
                namespace: "blue".into(),
                name: "a".into(),
            },
            revision: Revision::default(),
            status: Box::default(),
            purpose,
        }
    }

    /// When these writes happen in ten minutes, one after the other and again and again, each as soon as it may; and
    /// whether each was expected to last.
    fn in_turn(writes: &[Write]) -> Vec<(Duration, bool)> {
        let (mut attempts, subject) = (Attempts::default(), Subject::Job("a".into()));
        let (mut now, mut written) = (Duration::ZERO, Vec::new());
        for write in writes.iter().cycle() {
            if Duration::from_mins(10) <= now {
                break;
            }
            let lasts = attempts.succeeded(&subject, write, at(now.as_millis()));
            written.push((now, lasts));
            now += if lasts {
                Duration::from_millis(10)
            } else {
                attempts.wait(&subject)
            };
        }
        written
    }

    /// Another client writes back what was there as soon as it has changed, or two writes of Sluice are the reason for each
    /// other.
    #[test]
    fn writes_that_are_undone_at_once_become_rare_for_as_long_as_they_are() {
        use JobPurpose::{KeepGates, Release, Restore, Suspend};
        for purposes in [
            &[Release][..],
            &[Suspend, Release],
            &[Suspend, Release, KeepGates],
        ] {
            let writes: Vec<_> = purposes.iter().map(|purpose| mk_write(*purpose)).collect();
            let written = in_turn(&writes);
            for (number, (_, lasts)) in written.iter().enumerate() {
                assert_eq!(
                    *lasts,
                    number < 3 * writes.len(),
                    "{purposes:?} {written:?}"
                );
            }
            let late = written.iter();
            let late = late.filter(|(at, _)| Duration::from_mins(5) < *at);
            assert!(late.count() <= 10, "{purposes:?} {written:?}");
        }
        // So many are the life of a job.
        let life = [Suspend, KeepGates, Release, Restore].map(mk_write);
        assert!(in_turn(&life).iter().all(|(_, lasts)| *lasts));
    }

    /// The quota of a group comes and goes by three writes. Its pods are released and deleted by others.
    #[test]
    fn what_is_preempted_again_and_again_struggles_with_nobody() {
        use StatusPurpose::{Admit, Evict, Requeue};
        let life = [Evict, Requeue, Admit].map(mk_status);
        assert!(in_turn(&life).iter().all(|(_, lasts)| *lasts));
        // An admission that somebody takes off at once.
        let written = in_turn(&[mk_status(Admit)]);
        assert!(written.iter().any(|(_, lasts)| !lasts), "{written:?}");
    }

    /// It may be told between two of them what the job waits for.
    #[test]
    fn an_explanation_ends_no_struggle() {
        let explained = mk_status(StatusPurpose::Explain);
        let written = in_turn(&[mk_write(JobPurpose::Suspend), explained]);
        let late = written.iter();
        let late = late.filter(|(at, _)| Duration::from_mins(5) < *at);
        assert!(late.count() <= 20, "{written:?}");
    }

    #[test]
    fn what_has_lasted_is_no_struggle() {
        let (mut attempts, subject) = (Attempts::default(), Subject::Job("a".into()));
        let mut now = Duration::ZERO;
        let mut next = |wait: Duration| {
            now += wait;
            attempts.succeeded(&subject, &mk_release("a"), at(now.as_millis()))
        };
        assert!((0..3).all(|_| next(Duration::from_secs(1))));
        assert!(next(Duration::from_secs(11)));
    }
}
