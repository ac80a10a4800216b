//! Children of queued objects that run though they may not, by `plan/excess.rs`: they are suspended and told,
//! and it is for the controller of their owner to resume them. Each is looked at twice, a second apart, so
//! that what is seen of owner and child belongs together.

use std::sync::Arc;

use kube::api::ApiResource;
use tracing::warn;

use crate::cache::pod::{CHAIN_MAX, OwnerRef};
use crate::cache::{JobKey, JobRecord, Subject};
use crate::controller::Controller;
use crate::controller::intake::lineage::Known;
use crate::plan::excess::{Excess, excess, note};
use crate::plan::{JobPatch, JobPurpose, Write};
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// Suspensions at the same time.
const CONCURRENCY: usize = 8;
/// Children under suspicion. Others wait until they are seen again.
const SUSPECTS_MAX: usize = 10_000;

/// Children that run and may not.
#[derive(Default)]
pub struct ExcessChildren {
    suspects: HashMap<JobKey, Suspect>,
    /// Suspensions to be sent.
    waiting: Vec<(Write, ApiResource)>,
    running: usize,
}

/// A child as it was seen last.
struct Suspect {
    record: JobRecord,
    /// Whether a round has found so already.
    is_confirmed: bool,
}

impl ExcessChildren {
    /// The next suspension to be sent.
    pub fn start(&mut self) -> Option<(Write, ApiResource)> {
        let next = self.waiting.pop()?;
        self.running += 1;
        Some(next)
    }

    /// A suspension has ended. Whatever the reply, the object is seen again, as it is.
    pub fn ended(&mut self) {
        self.running = self.running.saturating_sub(1);
    }
}

impl Controller {
    /// Takes in a child as it is now.
    pub(in crate::controller) fn check_excess(&mut self, key: &JobKey, record: &JobRecord) {
        if self.excess_of(key, record).is_none() {
            self.excess_children.suspects.remove(key);
        } else if self.excess_children.suspects.len() < SUSPECTS_MAX {
            let suspect = Suspect {
                record: record.clone(),
                is_confirmed: false,
            };
            self.excess_children.suspects.insert(key.clone(), suspect);
        }
    }

    /// Once a second: suspends children that have been found twice to run and may not.
    pub(in crate::controller) fn suspend_excess_children(&mut self) {
        let suspects = &mut self.excess_children.suspects;
        suspects.retain(|key, _| self.objects.children.get(key).is_some());
        let judged: Vec<_> = (self.excess_children.suspects.iter())
            .map(|(key, suspect)| (key.clone(), self.excess_of(key, &suspect.record)))
            .collect();
        for (key, found) in judged {
            let Some((excess, root)) = found else {
                self.excess_children.suspects.remove(&key);
                continue;
            };
            let suspect = self.excess_children.suspects.get_mut(&key);
            if suspect.is_some_and(|suspect| std::mem::replace(&mut suspect.is_confirmed, true)) {
                self.suspend_child(&key, &excess, &root);
            }
        }
    }

    /// Suspends a child. It stays under suspicion until it is seen to be suspended.
    fn suspend_child(&mut self, key: &JobKey, excess: &Excess, root: &Subject) {
        let ExcessChildren {
            waiting, running, ..
        } = &self.excess_children;
        if CONCURRENCY <= waiting.len() + running {
            return;
        }
        let Some(suspect) = self.excess_children.suspects.get_mut(key) else {
            return violated("a child that is suspended is under suspicion");
        };
        suspect.is_confirmed = false;
        let uid = suspect.record.uid.clone();
        let kind = self.kinds.compiled(&key.kind);
        let patch = kind.and_then(|kind| kind.suspend_patch(&uid));
        let resource = self.kinds.resource(&key.kind);
        let root = self.display_name(root);
        // Its JobKind, or that of its root, may be another one or gone.
        let (Some(patch), Some(resource), Some(root)) = (patch, resource, root) else {
            return;
        };
        warn!(namespace = %key.namespace, name = %key.name, root, ?excess, "a child of a queued object is suspended");
        self.tell(key, &uid, note(excess, &root));
        let write = Write::PatchJob {
            key: key.clone(),
            patch: JobPatch::Merge(patch),
            purpose: JobPurpose::Suspend,
        };
        self.excess_children.waiting.push((write, resource));
    }

    /// Why a child may not run, and the queued object above it.
    fn excess_of(&self, key: &JobKey, child: &JobRecord) -> Option<(Excess, Subject)> {
        let root = self.objects.job(self.queued_above(key, child)?)?;
        let subject = Subject::Job(root.uid.clone());
        let workload = self.objects.workload_of(&subject).map(|(_, record)| record);
        Some((excess(root, workload, child)?, subject))
    }

    /// The object that is queued, some way above `child`.
    fn queued_above(&self, key: &JobKey, child: &JobRecord) -> Option<&JobKey> {
        let mut above: Option<Arc<OwnerRef>> = child.owner.clone();
        for _ in 0..CHAIN_MAX {
            let owner = above?;
            if let Some(found) = self.objects.job_key(&owner.uid) {
                return Some(found).filter(|found| found.namespace == key.namespace);
            }
            above = match self.objects.children.of(&owner.uid) {
                Some((_, child)) => child.owner.clone(),
                None => match self.owners.known(&owner, &key.namespace) {
                    Known::There { owner, .. } => owner,
                    Known::Managed
                    | Known::Gone
                    | Known::Forbidden
                    | Known::Unreadable
                    | Known::Nothing => None,
                },
            };
        }
        None
    }
}
