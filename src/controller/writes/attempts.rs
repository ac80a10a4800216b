//! How often the writes of a subject have failed in a row, or succeeded in vain; and which of them nobody knows the
//! outcome of. How long it backs off follows from that.

use std::time::Duration;

use crate::api::write::operation;
use crate::cache::Subject;
use crate::plan::progress::told;
use crate::plan::{StatusPurpose, Write};
use crate::process::clock::Moment;
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
    failed: HashMap<Subject, u32>,
    /// The last write of each job in words, when it succeeded first, and how often since.
    repeated: HashMap<Subject, (String, Moment, u32)>,
    /// Those for which a write that happens once at most was sent and not answered.
    in_doubt: HashSet<Subject>,
}

impl Attempts {
    pub(super) fn wait(&mut self, subject: &Subject) -> Duration {
        let failed = self.failed.entry(subject.clone()).or_default();
        *failed = failed.saturating_add(1);
        let doubled =
            BACKOFF_MIN.saturating_mul(1_u32.checked_shl((*failed).min(12)).unwrap_or(u32::MAX));
        // Jobs that failed together come back apart: up to a fifth more, by their names.
        let spread = subject.to_string().bytes().fold(0_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u32::from(byte))
        });
        let wait = doubled.min(BACKOFF_MAX);
        wait + wait / 5 * (spread % 100) / 100
    }

    /// A write has succeeded. Returns whether it may be expected to last.
    pub(super) fn succeeded(&mut self, subject: &Subject, write: &Write, now: Moment) -> bool {
        // What a job waits for changes by itself: to say so again is no struggle with anybody.
        if is_explanation(write) {
            self.failed.remove(subject);
            return true;
        }
        let words = in_words(write);
        let entry = self.repeated.entry(subject.clone());
        let entry = entry.or_insert_with(|| (words.clone(), now, 0));
        if entry.0 != words || LASTING < now.since(entry.1) {
            *entry = (words, now, 0);
        }
        entry.2 = entry.2.saturating_add(1);
        let lasts = entry.2 <= REPEATS_MAX;
        if lasts {
            self.failed.remove(subject);
        }
        lasts
    }

    pub(super) fn forget(&mut self, subject: &Subject) {
        self.failed.remove(subject);
        self.repeated.remove(subject);
        self.in_doubt.remove(subject);
    }

    /// A write that happens once at most was sent for it, and nobody knows whether it has happened.
    pub(super) fn doubt(&mut self, subject: &Subject) {
        self.in_doubt.insert(subject.clone());
    }

    /// It is known how its last write ended.
    pub(super) fn answered(&mut self, subject: &Subject) {
        self.in_doubt.remove(subject);
    }

    /// Whether a write that happens once at most was sent for it, and nobody knows whether it has happened.
    pub(super) fn is_in_doubt(&self, subject: &Subject) -> bool {
        self.in_doubt.contains(subject)
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
