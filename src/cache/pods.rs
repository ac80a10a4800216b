//! The pods that are known, and who they belong to: by owner, through owners in between, by group.
//! UIDs decide, never names.

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_engine::LocalQueueKey;
use sluice_kinds::pod::PodMode;
use sluice_kinds::view::LabelledQueue;

use super::held::{GatedCounts, HeldObjects};
use super::pod::{CHAIN_MAX, OwnerRef, PodKey, PodRecord};
use super::revisions::Staleness;
use super::subject::{GroupKey, Subject, Uid};
use crate::process::hashing::{HashMap, HashSet, indexed, remove_from};
use shared::Shared;

/// An owner of pods: namespace and UID. A reference from another namespace names nobody.
type OwnerKey = (Arc<str>, Uid);

/// Whose quota a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaOf {
    /// Nobody's: it does not run yet, or has ended, or is in no queue.
    Nobody,
    /// That of this job or group.
    With(Subject),
    /// Its own.
    Own,
    /// What is above it is being looked up. What was so stays so.
    Unknown,
}

/// The pods that Sluice looks after.
#[derive(Debug, Default)]
pub struct Pods {
    by_key: HashMap<PodKey, PodRecord>,
    by_uid: HashMap<Uid, PodKey>,
    by_owner: HashMap<OwnerKey, BTreeSet<Uid>>,
    by_group: HashMap<GroupKey, BTreeSet<Uid>>,
    /// By namespace and by what their labels name that may be the UID of the job that they were of.
    by_named: HashMap<OwnerKey, BTreeSet<Uid>>,
    /// Those that may run, by namespace and by their pod set.
    by_set: HashMap<(Arc<str>, Arc<str>), BTreeSet<Uid>>,
    /// For owners that are no known jobs: the controller that owns them, if any.
    links: HashMap<OwnerKey, Option<Uid>>,
    /// The last one that was forgotten to be asked for again.
    last_unlinked: Option<OwnerKey>,
    /// The other way round.
    linked: HashMap<OwnerKey, BTreeSet<Uid>>,
    shared: Shared,
    gated: GatedCounts,
    held: HeldObjects,
    stale: Staleness,
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
    /// Whether what is told of a pod is over.
    pub fn is_stale(&self, key: &PodKey, record: &PodRecord) -> bool {
        let known = self.by_key.get(key).map(|known| known.revision);
        self.stale.is_stale(known, &record.uid, record.revision)
    }

    /// What replies have shown of pods, and their watch may not have shown yet.
    pub fn stale(&mut self) -> &mut Staleness {
        &mut self.stale
    }

    /// Takes in a pod. Returns false if what is told of it is stale.
    pub fn put(&mut self, key: PodKey, mut record: PodRecord) -> bool {
        if self.is_stale(&key, &record) {
            return false;
        }
        if let Some(known) = self.by_key.get(&key) {
            // What was found out about its owner stays known if that is still its owner.
            let owner = known.owner.clone();
            self.take_out(&key);
            if owner != record.owner {
                self.unlink_unused(&key.namespace, owner.as_deref());
            }
        }
        self.shared.share(&mut record, self.by_key.len());
        if let Some(queue) = gated_queue(&key, &record) {
            self.gated.add(queue);
        }
        self.held.add_pod(&key, &record);
        if let Some(owner) = &record.owner {
            let owner = (key.namespace.clone(), owner.uid.clone());
            let pods = self.by_owner.entry(owner).or_default();
            pods.insert(record.uid.clone());
        }
        if let Some(group) = record.group_key(&key.namespace) {
            let pods = self.by_group.entry(group).or_default();
            pods.insert(record.uid.clone());
        }
        for named in &record.named_uids {
            let named = (key.namespace.clone(), named.clone());
            let pods = self.by_named.entry(named).or_default();
            pods.insert(record.uid.clone());
        }
        if let Some(set) = record.pod_set.as_ref().filter(|_| record.is_released()) {
            let set = (key.namespace.clone(), set.clone());
            let pods = self.by_set.entry(set).or_default();
            pods.insert(record.uid.clone());
        }
        self.by_uid.insert(record.uid.clone(), key.clone());
        self.by_key.insert(key, record);
        true
    }

    /// Forgets a pod.
    pub fn remove(&mut self, key: &PodKey) -> Option<PodRecord> {
        let record = self.take_out(key)?;
        self.unlink_unused(&key.namespace, record.owner.as_deref());
        Some(record)
    }

    fn take_out(&mut self, key: &PodKey) -> Option<PodRecord> {
        let record = self.by_key.remove(key)?;
        if let Some(queue) = gated_queue(key, &record) {
            self.gated.remove(&queue);
        }
        self.held.remove_pod(key, &record);
        self.by_uid.remove(&record.uid);
        if let Some(owner) = &record.owner {
            let owner = (key.namespace.clone(), owner.uid.clone());
            remove_from(&mut self.by_owner, &owner, &record.uid);
        }
        if let Some(group) = record.group_key(&key.namespace) {
            remove_from(&mut self.by_group, &group, &record.uid);
        }
        for named in &record.named_uids {
            let named = (key.namespace.clone(), named.clone());
            remove_from(&mut self.by_named, &named, &record.uid);
        }
        if let Some(set) = &record.pod_set {
            let set = (key.namespace.clone(), set.clone());
            remove_from(&mut self.by_set, &set, &record.uid);
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
        indexed(&self.by_key, self.by_uid.get(uid)?)
    }

    /// The pods of a namespace whose labels name `uid`, and which name another owner or none.
    pub fn naming(&self, namespace: &Arc<str>, uid: &Uid) -> impl Iterator<Item = &Uid> {
        let key = (namespace.clone(), uid.clone());
        self.by_named.get(&key).into_iter().flatten()
    }

    /// The pods of a namespace that may run and say that they are of this pod set.
    pub fn of_set(&self, namespace: &Arc<str>, set: &str) -> impl Iterator<Item = &Uid> {
        let key = (namespace.clone(), set.into());
        self.by_set.get(&key).into_iter().flatten()
    }

    /// All pods.
    pub fn all(&self) -> impl Iterator<Item = (&PodKey, &PodRecord)> {
        self.by_key.iter()
    }

    /// The UIDs of the pods that belong to the object with this UID, through owners in between.
    pub fn children(&self, namespace: &Arc<str>, uid: &str) -> Vec<Uid> {
        let mut found: Vec<Uid> = Vec::new();
        let mut seen: HashSet<OwnerKey> = HashSet::default();
        let mut owners: Vec<(OwnerKey, usize)> = vec![((namespace.clone(), uid.into()), 0)];
        while let Some((owner, depth)) = owners.pop() {
            if !seen.insert(owner.clone()) {
                continue;
            }
            found.extend(self.by_owner.get(&owner).into_iter().flatten().cloned());
            if depth < CHAIN_MAX {
                let between = self.linked.get(&owner).into_iter().flatten();
                owners.extend(between.map(|uid| ((namespace.clone(), uid.clone()), depth + 1)));
            }
        }
        found
    }

    /// The UIDs of the pods of a group.
    pub fn members(&self, group: &GroupKey) -> impl Iterator<Item = &Uid> {
        self.by_group.get(group).into_iter().flatten()
    }

    /// Who the pod belongs to. `is_known` says whether a UID is that of a known job.
    pub fn root(
        &self,
        namespace: &Arc<str>,
        record: &PodRecord,
        is_known: impl Fn(&Uid) -> bool,
    ) -> Root {
        let Some(owner) = &record.owner else {
            return Root::None;
        };
        let mut uid = owner.uid.clone();
        for _ in 0..CHAIN_MAX {
            if is_known(&uid) {
                return Root::Uid(uid);
            }
            match self.links.get(&(namespace.clone(), uid.clone())) {
                Some(Some(next)) => uid = next.clone(),
                Some(None) => return Root::None,
                None => return Root::Unknown(uid),
            }
        }
        Root::None
    }

    /// Whether anybody needs to know who owns the object `uid`.
    pub fn is_owner(&self, namespace: &Arc<str>, uid: &Uid) -> bool {
        let owner = (namespace.clone(), uid.clone());
        self.by_owner.contains_key(&owner) || self.linked.contains_key(&owner)
    }

    /// The objects that are known to own an owner of pods.
    pub fn linked(&self) -> HashSet<&Uid> {
        self.linked.keys().map(|(_, owner)| owner).collect()
    }

    /// Notes that the controller of the object `uid` is `owner`, and returns the pods below it.
    pub fn link(&mut self, namespace: &Arc<str>, uid: &Uid, owner: Option<Uid>) -> Vec<Uid> {
        self.unlink((namespace.clone(), uid.clone()));
        if let Some(owner) = &owner {
            let owner = (namespace.clone(), owner.clone());
            let between = self.linked.entry(owner).or_default();
            between.insert(uid.clone());
        }
        self.links.insert((namespace.clone(), uid.clone()), owner);
        self.children(namespace, uid)
    }

    /// Forgets so many owners that seemed to have none themselves, and returns the pods below them: what could not be read
    /// may be readable by now. All have their turn.
    pub fn unlink_ownerless(&mut self, max: usize) -> Vec<Uid> {
        let ends = self.links.iter().filter(|(_, owner)| owner.is_none());
        let mut ends: Vec<OwnerKey> = ends.map(|(uid, _)| uid.clone()).collect();
        ends.sort_unstable();
        let last = self.last_unlinked.take();
        let next = ends.partition_point(|end| last.as_ref().is_some_and(|last| end <= last));
        ends.rotate_left(next);
        ends.truncate(max);
        self.last_unlinked = ends.last().cloned();
        let mut pods = Vec::new();
        for (namespace, uid) in ends {
            pods.extend(self.children(&namespace, &uid));
            self.links.remove(&(namespace, uid));
        }
        pods
    }

    /// Forgets what was found out about an owner that has no pods any more.
    fn unlink_unused(&mut self, namespace: &Arc<str>, owner: Option<&OwnerRef>) {
        if let Some(owner) = owner
            && !self.is_owner(namespace, &owner.uid)
        {
            self.unlink((namespace.clone(), owner.uid.clone()));
        }
    }

    /// Forgets who owns this owner, and so on upwards where nobody needs it any more.
    fn unlink(&mut self, mut key: OwnerKey) {
        while let Some(Some(owner)) = self.links.remove(&key) {
            let owner = (key.0.clone(), owner);
            remove_from(&mut self.linked, &owner, &key.1);
            if self.is_owner(&owner.0, &owner.1) {
                return;
            }
            key = owner;
        }
    }

    /// How many pods are held by other gates than Sluice's, by LocalQueue.
    pub fn gated(&self) -> &BTreeMap<LocalQueueKey, i32> {
        self.gated.by_queue()
    }

    /// The pods that gates hold.
    pub(super) fn held(&self) -> &HeldObjects {
        &self.held
    }
}

/// The LocalQueue that counts a pod as gated.
fn gated_queue(key: &PodKey, record: &PodRecord) -> Option<LocalQueueKey> {
    let LabelledQueue::Named(queue) = &record.queue else {
        return None;
    };
    let is_gated = record.is_gated_elsewhere() && record.mode != PodMode::Child;
    is_gated.then(|| LocalQueueKey::new(key.namespace.clone(), queue.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::fixtures::mk_pod;

    fn owned(name: &str, owner: &str, revision: u32) -> (PodKey, PodRecord) {
        mk_pod(name, 0, &[], |pod| {
            pod["metadata"]["resourceVersion"] = json!(revision.to_string());
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": owner, "controller": true,
            }]);
        })
    }

    fn put(pods: &mut Pods, (key, record): (PodKey, PodRecord)) -> bool {
        pods.put(key, record)
    }

    #[test]
    fn an_update_of_a_pod_does_not_hide_it_from_the_owner_of_its_owner() {
        let blue: Arc<str> = "blue".into();
        let mut pods = Pods::default();
        put(&mut pods, owned("a", "rs-1", 1));
        pods.link(&blue, &"rs-1".into(), Some("deployment-1".into()));
        assert_eq!(pods.children(&blue, "deployment-1").len(), 1);
        put(&mut pods, owned("a", "rs-1", 2));
        assert_eq!(pods.children(&blue, "deployment-1").len(), 1);
        assert!(!put(&mut pods, owned("a", "rs-1", 1)), "it is older");
        pods.remove(&owned("a", "rs-1", 2).0);
        assert!(
            pods.links.is_empty() && pods.linked.is_empty(),
            "nobody needs to know any more"
        );
    }

    #[test]
    fn so_many_owners_are_asked_for_again_at_a_time_and_all_have_their_turn() {
        let blue: Arc<str> = "blue".into();
        let mut pods = Pods::default();
        let link = |pods: &mut Pods, name: &str| {
            put(pods, owned(name, &format!("rs-{name}"), 1));
            pods.link(&blue, &format!("rs-{name}").into(), None);
        };
        for name in ["a", "b", "c", "d", "e"] {
            link(&mut pods, name);
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let again = pods.unlink_ownerless(2);
            assert_eq!(again.len(), 2);
            for pod in &again {
                let (key, _) = pods.of(pod).unwrap();
                let name = key.name.to_string();
                pods.link(&blue, &format!("rs-{name}").into(), None);
                seen.push(name);
            }
        }
        assert_eq!(seen.concat(), "abcdea");
    }

    #[test]
    fn a_reference_from_another_namespace_names_nobody() {
        let (blue, red): (Arc<str>, Arc<str>) = ("blue".into(), "red".into());
        let mut pods = Pods::default();
        put(&mut pods, owned("a", "job-1", 1));
        assert_eq!(pods.children(&blue, "job-1").len(), 1);
        assert!(pods.children(&red, "job-1").is_empty());
        // What red finds out about that UID is nothing to blue.
        pods.link(&red, &"job-1".into(), None);
        let (key, record) = owned("a", "job-1", 1);
        let root = pods.root(&key.namespace, &record, |_| false);
        assert_eq!(root, Root::Unknown("job-1".into()));
    }

    #[test]
    fn owners_in_a_circle_are_nobody() {
        let blue: Arc<str> = "blue".into();
        let mut pods = Pods::default();
        put(&mut pods, owned("a", "x", 1));
        pods.link(&blue, &"x".into(), Some("y".into()));
        pods.link(&blue, &"y".into(), Some("x".into()));
        let (_, record) = owned("a", "x", 1);
        assert_eq!(pods.root(&blue, &record, |_| false), Root::None);
        assert_eq!(pods.children(&blue, "x").len(), 1);
        pods.remove(&owned("a", "x", 1).0);
        assert!(pods.children(&blue, "x").is_empty());
    }
}
