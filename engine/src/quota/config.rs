//! Flavors, cohorts and ClusterQueues as they are configured, and the links from each to its cohort.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::api::flavor::Flavor;
use crate::api::names::{ClusterQueueName, CohortName, FlavorName, NodeName};
use crate::api::queues::{ClusterQueue, Cohort, StopPolicy};
use crate::api::status::InactiveReason;
use crate::quota::flavor_resources::FlavorResources;

/// Flavors, cohorts and ClusterQueues as they are configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) flavors: BTreeMap<FlavorName, Flavor>,
    pub(crate) cohorts: BTreeMap<CohortName, Cohort>,
    pub(crate) queues: BTreeMap<ClusterQueueName, Arc<ClusterQueue>>,
    /// Those of the ClusterQueues that are deleted and still used: each has lost its quota, and its usage
    /// counts in the cohort that it was in, if any.
    pub(crate) deleted: BTreeSet<ClusterQueueName>,
    /// All pairs of flavor and resource with quota or usage.
    pub(crate) flavor_resources: FlavorResources,
    /// The nodes that name each cohort as their parent. No set is empty.
    children: BTreeMap<CohortName, BTreeSet<NodeName>>,
}

impl Config {
    pub(crate) fn parent(&self, node: &NodeName) -> Option<&CohortName> {
        match node {
            NodeName::Cohort(name) => self.cohorts.get(name)?.parent.as_ref(),
            NodeName::ClusterQueue(name) => self.queues.get(name)?.cohort.as_ref(),
        }
    }

    pub(crate) fn children(&self, node: &NodeName) -> impl Iterator<Item = &NodeName> {
        let children = match node {
            NodeName::Cohort(name) => self.children.get(name),
            NodeName::ClusterQueue(_) => None,
        };
        children.into_iter().flatten()
    }

    /// A ClusterQueue, unless it is deleted.
    pub(crate) fn existing_queue(&self, name: &ClusterQueueName) -> Option<&Arc<ClusterQueue>> {
        self.queues
            .get(name)
            .filter(|_| !self.deleted.contains(name))
    }

    /// Whether an object of this name exists or is still used, or a cohort of this name is a parent.
    pub(crate) fn exists(&self, node: &NodeName) -> bool {
        match node {
            NodeName::Cohort(name) => {
                self.cohorts.contains_key(name) || self.children.contains_key(name)
            }
            NodeName::ClusterQueue(name) => self.queues.contains_key(name),
        }
    }

    /// Updates `children` when the parent of `child` changes.
    pub(crate) fn move_child(
        &mut self,
        child: &NodeName,
        from: Option<&CohortName>,
        to: Option<&CohortName>,
    ) {
        if let Some(from) = from
            && let Some(children) = self.children.get_mut(from)
        {
            children.remove(child);
            if children.is_empty() {
                self.children.remove(from);
            }
        }
        if let Some(to) = to {
            self.children
                .entry(to.clone())
                .or_default()
                .insert(child.clone());
        }
    }

    /// The flavors that a queue has quota for and that do not exist.
    fn missing_flavors(&self, queue: &ClusterQueue) -> Vec<FlavorName> {
        let named = queue
            .resource_groups
            .iter()
            .flat_map(|group| &group.flavors);
        let missing = named
            .map(|f| &f.name)
            .filter(|name| !self.flavors.contains_key(*name));
        missing
            .cloned()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    pub(crate) fn queue_inactive(&self, queue: &ClusterQueue) -> Option<InactiveReason> {
        if queue.stop != StopPolicy::None {
            return Some(InactiveReason::Stopped);
        }
        let missing = self.missing_flavors(queue);
        (!missing.is_empty()).then_some(InactiveReason::FlavorNotFound(missing))
    }
}
