//! Children of queued objects that run though they may not, by `plan/children/excess.rs`: they are suspended and told,
//! and it is for the controller of their owner to resume them. Each is found twice, a second apart, so
//! that what is seen of owner and children belongs together.
//!
//! What cleans up after its owner nobody would resume, and the owner is not gone before that has ended: it runs on if the
//! JobKind of its owner says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::ResourceList;
use tracing::warn;

use super::child_suspensions::ChildSuspension;
use crate::api::fair_queue::FairQueue;
use crate::cache::pod::{CHAIN_MAX, OwnerRef};
use crate::cache::{JobKey, JobRecord, Subject, Uid};
use crate::controller::Controller;
use crate::plan::children::cleanup::{self, Cleanup};
use crate::plan::children::excess::{Excess, RunningChild, excess, note};
use crate::plan::children::lineage::Known;
use crate::plan::{JobPatch, JobPurpose, Write};
use crate::process::hashing::HashMap;
use crate::process::invariants::violated;

/// So many children of one object are judged each second, twice as many every other second, and so on.
const MANY: usize = 10_000;
/// Of the children of one object, how many are suspended first.
const FOUND_MAX: usize = 64;

/// Children that run, and those of them that may not.
#[derive(Default)]
pub struct ExcessChildren {
    /// By the queued object above them.
    families: HashMap<Uid, Family>,
    /// The queued object above each.
    roots: HashMap<JobKey, Uid>,
    /// Those whose pods were born with the label by which they are watched, also while they are suspended: who takes the
    /// label away may suspend them before.
    labelled: HashMap<JobKey, Uid>,
    /// The namespace whose turn was last.
    last: Option<Arc<str>>,
}

/// The children of a queued object that run.
#[derive(Default)]
struct Family {
    children: BTreeMap<JobKey, RunningChild>,
    /// Those of them that may clean up after their owner.
    cleanups: BTreeMap<JobKey, Cleanup>,
    /// Whether one was seen since they were judged.
    is_changed: bool,
    /// Those that were found in the last round, whatever is seen of them until the next: whoever changes a child in between
    /// must not keep it running.
    suspects: BTreeMap<JobKey, Uid>,
}

impl Family {
    fn is_empty(&self) -> bool {
        self.children.is_empty() && self.suspects.is_empty()
    }
}

impl ExcessChildren {
    /// Forgets a child, and returns what was known of it.
    pub fn forget(&mut self, key: &JobKey) -> Option<RunningChild> {
        let root = self.roots.remove(key)?;
        let family = self.families.get_mut(&root)?;
        family.cleanups.remove(key);
        let known = family.children.remove(key);
        if family.is_empty() {
            self.families.remove(&root);
        }
        known
    }

    /// Forgets what the templates of an object said that is gone.
    pub fn gone(&mut self, key: &JobKey, uid: Option<&str>) {
        let labelled = self.labelled.get(key);
        if labelled.is_some_and(|labelled| uid.is_none_or(|uid| **labelled == *uid)) {
            self.labelled.remove(key);
        }
    }

    /// The same of the objects of a kind that are not in a complete list.
    pub fn listed(&mut self, kind: &str, is_there: impl Fn(&JobKey) -> bool) {
        self.labelled
            .retain(|key, _| *key.kind != *kind || is_there(key));
    }

    /// Notes whether the pods of a child are born with the label by which they are watched, and returns whether they ever
    /// were.
    fn note_labels(&mut self, key: &JobKey, child: &JobRecord) -> bool {
        if child.is_labelled() == Some(true) {
            self.labelled.insert(key.clone(), child.uid.clone());
        }
        self.labelled.get(key) == Some(&child.uid)
    }

    /// Whether a child runs and is judged.
    pub fn has(&self, key: &JobKey) -> bool {
        self.roots.contains_key(key)
    }

    /// The queued object may have given quota back: its children are judged again.
    pub fn judge_again(&mut self, root: &Uid) {
        if let Some(family) = self.families.get_mut(root) {
            family.is_changed = true;
        }
    }

    /// What has been cleaning up for too long is judged like any other child.
    fn forget_late_cleanups(&mut self, now: Timestamp) {
        for family in self.families.values_mut() {
            let before = family.cleanups.len();
            family.cleanups.retain(|_, cleanup| !cleanup.is_late(now));
            family.is_changed |= family.cleanups.len() < before;
        }
    }

    fn put(&mut self, root: Uid, key: &JobKey, child: RunningChild, cleanup: Option<Cleanup>) {
        self.roots.insert(key.clone(), root.clone());
        let family = self.families.entry(root).or_default();
        family.children.insert(key.clone(), child);
        if let Some(cleanup) = cleanup {
            family.cleanups.insert(key.clone(), cleanup);
        }
        family.is_changed = true;
    }

    /// The queued objects whose children are to be judged in this second. Where there are very many, that takes a while,
    /// and is done less often.
    fn to_judge(&self, second: u64) -> Vec<Uid> {
        let families = self.families.iter();
        let open = families.filter(|(_, family)| family.is_changed || !family.suspects.is_empty());
        let due = open.filter(|(_, family)| {
            let many = family.children.len() / MANY;
            second.is_multiple_of(u64::try_from(many).unwrap_or(u64::MAX).saturating_add(1))
        });
        due.map(|(root, _)| root.clone()).collect()
    }
}

/// A child that may not run, why, and the queued object above it.
type Found = (JobKey, Excess, Subject);

impl Controller {
    /// Takes in a child as it is now.
    pub(in crate::controller) fn check_excess(&mut self, key: &JobKey, record: &JobRecord) {
        let root = self.queued_above(key, record);
        let root = root.filter(|root| record.is_managed() || !self.is_believed(root));
        let root = root.and_then(|root| self.objects.job(root));
        let root = root.map(|root| root.uid.clone());
        let known = self.excess_children.forget(key);
        let Some(root) = root else {
            return;
        };
        let was_labelled = self.excess_children.note_labels(key, record);
        if let Some(child) = RunningChild::read(record, known.as_ref(), was_labelled) {
            let limits = self.limits_of_cleanup(key, record);
            let cleanup = limits.and_then(|limits| Cleanup::read(&child, record, &limits));
            self.excess_children.put(root, key, child, cleanup);
        }
    }

    /// What a child may ask for to clean up after its owner, by the JobKind of that one.
    fn limits_of_cleanup(&self, key: &JobKey, child: &JobRecord) -> Option<ResourceList> {
        let maker = self.maker(key, child)?;
        let own = self.kinds.compiled(&key.kind)?;
        let declared = maker.child(&own.group, &own.kind)?;
        Some(declared.cleanup_requests.clone())
    }

    /// Once a second: suspends children that have been found twice to run and may not. Each namespace has its turn: the
    /// many children of one keep nobody else's from being found.
    pub(in crate::controller) fn suspend_excess_children(&mut self) {
        self.excess_children.forget_late_cleanups(self.now.wall);
        let mut confirmed: BTreeMap<Arc<str>, Vec<Found>> = BTreeMap::new();
        for root in self.excess_children.to_judge(self.seconds) {
            for found in self.judge(&root) {
                let of_namespace = confirmed.entry(found.0.namespace.clone()).or_default();
                of_namespace.push(found);
            }
        }
        self.child_suspensions.forget_lasting(self.now.moment);
        let free = self.child_suspensions.free();
        for (key, excess, root) in take_turns(confirmed, self.excess_children.last.as_ref(), free) {
            self.excess_children.last = Some(key.namespace.clone());
            self.suspend_child(&key, &excess, &root);
        }
    }

    /// Judges the children of a queued object. Returns those that were found in the last round too.
    fn judge(&mut self, root: &Uid) -> Vec<Found> {
        let subject = Subject::Job(root.clone());
        let workload = self.objects.workload_of(&subject).map(|(_, record)| record);
        let job = self.objects.job_of(&subject).map(|(_, job)| job);
        // Its Workload may go before it does.
        let job = job.filter(|job| !job.deleting || !self.is_still_in_use(&subject));
        let is_deleting = job.is_some_and(|job| job.deleting);
        let Some(family) = self.excess_children.families.get_mut(root) else {
            return Vec::new();
        };
        family.is_changed = false;
        let cleanups = cleanup::may_run(&family.cleanups, root, is_deleting);
        let found = job.map_or_else(Vec::new, |job| {
            excess(job, workload, &family.children, &cleanups)
        });
        // What can't be suspended, or was a moment ago, takes no turn of others.
        let (now, mut is_any_later) = (self.now.moment, false);
        let mut stops = |key: &JobKey| {
            let kind = self.kinds.compiled(&key.kind);
            let can_stop = kind.is_some_and(|kind| kind.suspend_path().is_some());
            let child = family.children.get(key);
            let is_due =
                child.is_some_and(|child| self.child_suspensions.may_begin(&child.uid, now));
            is_any_later |= can_stop && !is_due;
            can_stop && is_due
        };
        let found: BTreeMap<JobKey, Excess> = (found.into_iter())
            .filter(|(key, _)| stops(key))
            .take(FOUND_MAX)
            .map(|(key, excess)| (key.clone(), excess))
            .collect();
        family.is_changed |= is_any_later;
        let uid_of = |key: &JobKey| Some((key.clone(), family.children.get(key)?.uid.clone()));
        let suspects: BTreeMap<_, _> = found.keys().filter_map(uid_of).collect();
        let before = std::mem::replace(&mut family.suspects, suspects);
        let suspects = &family.suspects;
        let twice = found.into_iter().filter(|(key, _)| {
            before
                .get(key)
                .is_some_and(|uid| suspects.get(key) == Some(uid))
        });
        let twice = twice
            .map(|(key, excess)| (key, excess, subject.clone()))
            .collect();
        if family.is_empty() {
            self.excess_children.families.remove(root);
        }
        twice
    }

    /// Suspends a child. It is judged anew until it is seen to be suspended.
    fn suspend_child(&mut self, key: &JobKey, excess: &Excess, root: &Subject) {
        let families = &mut self.excess_children.families;
        let family = root.job().and_then(|root| families.get_mut(root));
        let child = family.and_then(|family| {
            family.suspects.remove(key);
            family.is_changed = true;
            family.children.get(key)
        });
        let Some(uid) = child.map(|child| child.uid.clone()) else {
            return violated("a child that is suspended was judged with its family");
        };
        let kind = self.kinds.compiled(&key.kind);
        let patch = kind.and_then(|kind| kind.suspend_patch(&uid));
        let resource = self.kinds.resource(&key.kind);
        let root = self.display_name(root);
        // Its JobKind, or that of its root, may be another one or gone.
        let (Some(patch), Some(resource), Some(root)) = (patch, resource, root) else {
            return;
        };
        warn!(namespace = %key.namespace, name = %key.name, root, ?excess, "a child of a queued object is suspended");
        let suspension = ChildSuspension {
            key: key.clone(),
            uid,
            write: Write::PatchJob {
                key: key.clone(),
                patch: JobPatch::Merge(patch),
                purpose: JobPurpose::Suspend,
            },
            resource,
            note: note(excess, &root),
        };
        self.child_suspensions.begin(suspension, self.now.moment);
    }

    /// Whether a queued object says itself how many pods it has, of which templates. What its children run beside these,
    /// as the submitter of a RayJob, it can't say: those that name no queue are not compared with it.
    fn is_believed(&self, root: &JobKey) -> bool {
        let kind = self.kinds.compiled(&root.kind);
        kind.is_some_and(|kind| kind.names_its_templates())
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

/// So many of what was found, in turn one of each namespace, beginning after the `last`.
fn take_turns<T>(
    found: BTreeMap<Arc<str>, Vec<T>>,
    last: Option<&Arc<str>>,
    count: usize,
) -> Vec<T> {
    let (first, after): (Vec<_>, Vec<_>) =
        (found.into_iter()).partition(|(namespace, _)| last.is_none_or(|last| last < namespace));
    let mut queue = FairQueue::default();
    for (namespace, found) in first.into_iter().chain(after) {
        for one in found {
            queue.push(namespace.clone(), one);
        }
    }
    std::iter::from_fn(|| queue.pop()).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_its_turn() {
        let found = || {
            let rows = [("blue", 0..5000), ("green", 0..1), ("red", 0..2)];
            let rows = rows.into_iter();
            rows.map(|(name, numbers)| {
                let all: Vec<String> = numbers.map(|number| format!("{name}{number}")).collect();
                (Arc::<str>::from(name), all)
            })
            .collect::<BTreeMap<_, _>>()
        };
        let rows = [
            ("the first round", None, 4, "blue0 green0 red0 blue1"),
            ("after one", Some("blue"), 2, "green0 red0"),
            ("after the last", Some("red"), 2, "blue0 green0"),
            (
                "after one that is gone",
                Some("lost"),
                5,
                "red0 blue0 green0 red1 blue1",
            ),
            ("none is free", None, 0, ""),
        ];
        for (name, last, count, expected) in rows {
            let last = last.map(Arc::<str>::from);
            let taken = take_turns(found(), last.as_ref(), count);
            assert_eq!(taken.join(" "), expected, "{name}");
        }
        assert_eq!(take_turns(found(), None, 9000).len(), 5003);
    }
}
