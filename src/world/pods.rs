//! The pods that are known, and who they belong to: by owner, through owners in between, by group.
//! UIDs decide, never names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use sluice_kinds::pod::PodMode;
use sluice_kinds::view::QueueName;

use super::Uid;
use super::pod::{Asks, OwnerRef, PodKey, PodRecord};

/// Owners between a pod and the object that it belongs to: Deployment, ReplicaSet, Pod are two. A
/// longer chain is taken for a cycle.
const CHAIN_MAX: usize = 10;

/// A group of pods: namespace and name.
pub type GroupKey = (Arc<str>, Arc<str>);

/// The pods that Sluice looks after.
#[derive(Debug, Default)]
pub struct Pods {
    by_key: HashMap<PodKey, PodRecord>,
    by_uid: HashMap<Uid, PodKey>,
    by_owner: HashMap<Uid, BTreeSet<Uid>>,
    by_group: HashMap<GroupKey, BTreeSet<Uid>>,
    /// For owners that are no known jobs: the controller that owns them, if any.
    links: HashMap<Uid, Option<Uid>>,
    /// The other way round.
    linked: HashMap<Uid, BTreeSet<Uid>>,
    /// One copy of what many pods have: what they ask for, and who owns them.
    asks: HashMap<String, Arc<Asks>>,
    owners: HashSet<Arc<OwnerRef>>,
    gated: BTreeMap<(Arc<str>, String), i32>,
}

/// Who a pod belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// To nobody that Sluice looks after.
    None,
    /// To the object with this UID.
    Uid(Uid),
    /// That has to be looked up: this owner is not known.
    Unknown(Uid),
}

impl Pods {
    /// Takes in a pod. Returns false if a newer one is known.
    pub fn put(&mut self, key: PodKey, mut record: PodRecord) -> bool {
        if let Some(known) = self.by_key.get(&key) {
            if known.uid == record.uid && known.revision > record.revision {
                return false;
            }
            self.remove(&key);
        }
        self.share(&mut record);
        self.count_gated(&key, &record, 1);
        if let Some(owner) = &record.owner {
            let pods = self.by_owner.entry(owner.uid.clone()).or_default();
            pods.insert(record.uid.clone());
        }
        if let Some(group) = group_of(&key, &record) {
            let pods = self.by_group.entry(group).or_default();
            pods.insert(record.uid.clone());
        }
        self.by_uid.insert(record.uid.clone(), key.clone());
        self.by_key.insert(key, record);
        true
    }

    /// Forgets a pod.
    pub fn remove(&mut self, key: &PodKey) -> Option<PodRecord> {
        let record = self.by_key.remove(key)?;
        self.count_gated(key, &record, -1);
        self.by_uid.remove(&record.uid);
        if let Some(owner) = &record.owner {
            remove_from(&mut self.by_owner, &owner.uid, &record.uid);
            if !self.by_owner.contains_key(&owner.uid) {
                self.unlink(&owner.uid.clone());
            }
        }
        if let Some(group) = group_of(key, &record) {
            remove_from(&mut self.by_group, &group, &record.uid);
        }
        Some(record)
    }

    /// The pod at `key`.
    pub fn get(&self, key: &PodKey) -> Option<&PodRecord> {
        self.by_key.get(key)
    }

    /// Where the pod with this UID is.
    pub fn key(&self, uid: &str) -> Option<&PodKey> {
        self.by_uid.get(uid)
    }

    /// The pod with this UID.
    pub fn of(&self, uid: &str) -> Option<(&PodKey, &PodRecord)> {
        let key = self.by_uid.get(uid)?;
        Some((key, self.by_key.get(key)?))
    }

    /// All pods.
    pub fn all(&self) -> impl Iterator<Item = (&PodKey, &PodRecord)> {
        self.by_key.iter()
    }

    /// The UIDs of the pods that belong to the object with this UID, through owners in between.
    pub fn children(&self, uid: &str) -> Vec<Uid> {
        let mut found: Vec<Uid> = Vec::new();
        let mut owners: Vec<(Uid, usize)> = vec![(uid.into(), 0)];
        while let Some((owner, depth)) = owners.pop() {
            found.extend(self.by_owner.get(&owner).into_iter().flatten().cloned());
            if depth < CHAIN_MAX {
                let between = self.linked.get(&owner).into_iter().flatten();
                owners.extend(between.map(|uid| (uid.clone(), depth + 1)));
            }
        }
        found
    }

    /// The UIDs of the pods of a group.
    pub fn members(&self, group: &GroupKey) -> impl Iterator<Item = &Uid> {
        self.by_group.get(group).into_iter().flatten()
    }

    /// Who the pod belongs to. `is_known` says whether a UID is that of a known job.
    pub fn root(&self, record: &PodRecord, is_known: impl Fn(&str) -> bool) -> Root {
        let Some(owner) = &record.owner else {
            return Root::None;
        };
        let mut uid = owner.uid.clone();
        for _ in 0..CHAIN_MAX {
            if is_known(&uid) {
                return Root::Uid(uid);
            }
            match self.links.get(&uid) {
                Some(Some(next)) => uid = next.clone(),
                Some(None) => return Root::None,
                None => return Root::Unknown(uid),
            }
        }
        Root::None
    }

    /// Notes that the controller of the object `uid` is `owner`, and returns the pods below it.
    pub fn link(&mut self, uid: &Uid, owner: Option<Uid>) -> Vec<Uid> {
        self.unlink(uid);
        if let Some(owner) = &owner {
            let between = self.linked.entry(owner.clone()).or_default();
            between.insert(uid.clone());
        }
        self.links.insert(uid.clone(), owner);
        self.children(uid)
    }

    /// Forgets what was found out about an owner, so that it is looked up again.
    pub fn unlink(&mut self, uid: &Uid) {
        if let Some(Some(owner)) = self.links.remove(uid) {
            remove_from(&mut self.linked, &owner, uid);
            if !self.by_owner.contains_key(&owner) && !self.linked.contains_key(&owner) {
                self.unlink(&owner);
            }
        }
    }

    /// How many pods are held by other gates than Sluice's, by namespace and LocalQueue.
    pub fn gated(&self) -> &BTreeMap<(Arc<str>, String), i32> {
        &self.gated
    }

    /// Keeps one copy of what many pods have.
    fn share(&mut self, record: &mut PodRecord) {
        // What no pod has any more is cleared out when there may be as much of it again.
        let spare = self.by_key.len().saturating_mul(2).saturating_add(64);
        if let Some(owner) = &record.owner {
            if let Some(known) = self.owners.get(owner) {
                record.owner = Some(known.clone());
            } else {
                if spare < self.owners.len() {
                    self.owners.retain(|known| 1 < Arc::strong_count(known));
                }
                self.owners.insert(owner.clone());
            }
        }
        let digest = format!("{:?}", record.asks);
        if let Some(known) = self.asks.get(&digest) {
            record.asks = known.clone();
        } else {
            if spare < self.asks.len() {
                self.asks.retain(|_, known| 1 < Arc::strong_count(known));
            }
            self.asks.insert(digest, record.asks.clone());
        }
    }

    fn count_gated(&mut self, key: &PodKey, record: &PodRecord, change: i32) {
        let QueueName::Named(queue) = &record.queue else {
            return;
        };
        if !record.is_gated_elsewhere() || record.mode == PodMode::Child {
            return;
        }
        let place = (key.namespace.clone(), queue.clone());
        let count = self.gated.entry(place.clone()).or_default();
        *count = count.saturating_add(change);
        if *count == 0 {
            self.gated.remove(&place);
        }
    }
}

fn group_of(key: &PodKey, record: &PodRecord) -> Option<GroupKey> {
    match &record.mode {
        PodMode::Group(Ok(group)) => Some((key.namespace.clone(), group.name.clone())),
        PodMode::Group(Err(_)) | PodMode::Single | PodMode::Child => None,
    }
}

fn remove_from<K: std::hash::Hash + Eq + Clone>(
    map: &mut HashMap<K, BTreeSet<Uid>>,
    key: &K,
    uid: &Uid,
) {
    if let Some(set) = map.get_mut(key) {
        set.remove(uid);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
