//! Taking in what watches and replies show: into the objects, the settings and the engine. Nothing is
//! decided and nothing is written here.

use std::sync::Arc;

use kube::api::DynamicObject;
use sluice_kinds::pod::PodMode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::Controller;
use crate::api::watch::{Change, Observation};
use crate::cache::Source;
use crate::cache::workload::Owner;
use crate::cache::{JobKey, JobRecord, PodKey, Uid, WorkloadKey, WorkloadRecord};
use crate::process::hashing::HashSet;

/// An object that a watch has seen.
#[derive(Debug)]
pub enum Seen {
    /// As it is.
    Object(Box<DynamicObject>),
    /// A Job-like object, as its JobKind reads it.
    Job(JobKey, Box<JobRecord>),
}

impl Controller {
    pub(super) fn observe(&mut self, observation: Observation<Seen>) {
        let Observation { source, change } = observation;
        if let Source::Jobs(kind, life) = &source
            && !self.kinds.is_current(kind, *life)
        {
            return;
        }
        match change {
            Change::Listing(ack) => {
                self.listings.insert(source, HashSet::default());
                // The list is asked for after this: it has all that replies have shown by now.
                let _ = ack.send(());
            }
            Change::InList(Seen::Object(object)) | Change::Applied(Seen::Object(object)) => {
                self.applied(&source, *object);
            }
            Change::InList(Seen::Job(key, job)) | Change::Applied(Seen::Job(key, job)) => {
                self.note_listed(&source, &key.namespace, &key.name);
                self.job_applied(&key, *job);
            }
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
        self.note_listed(source, &namespace, &name);
        match source {
            Source::Workload => self.workload_applied(object),
            Source::Pod => self.pod_applied(&PodKey { namespace, name }, object),
            Source::Jobs(kind, _) => {
                if let Some(reader) = self.kinds.reader(kind) {
                    let (key, record) = reader.read(&object);
                    self.job_applied(&key, record);
                }
            }
            Source::JobKind => self.job_kind_applied(&object),
            _ => self.setting(source, &namespace, &name, Some(&object)),
        }
    }

    /// Notes that a list has this object, if one is under way.
    fn note_listed(&mut self, source: &Source, namespace: &Arc<str>, name: &Arc<str>) {
        if let Some(seen) = self.listings.get_mut(source) {
            seen.insert((namespace.clone(), name.clone()));
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
                self.objects.unbury_workload(uid);
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
                .objects
                .workloads()
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Pod => self
                .objects
                .pods
                .all()
                .map(|(key, _)| (key.namespace.clone(), key.name.clone()))
                .collect(),
            Source::Jobs(kind, _) => {
                let jobs = self.objects.jobs().map(|(key, _)| key);
                jobs.chain(self.objects.children.keys())
                    .filter(|key| key.kind == *kind)
                    .map(|key| (key.namespace.clone(), key.name.clone()))
                    .collect()
            }
            Source::JobKind => self
                .kinds
                .names()
                .map(|name| ("".into(), name.clone()))
                .collect(),
            _ => self.cluster.known(source),
        };
        if *source == Source::Workload {
            self.objects.unbury_workload(None);
        }
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
            .objects
            .workloads()
            .filter_map(|(_, workload)| workload.job.as_ref())
            .filter(|owner| self.objects.job_key(&owner.uid).is_none())
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
                    let uids = self.objects.jobs().map(|(_, job)| job.uid.clone());
                    self.dirty.extend(uids);
                    self.look_at_all_pods();
                }
                self.changed_templates.extend(effect.template);
                if effect.keeps {
                    self.look_at_all_pods();
                }
                if effect.first_choice {
                    self.recharge_unrecorded_pods();
                }
                if object.is_none() && *source == Source::ClusterQueue {
                    self.metrics.forget_queue(name);
                }
            }
            Err(error) => warn!(
                ?source,
                namespace, name, error, "object can't be read and is ignored"
            ),
        }
    }

    fn workload_applied(&mut self, object: DynamicObject) {
        let (namespace, name) = place(&object);
        let (key, mut record) = match WorkloadRecord::read(object) {
            Ok(read) => read,
            Err(error) => {
                warn!(%namespace, %name, %error, "Workload can't be read and is ignored");
                return;
            }
        };
        // An owner in another namespace is none (a forged reference).
        let job = record.job.clone().filter(|owner| {
            self.objects
                .job_key(&owner.uid)
                .is_none_or(|job| job.namespace == key.namespace)
        });
        // What it said of its job before an orphaning deletion is still so.
        let known = self
            .objects
            .workload(&key)
            .and_then(|known| known.job.as_ref());
        let job = match (job, known) {
            (Some(job), Some(known)) if job.is_nameless() && job.uid == known.uid => {
                Some(known.clone())
            }
            (job, _) => job,
        };
        record.job.clone_from(&job);
        self.set_late_aside(&key, &mut record);
        let waits = record.status.admission.is_none() && !record.is_finished();
        let known = self.objects.workload(&key);
        let was_evicting = known
            .filter(|known| known.uid == record.uid && known.revision < record.revision)
            .map(WorkloadRecord::is_evicting);
        self.count_eviction(was_evicting, &record);
        if self.objects.put_workload(key, record)
            && let Some(Owner { uid, .. }) = job
        {
            if waits && self.is_unexplained.insert(uid.clone()) {
                self.unexplained.push_back((Instant::now(), uid.clone()));
            }
            self.dirty.insert(uid.clone());
            self.sync_engine(&uid);
        }
    }

    /// A reply says that a Workload is gone, which its watch may not have shown yet.
    pub(super) fn workload_not_found(&mut self, key: &WorkloadKey) {
        if let Some(known) = self.objects.workload(key) {
            let uid = known.uid.to_string();
            self.objects.bury_workload(&uid);
        }
        self.workload_gone(key, None);
    }

    pub(super) fn workload_gone(&mut self, key: &WorkloadKey, uid: Option<&str>) {
        let Some(known) = self.objects.workload(key) else {
            return;
        };
        if uid.is_some_and(|uid| *known.uid != *uid) {
            return;
        }
        if let Some(Owner { uid, .. }) = self
            .objects
            .remove_workload(key)
            .and_then(|record| record.job)
        {
            self.dirty.insert(uid.clone());
            self.sync_engine(&uid);
            self.prune(&uid);
        }
    }

    /// Looks again at all pods that are admitted by themselves.
    fn look_at_all_pods(&mut self) {
        let uids: Vec<Uid> = self
            .objects
            .pods
            .all()
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.pod_changed(&uid);
        }
    }

    /// What runs without a record of its admission has usage in the flavors that its queue says.
    fn recharge_unrecorded_pods(&mut self) {
        let uids: Vec<Uid> = self
            .objects
            .pods
            .all()
            .filter(|(_, pod)| pod.mode == PodMode::Single && pod.is_released())
            .filter(|(_, pod)| !matches!(pod.admitted, Some(Ok(_))))
            .map(|(_, pod)| pod.uid.clone())
            .collect();
        for uid in uids {
            self.sync_pod(&uid);
        }
    }

    /// Looks again at all jobs of a JobKind that stands otherwise than before.
    pub(super) fn review_kind(&mut self, kind: &str) {
        for uid in self.jobs_of(kind) {
            self.sync_engine(&uid);
            self.dirty.insert(uid);
        }
        let of_children = self.objects.children.keys();
        let of_children = of_children.filter(|key| *key.kind == *kind);
        let owners: Vec<_> = of_children
            .filter_map(|key| Some((key, self.objects.children.get(key)?)))
            .filter(|(_, child)| child.record.is_some())
            .filter_map(|(key, child)| {
                let owner = child.owner.as_ref()?;
                Some((key.namespace.clone(), owner.uid.clone()))
            })
            .collect();
        for (namespace, owner) in owners {
            self.child_changed(&namespace, Some(owner));
        }
    }

    /// The jobs of a JobKind.
    pub(super) fn jobs_of(&self, kind: &str) -> Vec<Uid> {
        let jobs = self.objects.jobs();
        let of_kind = jobs.filter(|(key, _)| *key.kind == *kind);
        of_kind.map(|(_, job)| job.uid.clone()).collect()
    }

    /// Forgets what was noted about a job that has neither an object nor a Workload any more.
    pub(super) fn prune(&mut self, uid: &Uid) {
        if self.objects.job_key(uid).is_none()
            && self.objects.workload_of(uid).is_none()
            && self.objects.pods.key(uid).is_none()
            && self.objects.pods_of(uid).is_empty()
        {
            self.told.remove(uid);
            self.attempts.forget(uid);
            self.unanswered.remove(uid);
            self.leaving.remove(uid);
            self.late.remove(uid);
            self.late_pods.remove(uid);
            self.blocked.remove(uid);
            self.empty_since.remove(uid);
            self.objects.forget_gone(uid);
        }
    }
}

fn place(object: &DynamicObject) -> (Arc<str>, Arc<str>) {
    let metadata = &object.metadata;
    (
        metadata.namespace.as_deref().unwrap_or_default().into(),
        metadata.name.as_deref().unwrap_or_default().into(),
    )
}
