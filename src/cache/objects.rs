//! All objects that are known, and the indexes by which they are found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_engine::LocalQueueKey;
use sluice_kinds::claims::Claim;
use sluice_kinds::gates::Gate;

use super::children::Children;
use super::held::{Gated, GatedCounts, Held, HeldObjects, HeldOfQueue};
use super::job::{CreationTimes, JobKey, JobRecord};
use super::pod::{PodKey, PodRecord};
use super::pods::Pods;
use super::revisions::Staleness;
use super::subject::{Subject, Template, Uid};
use super::workload::{WorkloadKey, WorkloadRecord};
use crate::process::hashing::{HashMap, indexed, remove_from};

/// The jobs, Workloads and pods that are known.
#[derive(Debug, Default)]
pub struct ObjectCache {
    /// The pods.
    pub pods: Pods,
    /// Objects that are not managed by themselves.
    pub children: Children,
    /// Since when jobs and children exist.
    pub creation_times: CreationTimes,
    jobs: HashMap<JobKey, JobRecord>,
    job_by_uid: HashMap<Uid, JobKey>,
    workloads: HashMap<WorkloadKey, WorkloadRecord>,
    workload_by_subject: HashMap<Subject, WorkloadKey>,
    /// The Workloads that jobs were admitted by last which have lost that admission: their templates may still hold what
    /// their release put in, and nothing else says what their users wrote.
    placed_by: HashMap<Subject, WorkloadRecord>,
    /// Workloads that are admitted and have not finished, by namespace and pod set.
    admitted_by_set: HashMap<(Arc<str>, Arc<str>), BTreeSet<WorkloadKey>>,
    gated: GatedCounts,
    held: HeldObjects,
    /// Jobs whose pods claim by the template in a namespace with a name.
    claimants: HashMap<Template, BTreeSet<JobKey>>,
    /// Jobs that are gone and whose pods may run, with their namespaces.
    gone_jobs: HashMap<Uid, Arc<str>>,
    /// By JobKind.
    stale_jobs: HashMap<Arc<str>, Staleness>,
    stale_workloads: Staleness,
}

impl ObjectCache {
    /// Takes in a job. Returns false if what is told of it is stale.
    pub fn put_job(&mut self, key: JobKey, record: JobRecord) -> bool {
        if self.is_stale_job(&key, &record) {
            return false;
        }
        self.remove_job(&key);
        if let Some(queue) = gated_queue(&key, &record) {
            self.gated.add(queue);
        }
        self.held.add_job(&key, &record);
        for template in templates(&key, &record) {
            let claimants = self.claimants.entry(template).or_default();
            claimants.insert(key.clone());
        }
        self.job_by_uid.insert(record.uid.clone(), key.clone());
        self.jobs.insert(key, record);
        true
    }

    /// Whether what is told of a job is over.
    pub fn is_stale_job(&self, key: &JobKey, record: &JobRecord) -> bool {
        let known = self.jobs.get(key).map(|known| known.revision);
        let none = Staleness::default();
        let stale = self.stale_jobs.get(&key.kind).unwrap_or(&none);
        stale.is_stale(known, &record.uid, record.revision)
    }

    /// What replies have shown of the objects of a JobKind, and its watch may not have shown yet.
    pub fn stale_jobs(&mut self, kind: &Arc<str>) -> &mut Staleness {
        self.stale_jobs.entry(kind.clone()).or_default()
    }

    /// Forgets a JobKind that is not watched any more.
    pub fn forget_kind(&mut self, kind: &str) {
        self.creation_times.listed(kind, |_| false);
        self.stale_jobs.remove(kind);
    }

    /// Forgets a job.
    pub fn remove_job(&mut self, key: &JobKey) -> Option<JobRecord> {
        let record = self.jobs.remove(key)?;
        if let Some(queue) = gated_queue(key, &record) {
            self.gated.remove(&queue);
        }
        self.held.remove_job(key, &record);
        for template in templates(key, &record) {
            remove_from(&mut self.claimants, &template, key);
        }
        self.job_by_uid.remove(&record.uid);
        Some(record)
    }

    /// The job at `key`.
    pub fn job(&self, key: &JobKey) -> Option<&JobRecord> {
        self.jobs.get(key)
    }

    /// Where the job with this UID is.
    pub fn job_key(&self, uid: &str) -> Option<&JobKey> {
        self.job_by_uid.get(uid)
    }

    /// The job that a subject is.
    pub fn job_of(&self, subject: &Subject) -> Option<(&JobKey, &JobRecord)> {
        indexed(&self.jobs, self.job_key(subject.job()?)?)
    }

    /// Whether anything is left of a subject: an object, a Workload, or pods.
    pub fn is_known(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Pod(uid) => self.pods.key(uid).is_some(),
            Subject::Job(_) | Subject::Group(_) => {
                self.job_of(subject).is_some()
                    || self.workload_of(subject).is_some()
                    || !self.pods_of(subject).is_empty()
            }
        }
    }

    /// Where the jobs are whose pods claim by this template.
    pub fn claimants(&self, template: &Template) -> impl Iterator<Item = &JobKey> {
        self.claimants.get(template).into_iter().flatten()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &JobRecord)> {
        self.jobs.iter()
    }

    /// Takes in a Workload. Returns false if what is told of it is stale.
    pub fn put_workload(&mut self, key: WorkloadKey, record: WorkloadRecord) -> bool {
        let known = self.workloads.get(&key).map(|known| known.revision);
        let stale = &self.stale_workloads;
        if stale.is_stale(known, &record.uid, record.revision) {
            return false;
        }
        if let Some(before) = self.take_workload(&key) {
            self.keep_placed(before);
        }
        if let Some(owner) = &record.owner {
            if record.status.admission.is_some() {
                self.forget_placed(&owner.subject);
            }
            self.workload_by_subject
                .insert(owner.subject.clone(), key.clone());
        }
        for set in admitted_sets(&key, &record) {
            let admitted = self.admitted_by_set.entry(set).or_default();
            admitted.insert(key.clone());
        }
        self.workloads.insert(key, record);
        true
    }

    /// What replies have shown of Workloads, and their watch may not have shown yet.
    pub fn stale_workloads(&mut self) -> &mut Staleness {
        &mut self.stale_workloads
    }

    /// Forgets a Workload.
    pub fn remove_workload(&mut self, key: &WorkloadKey) -> Option<WorkloadRecord> {
        let record = self.take_workload(key)?;
        self.keep_placed(record.clone());
        Some(record)
    }

    /// Keeps what the templates of a job may still hold of its admission, if it had one.
    fn keep_placed(&mut self, record: WorkloadRecord) {
        if let Some(owner) = &record.owner
            && owner.subject.job().is_some()
            && record.status.admission.is_some()
        {
            self.placed_by.insert(owner.subject.clone(), record);
        }
    }

    /// The Workload that a job was admitted by last, if it has lost that admission and its templates may still hold what its
    /// release put in.
    pub fn placed_by(&self, subject: &Subject) -> Option<&WorkloadRecord> {
        self.placed_by.get(subject)
    }

    /// The templates of a job are as its user wrote them, or it is gone.
    pub fn forget_placed(&mut self, subject: &Subject) {
        self.placed_by.remove(subject);
    }

    fn take_workload(&mut self, key: &WorkloadKey) -> Option<WorkloadRecord> {
        let record = self.workloads.remove(key)?;
        if let Some(owner) = &record.owner
            && self.workload_by_subject.get(&owner.subject) == Some(key)
        {
            self.workload_by_subject.remove(&owner.subject);
        }
        for set in admitted_sets(key, &record) {
            remove_from(&mut self.admitted_by_set, &set, key);
        }
        Some(record)
    }

    /// The Workload at `key`.
    pub fn workload(&self, key: &WorkloadKey) -> Option<&WorkloadRecord> {
        self.workloads.get(key)
    }

    /// The Workload of a job or group.
    pub fn workload_of(&self, subject: &Subject) -> Option<(&WorkloadKey, &WorkloadRecord)> {
        indexed(&self.workloads, self.workload_by_subject.get(subject)?)
    }

    /// All Workloads.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadKey, &WorkloadRecord)> {
        self.workloads.iter()
    }

    /// The Workloads of a namespace that are admitted and have such a pod set, by their names.
    pub fn admitted_with_set(
        &self,
        namespace: &Arc<str>,
        set: &str,
    ) -> impl Iterator<Item = (&WorkloadKey, &WorkloadRecord)> {
        let place = (namespace.clone(), set.into());
        let keys = self.admitted_by_set.get(&place).into_iter().flatten();
        keys.filter_map(|key| indexed(&self.workloads, key))
    }

    /// The pods of a job or group; a pod has none.
    pub fn pods_of(&self, subject: &Subject) -> Vec<(&PodKey, &PodRecord)> {
        let uids = match subject {
            Subject::Group(group) => self.pods.members(group).cloned().collect(),
            Subject::Job(uid) => match self.namespace_of_job(uid) {
                Some(namespace) => self.pods.children(namespace, uid),
                None => Vec::new(),
            },
            Subject::Pod(_) => Vec::new(),
        };
        uids.iter().filter_map(|uid| self.pods.of(uid)).collect()
    }

    /// The same, the oldest first.
    pub fn pods_by_age(&self, subject: &Subject) -> Vec<(&PodKey, &PodRecord)> {
        let mut pods = self.pods_of(subject);
        pods.sort_by(|(_, one), (_, other)| {
            (one.created, &one.uid).cmp(&(other.created, &other.uid))
        });
        pods
    }

    /// The namespace of a job that is known by itself or by its Workload; of one that is gone, while
    /// its pods may run.
    pub fn namespace_of_job(&self, uid: &Uid) -> Option<&Arc<str>> {
        let job = self.job_by_uid.get(uid).map(|key| &key.namespace);
        let workload = || {
            let (key, _) = self.workload_of(&Subject::Job(uid.clone()))?;
            Some(&key.namespace)
        };
        job.or_else(workload).or_else(|| self.gone_jobs.get(uid))
    }

    /// Notes where a job was that is gone, while its pods may run.
    pub fn remember_gone(&mut self, uid: Uid, namespace: Arc<str>) {
        self.gone_jobs.insert(uid, namespace);
    }

    /// Whether a job was seen to go, and something of it is left.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.gone_jobs.contains_key(uid)
    }

    /// The jobs that are gone and whose pods may run.
    pub fn gone_jobs(&self) -> Vec<Uid> {
        self.gone_jobs.keys().cloned().collect()
    }

    /// Forgets a job that is gone, and whose pods are too.
    pub fn forget_gone(&mut self, uid: &str) {
        self.gone_jobs.remove(uid);
    }

    /// How many jobs are held by gates, by LocalQueue.
    pub fn gated(&self) -> &BTreeMap<LocalQueueKey, i32> {
        self.gated.by_queue()
    }

    /// What the gates hold: of jobs, and of pods.
    pub fn held(&self) -> [&HeldObjects; 2] {
        [&self.held, self.pods.held()]
    }

    /// What `gate` holds: jobs, the oldest first, and then pods.
    pub fn held_by(&self, gate: &Gate) -> impl Iterator<Item = &Held> {
        self.held().into_iter().flat_map(|held| held.of(gate))
    }

    /// How much each gate holds of a LocalQueue, jobs and pods together.
    pub fn held_of_queue(&self, queue: &LocalQueueKey) -> BTreeMap<&Gate, HeldOfQueue> {
        let mut by_gate = BTreeMap::<&Gate, HeldOfQueue>::new();
        let held = self.held().into_iter();
        for (gate, held) in held.flat_map(|held| held.of_queue_by_gate(queue)) {
            let both = by_gate.entry(gate).or_default();
            *both = both.and(held);
        }
        by_gate
    }

    /// How many objects `gate` was lifted from that have not finished, as far as that is kept on the objects.
    pub fn passed(&self, gate: &Gate) -> usize {
        self.held().into_iter().map(|held| held.passed(gate)).sum()
    }

    /// The gates of a job or pod.
    pub fn gates_of(&self, subject: &Subject) -> Option<Gated<'_>> {
        match subject {
            Subject::Pod(uid) => self.pods.of(uid).map(|(_, pod)| pod.into()),
            Subject::Job(_) | Subject::Group(_) => self.job_of(subject).map(|(_, job)| job.into()),
        }
    }
}

/// The LocalQueue that counts a job as gated.
fn gated_queue(key: &JobKey, record: &JobRecord) -> Option<LocalQueueKey> {
    let queue = record.gated_queue()?;
    Some(LocalQueueKey::new(key.namespace.clone(), queue))
}

/// The namespace and pod sets by which a Workload is found that is admitted.
fn admitted_sets(
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    let is_admitted = record.holds_quota();
    let sets = record.spec.pod_sets.iter().filter(move |_| is_admitted);
    sets.map(|set| (key.namespace.clone(), set.name.as_str().into()))
}

/// The templates by which the pods of a job claim.
fn templates(key: &JobKey, record: &JobRecord) -> Vec<Template> {
    let reading = record.reading.as_ref().ok();
    let pod_sets = reading.and_then(|reading| reading.pod_sets.as_ref().ok());
    let pod_sets = pod_sets.into_iter().flat_map(|sets| sets.iter());
    let claims = pod_sets.flat_map(|set| set.claims.iter());
    let names = claims.filter_map(Claim::template);
    names
        .map(|name| (key.namespace.clone(), name.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use serde_json::json;
    use sluice_crds::JobKind;
    use sluice_kinds::CompiledKind;
    use sluice_kinds::requests::PodDefaults;
    use sluice_kinds::view::QueueLabels;

    use super::*;
    use crate::cache::revisions::Revision;
    use crate::plan::fixtures::{mk_group_workload, mk_pod};

    fn put_job(objects: &mut ObjectCache, uid: &str, revision: u128) -> bool {
        let kind: JobKind =
            serde_saphyr::from_str(include_str!("../../config/jobkinds/job.yaml")).unwrap();
        let kind = CompiledKind::compile(&kind).unwrap();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": "train", "namespace": "blue", "uid": uid,
                "resourceVersion": revision.to_string(),
            },
        }))
        .unwrap();
        let (labels, defaults) = (QueueLabels::default(), PodDefaults::default());
        let record = JobRecord::read(object, &kind, &labels, &defaults);
        let key = JobKey {
            kind: "job".into(),
            namespace: "blue".into(),
            name: "train".into(),
        };
        objects.put_job(key, record)
    }

    fn put_workload(objects: &mut ObjectCache, uid: &str, revision: u128) -> bool {
        let (key, mut record) = mk_group_workload(&json!([]), &json!({}));
        record.uid = uid.into();
        record.revision = Revision(revision);
        objects.put_workload(key, record)
    }

    fn put_pod(objects: &mut ObjectCache, uid: &str, revision: u128) -> bool {
        let (key, mut record) = mk_pod("a", 0, &[], |_| {});
        record.uid = uid.into();
        record.revision = Revision(revision);
        objects.pods.put(key, record)
    }

    #[test]
    fn a_watch_that_lags_is_not_believed_about_what_has_a_successor() {
        for put in [put_job, put_workload, put_pod] {
            let objects = &mut ObjectCache::default();
            assert!(put(objects, "first", 7) && put(objects, "second", 9));
            assert!(!put(objects, "first", 8), "another object by this name");
            assert!(!put(objects, "second", 8), "the same object");
            assert!(put(objects, "third", 10));
        }
    }

    #[test]
    fn what_a_reply_has_shown_to_be_gone_stays_gone_until_the_watch_shows_it() {
        let kind: Arc<str> = "job".into();
        let objects = &mut ObjectCache::default();
        objects.stale_jobs(&kind).bury("first".into());
        objects.stale_workloads().bury("first".into());
        objects.pods.stale().bury("first".into());
        for put in [put_job, put_workload, put_pod] {
            assert!(!put(objects, "first", 7) && put(objects, "second", 6));
        }
        objects.stale_jobs(&kind).deleted("first");
        objects.stale_workloads().deleted("first");
        objects.pods.stale().relisting();
        for put in [put_job, put_workload, put_pod] {
            assert!(put(objects, "first", 7));
        }
    }
}
