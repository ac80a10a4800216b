//! The statuses of queues, cohorts, Gates and JobKinds: looked at once a second, written when a reader
//! would be told something else. They are reports: nothing is decided by them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ApiResource;
use serde::Serialize;
use serde_json::Value;
use sluice_crds::{ClusterQueue, Cohort, JobKind, JobKindStatus, LocalQueue, LocalQueueStatus};
use sluice_engine::{ClusterQueueName, CohortName, Engine};

use super::backlog::{oldest_gated, queue_backlog};
use super::job_kinds;
use crate::cache::ObjectCache;
use crate::cache::cluster::{Cluster, Kept};
use crate::cache::conditions;
use crate::controller::kinds::Kinds;
use crate::plan::status::queues;
use crate::plan::status::queues::GatedOfQueue;
use crate::plan::status::shares;
use crate::process::clock::{Moment, Now};
use crate::process::hashing::{HashMap, HashSet};
use crate::process::invariants::violated;
use crate::process::metrics::Metrics;

/// Status writes at the same time.
const CONCURRENCY: usize = 8;
/// Statuses that are written again in a second. Where short jobs run every queue
/// changes all the time, and each of these writes costs as much as one that admits a job.
const AGAIN_PER_SECOND: usize = 10;
/// What was not written for so long is written at once.
const AGAIN: Duration = Duration::from_secs(30);
/// Which status: the kind, the namespace and the name of its object.
pub type StatusKey = (String, String, String);

/// A status to be written.
#[derive(Debug)]
pub struct StatusReport {
    /// Which one.
    pub place: StatusKey,
    /// The resource of its object.
    pub resource: ApiResource,
    /// The merge patch of it.
    pub status: Value,
}

/// The statuses that wait or are being written.
#[derive(Default)]
pub struct Statuses {
    waiting: VecDeque<StatusReport>,
    under_way: HashSet<StatusKey>,
    /// What was written within [`AGAIN`], and when.
    written: HashMap<StatusKey, Moment>,
}

impl Statuses {
    /// The next status to be written, if there may be one more at the same time.
    pub fn start(&mut self, now: Now) -> Option<StatusReport> {
        if CONCURRENCY <= self.under_way.len() {
            return None;
        }
        let report = self.waiting.pop_front()?;
        self.under_way.insert(report.place.clone());
        self.written.insert(report.place.clone(), now.moment);
        Some(report)
    }

    /// A status was written, or could not be.
    pub fn ended(&mut self, place: &StatusKey) {
        self.under_way.remove(place);
    }

    /// Has statuses written that would say something else. Of those that were written lately only some, and
    /// those first that it is the longest ago for: each has its turn.
    pub fn refresh(
        &mut self,
        engine: &Engine,
        cluster: &Cluster,
        objects: &ObjectCache,
        kinds: &Kinds,
        metrics: &Metrics,
        present: Now,
    ) {
        // What still waits is looked at afresh.
        self.waiting.clear();
        let now = present.wall;
        self.cluster_queues(engine, cluster, now);
        self.local_queues(engine, cluster, objects, kinds, now);
        self.cohorts(engine, cluster, now);
        self.gates(cluster, objects, kinds, metrics, now);
        self.job_kinds(kinds, now);
        self.written.retain(|_, at| present.since(*at) < AGAIN);
        put_off(&mut self.waiting, |report| {
            self.written.get(&report.place).copied()
        });
    }

    fn cluster_queues(&mut self, engine: &Engine, cluster: &Cluster, now: Timestamp) {
        let resource = ApiResource::erase::<ClusterQueue>(&());
        for (name, kept) in &cluster.queues {
            let Some(report) = engine.queue_status(&ClusterQueueName::from(name.as_str())) else {
                continue;
            };
            let Kept {
                generation,
                status: known,
                fault,
            } = kept;
            let quota = engine.queue_quota(&ClusterQueueName::from(name.as_str()));
            let fault = fault.as_ref();
            let status =
                queues::cluster_queue(known, &report, quota.as_ref(), fault, *generation, now);
            if status != *known {
                self.write(&resource, "", name, known, &status);
            }
        }
    }

    fn local_queues(
        &mut self,
        engine: &Engine,
        cluster: &Cluster,
        objects: &ObjectCache,
        kinds: &Kinds,
        now: Timestamp,
    ) {
        let resource = ApiResource::erase::<LocalQueue>(&());
        for (key, kept) in &cluster.local_queues {
            let Some(report) = engine.local_queue_status(key) else {
                continue;
            };
            let of = |counts: &BTreeMap<_, i32>| counts.get(key).copied().unwrap_or_default();
            let gated = of(objects.gated()).saturating_add(of(objects.pods.gated()));
            let gated = GatedOfQueue {
                count: gated,
                oldest: oldest_gated(objects, kinds, key),
                backlog: queue_backlog(cluster, objects, key, now),
            };
            let Kept {
                generation,
                status: known,
                fault,
            } = kept;
            let queue = cluster.cluster_queue_of(key).map(ClusterQueueName::from);
            let quota = queue.and_then(|queue| engine.queue_quota(&queue));
            let status = queues::local_queue(
                known,
                &report,
                quota.as_ref(),
                fault.as_ref(),
                gated,
                *generation,
                now,
            );
            if status != *known {
                self.write(&resource, &key.namespace, &key.name, known, &status);
            }
        }
    }

    /// Has nothing written any more but what LocalQueues have used up to the end, for the next controller to
    /// begin with.
    pub fn finish(&mut self, engine: &Engine, cluster: &Cluster) {
        self.waiting.clear();
        let resource = ApiResource::erase::<LocalQueue>(&());
        for (key, kept) in &cluster.local_queues {
            let report = engine.local_queue_status(key);
            let consumed = report.as_ref().and_then(|report| report.consumed.as_ref());
            let known = kept.status.fair_sharing.as_ref();
            let said = shares::used_over_time(known, consumed, true);
            if said.is_some() && said.as_ref() != known {
                let status = LocalQueueStatus {
                    fair_sharing: said,
                    ..kept.status.clone()
                };
                self.write(&resource, &key.namespace, &key.name, &kept.status, &status);
            }
        }
    }

    fn cohorts(&mut self, engine: &Engine, cluster: &Cluster, now: Timestamp) {
        let resource = ApiResource::erase::<Cohort>(&());
        for (name, kept) in &cluster.cohorts {
            let Some(report) = engine.cohort_status(&CohortName::from(name.as_str())) else {
                continue;
            };
            let status = queues::cohort(
                &kept.status,
                &report,
                kept.fault.as_ref(),
                kept.generation,
                now,
            );
            if status != kept.status {
                self.write(&resource, "", name, &kept.status, &status);
            }
        }
    }

    fn job_kinds(&mut self, kinds: &Kinds, now: Timestamp) {
        let resource = ApiResource::erase::<JobKind>(&());
        for (name, kept, state) in kinds.watch_states() {
            let Some(update) = job_kinds::ready(kinds, name, kept, &state) else {
                continue;
            };
            let mut conditions = kept.status.conditions.clone();
            conditions::set(&mut conditions, update, kept.generation, now);
            let status = JobKindStatus { conditions };
            if status != kept.status {
                self.write(&resource, "", name, &kept.status, &status);
            }
        }
    }

    /// Has a status written that says something else than what is known, unless that is under way.
    pub(super) fn write(
        &mut self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        known: &impl Serialize,
        status: &impl Serialize,
    ) {
        let place: StatusKey = (resource.kind.clone(), namespace.to_owned(), name.to_owned());
        let (Ok(known), Ok(mut status)) =
            (serde_json::to_value(known), serde_json::to_value(status))
        else {
            violated("a status has only what JSON has");
            return;
        };
        name_what_is_gone(&known, &mut status);
        if !self.under_way.contains(&place) {
            let resource = resource.clone();
            self.waiting.push_back(StatusReport {
                place,
                resource,
                status,
            });
        }
    }
}

/// Leaves to a later round what is one too many.
fn put_off<T>(waiting: &mut VecDeque<T>, written: impl Fn(&T) -> Option<Moment>) {
    let reports = waiting.make_contiguous();
    reports.sort_by_key(&written);
    let new = reports.partition_point(|report| written(report).is_none());
    waiting.truncate(new + AGAIN_PER_SECOND);
}

/// A merge patch leaves alone what it doesn't name: entries of maps that are gone are set to null.
fn name_what_is_gone(known: &Value, status: &mut Value) {
    let (Value::Object(known), Value::Object(status)) = (known, status) else {
        return;
    };
    for (key, value) in known {
        match status.get_mut(key) {
            Some(next) => name_what_is_gone(value, next),
            None => {
                status.insert(key.clone(), Value::Null);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use super::{AGAIN_PER_SECOND, name_what_is_gone, put_off};
    use crate::process::clock::Moment;
    use serde_json::json;

    #[test]
    fn what_was_written_lately_takes_turns_and_what_is_new_does_not_wait() {
        let begun = Moment::now();
        let at = |seconds: u64| Some(begun.after(Duration::from_secs(seconds)));
        let mut waiting: VecDeque<_> = (0..30).rev().map(at).collect();
        waiting.extend([None, None]);
        put_off(&mut waiting, |written| *written);
        let oldest = (0..).take(AGAIN_PER_SECOND).map(at);
        let wanted: Vec<_> = [None, None].into_iter().chain(oldest).collect();
        assert_eq!(waiting, wanted);
    }

    #[test]
    fn a_merge_patch_names_what_is_gone() {
        let known = json!({"count": 2, "asks": {"cpu": "1", "pods": "1"}, "list": [{"a": 1}]});
        let mut status = json!({"count": 1, "asks": {"cpu": "2"}, "list": []});
        let wanted = status.clone();
        name_what_is_gone(&known, &mut status);
        assert_eq!(status["asks"], json!({"cpu": "2", "pods": null}));
        let mut patched = known;
        json_patch::merge(&mut patched, &status);
        assert_eq!(patched, wanted);
    }
}
