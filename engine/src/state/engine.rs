//! The state of the engine, and the entry points for events. What events change is in the other files of
//! this folder, deciding is the folder `cycle`, and answering questions is `explain`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::api::event::Event;
use crate::api::names::{ClusterQueueName, NodeName, WorkloadId};
use crate::api::settings::Settings;
use crate::api::time::Time;
use crate::api::workload::Admission;
use crate::cohort::tree::CohortTree;
use crate::cohort::tree_cache::CohortTrees;
use crate::queue::cluster_queue::ClusterQueueStates;
use crate::queue::local_queue::LocalQueues;
use crate::quota::config::Config;
use crate::quota::violations::Violations;
use crate::state::nominations::Nominations;
use crate::workload::info::Workloads;
use crate::workload::shape::Shapes;

/// The admission decision: [`Engine::apply`] takes events, [`Engine::decide`] returns decisions. The state
/// after a `decide` depends on what exists, not on the order of events. The cohort of a ClusterQueue that was
/// deleted while it was used is the one exception.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) cohort_trees: CohortTrees,
    pub(crate) cluster_queues: ClusterQueueStates,
    pub(crate) local_queues: LocalQueues,
    pub(crate) workloads: Workloads,
    pub(crate) shapes: Shapes,
    pub(crate) settings: Settings,
    /// The ClusterQueues that say nothing of undeclared resources: for them the settings count.
    pub(crate) undeclared_by_settings: BTreeSet<ClusterQueueName>,
    /// Admitted workloads that may have a reason to be evicted.
    pub(crate) to_review: BTreeSet<WorkloadId>,
    /// What is due without any event: a backoff has ended, or a reservation timeout has expired.
    pub(crate) timers: BTreeSet<(Time, WorkloadId)>,
    pub(crate) nominations: Nominations,
    /// The time of the last decision.
    pub(crate) now: Time,
    /// The ClusterQueues that admit by usage.
    pub(crate) by_usage: BTreeSet<ClusterQueueName>,
    /// The ClusterQueues with workloads whose feasibility is not known.
    pub(crate) fit_unknown: BTreeSet<ClusterQueueName>,
    /// States that must not occur, as far as they were not found in a tree.
    pub(crate) violations: Violations,
}

impl Engine {
    /// An engine without any objects.
    pub fn new(settings: Settings) -> Self {
        Self {
            config: Config::default(),
            cohort_trees: CohortTrees::default(),
            cluster_queues: ClusterQueueStates::default(),
            local_queues: LocalQueues::default(),
            workloads: Workloads::default(),
            shapes: Shapes::new(settings.pod),
            settings,
            undeclared_by_settings: BTreeSet::new(),
            to_review: BTreeSet::new(),
            timers: BTreeSet::new(),
            nominations: Nominations::default(),
            now: Time::from_millis(i64::MIN),
            by_usage: BTreeSet::new(),
            fit_unknown: BTreeSet::new(),
            violations: Violations::default(),
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::UpsertFlavor(flavor) => self.set_flavor(&flavor.name.clone(), Some(flavor)),
            Event::RemoveFlavor(name) => self.set_flavor(&name, None),
            Event::UpsertCohort(cohort) => self.set_cohort(&cohort.name.clone(), Some(cohort)),
            Event::RemoveCohort(name) => self.set_cohort(&name, None),
            Event::UpsertClusterQueue(queue) => {
                self.set_cluster_queue(&queue.name.clone(), Some(queue));
            }
            Event::RemoveClusterQueue(name) => self.set_cluster_queue(&name, None),
            Event::UpsertLocalQueue(local_queue) => {
                self.set_local_queue(&local_queue.key.clone(), Some(local_queue));
            }
            Event::RemoveLocalQueue(key) => self.set_local_queue(&key, None),
            Event::UpsertWorkload(workload) => self.upsert_workload(workload),
            Event::RemoveWorkload(id) => self.remove_workload(&id),
            Event::AdmissionFailed(id) => self.admission_failed(&id),
            Event::EvictionFailed(id) => self.eviction_failed(&id),
        }
        self.drop_unused_deleted_queues();
        self.debug_check();
    }

    /// Has other settings count from now on. Everything is considered again, and nothing is evicted for it. The amount
    /// of one pod stays what it was.
    pub fn change_settings(&mut self, settings: Settings) {
        self.set_settings(settings);
        self.debug_check();
    }

    /// The admission of a workload, assumed or confirmed.
    pub fn admission(&self, id: &WorkloadId) -> Option<&Admission> {
        self.workloads.get(id)?.state.admission()
    }

    pub(crate) fn tree_of_queue(&self, queue: &ClusterQueueName) -> Option<Cow<'_, CohortTree>> {
        self.tree_of(&NodeName::ClusterQueue(queue.clone()))
    }

    /// The tree of a node, built for this call if a change has just invalidated it.
    pub(crate) fn tree_of(&self, node: &NodeName) -> Option<Cow<'_, CohortTree>> {
        self.cohort_trees
            .tree_of(node, &self.config, &self.cluster_queues)
    }
}
