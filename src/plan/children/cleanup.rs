//! Children by which the controller of an object cleans up after it, as KubeRay deletes what a RayCluster keeps in Redis: the
//! object is not gone before such a child has ended, and nobody would resume the child. So it may run though the object is
//! not admitted, within what the JobKind allows it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::ResourceList;

use crate::cache::{JobKey, JobRecord, Uid};
use crate::plan::children::excess::RunningChild;

/// How long it may take. KubeRay gives its Job five minutes, and whoever may edit that one can give it more.
const CLEANUP_MAX: SignedDuration = SignedDuration::from_mins(10);

/// A child that may clean up after its owner.
#[derive(Debug)]
pub struct Cleanup {
    uid: Uid,
    owner: Uid,
    created: Timestamp,
    /// Since when it exists, on this process's clock.
    exists_since: Timestamp,
}

impl Cleanup {
    /// The child, if it asks for no more than the JobKind of its owner allows.
    pub fn read(child: &RunningChild, record: &JobRecord, limits: &ResourceList) -> Option<Self> {
        let (owner, created) = (record.owner.as_ref()?, record.created?);
        (!limits.is_empty() && child.is_within(limits)).then(|| Self {
            uid: record.uid.clone(),
            owner: owner.uid.clone(),
            created,
            exists_since: record.exists_since.unwrap_or(created),
        })
    }

    /// Whether it should have ended by now.
    pub fn is_late(&self, now: Timestamp) -> bool {
        CLEANUP_MAX <= now.duration_since(self.exists_since)
    }
}

/// Those that may run whatever `root`, the queued object above them, was admitted with. That is one for each owner, as
/// the controller makes no more: who may create such objects can bring one small pod past the queue for each owner and a while.
/// What the root itself owns comes with its deletion only; of what is in between, such as the RayCluster of a RayJob,
/// each may go before the root does.
pub fn may_run<'a>(
    cleanups: &'a BTreeMap<JobKey, Cleanup>,
    root: &Uid,
    is_root_deleting: bool,
) -> BTreeSet<&'a JobKey> {
    let mut first: BTreeMap<&Uid, (Timestamp, &Uid, &JobKey)> = BTreeMap::new();
    for (key, cleanup) in cleanups {
        if is_root_deleting || cleanup.owner != *root {
            let place = (cleanup.created, &cleanup.uid, key);
            let known = first.entry(&cleanup.owner).or_insert(place);
            *known = place.min(*known);
        }
    }
    first.into_values().map(|(.., key)| key).collect()
}
