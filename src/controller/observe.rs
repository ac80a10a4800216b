//! Taking in what watches and replies show: into the world, the settings and the engine. Nothing is
//! decided and nothing is written here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::DynamicObject;
use sluice_engine::{Event, LocalQueueKey, WorkloadId, WorkloadState};
use sluice_kinds::hold::Hold;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::Controller;
use super::flights::Kind;
use crate::plan::workload::Fit;
use crate::plan::{Note, group};
use crate::translate;
use crate::watch::{Change, Observation, Source};
use crate::world::workload::{Owner, group_key};
use crate::world::{JobKey, JobRecord, PodKey, Uid, WorkloadKey, WorkloadRecord};

impl Controller {
    pub(super) fn observe(&mut self, observation: Observation) {
        let Observation { source, change } = observation;
        if let Source::Jobs(kind, life) = &source
            && !self.kinds.is_current(kind, *life)
        {
            return;
        }
        match change {
            Change::Listing(ack) => {
                self.listings.insert(source, HashSet::new());
                // The list is asked for after this: it has all that replies have shown by now.
                let _ = ack.send(());
            }
            Change::InList(object) | Change::Applied(object) => self.applied(&source, *object),
            Change::Deleted(object) => {
                let (namespace, name) = place(&object);
                if source == Source::Pod {
                    return self.pod_deleted(&PodKey { namespace, name }, &object);
                }
                self.gone(&source, &namespace, &name, object.metadata.uid.as_deref());
            }
            Change::Listed => self.listed(&source),
        }
    }

    /// An object exists, like this.
    pub(super) fn applied(&mut self, source: &Source, object: DynamicObject) {
        let (namespace, name) = place(&object);
        if let Some(seen) = self.listings.get_mut(source) {
            seen.insert((namespace.clone(), name.clone()));
        }
        match source {
            Source::Workload => self.workload_applied(object),
            Source::Pod => self.pod_applied(&PodKey { namespace, name }, object),
            Source::Jobs(kind, _) => self.job_applied(
                &JobKey {
                    kind: kind.clone(),
                    namespace,
                    name,
                },
                &object,
            ),
            Source::JobKind => self.job_kind_applied(&object),
            _ => self.setting(source, &namespace, &name, Some(&object)),
        }
    }

    fn gone(&mut self, source: &Source, namespace: &Arc<str>, name: &Arc<str>, uid: Option<&str>) {
        match source {
            Source::Workload => {
                let key = WorkloadKey {
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                self.workload_gone(&key, uid);
            }
            Source::Jobs(kind, _) => {
                let key = JobKey {
                    kind: kind.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                self.job_gone(&key, uid);
            }
            Source::Pod => {
                let (namespace, name) = (namespace.clone(), name.clone());
                self.pod_gone(&PodKey { namespace, name }, uid);
            }
            Source::JobKind => self.job_kind_gone(name),
            _ => self.setting(source, namespace, name, None),
        }
    }

    /// A list is complete: what is known and was not in it is gone.
    fn listed(&mut self, source: &Source) {
        let Some(seen) = self.listings.remove(source) else {
            return;
        };
        let known: Vec<(Arc<str>, Arc<str>)> = match source {
            Source::Workload => self
                .world
                .workloads()
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Pod => self
                .world
                .pods
                .all()
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Jobs(kind, _) => self
                .world
                .jobs()
                .filter(|(key, _)| key.kind == *kind)
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::JobKind => self
                .kinds
                .names()
                .map(|name| ("".into(), name.clone()))
                .collect(),
            _ => self.cluster.known(source),
        };
        for (namespace, name) in known {
            if !seen.contains(&(namespace.clone(), name.clone())) {
                self.gone(source, &namespace, &name, None);
            }
        }
        debug!(?source, objects = seen.len(), "listed");
        if let Source::Jobs(kind, _) = source {
            self.kinds.listed(kind);
            self.review_kind(kind);
            self.workloads_without_job();
        } else if self.unsynced.remove(source) && self.unsynced.is_empty() {
            self.kinds.start_all();
        }
    }

    /// Workloads whose job was not in a complete list are looked at again.
    fn workloads_without_job(&mut self) {
        let orphans: Vec<Uid> = self
            .world
            .workloads()
            .filter_map(|(_, workload)| workload.job.as_ref())
            .filter(|owner| self.world.job_key(&owner.uid).is_none())
            .map(|owner| owner.uid.clone())
            .collect();
        self.dirty.extend(orphans);
    }

    fn setting(
        &mut self,
        source: &Source,
        namespace: &str,
        name: &str,
        object: Option<&DynamicObject>,
    ) {
        match self.cluster.change(source, namespace, name, object) {
            Ok(effect) => {
                for event in effect.events {
                    self.engine.apply(event);
                }
                if effect.priorities {
                    let uids = self.world.jobs().map(|(_, job)| job.uid.clone());
                    self.dirty.extend(uids);
                    self.look_at_all_pods();
                }
                // What runs without a record of its admission is charged to what its queue says.
                if matches!(source, Source::LocalQueue | Source::ClusterQueue) {
                    self.recharge_unrecorded_pods();
                }
                if object.is_none() && *source == Source::ClusterQueue {
                    self.metrics.forget_queue(name);
                }
            }
            Err(error) => warn!(
                ?source,
                namespace, name, error, "object can't be read and is passed over"
            ),
        }
    }

    fn job_applied(&mut self, key: &JobKey, object: &DynamicObject) {
        let Some(kind) = self.kinds.compiled(&key.kind) else {
            return;
        };
        let defaults = self.cluster.pod_defaults(&key.namespace);
        let record = JobRecord::read(object, &kind, &self.options.queue_labels, &defaults);
        let uid = record.uid.clone();
        if let Some(before) = self.world.job(key)
            && before.uid != uid
        {
            // What a watch that lags still shows is older than what is known.
            if record.revision < before.revision {
                return;
            }
            let replaced = before.uid.clone();
            self.job_gone(key, Some(&replaced));
        }
        let has_workload =
            self.world.workload_of(&uid).is_some() || self.flights.of(&uid).is_some();
        let is_child = self.is_child(key, &record);
        if (is_child || !record.is_managed()) && !has_workload {
            if self.world.remove_job(key).is_some() {
                self.forget(&uid);
            }
            return;
        }
        let before = self.world.job(key);
        let lifted = before.is_some_and(|known| {
            known.gates.is_held() && !record.gates.is_held() && known.revision < record.revision
        });
        let is_other_for_pods = before.is_none_or(|known| {
            known.gates != record.gates
                || known.queue != record.queue
                || known.released != record.released
        });
        if self.world.put_job(key.clone(), record) {
            if is_other_for_pods {
                self.dirty.extend(self.world.pods.children(&uid));
            }
            if lifted {
                self.tell(
                    key,
                    &uid,
                    Note::normal("GateLifted", "The last gate is gone"),
                );
            }
            self.dirty.insert(uid.clone());
            self.recount.remove(&uid);
            self.sync_engine(&uid);
        }
    }

    pub(super) fn job_gone(&mut self, key: &JobKey, uid: Option<&str>) {
        let Some(known) = self.world.job(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        let uid = known.uid.clone();
        self.world.remove_job(key);
        // Its Workload, if it holds quota, is deleted: until then the quota stays charged.
        self.dirty.insert(uid.clone());
        self.sync_engine(&uid);
        self.prune(&uid);
    }

    fn workload_applied(&mut self, object: DynamicObject) {
        let (namespace, name) = place(&object);
        let (key, mut record) = match WorkloadRecord::read(object) {
            Ok(read) => read,
            Err(error) => {
                warn!(%namespace, %name, %error, "Workload can't be read and is passed over");
                return;
            }
        };
        // An owner in another namespace is none (a forged reference).
        let job = record.job.clone().filter(|owner| {
            self.world
                .job_key(&owner.uid)
                .is_none_or(|job| job.namespace == key.namespace)
        });
        record.job.clone_from(&job);
        let wait = record
            .requeue_at()
            .map(|at| at.duration_since(Timestamp::now()));
        if let (Some(Owner { uid, .. }), Some(Ok(wait))) = (&job, wait.map(Duration::try_from)) {
            self.wake
                .insert(uid.clone(), wait + Duration::from_millis(10));
        }
        let waits = record.status.admission.is_none() && !record.is_finished();
        if self.world.put_workload(key, record)
            && let Some(Owner { uid, .. }) = job
        {
            if waits && self.is_unexplained.insert(uid.clone()) {
                self.unexplained.push_back((Instant::now(), uid.clone()));
            }
            self.dirty.insert(uid.clone());
            self.sync_engine(&uid);
        }
    }

    pub(super) fn workload_gone(&mut self, key: &WorkloadKey, uid: Option<&str>) {
        let Some(known) = self.world.workload(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        if let Some(Owner { uid, .. }) = self
            .world
            .remove_workload(key)
            .and_then(|record| record.job)
        {
            self.dirty.insert(uid.clone());
            self.sync_engine(&uid);
            self.prune(&uid);
        }
    }

    /// Makes the engine see a job's Workload as it is recorded.
    pub(super) fn sync_engine(&mut self, uid: &Uid) {
        let id = WorkloadId::new(uid.clone());
        let flight = self.flights.of(uid);
        let job = self.world.job_key(uid).and_then(|key| self.world.job(key));
        let Some((key, workload)) = self.world.workload_of(uid) else {
            // Somebody deleted the Workload of a job whose pods may run: the quota is not free yet.
            let may_run = job.is_some_and(|job| {
                job.finished().is_none()
                    && job.hold == Hold::Suspend
                    && job
                        .reading
                        .as_ref()
                        .map_or(true, |r| !r.suspended || r.active)
            });
            let may_run = may_run || 0 < self.live_pods(uid);
            if !(may_run && self.engine.admission(&id).is_some()) {
                self.engine.apply(Event::RemoveWorkload(id));
            }
            return;
        };
        let state = match &workload.status.admission {
            _ if workload.is_finished() => WorkloadState::Finished,
            Some(admission) => match translate::admission(admission, &self.bound_pods(uid)) {
                Ok(admission) if workload.is_evicting() => WorkloadState::Evicting(admission),
                Ok(admission) => WorkloadState::Admitted(admission),
                Err(problems) => {
                    warn!(workload = %key.name, ?problems, "admission can't be counted");
                    WorkloadState::Inactive
                }
            },
            // The engine assumes an admission that is under way.
            None if flight == Some(Kind::Admission) || self.unanswered.contains_key(uid) => return,
            None if flight.is_none_or(|kind| kind == Kind::Explanation)
                && !self.resting.contains(uid)
                && !workload.deleting
                && !workload.stands_back(Timestamp::now())
                && self.may_wait(uid, workload) =>
            {
                WorkloadState::Pending
            }
            None => WorkloadState::Inactive,
        };
        let Ok(pod_sets) = translate::pod_sets(&workload.spec) else {
            warn!(workload = %key.name, "requests can't be counted");
            self.engine.apply(Event::RemoveWorkload(id));
            return;
        };
        let created = workload.created.map_or(i64::MAX, Timestamp::as_second);
        self.engine
            .apply(Event::UpsertWorkload(sluice_engine::Workload {
                id,
                queue: LocalQueueKey::new(key.namespace.clone(), workload.spec.queue_name.as_str()),
                priority: workload.spec.priority,
                created,
                pod_sets,
                state,
            }));
    }

    /// Makes the engine see a job, group or pod as it is recorded.
    pub(super) fn sync(&mut self, uid: &Uid) {
        if self.world.pods.key(uid).is_some() {
            self.sync_pod(uid);
        } else {
            self.sync_engine(uid);
        }
    }

    /// Whether a job or group with a Workload may be admitted.
    fn may_wait(&self, uid: &Uid, workload: &WorkloadRecord) -> bool {
        if group_key(uid).is_some() {
            return group::is_ready(&self.world.pods_of(uid), workload);
        }
        let job = self.world.job_key(uid).and_then(|key| self.world.job(key));
        job.is_some_and(|job| {
            self.is_watched(uid) && may_wait(job, workload) && self.pods_are_free(uid, job)
        })
    }

    /// Whether no gate but Sluice's holds a pod of a job that waits behind gates. Where its templates
    /// bring such gates, all its pods must be there to tell.
    fn pods_are_free(&self, uid: &Uid, job: &JobRecord) -> bool {
        if job.hold != Hold::Pods {
            return true;
        }
        let pods = self.world.pods_of(uid);
        let is_gated = pods.iter().any(|(_, pod)| pod.is_gated_elsewhere());
        let sets = job.reading.as_ref().ok();
        let sets = sets.and_then(|reading| reading.pod_sets.as_ref().ok());
        let are_there = sets.is_some_and(|sets| {
            sets.iter().all(|set| {
                let of_set = pods
                    .iter()
                    .filter(|(_, pod)| pod.pod_set.as_deref() == Some(&*set.name) && pod.is_live());
                let count = usize::try_from(set.count).unwrap_or(usize::MAX);
                !set.has_external_gates || count <= of_set.count()
            })
        });
        !is_gated && are_there
    }

    /// How many pods of a job or group may run.
    pub(super) fn live_pods(&self, uid: &Uid) -> usize {
        let pods = self.world.pods_of(uid);
        pods.iter().filter(|(_, pod)| pod.is_let_go()).count()
    }

    /// How many pods of each pod set are bound to nodes.
    fn bound_pods(&self, uid: &Uid) -> HashMap<String, u32> {
        let is_group = group_key(uid).is_some();
        let mut bound: HashMap<String, u32> = HashMap::new();
        for (_, pod) in self.world.pods_of(uid) {
            if !(pod.is_let_go() && pod.is_bound) {
                continue;
            }
            let set = if is_group {
                Some(group::role_of(pod))
            } else {
                pod.pod_set.as_deref().map(str::to_owned)
            };
            if let Some(set) = set {
                let count = bound.entry(set).or_default();
                *count = count.saturating_add(1);
            }
        }
        bound
    }

    /// Looks again at all pods that are admitted by themselves.
    fn look_at_all_pods(&mut self) {
        let uids: Vec<Uid> = self
            .world
            .pods
            .all()
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.pod_changed(&uid);
        }
    }

    fn recharge_unrecorded_pods(&mut self) {
        let uids: Vec<Uid> = self
            .world
            .pods
            .all()
            .filter(|(_, pod)| pod.queue_gate.is_none() && !matches!(pod.admitted, Some(Ok(_))))
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.sync_pod(&uid);
        }
    }

    /// Whether a job's kind is watched, so that what is known of the job is so.
    fn is_watched(&self, uid: &Uid) -> bool {
        self.world
            .job_key(uid)
            .is_some_and(|key| self.kinds.is_listed(&key.kind))
    }

    /// Looks again at all jobs of a JobKind that stands otherwise than before.
    pub(super) fn review_kind(&mut self, kind: &str) {
        let uids: Vec<Uid> = self
            .world
            .jobs()
            .filter(|(key, _)| *key.kind == *kind)
            .map(|(_, job)| job.uid.clone())
            .collect();
        for uid in uids {
            self.sync_engine(&uid);
            self.dirty.insert(uid);
        }
    }

    /// Whether the controller that owns a job is itself looked after: then that one is queued, by
    /// UID and not by name, and lets its children go by its own means.
    pub(super) fn is_child(&self, key: &JobKey, job: &JobRecord) -> bool {
        job.owner.as_ref().is_some_and(|owner| {
            self.world
                .job_key(owner)
                .is_some_and(|owner| owner.namespace == key.namespace)
        })
    }

    fn forget(&mut self, uid: &Uid) {
        self.dirty.remove(uid);
        self.sync_engine(uid);
        self.prune(uid);
    }

    /// Forgets what was noted about a job that has neither an object nor a Workload any more.
    pub(super) fn prune(&mut self, uid: &Uid) {
        if self.world.job_key(uid).is_none()
            && self.world.workload_of(uid).is_none()
            && self.world.pods.key(uid).is_none()
            && self.world.pods_of(uid).is_empty()
        {
            self.told.remove(uid);
            self.attempts.forget(uid);
            self.unanswered.remove(uid);
            self.leaving.remove(uid);
            self.blocked.remove(uid);
        }
    }
}

/// Whether a job with a Workload may be admitted: its gates are gone and it asks for what is recorded.
fn may_wait(job: &JobRecord, workload: &WorkloadRecord) -> bool {
    use sluice_kinds::view::QueueName;
    let is_queued =
        matches!(&job.queue, QueueName::Named(queue) if *queue == workload.spec.queue_name);
    let reading = job.reading.as_ref();
    let is_held = job.gates.is_held() && !job.released;
    let is_recorded = reading.is_ok_and(|reading| {
        reading.finished.is_none()
            && (reading.suspended || job.hold == Hold::Pods)
            && reading
                .pod_sets
                .as_ref()
                .is_ok_and(|sets| crate::plan::workload::covers(workload, sets, Fit::Exact))
    });
    let can_be_held = job.hold == Hold::Suspend || job.is_gated;
    is_queued && is_recorded && !is_held && !job.deleting && can_be_held
}

fn place(object: &DynamicObject) -> (Arc<str>, Arc<str>) {
    let metadata = &object.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default().into(),
        metadata.name.as_deref().unwrap_or_default().into(),
    )
}
