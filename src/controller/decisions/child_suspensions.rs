//! Suspensions of children that run though they may not (`excess.rs`): a bounded number at the same time, told of once
//! they have taken effect, and tried less and less often while they are refused or another client resumes the child
//! each time.

use std::time::Duration;

use kube::api::ApiResource;
use sluice_crds::reasons::event;

use crate::api::write::Reply;
use crate::cache::{JobKey, Subject, Uid};
use crate::controller::Controller;
use crate::plan::{Note, Write};
use crate::process::backoff::RetryBackoff;
use crate::process::clock::Moment;
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// Suspensions at the same time.
const CONCURRENCY: usize = 8;
/// First and longest wait until the same child is suspended again.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_mins(1);
/// A suspension that has held for so long beyond the wait is no part of a struggle.
const LASTING: Duration = Duration::from_secs(10);
/// How often a child may be resumed: its controller may well do so once.
const REPEATS_MAX: u32 = 3;

/// The suspension of a child.
#[derive(Debug)]
pub struct ChildSuspension {
    /// Which.
    pub key: JobKey,
    /// Its UID.
    pub uid: Uid,
    /// What is written.
    pub write: Write,
    /// The resource of the child.
    pub resource: ApiResource,
    /// What to tell once it is suspended.
    pub note: Note,
}

/// A suspension that has ended.
#[derive(Debug)]
pub struct EndedSuspension {
    /// What was in flight.
    pub sent: ChildSuspension,
    /// How it ended.
    pub reply: Reply,
}

/// The suspensions that wait or are under way, and children that were suspended before.
#[derive(Debug, Default)]
pub struct ChildSuspensions {
    waiting: Vec<ChildSuspension>,
    running: usize,
    /// By the UID of the child.
    tried: HashMap<Uid, Tried>,
}

/// How often a child was suspended in vain, and when it may be suspended again.
#[derive(Debug)]
struct Tried {
    count: u32,
    backoff: RetryBackoff,
    next: Moment,
}

impl ChildSuspensions {
    /// How many may begin.
    pub fn free(&self) -> usize {
        CONCURRENCY.saturating_sub(self.waiting.len().saturating_add(self.running))
    }

    /// Whether a child may be suspended now.
    pub fn may_begin(&self, child: &Uid, now: Moment) -> bool {
        self.tried.get(child).is_none_or(|tried| tried.next <= now)
    }

    /// Suspends a child as soon as it is its turn.
    pub fn begin(&mut self, suspension: ChildSuspension, now: Moment) {
        let tried = self.tried.entry(suspension.uid.clone());
        let tried = tried.or_insert(Tried {
            count: 0,
            backoff: RetryBackoff::new(WAIT_MIN, WAIT_MAX),
            next: now,
        });
        tried.count = tried.count.saturating_add(1);
        tried.next = now.after(tried.backoff.next_wait());
        self.waiting.push(suspension);
    }

    /// The next one to be sent.
    pub fn start(&mut self) -> Option<ChildSuspension> {
        let next = self.waiting.pop()?;
        self.running += 1;
        Some(next)
    }

    /// Forgets children whose suspension has lasted.
    pub fn forget_lasting(&mut self, now: Moment) {
        (self.tried).retain(|_, tried| now < tried.next.after(LASTING));
    }

    fn ended(&mut self) {
        if self.running == 0 {
            violated("a suspension that ends was in flight");
        }
        self.running = self.running.saturating_sub(1);
    }

    fn is_struggle(&self, child: &Uid) -> bool {
        let tried = self.tried.get(child);
        tried.is_some_and(|tried| REPEATS_MAX < tried.count)
    }
}

impl Controller {
    /// Tells what became of a suspension. Whatever the reply, the child is seen again, as it is.
    pub(in crate::controller) fn child_suspension_ended(&mut self, ended: EndedSuspension) {
        let EndedSuspension { sent, reply } = ended;
        self.child_suspensions.ended();
        let note = match reply {
            Reply::Done(_) if self.child_suspensions.is_struggle(&sent.uid) => {
                let text = "Another client resumes this object each time that Sluice suspends it: trying again less often";
                Note::warning(event::CHANGED_BACK, text)
            }
            Reply::Done(_) => sent.note,
            Reply::Refused(message) => {
                let text = format!("The API server refuses to suspend it: {message}; trying again");
                Note::warning(event::WRITE_REFUSED, text)
            }
            Reply::Conflict(_) | Reply::Throttled(_) | Reply::Unknown(_) => return,
        };
        self.tell(&sent.key, &sent.uid, note);
        let subject = Subject::Job(sent.uid);
        if self.objects.children.get(&sent.key).is_none() {
            self.prune(&subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{JobPatch, JobPurpose};

    fn suspension(key: &JobKey) -> ChildSuspension {
        ChildSuspension {
            key: key.clone(),
            uid: "uid-child".into(),
            write: Write::PatchJob {
                key: key.clone(),
                patch: JobPatch::Merge(json!({})),
                purpose: JobPurpose::Suspend,
            },
            resource: ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&()),
            note: Note::warning("ExceedsOwner", ""),
        }
    }

    /// Its controller resumes it at once.
    #[test]
    fn a_child_that_is_resumed_each_time_is_suspended_less_and_less_often() {
        let key = JobKey {
            kind: "job".into(),
            namespace: "blue".into(),
            name: "child".into(),
        };
        let (mut suspensions, mut times) = (ChildSuspensions::default(), Vec::new());
        for second in 0..600 {
            let now = Moment::from_millis(second * 1000);
            suspensions.forget_lasting(now);
            if suspensions.may_begin(&"uid-child".into(), now) {
                suspensions.begin(suspension(&key), now);
                assert!(suspensions.start().is_some());
                suspensions.ended();
                times.push(second);
            }
        }
        assert_eq!(times[..6], [0, 2, 6, 14, 30, 62]);
        assert!(times.len() <= 15, "{times:?}");
        assert!(suspensions.is_struggle(&"uid-child".into()));
        // The last one held.
        suspensions.forget_lasting(Moment::from_millis(700_000));
        assert!(!suspensions.is_struggle(&"uid-child".into()));
    }
}
