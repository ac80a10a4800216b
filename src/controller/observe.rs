//! Taking in what watches and replies show: into the objects, the settings and the engine. Nothing is
//! decided and nothing is written here.

use std::sync::Arc;

use kube::api::DynamicObject;
use sluice_gates::Outcome;
use tracing::debug;

use super::Controller;
use crate::api::watch::{Change, Observation};
use crate::cache::Source;
use crate::cache::workload::Owner;
use crate::cache::{
    JobKey, JobRecord, NamespacedName, PodKey, Revision, Subject, Uid, WorkloadKey, WorkloadRecord,
};
use crate::process::invariants::violated;

/// An object that a watch has seen.
#[derive(Debug)]
pub enum Seen {
    /// As it is.
    Object(Box<DynamicObject>),
    /// A Job-like object, as its JobKind reads it.
    Job(JobKey, Box<JobRecord>),
    /// What gates wait for, as their rules judge it.
    Dependency {
        /// Its namespace and name.
        place: (Arc<str>, Arc<str>),
        /// What each rule says.
        outcomes: Vec<Outcome>,
    },
}

impl Controller {
    pub(super) fn observe(&mut self, observation: Observation<Seen>) {
        let Observation { source, change } = observation;
        if let Source::Jobs(kind, life) = &source
            && !self.kinds.is_current(kind, *life)
        {
            return;
        }
        if let Source::Dependencies(kind, life) = &source
            && !self.cluster.dependencies.is_current(kind, *life)
        {
            return;
        }
        match change {
            Change::Listing(ack) => {
                self.relisting(&source);
                self.lists.begin(source);
                // The list is asked for after this: it has all that replies have shown by now.
                let _ = ack.send(());
            }
            Change::InList(Seen::Object(object)) | Change::Applied(Seen::Object(object)) => {
                let place = place(&object);
                self.lists.note(&source, &place, Revision::of(&object));
                self.take_in(&source, place, *object);
            }
            Change::InList(Seen::Job(key, job)) | Change::Applied(Seen::Job(key, job)) => {
                let place = (key.namespace.clone(), key.name.clone());
                self.lists.note(&source, &place, job.revision);
                self.job_applied(&key, *job);
            }
            Change::InList(Seen::Dependency { place, outcomes })
            | Change::Applied(Seen::Dependency { place, outcomes }) => {
                self.lists.note(&source, &place, Revision::default());
                if let Source::Dependencies(kind, _) = &source {
                    self.cluster.dependencies.put(kind, place, outcomes);
                }
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

    /// A reply shows that an object exists, like this.
    pub(super) fn applied(&mut self, source: &Source, object: DynamicObject) {
        let place = place(&object);
        let is_new = !self.knows(source, &object);
        let revision = Revision::of(&object);
        self.lists.note_reply(source, &place, revision, is_new);
        self.take_in(source, place, object);
    }

    /// Whether this object is known, and by what its watch selects: one that a list lacks is gone then.
    pub(super) fn knows(&self, source: &Source, object: &DynamicObject) -> bool {
        let (namespace, name) = place(object);
        let uid = match source {
            Source::Workload => {
                let known = self.objects.workload(&WorkloadKey { namespace, name });
                known.map(|known| &known.uid)
            }
            Source::Pod => {
                let known = self.objects.pods.get(&PodKey { namespace, name });
                let known = known.map(|known| &known.uid);
                known.filter(|uid| !self.pod_labels.are_lost(uid))
            }
            Source::Jobs(kind, _) => {
                let kind = kind.clone();
                let key = JobKey {
                    kind,
                    namespace,
                    name,
                };
                let child = || self.objects.children.get(&key).map(|child| &child.uid);
                let job = self.objects.job(&key).map(|job| &job.uid);
                job.or_else(child)
            }
            _ => None,
        };
        uid.is_some_and(|uid| Some(&**uid) == object.metadata.uid.as_deref())
    }

    /// An object exists, like this.
    fn take_in(
        &mut self,
        source: &Source,
        (namespace, name): NamespacedName,
        object: DynamicObject,
    ) {
        match source {
            Source::Workload => self.workload_applied(object),
            Source::Pod => self.pod_applied(&PodKey { namespace, name }, object),
            Source::Jobs(kind, _) => {
                if let Some(reader) = self.kinds.reader(kind) {
                    let (key, record) = reader.read(object);
                    self.job_applied(&key, record);
                }
            }
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
                if let Some(uid) = uid {
                    self.objects.stale_workloads().deleted(uid);
                }
            }
            Source::Jobs(kind, _) => {
                let key = JobKey {
                    kind: kind.clone(),
                    namespace: namespace.clone(),
                    name: name.clone(),
                };
                self.job_gone(&key, uid);
                if let Some(uid) = uid {
                    self.objects.stale_jobs(kind).deleted(uid);
                }
            }
            Source::Pod => {
                let (namespace, name) = (namespace.clone(), name.clone());
                self.pod_gone(&PodKey { namespace, name }, uid);
            }
            Source::JobKind => {
                self.note_readable(source, "", name);
                self.job_kind_gone(name);
            }
            Source::Dependencies(kind, _) => {
                self.cluster.dependencies.remove(kind, namespace, name);
            }
            _ => self.setting(source, namespace, name, None),
        }
    }

    /// A list is about to be asked for.
    fn relisting(&mut self, source: &Source) {
        match source {
            Source::Workload => self.objects.stale_workloads().relisting(),
            Source::Pod => self.objects.pods.stale().relisting(),
            Source::Jobs(kind, _) => self.objects.stale_jobs(kind).relisting(),
            // Nothing is written to these that shows that they are gone.
            _ => {}
        }
    }

    /// A list is complete: what is known and was not in it is gone.
    fn listed(&mut self, source: &Source) {
        let Some(seen) = self.lists.end(source) else {
            return violated("a list that ends has begun");
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
            Source::Dependencies(kind, _) => self.cluster.dependencies.known(kind),
            _ => self.cluster.known(source),
        };
        for (namespace, name) in known {
            if !seen.contains(&(namespace.clone(), name.clone())) {
                self.gone(source, &namespace, &name, None);
            }
        }
        debug!(?source, objects = seen.len(), "listed");
        if let Source::Jobs(kind, _) = source {
            let is_first = self.phase.has_listed() && !self.kinds.has_listed(kind);
            let is_there = |key: &JobKey| seen.contains(&(key.namespace.clone(), key.name.clone()));
            self.excess_children.listed(kind, is_there);
            self.objects.creation_times.listed(kind, is_there);
            self.kinds.listed(kind);
            self.review_kind(kind);
            if is_first {
                self.decide_unmarked();
            }
            self.workloads_without_job();
        } else if let Source::Dependencies(kind, _) = source {
            self.cluster.dependencies.listed(kind);
        } else if self.lists.end_first(source) {
            self.kinds.start_all(self.now.moment);
        }
    }

    fn workload_applied(&mut self, object: DynamicObject) {
        let about = Source::Workload.reference(&object.metadata);
        let (key, mut record) = match WorkloadRecord::read(object) {
            Ok(read) => read,
            Err(error) => {
                let error = error.to_string();
                return self.note_unreadable(&Source::Workload, about, &error, false);
            }
        };
        match &record.unreadable {
            Some(error) => {
                let holds = record.status.admission.is_some();
                self.note_unreadable(&Source::Workload, about, error, holds);
            }
            None => self.note_readable(&Source::Workload, &key.namespace, &key.name),
        }
        // An owner in another namespace is none (a forged reference).
        let owner = record.owner.clone().filter(|owner| {
            self.objects
                .job_of(&owner.subject)
                .is_none_or(|(job, _)| job.namespace == key.namespace)
        });
        // What it said of its job before an orphaning deletion is still so.
        let known = self
            .objects
            .workload(&key)
            .and_then(|known| known.owner.as_ref());
        let owner = match (owner, known) {
            (Some(owner), Some(known)) if owner.is_nameless() && owner.subject == known.subject => {
                Some(known.clone())
            }
            (owner, _) => owner,
        };
        record.owner.clone_from(&owner);
        self.set_ended_term_aside(&key, &mut record);
        let known = self.objects.workload(&key);
        record.see_times(known.filter(|known| known.uid == record.uid), self.sight());
        let waits = record.waits();
        let known = self.objects.workload(&key);
        let is_new = known.is_none_or(|known| known.uid != record.uid);
        if let Some(known) = known
            && !is_new
            && known.revision < record.revision
        {
            self.tell_turns(&key, known, &record);
        }
        let before = known.and_then(|known| known.owner.as_ref());
        let before = before.map(|owner| owner.subject.clone());
        let held_quota = known.is_some_and(WorkloadRecord::holds_quota);
        let had_finished = known.is_some_and(|known| !is_new && known.is_finished());
        let replaced = known.filter(|_| is_new).cloned();
        if !self.objects.put_workload(key.clone(), record) {
            return;
        }
        if let Some(replaced) = replaced {
            self.tell_deleted(&key, &replaced);
        }
        if is_new && let Some(record) = self.objects.workload(&key) {
            self.tell_queued(&key, record);
        }
        if !had_finished {
            self.note_finished(&key);
        }
        let subject = owner.map(|owner| owner.subject);
        // Somebody has edited the reference or the name of the job in it: who had this Workload has none now.
        if let Some(before) = before.filter(|before| Some(before) != subject.as_ref()) {
            self.agenda.plan(before.clone());
            self.sync_workload(&before);
        }
        if let Some(subject) = subject {
            if waits {
                self.pending_reasons.insert(&subject, self.now);
            }
            self.agenda.plan(subject.clone());
            self.sync_workload(&subject);
            if held_quota && !self.holds_quota(&subject) {
                self.sync_pods_of(&subject);
            }
            if let Some(uid) = subject.job() {
                self.excess_children.judge_again(uid);
            }
        }
    }

    /// What still runs of a job or group that holds no quota any more has usage of its own.
    fn sync_pods_of(&mut self, subject: &Subject) {
        let pods = self.objects.pods_of(subject).into_iter();
        let pods: Vec<Uid> = pods.map(|(_, pod)| pod.uid.clone()).collect();
        for pod in pods {
            self.sync_pod(&pod);
        }
    }

    /// A reply says that the Workload is gone that a write was planned from, which its watch may not have shown
    /// yet. What has its name since is another one, or was there later.
    pub(super) fn workload_not_found(&mut self, key: &WorkloadKey, planned_from: Revision) {
        let known = self.objects.workload(key);
        let Some(known) = known.filter(|known| known.revision <= planned_from) else {
            return;
        };
        let uid = known.uid.clone();
        self.objects.stale_workloads().bury(uid);
        self.workload_gone(key, None);
    }

    /// A reply says that nothing is at `key`. That may be the child of the job `uid`: its watch tells of that.
    pub(super) fn job_not_found(&mut self, key: &JobKey, uid: &Uid) {
        if self.objects.job(key).is_some_and(|job| job.uid == *uid) {
            self.objects.stale_jobs(&key.kind).bury(uid.clone());
            self.job_gone(key, Some(uid));
        }
    }

    /// A reply says that a pod is gone.
    pub(super) fn pod_not_found(&mut self, key: &PodKey, uid: &Uid) {
        // One that the watch has shown to be gone already is not shown again: nothing would end its burial.
        if self
            .objects
            .pods
            .get(key)
            .is_some_and(|pod| pod.uid == *uid)
            && !self.pod_labels.are_lost(uid)
        {
            self.objects.pods.stale().bury(uid.clone());
        }
        self.pod_gone(key, Some(uid));
    }

    pub(super) fn workload_gone(&mut self, key: &WorkloadKey, uid: Option<&str>) {
        let known = self.objects.workload(key);
        if known.is_some_and(|known| uid.is_some_and(|uid| *known.uid != *uid)) {
            return;
        }
        // Also one that could never be read, and is not known.
        self.note_readable(&Source::Workload, &key.namespace, &key.name);
        let Some(record) = self.objects.remove_workload(key) else {
            return;
        };
        self.tell_deleted(key, &record);
        if let Some(Owner { subject, .. }) = record.owner {
            self.agenda.plan(subject.clone());
            self.sync_workload(&subject);
            self.prune(&subject);
        }
    }

    /// Looks again at all jobs of a JobKind that stands otherwise than before.
    pub(super) fn review_kind(&mut self, kind: &str) {
        for subject in self.jobs_of(kind) {
            self.sync_workload(&subject);
            self.agenda.plan(subject);
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
    pub(super) fn jobs_of(&self, kind: &str) -> Vec<Subject> {
        let jobs = self.objects.jobs();
        let of_kind = jobs.filter(|(key, _)| *key.kind == *kind);
        of_kind
            .map(|(_, job)| Subject::Job(job.uid.clone()))
            .collect()
    }

    /// Forgets what was noted about a subject of which nothing is left.
    pub(super) fn prune(&mut self, subject: &Subject) {
        if self.objects.is_known(subject) {
            return;
        }
        self.recorder.forget(subject);
        self.writes.forget(subject);
        self.ended_terms.forget(subject);
        self.decided.forget(subject);
        self.unused.forget(subject);
        self.awaited_pods.forget(subject);
        self.unreleased.forget(subject);
        self.objects.forget_placed(subject);
        if let Subject::Job(uid) = subject {
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
