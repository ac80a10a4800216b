//! Objects of managed kinds that are not managed by themselves: something above them is, or has its
//! pods by them, or that has yet to be found out. Who decides that is the controller.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::job::{JobKey, JobRecord};
use super::pod::OwnerRef;
use super::subject::Uid;

use crate::process::hashing::{HashMap, indexed, remove_from};

/// An object that is not managed by itself.
#[derive(Debug, Clone)]
pub struct Child {
    /// `metadata.uid`.
    pub uid: Uid,
    /// The controller that owns it.
    pub owner: Option<Arc<OwnerRef>>,
    /// Whether it carries a queue label or a gate itself.
    pub is_marked: bool,
    /// Whether it was found to go with an object above it.
    pub is_decided: bool,
    /// The owner that has to be looked up before it can be decided what this object is.
    pub waits_for: Option<Uid>,
    /// The object: while it waits for that, or for everything to be listed, and where the pods of its owner are those
    /// that it has.
    pub record: Option<Box<JobRecord>>,
}

/// All such objects.
#[derive(Debug, Default)]
pub struct Children {
    by_key: HashMap<JobKey, Child>,
    by_uid: HashMap<Uid, JobKey>,
    by_owner: HashMap<Uid, BTreeSet<JobKey>>,
    waiting: HashMap<Uid, BTreeSet<JobKey>>,
}

impl Children {
    /// Takes in a child, in place of what was known at `key`.
    pub fn put(&mut self, key: JobKey, child: Child) {
        self.remove(&key);
        if let Some(owner) = &child.owner {
            let children = self.by_owner.entry(owner.uid.clone()).or_default();
            children.insert(key.clone());
        }
        if let Some(owner) = &child.waits_for {
            let waiting = self.waiting.entry(owner.clone()).or_default();
            waiting.insert(key.clone());
        }
        self.by_uid.insert(child.uid.clone(), key.clone());
        self.by_key.insert(key, child);
    }

    /// Forgets a child.
    pub fn remove(&mut self, key: &JobKey) -> Option<Child> {
        let child = self.by_key.remove(key)?;
        self.by_uid.remove(&child.uid);
        if let Some(owner) = &child.owner {
            remove_from(&mut self.by_owner, &owner.uid, key);
        }
        if let Some(owner) = &child.waits_for {
            remove_from(&mut self.waiting, owner, key);
        }
        Some(child)
    }

    /// The child at `key`.
    pub fn get(&self, key: &JobKey) -> Option<&Child> {
        self.by_key.get(key)
    }

    /// The child with this UID.
    pub fn of(&self, uid: &str) -> Option<(&JobKey, &Child)> {
        indexed(&self.by_key, self.by_uid.get(uid)?)
    }

    /// The children of the object with this UID: an object in any namespace may say so of itself.
    pub fn of_owner(&self, uid: &str) -> impl Iterator<Item = (&JobKey, &Child)> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| indexed(&self.by_key, key))
    }

    /// Where they are.
    pub fn keys(&self) -> impl Iterator<Item = &JobKey> {
        self.by_key.keys()
    }

    /// Those that wait for what is found out about the object `uid`.
    pub fn waiting_for(&self, uid: &str) -> Vec<JobKey> {
        let waiting = self.waiting.get(uid).into_iter().flatten();
        waiting.cloned().collect()
    }

    /// Those that are kept whole.
    pub fn records(&self) -> impl Iterator<Item = (&JobKey, &JobRecord)> {
        let children = self.by_key.iter();
        children.filter_map(|(key, child)| Some((key, child.record.as_deref()?)))
    }

    /// Objects without queue and gates that are kept whole.
    pub fn unmarked(&self) -> Vec<(JobKey, JobRecord)> {
        let unmarked = self.by_key.iter().filter(|(_, child)| !child.is_marked);
        unmarked
            .filter_map(|(key, child)| Some((key.clone(), child.record.as_deref()?.clone())))
            .collect()
    }

    /// What the child at `key` was found to be it stays.
    pub fn stop_waiting(&mut self, key: &JobKey) {
        if let Some(mut child) = self.remove(key) {
            child.waits_for = None;
            self.put(key.clone(), child);
        }
    }

    /// All that wait for what is found out about an owner.
    pub fn waiting(&self) -> Vec<JobKey> {
        self.waiting.values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_child(name: &str, owner: &str, waits_for: Option<&str>) -> (JobKey, Child) {
        let key = JobKey {
            kind: "set".into(),
            namespace: "blue".into(),
            name: name.into(),
        };
        let owner = OwnerRef {
            api_version: "example.com/v1".to_owned(),
            kind: "Train".to_owned(),
            name: "train".to_owned(),
            uid: owner.into(),
        };
        let child = Child {
            uid: format!("uid-of-{name}").into(),
            owner: Some(Arc::new(owner)),
            is_marked: true,
            is_decided: false,
            waits_for: waits_for.map(Into::into),
            record: None,
        };
        (key, child)
    }

    #[test]
    fn nothing_is_left_of_a_child_that_is_forgotten() {
        let mut children = Children::default();
        let (key, child) = mk_child("part", "train-1", Some("middle"));
        children.put(key.clone(), child);
        assert_eq!(children.waiting_for("middle"), vec![key.clone()]);
        assert_eq!(children.of_owner("train-1").count(), 1);
        // It has another owner now, and nothing is open.
        let (_, child) = mk_child("part", "train-2", None);
        children.put(key.clone(), child);
        assert!(children.waiting().is_empty());
        assert_eq!(children.of_owner("train-1").count(), 0);
        assert!(children.of("uid-of-part").is_some());
        children.remove(&key);
        let Children {
            by_key,
            by_uid,
            by_owner,
            waiting,
        } = children;
        assert!(by_key.is_empty() && by_uid.is_empty() && by_owner.is_empty());
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_child_that_is_settled_waits_for_nothing() {
        let mut children = Children::default();
        let (key, child) = mk_child("part", "train-1", Some("middle"));
        children.put(key.clone(), child);
        children.stop_waiting(&key);
        assert!(children.waiting().is_empty() && children.get(&key).is_some());
    }
}
