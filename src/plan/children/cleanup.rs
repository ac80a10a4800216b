//! Children by which the controller of an object cleans up after it, as KubeRay deletes what a RayCluster keeps in Redis: the
//! object is not gone before such a child has ended, and nobody would resume the child. So it may run though the object is
//! not admitted, within what the JobKind allows it; and it is counted, as its pod may be none that is watched.

use std::collections::BTreeMap;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use sluice_crds::ResourceList;
use sluice_engine::{Admission, Borrowing, LocalQueueKey, Workload, WorkloadState};
use sluice_kinds::view::PodSetView;
use sluice_translate as translate;

use crate::cache::{JobRecord, Subject, Uid};
use crate::plan::children::excess::RunningChild;
use crate::plan::engine_state::time;

/// How long it may take. KubeRay gives its Job five minutes, and whoever may edit that one can give it more.
const CLEANUP_MAX: SignedDuration = SignedDuration::from_mins(10);

/// A child that cleans up after its owner.
#[derive(Debug)]
pub struct Cleanup {
    /// Its UID.
    pub uid: Uid,
    /// The queued object above it.
    pub root: Uid,
    created: Option<Timestamp>,
    /// Its pod.
    asks: PodSetView,
    /// Whether it should have ended long ago.
    is_late: bool,
}

impl Cleanup {
    /// The child of the object `root`, if it asks for no more than the JobKind allows.
    pub fn read(
        child: &RunningChild,
        record: &JobRecord,
        root: &Uid,
        limits: &ResourceList,
    ) -> Option<Self> {
        let pod_sets = record.reading.as_ref().ok()?.pod_sets.as_ref().ok()?;
        let asks = pod_sets.iter().find(|set| set.count == 1)?.clone();
        (!limits.is_empty() && child.is_within(limits)).then(|| Self {
            uid: record.uid.clone(),
            root: root.clone(),
            created: record.created,
            asks,
            is_late: false,
        })
    }

    /// Whether it should have ended long ago.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Notes what time it is. Returns whether it should have ended by now, and was not late before.
    pub fn turns_late(&mut self, now: Timestamp) -> bool {
        let before = self.is_late;
        let age = self.created.map(|created| now.duration_since(created));
        self.is_late = age.is_none_or(|age| CLEANUP_MAX <= age);
        self.is_late && !before
    }

    /// What it uses of the first flavors of a queue. It is not preempted: it ends soon, and nobody would make it again.
    pub fn usage(
        &self,
        queue: LocalQueueKey,
        cluster_queue: &str,
        cohort: Option<&str>,
        flavors: &BTreeMap<String, String>,
    ) -> Workload {
        let admission = translate::pod_admission(translate::ReleasedPod {
            cluster_queue,
            cohort,
            flavors,
            asks: &self.asks,
            is_bound: true,
        });
        let id = Subject::Job(self.uid.clone()).id();
        Workload {
            created: self.created.map_or(i64::MAX, Timestamp::as_second),
            pod_sets: vec![translate::pod_set(&self.asks, Borrowing::allowed_if(true))],
            evictable: false,
            state: WorkloadState::Admitted(Admission {
                since: self.created.map(time).unwrap_or_default(),
                ..admission
            }),
            ..Workload::new(id, queue)
        }
    }
}
