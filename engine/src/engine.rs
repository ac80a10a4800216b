//! The engine's state, and what events about the configuration change in it. Events about
//! workloads are `workloads.rs`, deciding is `decide.rs`, answering questions `why.rs` and
//! `report.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::demand::Demand;
use crate::event::{Event, EvictReason};
use crate::forest::{Config, Forest, NodeName};
use crate::ledger::Ledger;
use crate::model::{Admission, ClusterQueue, Cohort, Flavor, LocalQueue, StopPolicy};
use crate::names::{CohortName, FlavorName, LocalQueueKey, QueueName, WorkloadId};
use crate::pending::{OrderKey, PendingQueue};
use crate::settings::Settings;
use crate::shape::{Shape, Shapes};

/// The admission decision: [`Engine::apply`] takes note of changes, [`Engine::decide`] says what
/// is to be done. The state after a `decide` depends on what exists, not on the order in which
/// the engine was told.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) forest: Forest,
    pub(crate) accounts: BTreeMap<QueueName, Account>,
    pub(crate) locals: BTreeMap<LocalQueueKey, Local>,
    pub(crate) workloads: BTreeMap<WorkloadId, Record>,
    pub(crate) shapes: Shapes,
    pub(crate) settings: Settings,
    /// Admitted workloads whose queue or LocalQueue may have begun to drain.
    pub(crate) drained: BTreeSet<WorkloadId>,
}

/// What belongs to a ClusterQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub(crate) pending: PendingQueue,
    pub(crate) ledger: Ledger,
    /// What waits in the LocalQueues that point here, stopped ones included.
    pub(crate) demand: Demand,
    /// The workloads that are charged here.
    pub(crate) charged: BTreeSet<WorkloadId>,
    /// The LocalQueues that point here.
    pub(crate) locals: BTreeSet<LocalQueueKey>,
}

/// What belongs to a LocalQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    pub(crate) object: Option<LocalQueue>,
    pub(crate) workloads: BTreeSet<WorkloadId>,
    /// What waits here.
    pub(crate) demand: Demand,
    pub(crate) ledger: Ledger,
}

/// A workload. There are many, so this is kept small: names and shape are shared.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) queue: LocalQueueKey,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) shape: Arc<Shape>,
    pub(crate) state: State,
}

/// Where a workload is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Inactive,
    Finished,
    /// Decided here, not yet seen in the durable record.
    Assumed(Box<Admission>),
    /// With the reason for which its eviction was decided, if it was.
    Admitted(Box<Admission>, Option<EvictReason>),
    Evicting(Box<Admission>),
}

impl State {
    pub(crate) fn admission(&self) -> Option<&Admission> {
        match self {
            Self::Assumed(admission) | Self::Admitted(admission, _) | Self::Evicting(admission) => {
                Some(admission)
            }
            Self::Pending | Self::Inactive | Self::Finished => None,
        }
    }

    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(..))
    }
}

impl Record {
    pub(crate) fn order(&self, id: &WorkloadId) -> OrderKey {
        OrderKey::new(self.priority, self.created, id.clone())
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.queue == other.queue
            && (self.priority, self.created) == (other.priority, other.created)
            && self.shape.id == other.shape.id
            && self.state == other.state
    }
}

impl Local {
    /// The ClusterQueue that workloads of this LocalQueue wait in, if they may.
    pub(crate) fn target(&self) -> Option<&QueueName> {
        let local = self.object.as_ref()?;
        let open = local.stop == StopPolicy::None && local.namespace_selected;
        open.then_some(&local.cluster_queue)
    }

    fn drains(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|local| local.stop == StopPolicy::HoldAndDrain)
    }

    fn is_empty(&self) -> bool {
        self.object.is_none() && self.workloads.is_empty()
    }
}

impl Account {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.charged.is_empty() && self.locals.is_empty()
    }
}

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            config: Config::default(),
            forest: Forest::default(),
            accounts: BTreeMap::new(),
            locals: BTreeMap::new(),
            workloads: BTreeMap::new(),
            shapes: Shapes::new(settings.pod),
            settings,
            drained: BTreeSet::new(),
        }
    }

    /// Takes note of a change.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::UpsertFlavor(flavor) => self.set_flavor(&flavor.name.clone(), Some(flavor)),
            Event::RemoveFlavor(name) => self.set_flavor(&name, None),
            Event::UpsertCohort(cohort) => self.set_cohort(&cohort.name.clone(), Some(cohort)),
            Event::RemoveCohort(name) => self.set_cohort(&name, None),
            Event::UpsertClusterQueue(queue) => self.set_queue(&queue.name.clone(), Some(queue)),
            Event::RemoveClusterQueue(name) => self.set_queue(&name, None),
            Event::UpsertLocalQueue(local) => self.set_local(&local.key.clone(), Some(local)),
            Event::RemoveLocalQueue(key) => self.set_local(&key, None),
            Event::UpsertWorkload(workload) => self.upsert_workload(workload),
            Event::RemoveWorkload(id) => self.remove_workload(&id),
            Event::AdmissionFailed(id) => self.admission_failed(&id),
            Event::EvictionFailed(id) => self.eviction_failed(&id),
        }
    }

    /// What a workload holds, assumed or confirmed.
    pub fn admission(&self, id: &WorkloadId) -> Option<&Admission> {
        self.workloads.get(id)?.state.admission()
    }

    fn set_flavor(&mut self, name: &FlavorName, flavor: Option<Flavor>) {
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
                self.forest.uproot(&NodeName::Queue(queue.clone()));
            }
        }
    }

    fn set_cohort(&mut self, name: &CohortName, cohort: Option<Cohort>) {
        if self.config.cohorts.get(name) == cohort.as_ref() {
            return;
        }
        let node = NodeName::Cohort(name.clone());
        let parent = cohort.as_ref().and_then(|cohort| cohort.parent.clone());
        let before = match cohort {
            Some(cohort) => self.config.cohorts.insert(name.clone(), cohort),
            None => self.config.cohorts.remove(name),
        };
        self.relink(&node, before.and_then(|cohort| cohort.parent), parent);
    }

    fn set_queue(&mut self, name: &QueueName, queue: Option<ClusterQueue>) {
        if self.config.queues.get(name).map(|known| &**known) == queue.as_ref() {
            return;
        }
        let node = NodeName::Queue(name.clone());
        let parent = queue.as_ref().and_then(|queue| queue.cohort.clone());
        let before = match queue {
            Some(queue) => self.config.queues.insert(name.clone(), Arc::new(queue)),
            None => self.config.queues.remove(name),
        };
        self.relink(&node, before.and_then(|queue| queue.cohort.clone()), parent);
        let charged = self
            .accounts
            .get(name)
            .map(|account| account.charged.clone());
        self.review_drain(charged.unwrap_or_default());
    }

    /// Uproots a node and both the tree that it leaves and the tree that it joins.
    fn relink(&mut self, node: &NodeName, from: Option<CohortName>, to: Option<CohortName>) {
        self.config.move_child(node, from.as_ref(), to.as_ref());
        self.forest.uproot(node);
        for cohort in from.into_iter().chain(to) {
            self.forest.uproot(&NodeName::Cohort(cohort));
        }
    }

    fn set_local(&mut self, key: &LocalQueueKey, object: Option<LocalQueue>) {
        let local = self.locals.entry(key.clone()).or_default();
        if local.object == object {
            self.drop_empty_local(key);
            return;
        }
        let before = local.target().cloned();
        let pointed = local.object.take().map(|local| local.cluster_queue);
        let points = object.as_ref().map(|local| local.cluster_queue.clone());
        local.object = object;
        let after = local.target().cloned();
        let workloads = local.workloads.clone();
        if pointed != points {
            if let Some(queue) = points {
                let account = self.accounts.entry(queue).or_default();
                account.locals.insert(key.clone());
                account.demand.add_all(&local.demand);
            }
            if let Some(queue) = pointed
                && let Some(account) = self.accounts.get_mut(&queue)
            {
                account.locals.remove(key);
                account.demand.remove_all(&local.demand);
                self.drop_empty_account(&queue);
            }
        }
        if before != after {
            for id in &workloads {
                self.dequeue(id, before.as_ref());
                self.enqueue(id, after.as_ref());
            }
        }
        self.review_drain(workloads);
        self.drop_empty_local(key);
    }

    /// Looks at these workloads again: a reason for eviction may have come or gone.
    pub(crate) fn review_drain(&mut self, workloads: BTreeSet<WorkloadId>) {
        for id in workloads {
            let Some(record) = self.workloads.get(&id) else {
                continue;
            };
            let State::Admitted(_, asked) = &record.state else {
                continue;
            };
            let gone = asked
                .as_ref()
                .is_some_and(|reason| !self.has_reason(record, reason));
            if let Some(record) = self.workloads.get_mut(&id)
                && gone
                && let State::Admitted(_, asked) = &mut record.state
            {
                *asked = None;
            }
            self.drained.insert(id);
        }
    }

    /// Whether this reason to evict a workload holds.
    pub(crate) fn has_reason(&self, record: &Record, reason: &EvictReason) -> bool {
        match reason {
            EvictReason::ClusterQueueStopped => {
                let queue = record.state.admission().map(|admission| &admission.queue);
                let config = queue.and_then(|queue| self.config.queues.get(queue));
                config.is_some_and(|config| config.stop == StopPolicy::HoldAndDrain)
            }
            EvictReason::LocalQueueStopped => {
                self.locals.get(&record.queue).is_some_and(Local::drains)
            }
            EvictReason::ReservationTimedOut | EvictReason::Preempted { .. } => true,
        }
    }

    pub(crate) fn drop_empty_local(&mut self, key: &LocalQueueKey) {
        if self.locals.get(key).is_some_and(Local::is_empty) {
            self.locals.remove(key);
        }
    }

    pub(crate) fn drop_empty_account(&mut self, queue: &QueueName) {
        if self.accounts.get(queue).is_some_and(Account::is_empty) {
            self.accounts.remove(queue);
        }
    }
}
