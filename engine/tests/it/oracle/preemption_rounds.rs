//! Preemption rounds, by definition: in a tree nobody is preempted twice unless something else has changed there in
//! between. What was decided and is carried out is no change.

use std::collections::BTreeSet;

use sluice_engine::{
    Admission, ClusterQueue, Event, EvictReason, FlavorName, LocalQueue, LocalQueueKey, StopPolicy,
    Time, Workload, WorkloadId, WorkloadState,
};

use super::Oracle;
use crate::oracle::quota::Node;

impl Oracle {
    /// Takes an event in, and ends the rounds of the trees that it changes.
    pub(super) fn take_in_and_end_rounds(&mut self, event: Event) {
        let (before, about) = (self.clone(), event.clone());
        self.take_in(event);
        let workload_queues = |event: &Event| {
            !matches!(
                event,
                Event::UpsertClusterQueue(_) | Event::RemoveClusterQueue(_)
            )
        };
        // A deleted queue comes and goes with the workloads that use it.
        let (old, new) = (before.deleted.clone(), self.deleted.clone());
        for name in old
            .symmetric_difference(&new)
            .filter(|_| workload_queues(&about))
        {
            for root in [before.root(name), self.root(name)].into_iter().flatten() {
                self.rounds.remove(&root);
            }
        }
        if before.is_changed_by(&about, self) {
            let touched = before.touched(&about).into_iter();
            for root in touched.chain(self.touched(&about)) {
                self.rounds.remove(&root);
            }
        }
    }

    /// Ends the rounds of the trees in which a backoff has ended.
    pub(super) fn end_rounds_for_time(&mut self, now: Time) {
        let before = self.decided_at.replace(now);
        let ends = |workload: &&Workload| {
            let is_over = |end: Time| before.is_some_and(|before| before < end) && end <= now;
            workload.state == WorkloadState::Pending && workload.not_before.is_some_and(is_over)
        };
        let ended: BTreeSet<Node> = (self.workloads.values().filter(ends))
            .filter(|workload| !self.assumed.contains_key(&workload.id))
            .filter_map(|workload| self.tree_of(&workload.id))
            .collect();
        for root in ended {
            self.rounds.remove(&root);
        }
    }

    /// Whether an event has changed something other than by a decision that was carried out.
    fn is_changed_by(&self, event: &Event, after: &Self) -> bool {
        match event {
            Event::UpsertFlavor(_) | Event::RemoveFlavor(_) => self.flavors != after.flavors,
            Event::UpsertCohort(_) | Event::RemoveCohort(_) => self.cohorts != after.cohorts,
            Event::UpsertClusterQueue(_) | Event::RemoveClusterQueue(_) => {
                let undeclared = |oracle: &Self| {
                    let queues = oracle.queues.values().cloned();
                    let queues = queues.map(|mut queue| {
                        let default = &self.settings.undeclared_resources;
                        (queue.undeclared_resources).get_or_insert_with(|| default.clone());
                        queue
                    });
                    queues.collect::<Vec<_>>()
                };
                undeclared(self) != undeclared(after)
            }
            Event::UpsertLocalQueue(LocalQueue { key, .. }) | Event::RemoveLocalQueue(key) => {
                let known = |oracle: &Self| {
                    let local = oracle.locals.get(key)?;
                    let is_open = local.stop == StopPolicy::None && local.namespace_selected;
                    let queue = is_open.then(|| local.cluster_queue.clone());
                    Some((queue, local.fair_weight))
                };
                known(self) != known(after)
            }
            Event::UpsertWorkload(Workload { id, .. }) => self.is_moved_by_others(id, after),
            Event::RemoveWorkload(id) => self.workloads.contains_key(id),
            Event::AdmissionFailed(id) => self.assumed.contains_key(id),
            Event::EvictionFailed(id) => self.asked.contains_key(id),
        }
    }

    fn is_moved_by_others(&self, id: &WorkloadId, after: &Self) -> bool {
        let (Some(old), Some(new)) = (self.workloads.get(id), after.workloads.get(id)) else {
            return true;
        };
        let spec = |workload: &Workload| Workload {
            state: WorkloadState::Pending,
            ..workload.clone()
        };
        let holds_the_same = match (self.admission(id), after.admission(id)) {
            (Some(old), Some(new)) => old.queue == new.queue && usage(old) == usage(new),
            (None, None) => true,
            _ => false,
        };
        let was_preempted = self.made_to_go_by(id).is_some()
            || matches!(self.asked.get(id), Some(EvictReason::Preempted { .. }));
        let was_admitted =
            self.assumed.contains_key(id) || matches!(old.state, WorkloadState::Admitted(_));
        let is_carried_out = match &new.state {
            WorkloadState::Pending if after.assumed.contains_key(id) => true,
            WorkloadState::Pending => old.state == new.state || was_preempted,
            WorkloadState::Admitted(_) => holds_the_same && was_admitted,
            WorkloadState::Evicting(..) => {
                holds_the_same && (was_preempted || old.state == new.state)
            }
            WorkloadState::Inactive | WorkloadState::Finished => old.state == new.state,
        };
        spec(old) != spec(new) || !is_carried_out
    }

    /// The trees that an event is about.
    fn touched(&self, event: &Event) -> Vec<Node> {
        let root = |node: Node| self.path(&node).and_then(|mut path| path.pop());
        match event {
            Event::UpsertFlavor(flavor) => self.trees_with(&flavor.name),
            Event::RemoveFlavor(name) => self.trees_with(name),
            Event::UpsertCohort(cohort) => root(Node::Cohort(cohort.name.clone()))
                .into_iter()
                .collect(),
            Event::RemoveCohort(name) => root(Node::Cohort(name.clone())).into_iter().collect(),
            Event::UpsertClusterQueue(queue) => self.root(&queue.name).into_iter().collect(),
            Event::RemoveClusterQueue(name) => self.root(name).into_iter().collect(),
            Event::UpsertLocalQueue(local) => self.tree_of_local(&local.key).into_iter().collect(),
            Event::RemoveLocalQueue(key) => self.tree_of_local(key).into_iter().collect(),
            Event::UpsertWorkload(workload) => self.tree_of(&workload.id).into_iter().collect(),
            Event::RemoveWorkload(id) | Event::AdmissionFailed(id) | Event::EvictionFailed(id) => {
                self.tree_of(id).into_iter().collect()
            }
        }
    }

    fn trees_with(&self, flavor: &FlavorName) -> Vec<Node> {
        let names = |queue: &&ClusterQueue| {
            let mut flavors = queue
                .resource_groups
                .iter()
                .flat_map(|group| &group.flavors);
            flavors.any(|listed| listed.name == *flavor)
        };
        let queues = self.queues.values().filter(names);
        queues.filter_map(|queue| self.root(&queue.name)).collect()
    }

    fn tree_of_local(&self, key: &LocalQueueKey) -> Option<Node> {
        let local = self.locals.get(key)?;
        let is_open = local.stop == StopPolicy::None && local.namespace_selected;
        is_open.then(|| self.root(&local.cluster_queue)).flatten()
    }

    /// The tree in which a workload has usage or waits.
    fn tree_of(&self, id: &WorkloadId) -> Option<Node> {
        if let Some(admission) = self.admission(id) {
            return self.root(&admission.queue);
        }
        let workload = self.workloads.get(id)?;
        let waits = workload.state == WorkloadState::Pending;
        waits.then(|| self.tree_of_local(&workload.queue)).flatten()
    }
}

/// What an admission uses, whatever part of it is on nodes.
fn usage(admission: &Admission) -> Vec<impl PartialEq> {
    let pod_sets = admission.pod_sets.iter();
    let usage = pod_sets.map(|pod_set| (pod_set.flavors.clone(), pod_set.usage.clone()));
    usage.collect()
}
