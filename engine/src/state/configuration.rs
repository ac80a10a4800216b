//! What events about flavors, cohorts and queues change in the state.

use std::sync::Arc;

use crate::api::flavor::Flavor;
use crate::api::names::{
    ClusterQueueName, CohortName, FlavorName, LocalQueueKey, NodeName, WorkloadId,
};
use crate::api::queues::{AdmissionScope, ClusterQueue, Cohort, LocalQueue};
use crate::api::settings::Settings;
use crate::queue::cluster_queue::ClusterQueueState;
use crate::queue::local_queue::LocalQueueState;
use crate::state::engine::Engine;

impl Engine {
    pub(super) fn set_flavor(&mut self, name: &FlavorName, flavor: Option<Flavor>) {
        if self.config.flavors.get(name) == flavor.as_ref() {
            return;
        }
        match flavor {
            Some(flavor) => self.config.flavors.insert(name.clone(), flavor),
            None => self.config.flavors.remove(name),
        };
        for (queue, config) in &self.config.queues {
            let mut named = config
                .resource_groups
                .iter()
                .flat_map(|group| &group.flavors);
            if named.any(|flavor| flavor.name == *name) {
                self.cohort_trees
                    .invalidate(&NodeName::ClusterQueue(queue.clone()));
            }
        }
    }

    pub(super) fn set_cohort(&mut self, name: &CohortName, cohort: Option<Cohort>) {
        if self.config.cohorts.get(name) == cohort.as_ref() {
            return;
        }
        if let Some(cohort) = &cohort {
            self.config
                .flavor_resources
                .intern_groups(&cohort.resource_groups);
        }
        let node = NodeName::Cohort(name.clone());
        let parent = cohort.as_ref().and_then(|cohort| cohort.parent.clone());
        let before = match cohort {
            Some(cohort) => self.config.cohorts.insert(name.clone(), cohort),
            None => self.config.cohorts.remove(name),
        };
        self.move_to_cohort(&node, before.and_then(|cohort| cohort.parent), parent);
    }

    pub(super) fn set_cluster_queue(
        &mut self,
        name: &ClusterQueueName,
        queue: Option<ClusterQueue>,
    ) {
        let rest = match &queue {
            Some(_) => None,
            None => self.rest_of_deleted(name),
        };
        if rest.is_some() {
            self.config.deleted.insert(name.clone());
        } else {
            self.config.deleted.remove(name);
        }
        self.put_cluster_queue(name, queue.or(rest));
    }

    /// Has a ClusterQueue count as configured so, whether or not its object exists.
    pub(super) fn put_cluster_queue(
        &mut self,
        name: &ClusterQueueName,
        mut queue: Option<ClusterQueue>,
    ) {
        self.undeclared_by_settings.remove(name);
        if let Some(queue) = &mut queue
            && queue.undeclared_resources.is_none()
        {
            queue.undeclared_resources = Some(self.settings.undeclared_resources.clone());
            self.undeclared_by_settings.insert(name.clone());
        }
        if self.config.queues.get(name).map(|known| &**known) == queue.as_ref() {
            return;
        }
        if let Some(queue) = &queue {
            self.config
                .flavor_resources
                .intern_groups(&queue.resource_groups);
            self.cluster_queues.open(name);
        }
        let node = NodeName::ClusterQueue(name.clone());
        let parent = queue.as_ref().and_then(|queue| queue.cohort.clone());
        let before = match queue {
            Some(queue) => self.config.queues.insert(name.clone(), Arc::new(queue)),
            None => self.config.queues.remove(name),
        };
        let after = self.config.queues.get(name).cloned();
        let cohort = before.as_ref().and_then(|queue| queue.cohort.clone());
        self.move_to_cohort(&node, cohort, parent);
        self.reorder_pending(name, before.as_deref(), after.as_deref());
        if (after.is_none() || self.config.deleted.contains(name))
            && let Some(cluster_queue) = self.cluster_queues.get_mut(name)
        {
            cluster_queue.pending.reset(false);
        }
        let used = self
            .cluster_queues
            .get(name)
            .map(|cluster_queue| cluster_queue.with_usage.clone());
        let used = used.unwrap_or_default();
        for id in &used {
            self.set_deadline(id, before.as_deref(), after.as_deref());
        }
        self.review(used);
        self.drop_empty_cluster_queue(name);
    }

    pub(super) fn set_settings(&mut self, settings: Settings) {
        let pod = self.settings.pod;
        let settings = Settings { pod, ..settings };
        if self.settings == settings {
            return;
        }
        self.settings = settings;
        let queues = self.config.queues.iter();
        let queues: Vec<_> = queues
            .map(|(n, queue)| (n.clone(), queue.clone()))
            .collect();
        for (name, queue) in queues {
            self.cohort_trees
                .invalidate(&NodeName::ClusterQueue(name.clone()));
            if self.undeclared_by_settings.contains(&name) {
                let queue = ClusterQueue {
                    undeclared_resources: None,
                    ..(*queue).clone()
                };
                self.put_cluster_queue(&name, Some(queue));
            }
        }
    }

    /// Queues the pending workloads of a ClusterQueue again, if their order or their limit has changed.
    fn reorder_pending(
        &mut self,
        name: &ClusterQueueName,
        before: Option<&ClusterQueue>,
        after: Option<&ClusterQueue>,
    ) {
        let rules = |queue: Option<&ClusterQueue>| {
            queue.map(|queue| (queue.admission_scope, queue.max_pending))
        };
        let (before, after) = (rules(before), rules(after));
        let (mode, limit) = after.unwrap_or_default();
        if mode == AdmissionScope::ByUsage {
            self.by_usage.insert(name.clone());
        } else {
            self.by_usage.remove(name);
        }
        if before.unwrap_or_default() == (mode, limit) {
            return;
        }
        let local_queues = self
            .cluster_queues
            .get(name)
            .map(|cluster_queue| &cluster_queue.local_queues);
        let local_queues = local_queues.into_iter().flatten();
        let local_queues = local_queues.filter_map(|key| self.local_queues.get(key));
        let workloads: Vec<WorkloadId> = local_queues
            .filter(|local_queue| local_queue.active_cluster_queue() == Some(name))
            .flat_map(|local_queue| local_queue.workloads.iter().cloned())
            .collect();
        self.cluster_queues.begin_anew(name, limit);
        for id in workloads {
            self.enqueue(&id, Some(name));
        }
    }

    /// Invalidates a node, and the trees of its old and its new cohort.
    fn move_to_cohort(
        &mut self,
        node: &NodeName,
        from: Option<CohortName>,
        to: Option<CohortName>,
    ) {
        self.config.move_child(node, from.as_ref(), to.as_ref());
        self.cohort_trees.invalidate(node);
        for cohort in from.into_iter().chain(to) {
            self.cohort_trees.invalidate(&NodeName::Cohort(cohort));
        }
    }

    pub(super) fn set_local_queue(&mut self, key: &LocalQueueKey, object: Option<LocalQueue>) {
        let local_queue = self.local_queues.open(key.clone());
        if local_queue.object == object {
            self.drop_empty_local_queue(key);
            return;
        }
        let before = local_queue.active_cluster_queue().cloned();
        let weight = |object: &Option<LocalQueue>| object.as_ref().map(|object| object.fair_weight);
        let is_reweighted = weight(&local_queue.object) != weight(&object);
        let pointed = local_queue
            .object
            .take()
            .map(|local_queue| local_queue.cluster_queue);
        if let Some(recorded) = object
            .as_ref()
            .and_then(|local_queue| local_queue.consumed.clone())
            && local_queue
                .consumed
                .as_ref()
                .is_none_or(|known| known.at <= recorded.at)
        {
            local_queue.consumed = Some(recorded);
        }
        let points = object
            .as_ref()
            .map(|local_queue| local_queue.cluster_queue.clone());
        local_queue.object = object;
        let after = local_queue.active_cluster_queue().cloned();
        let workloads = local_queue.workloads.clone();
        if pointed.is_some() && pointed != points {
            // Their targets were evicted for another ClusterQueue.
            for id in &workloads {
                self.nominations.withdraw(id);
            }
        }
        if pointed != points {
            if let Some(queue) = points {
                let demand = local_queue.demand.clone();
                let cluster_queue = self.cluster_queues.open(&queue);
                cluster_queue.local_queues.insert(key.clone());
                cluster_queue.demand.add_all(&demand);
            }
            if let Some(queue) = pointed {
                let (cluster_queue, local_queue) = (
                    self.cluster_queues.get_mut(&queue),
                    self.local_queues.get(key),
                );
                let pair = cluster_queue.zip(local_queue);
                let was_there = pair.is_some_and(|(cluster_queue, local_queue)| {
                    let was_there = cluster_queue.local_queues.remove(key);
                    cluster_queue.demand.remove_all(&local_queue.demand) && was_there
                });
                self.check(was_there, "a queue has its LocalQueues and their demand");
                self.drop_empty_cluster_queue(&queue);
            }
        }
        if before != after {
            for id in &workloads {
                self.dequeue(id, before.as_ref());
                self.enqueue(id, after.as_ref());
            }
        }
        if before != after || is_reweighted {
            for queue in before.iter().chain(&after) {
                self.cohort_trees.end_preemption_round(queue);
            }
        }
        self.review(workloads);
        self.drop_empty_local_queue(key);
    }

    pub(crate) fn drop_empty_local_queue(&mut self, key: &LocalQueueKey) {
        if self
            .local_queues
            .get(key)
            .is_some_and(LocalQueueState::is_empty)
        {
            self.local_queues.remove(key);
        }
    }

    /// Drops the state of a ClusterQueue that does not exist and that nothing refers to.
    pub(crate) fn drop_empty_cluster_queue(&mut self, queue: &ClusterQueueName) {
        let is_empty = self
            .cluster_queues
            .get(queue)
            .is_some_and(ClusterQueueState::is_empty);
        if is_empty && !self.config.queues.contains_key(queue) {
            self.cluster_queues.close(queue);
        }
    }
}
