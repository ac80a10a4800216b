//! Objects that are to be read again although they have not changed: what their namespace or a RuntimeClass adds to
//! their pods has. A job that waits asks for what its pods will ask for; one that is admitted is read again too,
//! for its next admission. Of an object only its record is kept, so that each is asked for by name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ApiResource;

use crate::api::lookup::FoundJob;
use crate::cache::additions::Added;
use crate::cache::{JobKey, JobRecord, Source};
use crate::controller::Controller;
use crate::controller::intake::lookups::{InNamespace, Lookups};
use crate::process::clock::Moment;

/// How long to wait before a job that could not be read is asked for again, and how often.
const RETRY: Duration = Duration::from_secs(5);
const TRIES: u32 = 10;

/// A job that is to be read again.
#[derive(Debug, Clone)]
pub struct Reread {
    /// Where it is.
    pub key: JobKey,
    /// Its resource.
    pub resource: ApiResource,
    tries: u32,
}

impl InNamespace for Reread {
    fn namespace(&self) -> &Arc<str> {
        &self.key.namespace
    }
}

/// What was found when a job was asked for.
#[derive(Debug)]
pub struct ReadAgain {
    /// What was asked for.
    pub reread: Reread,
    /// What the API server said.
    pub found: FoundJob,
}

/// Jobs that are to be read again.
#[derive(Debug, Default)]
pub struct Rereads {
    lookups: Lookups<Reread>,
    /// Those that wait, so that each does once.
    known: BTreeSet<JobKey>,
}

impl Rereads {
    fn add(&mut self, reread: Reread) {
        if self.known.insert(reread.key.clone()) {
            self.lookups.ask(reread);
        }
    }

    /// The next job to be asked for, if there may be one more at the same time.
    pub fn start(&mut self, now: Moment) -> Option<Reread> {
        let known = &mut self.known;
        let is_wanted = |reread: &Reread| known.insert(reread.key.clone());
        let next = self.lookups.start(now, is_wanted)?;
        self.known.remove(&next.key);
        Some(next)
    }
}

impl Controller {
    /// Something else is added to pods: the objects whose templates these have are read again, also those
    /// that go with a job which has its pods by them.
    pub(in crate::controller) fn additions_changed(&mut self, added: &Added) {
        let is_of = |key: &JobKey, job: &JobRecord| match added {
            Added::To(namespace) => key.namespace == *namespace,
            Added::OfClass(class) => may_be_of_class(job, class),
        };
        let objects = self.objects.jobs().chain(self.objects.children.records());
        for (key, job) in objects {
            if !is_of(key, job) || job.finished().is_some() {
                continue;
            }
            if let Some(resource) = self.kinds.resource(&key.kind) {
                self.rereads.add(Reread {
                    key: key.clone(),
                    resource,
                    tries: 0,
                });
            }
        }
    }

    /// Takes in a job that was read again.
    pub(in crate::controller) fn read_again(&mut self, answer: ReadAgain) {
        let ReadAgain { reread, found } = answer;
        self.rereads.lookups.ended();
        match found {
            FoundJob::Object(object) => {
                let kind = &reread.key.kind;
                if let Some(life) = self.kinds.life(kind) {
                    let source = Source::Jobs(kind.clone(), life);
                    // What its watch has shown to be gone since stays gone: nothing would take it back.
                    if self.knows(&source, &object) {
                        self.applied(&source, *object);
                    }
                }
            }
            // Its watch tells of that.
            FoundJob::Gone => {}
            FoundJob::Unanswered if reread.tries < TRIES => {
                let again = Reread {
                    tries: reread.tries + 1,
                    ..reread
                };
                let due = self.now.moment.after(RETRY);
                self.rereads.lookups.ask_again(due, again);
            }
            FoundJob::Unanswered => tracing::warn!(
                kind = %reread.key.kind, namespace = %reread.key.namespace, name = %reread.key.name,
                "can't be read again, and keeps what its namespace added to its pods before"
            ),
        }
    }
}

/// Whether some pods of a job are of a RuntimeClass, or that is not known.
fn may_be_of_class(job: &JobRecord, class: &str) -> bool {
    let reading = job.reading.as_ref().ok();
    let pod_sets = reading.and_then(|reading| reading.pod_sets.as_ref().ok());
    pod_sets.is_none_or(|sets| {
        let mut classes = sets.iter().map(|set| set.runtime_class.as_deref());
        classes.any(|named| named == Some(class))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::intake::lookups::CONCURRENCY;

    fn reread(number: usize) -> Reread {
        Reread {
            key: JobKey {
                kind: "job".into(),
                namespace: "blue".into(),
                name: format!("job-{number}").into(),
            },
            resource: ApiResource::erase::<k8s_openapi::api::batch::v1::Job>(&()),
            tries: 0,
        }
    }

    fn now() -> Moment {
        Moment::from_millis(5000)
    }

    #[test]
    fn what_was_not_answered_takes_no_place_while_it_waits() {
        let mut rereads = Rereads::default();
        let due = now().after(RETRY);
        rereads.lookups.ask_again(due, reread(0));
        rereads.add(reread(1));
        let mut started = |now| rereads.start(now).map(|reread| reread.key.name);
        assert_eq!(started(now()).as_deref(), Some("job-1"));
        assert_eq!(started(now()), None);
        assert_eq!(started(due).as_deref(), Some("job-0"));
    }

    #[test]
    fn each_job_waits_once_and_few_are_read_at_a_time() {
        let mut rereads = Rereads::default();
        for number in 0..CONCURRENCY + 2 {
            rereads.add(reread(number));
            rereads.add(reread(number));
        }
        let started = std::iter::from_fn(|| rereads.start(now())).count();
        assert_eq!(started, CONCURRENCY);
        rereads.lookups.ended();
        // It may have changed since it was asked for.
        rereads.add(reread(0));
        let waiting = std::iter::from_fn(|| {
            rereads.lookups.ended();
            rereads.start(now())
        });
        let waiting: Vec<_> = waiting.map(|reread| reread.key.name.to_string()).collect();
        assert_eq!(waiting, ["job-8", "job-9", "job-0"]);
    }
}
