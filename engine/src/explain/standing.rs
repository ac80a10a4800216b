//! A tree of cohorts as it stands, for another engine that is to go on from there: what makes its queues, and its workloads.
//! For a reader that takes as few at a time as it likes.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::api::event::Event;
use crate::api::names::{ClusterQueueName, CohortName, FlavorName, LocalQueueKey};
use crate::api::names::{NodeName, WorkloadId};
use crate::api::queues::LocalQueue;
use crate::api::settings::Settings;
use crate::api::time::Time;
use crate::api::workload::{Admission, PodSet};
use crate::queue::demand::Demand;
use crate::state::engine::Engine;
use crate::workload::info::WorkloadPhase;

/// A workload that waits for quota or holds some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its LocalQueue.
    pub queue: LocalQueueKey,
    /// Higher comes first.
    pub priority: i32,
    /// Earlier comes first, at equal priority.
    pub created: i64,
    /// What it requests.
    pub pod_sets: Arc<[PodSet]>,
    /// Whether an eviction has an effect on it.
    pub evictable: bool,
    /// How far it has come.
    pub state: StandingState,
}

/// How far such a workload has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandingState {
    /// It waits; until this time it backs off.
    Pending(Option<Time>),
    /// It is admitted, or was so by a decision.
    Admitted(Admission),
    /// It is evicted and has not stopped yet. The preemptor is given if it was preempted.
    Evicting(Admission, Option<WorkloadId>),
}

impl Engine {
    /// The settings that count.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The top of the tree that a ClusterQueue is in; where cohorts are each other's parents, one of them.
    pub fn root_of(&self, queue: &ClusterQueueName) -> NodeName {
        let mut root = NodeName::ClusterQueue(queue.clone());
        let mut seen: BTreeSet<&CohortName> = BTreeSet::new();
        while let Some(parent) = self.config.parent(&root)
            && seen.insert(parent)
        {
            root = NodeName::Cohort(parent.clone());
        }
        root
    }

    /// How many workloads wait for a ClusterQueue or hold its quota.
    pub fn workloads_len(&self, queue: &ClusterQueueName) -> usize {
        let state = self.cluster_queues.get(queue);
        state.map_or(0, |state| {
            Demand::workloads(&state.demand).saturating_add(state.with_usage.len())
        })
    }

    /// What another engine is to be told of a node. Flavors that are among the `known` ones are left out, and the others
    /// are known from then on.
    pub fn setup_of(&self, node: &NodeName, known: &mut BTreeSet<FlavorName>) -> Vec<Event> {
        let mut events = Vec::new();
        let queue = match node {
            NodeName::Cohort(name) => {
                let cohort = self.config.cohorts.get(name).cloned();
                events.extend(cohort.map(Event::UpsertCohort));
                return events;
            }
            NodeName::ClusterQueue(name) => name,
        };
        if let Some(config) = self.config.queues.get(queue) {
            let groups = config.resource_groups.iter();
            for flavor in groups.flat_map(|group| &group.flavors) {
                if let Some(flavor) = self.config.flavors.get(&flavor.name)
                    && known.insert(flavor.name.clone())
                {
                    events.push(Event::UpsertFlavor(flavor.clone()));
                }
            }
            events.push(Event::UpsertClusterQueue((**config).clone()));
        }
        for key in self.local_queues_of(queue) {
            let state = self.local_queues.get(key);
            let local_queue = state.and_then(|state| {
                Some(LocalQueue {
                    consumed: state.consumed.clone(),
                    ..state.object.clone()?
                })
            });
            events.extend(local_queue.map(Event::UpsertLocalQueue));
        }
        events
    }

    /// The workloads after this one, by id, that hold quota of a ClusterQueue, whatever their LocalQueues point to by now.
    pub fn workloads_with_usage<'a>(
        &'a self,
        queue: &ClusterQueueName,
        after: Option<&WorkloadId>,
    ) -> impl Iterator<Item = &'a WorkloadId> + use<'a> {
        let after = after.map_or(Bound::Unbounded, |id| Bound::Excluded(id.clone()));
        let state = self.cluster_queues.get(queue).into_iter();
        state.flat_map(move |state| state.with_usage.range((after.clone(), Bound::Unbounded)))
    }

    /// How a workload stands. None if it neither waits for quota nor holds some.
    pub fn standing(&self, id: &WorkloadId) -> Option<Standing> {
        let info = self.workloads.get(id)?;
        let admission = info.state.admission().cloned();
        let state = match (&info.state, admission) {
            (WorkloadPhase::Pending, _) => StandingState::Pending(info.not_before),
            (_, Some(admission)) if info.is_evicting() => {
                StandingState::Evicting(admission, info.state.evicted_by().cloned())
            }
            (_, Some(admission)) => StandingState::Admitted(admission),
            (_, None) => return None,
        };
        Some(Standing {
            queue: info.local_queue.clone(),
            priority: info.priority,
            created: info.created,
            pod_sets: info.shape.pod_sets.clone(),
            evictable: info.evictable,
            state,
        })
    }
}
