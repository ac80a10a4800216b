//! What is known of the cluster: records of the objects that matter, kept small. Filled from
//! watches and from the replies to our own writes, whichever is newer. Decides nothing.

pub mod additions;
pub mod children;
pub mod cluster;
pub mod conditions;
pub mod devices;
pub mod job;
pub mod pod;
pub mod pods;
mod source;
pub mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::Arc;

use kube::api::DynamicObject;
use sluice_kinds::claims::Claim;

use crate::process::hashing::HashMap;

pub use job::{JobKey, JobRecord};
pub use pod::{PodKey, PodRecord};
pub use source::Source;
pub use workload::{WorkloadKey, WorkloadRecord};

/// A UID, shared.
pub type Uid = Arc<str>;

/// A point in an object's history. Resource versions are compared as numbers (KEP-5504).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u128);

impl Revision {
    /// The revision of `object`; one that can't be read is older than all others.
    pub fn of(object: &DynamicObject) -> Self {
        Self(
            object
                .metadata
                .resource_version
                .as_deref()
                .and_then(|v| v.parse().ok())
                .unwrap_or(0),
        )
    }
}

/// The namespace and name of a ResourceClaimTemplate.
pub type Template = (Arc<str>, Arc<str>);

/// The jobs, Workloads and pods that are known.
#[derive(Debug, Default)]
pub struct ObjectCache {
    /// The pods.
    pub pods: pods::Pods,
    /// Objects that are not managed by themselves.
    pub children: children::Children,
    jobs: HashMap<JobKey, JobRecord>,
    job_by_uid: HashMap<Uid, JobKey>,
    workloads: HashMap<WorkloadKey, WorkloadRecord>,
    workload_by_job: HashMap<Uid, WorkloadKey>,
    gated: BTreeMap<(Arc<str>, String), i32>,
    /// Jobs whose pods claim by the template in a namespace with a name.
    claimants: HashMap<Template, BTreeSet<JobKey>>,
    /// Jobs that are gone and whose pods may run, with their namespaces.
    gone_jobs: HashMap<Uid, Arc<str>>,
    /// Workloads that a reply has shown to be gone, by their UIDs, until their watch shows it too: what it
    /// tells of them until then is old.
    buried: BTreeSet<String>,
}

impl ObjectCache {
    /// Takes in a job. Returns false if a newer one is known.
    pub fn put_job(&mut self, key: JobKey, record: JobRecord) -> bool {
        if let Some(known) = self.jobs.get(&key) {
            if known.uid == record.uid && known.revision > record.revision {
                return false;
            }
            self.remove_job(&key);
        }
        self.count_gated(&key, &record, 1);
        for template in templates(&key, &record) {
            let claimants = self.claimants.entry(template).or_default();
            claimants.insert(key.clone());
        }
        self.job_by_uid.insert(record.uid.clone(), key.clone());
        self.jobs.insert(key, record);
        true
    }

    /// Forgets a job.
    pub fn remove_job(&mut self, key: &JobKey) -> Option<JobRecord> {
        let record = self.jobs.remove(key)?;
        self.count_gated(key, &record, -1);
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

    /// Where the jobs are whose pods claim by this template.
    pub fn claimants(&self, template: &Template) -> impl Iterator<Item = &JobKey> {
        self.claimants.get(template).into_iter().flatten()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &JobRecord)> {
        self.jobs.iter()
    }

    /// Takes in a Workload. Returns false if a newer one is known.
    pub fn put_workload(&mut self, key: WorkloadKey, record: WorkloadRecord) -> bool {
        if self.buried.contains(&*record.uid) {
            return false;
        }
        if let Some(known) = self.workloads.get(&key) {
            // Also of another object by this name: the watch may lag behind the one that was made since.
            if known.revision > record.revision {
                return false;
            }
            self.remove_workload(&key);
        }
        if let Some(job) = &record.job {
            self.workload_by_job.insert(job.uid.clone(), key.clone());
        }
        self.workloads.insert(key, record);
        true
    }

    /// A reply has shown that the Workload with this UID is gone.
    pub fn bury_workload(&mut self, uid: &str) {
        self.buried.insert(uid.to_owned());
    }

    /// The watch has shown it too; none: it has shown all there is.
    pub fn unbury_workload(&mut self, uid: Option<&str>) {
        match uid {
            Some(uid) => drop(self.buried.remove(uid)),
            None => self.buried.clear(),
        }
    }

    /// Forgets a Workload.
    pub fn remove_workload(&mut self, key: &WorkloadKey) -> Option<WorkloadRecord> {
        let record = self.workloads.remove(key)?;
        if let Some(job) = &record.job
            && self.workload_by_job.get(&job.uid) == Some(key)
        {
            self.workload_by_job.remove(&job.uid);
        }
        Some(record)
    }

    /// The Workload at `key`.
    pub fn workload(&self, key: &WorkloadKey) -> Option<&WorkloadRecord> {
        self.workloads.get(key)
    }

    /// The Workload of the job with this UID.
    pub fn workload_of(&self, uid: &str) -> Option<(&WorkloadKey, &WorkloadRecord)> {
        let key = self.workload_by_job.get(uid)?;
        Some((key, self.workloads.get(key)?))
    }

    /// All Workloads.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadKey, &WorkloadRecord)> {
        self.workloads.iter()
    }

    /// The pods of the job or group with this UID.
    pub fn pods_of(&self, uid: &str) -> Vec<(&PodKey, &PodRecord)> {
        let uids = match workload::group_key(uid) {
            Some(group) => self.pods.members(&group).cloned().collect(),
            None => match self.namespace_of(uid) {
                Some(namespace) => self.pods.children(namespace, uid),
                None => Vec::new(),
            },
        };
        uids.iter().filter_map(|uid| self.pods.of(uid)).collect()
    }

    /// The same, the oldest first.
    pub fn pods_by_age(&self, uid: &str) -> Vec<(&PodKey, &PodRecord)> {
        let mut pods = self.pods_of(uid);
        pods.sort_by(|(_, one), (_, other)| {
            (one.created, &one.uid).cmp(&(other.created, &other.uid))
        });
        pods
    }

    /// The namespace of a job that is known by itself or by its Workload; of one that is gone, while
    /// its pods may run.
    pub fn namespace_of(&self, uid: &str) -> Option<&Arc<str>> {
        let job = self.job_by_uid.get(uid).map(|key| &key.namespace);
        let workload = || self.workload_by_job.get(uid).map(|key| &key.namespace);
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

    /// How many jobs are held by gates, by namespace and LocalQueue.
    pub fn gated(&self) -> &BTreeMap<(Arc<str>, String), i32> {
        &self.gated
    }

    fn count_gated(&mut self, key: &JobKey, record: &JobRecord, change: i32) {
        let Some(queue) = record.gated_queue() else {
            return;
        };
        let place = (key.namespace.clone(), queue.to_owned());
        let count = self.gated.entry(place.clone()).or_default();
        *count = count.saturating_add(change);
        if *count == 0 {
            self.gated.remove(&place);
        }
    }
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

/// Takes `value` out of the set of `key`, and an empty set out of the map.
fn remove_from<K: Hash + Eq, V: Ord>(map: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(set) = map.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
