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

/// A write that nobody answered may still take effect for this long: the API server ends a request after a minute
/// (`--request-timeout`), and then a watch may lag.
pub const IN_DOUBT_FOR: Duration = Duration::from_secs(90);

/// How often a job's writes have failed in a row, or succeeded in vain.
#[derive(Debug, Default)]
pub struct Attempts {
    failed: HashMap<Subject, u32>,
    repeated: HashMap<Subject, Repeated>,
    /// Writes that happen once at most.
    in_doubt: Doubts,
}

/// The last write of a job.
#[derive(Debug)]
struct Repeated {
    /// What it does.
    words: String,
    /// When it succeeded last.
    last: Moment,
    /// How long the job was not written to after that.
    waited: Duration,
    /// How often it has succeeded without lasting.
    count: u32,
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
        if let Some(repeated) = self.repeated.get_mut(subject) {
            repeated.waited = wait;
        }
        wait
    }

    /// A write has succeeded. Returns whether it may be expected to last.
    pub(super) fn succeeded(&mut self, subject: &Subject, write: &Write, now: Moment) -> bool {
        match write.kind() {
            // What a job waits for changes by itself: to say so again is no struggle with anybody.
            WriteKind::Explanation => {
                self.failed.remove(subject);
                return true;
            }
            // A step of a release that may fail, or be reverted, tells nothing of that.
            WriteKind::Preparation => return true,
            _ => {}
        }
        let words = in_words(write);
        let before = self.repeated.remove(subject).filter(|before| {
            before.words == words && now.since(before.last) <= before.waited + LASTING
        });
        let count = before.map_or(0, |before| before.count).saturating_add(1);
        let repeated = Repeated {
            words,
            last: now,
            waited: Duration::ZERO,
            count,
        };
        self.repeated.insert(subject.clone(), repeated);
        let lasts = count <= REPEATS_MAX;
        if lasts {
            self.failed.remove(subject);
        }
        lasts
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.failed.remove(subject);
        self.repeated.remove(subject);
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
    use crate::cache::PodKey;
    use crate::plan::PodPurpose;

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

    /// Another client writes back what was there as soon as it has changed.
    #[test]
    fn a_client_that_reverts_each_write_slows_them_down_for_as_long_as_it_does() {
        let (mut attempts, subject) = (Attempts::default(), Subject::Job("a".into()));
        let (mut now, mut written) = (Duration::ZERO, Vec::new());
        while now < Duration::from_mins(10) {
            let lasts = attempts.succeeded(&subject, &mk_release("a"), at(now.as_millis()));
            assert_eq!(lasts, written.len() < 3, "{written:?}");
            written.push(now);
            now += if lasts {
                Duration::from_millis(10)
            } else {
                attempts.wait(&subject)
            };
        }
        let late = written.iter().filter(|at| Duration::from_mins(5) < **at);
        assert!(late.count() <= 10, "{written:?}");
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
