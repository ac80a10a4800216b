//! Whether queues are there, and not stopped; what they can provide, and which priority classes they allow: a small copy
//! in every replica, for warnings, and for Gates that ask for a priority. Nothing waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_crds::QueuePriorityClasses;

/// Most LocalQueues that are kept. Of those beyond nothing is known.
const LOCAL_QUEUES_MAX: usize = 20_000;

/// The queues that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueStates {
    local_queues: BTreeMap<(String, String), LocalQueueState>,
    cluster_queues: BTreeMap<String, ClusterQueueState>,
    /// Whether there were more LocalQueues than are kept, since the last list began.
    leaves_some_out: bool,
    /// Whether all queues are listed.
    is_complete: bool,
}

/// A LocalQueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalQueueState {
    /// The ClusterQueue that it names.
    pub cluster_queue: String,
    /// Whether it is stopped.
    pub is_stopped: bool,
}

/// A ClusterQueue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterQueueState {
    /// Whether it is stopped.
    pub is_stopped: bool,
    /// Whether it has quota for the resource `pods`: then each pod uses quota, whatever it requests.
    pub counts_pods: bool,
    /// What it says of priority classes.
    pub priority_classes: Option<QueuePriorityClasses>,
    /// What it can provide, if that is known.
    pub limits: Option<Arc<QuotaLimits>>,
}

/// The most that a ClusterQueue could provide if nothing were used, borrowed quota included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// By resource group.
    pub groups: Vec<GroupLimits>,
    /// What becomes of resources of no group.
    pub uncovered: Uncovered,
}

/// The same of one resource group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLimits {
    /// The flavors in their order, each with an amount by resource, in nano-units. All have the same resources.
    pub flavors: Vec<(String, BTreeMap<String, i128>)>,
}

impl GroupLimits {
    pub(crate) fn covers(&self, resource: &str) -> bool {
        let mut flavors = self.flavors.iter();
        flavors.any(|(_, amounts)| amounts.contains_key(resource))
    }
}

/// What becomes of requests for a resource without quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Uncovered {
    /// They are ignored.
    #[default]
    Ignored,
    /// They make an object inadmissible, but for these resources.
    InadmissibleBut(Arc<BTreeSet<String>>),
}

impl Uncovered {
    pub(crate) fn ignores(&self, resource: &str) -> bool {
        match self {
            Self::Ignored => true,
            Self::InadmissibleBut(ignored) => ignored.contains(resource),
        }
    }
}

/// Why nothing is admitted from a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Idle {
    /// There is no such LocalQueue.
    Missing,
    /// Its ClusterQueue is not there.
    WithoutClusterQueue(String),
    /// It is stopped.
    Stopped,
    /// Its ClusterQueue is stopped.
    InStoppedClusterQueue(String),
}

impl QueueStates {
    /// Takes in a LocalQueue; None if it is gone. Returns whether that is new.
    pub fn set_local_queue(
        &mut self,
        namespace: &str,
        name: &str,
        state: Option<LocalQueueState>,
    ) -> bool {
        let key = (namespace.to_owned(), name.to_owned());
        match state {
            None => self.local_queues.remove(&key).is_some(),
            Some(state)
                if self.local_queues.len() < LOCAL_QUEUES_MAX
                    || self.local_queues.contains_key(&key) =>
            {
                self.local_queues.insert(key, state.clone()) != Some(state)
            }
            Some(_) => !std::mem::replace(&mut self.leaves_some_out, true),
        }
    }

    /// Takes in a ClusterQueue.
    pub fn set_cluster_queue(&mut self, name: &str, state: ClusterQueueState) {
        self.cluster_queues.insert(name.to_owned(), state);
    }

    /// Says whether all queues are listed.
    pub fn set_complete(&mut self, is_complete: bool) {
        self.is_complete = is_complete;
    }

    /// Forgets the LocalQueues, or the ClusterQueues, as they are listed anew.
    pub fn forget_local_queues(&mut self) {
        self.local_queues.clear();
        self.leaves_some_out = false;
    }

    /// The same of ClusterQueues.
    pub fn forget_cluster_queues(&mut self) {
        self.cluster_queues.clear();
    }

    /// Why nothing is admitted from this LocalQueue, if that is so for certain.
    pub(crate) fn check(&self, namespace: &str, queue: &str) -> Option<Idle> {
        if self.not_known(namespace, queue).is_some() {
            return None;
        }
        let key = (namespace.to_owned(), queue.to_owned());
        let Some(state) = self.local_queues.get(&key) else {
            return Some(Idle::Missing);
        };
        if state.is_stopped {
            return Some(Idle::Stopped);
        }
        let name = state.cluster_queue.clone();
        match self.cluster_queues.get(&name) {
            None => Some(Idle::WithoutClusterQueue(name)),
            Some(state) if state.is_stopped => Some(Idle::InStoppedClusterQueue(name)),
            Some(_) => None,
        }
    }

    /// The ClusterQueue of a LocalQueue, with its name; None if that is not known.
    pub(crate) fn cluster_queue(
        &self,
        namespace: &str,
        queue: &str,
    ) -> Option<(&str, &ClusterQueueState)> {
        let key = (namespace.to_owned(), queue.to_owned());
        let local_queue = self.local_queues.get(&key).filter(|_| self.is_complete)?;
        let found = self
            .cluster_queues
            .get_key_value(&local_queue.cluster_queue);
        found.map(|(name, state)| (name.as_str(), state))
    }

    /// Why it is not known whether there is this LocalQueue, and what it says, if that is so.
    pub(crate) fn not_known(&self, namespace: &str, queue: &str) -> Option<&'static str> {
        let key = (namespace.to_owned(), queue.to_owned());
        if !self.is_complete {
            Some("the queues are not known yet")
        } else if self.leaves_some_out && !self.local_queues.contains_key(&key) {
            Some("there are too many LocalQueues to know this one")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(states: &mut QueueStates, name: &str, cluster_queue: &str) -> bool {
        let state = LocalQueueState {
            cluster_queue: cluster_queue.to_owned(),
            is_stopped: false,
        };
        states.set_local_queue("ns", name, Some(state))
    }

    /// As many LocalQueues as are kept, `q0` the first one, and all are listed.
    fn full() -> QueueStates {
        let mut states = QueueStates::default();
        for number in 0..LOCAL_QUEUES_MAX {
            put(&mut states, &format!("q{number}"), "a");
        }
        for name in ["a", "b"] {
            states.set_cluster_queue(name, ClusterQueueState::default());
        }
        states.set_complete(true);
        states
    }

    #[test]
    fn what_is_kept_follows_its_queue_also_where_no_more_fit() {
        let mut states = full();
        assert!(put(&mut states, "q0", "b"));
        let found = states.cluster_queue("ns", "q0").map(|(name, _)| name);
        assert_eq!(found, Some("b"));
        assert_eq!(states.check("ns", "absent"), Some(Idle::Missing));
    }

    #[test]
    fn nothing_is_said_of_queues_while_some_are_left_out() {
        let mut states = full();
        assert!(
            put(&mut states, "more", "a"),
            "that some are left out is new"
        );
        assert!(!put(&mut states, "more", "a"));
        // Also once another one fits: nobody tells of the one that was left out.
        states.set_local_queue("ns", "q1", None);
        let why = Some("there are too many LocalQueues to know this one");
        assert_eq!(states.not_known("ns", "more"), why);
        assert_eq!(states.check("ns", "more"), None);
        assert_eq!(states.not_known("ns", "q0"), None);
        states.forget_local_queues();
        put(&mut states, "more", "a");
        assert_eq!(states.not_known("ns", "more"), None);
    }
}
