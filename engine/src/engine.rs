//! The engine's state, and what events about the configuration change in it. Events about
//! workloads are `workloads.rs`, deciding is `decide.rs`, answering questions `why.rs` and
//! `report.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::accounts::{Account, Accounts};
use crate::amount::Amount;
use crate::cells::Cells;
use crate::demand::Demand;
use crate::event::{Event, EvictReason};
use crate::forest::{Config, Forest, NodeName, Tree};
use crate::ledger::{Charge, Ledger};
use crate::lookup::Lookup;
use crate::model::{
    Admission, AdmissionMode, ClusterQueue, Cohort, Consumed, Flavor, LocalQueue, StopPolicy,
};
use crate::names::{CohortName, FlavorName, LocalQueueKey, QueueName, ResourceName, WorkloadId};
use crate::pending::{ClassId, OrderKey, PendingQueue};
use crate::promises::Promises;
use crate::settings::Settings;
use crate::shape::{Shape, Shapes};
use crate::share::Share;
use crate::time::Time;
use crate::tree::NodeId;
use crate::victims::VictimKey;

/// The admission decision: [`Engine::apply`] takes note of changes, [`Engine::decide`] says what
/// is to be done. The state after a `decide` depends on what exists, not on the order in which
/// the engine was told.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) forest: Forest,
    pub(crate) accounts: Accounts,
    pub(crate) locals: Locals,
    pub(crate) workloads: Workloads,
    pub(crate) shapes: Shapes,
    pub(crate) settings: Settings,
    /// Admitted workloads that may have a reason to go.
    pub(crate) reviewed: BTreeSet<WorkloadId>,
    /// When something is due that no event will tell: a workload has backed off long enough, or has
    /// held quota in vain for too long.
    pub(crate) timers: BTreeSet<(Time, WorkloadId)>,
    pub(crate) promises: Promises,
    /// The moment of the last decision.
    pub(crate) now: Time,
    /// The ClusterQueues that admit by use.
    pub(crate) by_usage: BTreeSet<QueueName>,
}

/// All workloads.
pub(crate) type Workloads = Lookup<WorkloadId, Record>;

/// All LocalQueues that something is known of.
pub(crate) type Locals = Lookup<LocalQueueKey, Local>;

/// What belongs to a LocalQueue's name, whether or not its object exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    pub(crate) object: Option<LocalQueue>,
    pub(crate) workloads: BTreeSet<WorkloadId>,
    /// What waits here.
    pub(crate) demand: Demand,
    pub(crate) ledger: Ledger,
    /// What was used here over time, if its ClusterQueue admits by use.
    pub(crate) consumed: Option<Consumed>,
}

/// A workload. There are many, so this is kept small: names and shape are shared.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) queue: LocalQueueKey,
    pub(crate) priority: i32,
    pub(crate) created: i64,
    pub(crate) shape: Arc<Shape>,
    pub(crate) not_before: Option<Time>,
    pub(crate) evictable: bool,
    pub(crate) state: State,
}

/// Where a workload is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    Inactive,
    Finished,
    /// Decided here, not yet seen in the durable record.
    Assumed(Box<Held>),
    /// With the reason for which its eviction was decided, if it was.
    Admitted(Box<Held>, Option<EvictReason>),
    /// With the one for whom it makes room, if it does.
    Evicting(Box<Held>, Option<WorkloadId>),
}

/// What a workload holds, and what that charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) admission: Admission,
    pub(crate) charge: Charge,
}

impl State {
    pub(crate) fn held(&self) -> Option<&Held> {
        match self {
            Self::Assumed(held) | Self::Admitted(held, _) | Self::Evicting(held, _) => Some(held),
            Self::Pending | Self::Inactive | Self::Finished => None,
        }
    }

    pub(crate) fn admission(&self) -> Option<&Admission> {
        self.held().map(|held| &held.admission)
    }

    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(..))
    }

    /// For whom it is to make room, if it is.
    pub(crate) fn made_to_go_by(&self) -> Option<&WorkloadId> {
        match self {
            Self::Evicting(_, by) => by.as_ref(),
            Self::Admitted(_, Some(EvictReason::Preempted { by, .. })) => Some(by),
            _ => None,
        }
    }
}

impl Record {
    pub(crate) fn order(&self, id: &WorkloadId) -> OrderKey {
        OrderKey::new(self.priority, self.created, id.clone())
    }

    /// Its class where it waits: in a queue that admits by use, or in another one.
    pub(crate) fn class(&self, by_usage: bool) -> ClassId {
        ClassId {
            shape: self.shape.id,
            local: by_usage.then(|| Arc::new(self.queue.clone())),
        }
    }

    /// Whether quota is held on the way out.
    pub(crate) fn is_leaving(&self) -> bool {
        match self.state {
            State::Evicting(..) => true,
            State::Admitted(_, Some(_)) => self.evictable,
            _ => false,
        }
    }

    /// For whom it leaves, if it does.
    pub(crate) fn leaves_for(&self) -> Option<&WorkloadId> {
        self.state.made_to_go_by().filter(|_| self.is_leaving())
    }

    /// Where it stands among those that may be preempted, if it may be.
    pub(crate) fn victim_key(&self, id: &WorkloadId) -> Option<VictimKey> {
        match &self.state {
            State::Admitted(held, None) if self.evictable => {
                let since = held.admission.since;
                Some(VictimKey::new(self.priority, since, id.clone()))
            }
            _ => None,
        }
    }

    pub(crate) fn same_as(&self, other: &Self) -> bool {
        self.queue == other.queue
            && (self.priority, self.created) == (other.priority, other.created)
            && self.shape.id == other.shape.id
            && (self.not_before, self.evictable) == (other.not_before, other.evictable)
            && self.state == other.state
    }
}

impl Local {
    /// How much was and is used here, measured by what the ClusterQueue has.
    pub(crate) fn standing(&self, tree: &Tree, node: NodeId, cells: &Cells) -> Share {
        let mut quota: BTreeMap<&ResourceName, Amount> = BTreeMap::new();
        for ((_, resource), subtree, _) in tree.quota.amounts(node) {
            let sum = quota.entry(resource).or_default();
            *sum = sum.plus(subtree);
        }
        let used = self.ledger.by_resource(cells);
        let before = self.consumed.as_ref().map(|consumed| &consumed.amounts);
        let weight = self.object.as_ref().map(|local| local.fair_weight);
        let share = |(resource, quota): (&ResourceName, Amount)| {
            let before = before.and_then(|amounts| amounts.get(resource));
            let used = used.get(resource).copied().unwrap_or_default();
            Share::of(used.plus(before.copied().unwrap_or_default()), quota)
        };
        let has_quota = |(_, quota): &(&ResourceName, Amount)| *quota > Amount::ZERO;
        let shares = quota.into_iter().filter(has_quota).map(share);
        let dominant = shares.max().unwrap_or_default();
        dominant.weighted(weight.unwrap_or_default())
    }

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

impl Engine {
    /// An engine that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            config: Config::default(),
            forest: Forest::default(),
            accounts: Accounts::default(),
            locals: Locals::default(),
            workloads: Workloads::default(),
            shapes: Shapes::new(settings.pod),
            settings,
            reviewed: BTreeSet::new(),
            timers: BTreeSet::new(),
            promises: Promises::default(),
            now: Time::from_millis(i64::MIN),
            by_usage: BTreeSet::new(),
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
        if let Some(cohort) = &cohort {
            self.config.cells.intern_groups(&cohort.resource_groups);
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
        if let Some(queue) = &queue {
            self.config.cells.intern_groups(&queue.resource_groups);
            self.accounts.open(name);
        }
        let node = NodeName::Queue(name.clone());
        let parent = queue.as_ref().and_then(|queue| queue.cohort.clone());
        let before = match queue {
            Some(queue) => self.config.queues.insert(name.clone(), Arc::new(queue)),
            None => self.config.queues.remove(name),
        };
        let after = self.config.queues.get(name).cloned();
        let cohort = before.as_ref().and_then(|queue| queue.cohort.clone());
        self.relink(&node, cohort, parent);
        self.order_anew(name, before.as_deref(), after.as_deref());
        let charged = self
            .accounts
            .get(name)
            .map(|account| account.charged.clone());
        let charged = charged.unwrap_or_default();
        let timeout = |queue: Option<&ClusterQueue>| queue.and_then(|q| q.reservation_timeout);
        let (before, after) = (timeout(before.as_deref()), timeout(after.as_deref()));
        for id in charged.iter().filter(|_| before != after) {
            self.set_deadline(id, before, after);
        }
        self.review(charged);
        self.drop_empty_account(name);
    }

    /// Puts those that wait in a ClusterQueue in order anew, if it orders or limits them otherwise.
    fn order_anew(
        &mut self,
        name: &QueueName,
        before: Option<&ClusterQueue>,
        after: Option<&ClusterQueue>,
    ) {
        let rules = |queue: Option<&ClusterQueue>| {
            queue.map(|queue| (queue.admission_mode, queue.max_pending))
        };
        let (before, after) = (rules(before), rules(after));
        let (mode, limit) = after.unwrap_or_default();
        if mode == AdmissionMode::ByUsage {
            self.by_usage.insert(name.clone());
        } else {
            self.by_usage.remove(name);
        }
        if before.unwrap_or_default() == (mode, limit) {
            return;
        }
        let locals = self.accounts.get(name).map(|account| &account.locals);
        let locals = locals.into_iter().flatten();
        let locals = locals.filter_map(|key| self.locals.get(key));
        let workloads: Vec<WorkloadId> = locals
            .filter(|local| local.target() == Some(name))
            .flat_map(|local| local.workloads.iter().cloned())
            .collect();
        if let Some(account) = self.accounts.get_mut(name) {
            account.pending = PendingQueue::default();
            account.pending.set_limit(limit);
        }
        for id in workloads {
            self.enqueue(&id, Some(name));
        }
    }

    /// When a workload will have held quota in vain for too long.
    pub(crate) fn deadline(&self, record: &Record) -> Option<Time> {
        let State::Admitted(held, None) = &record.state else {
            return None;
        };
        let admission = &held.admission;
        let queue = self.config.queues.get(&admission.queue)?;
        Some(admission.unused_since?.after(queue.reservation_timeout?))
    }

    fn set_deadline(&mut self, id: &WorkloadId, before: Option<Duration>, after: Option<Duration>) {
        let Some(State::Admitted(held, None)) = self.workloads.get(id).map(|r| &r.state) else {
            return;
        };
        let Some(since) = held.admission.unused_since else {
            return;
        };
        if let Some(timeout) = before {
            self.timers.remove(&(since.after(timeout), id.clone()));
        }
        if let Some(timeout) = after {
            self.timers.insert((since.after(timeout), id.clone()));
        }
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
        let local = self.locals.open(key.clone());
        if local.object == object {
            self.drop_empty_local(key);
            return;
        }
        let before = local.target().cloned();
        let pointed = local.object.take().map(|local| local.cluster_queue);
        if let Some(told) = object.as_ref().and_then(|local| local.consumed.clone())
            && local
                .consumed
                .as_ref()
                .is_none_or(|known| known.at <= told.at)
        {
            local.consumed = Some(told);
        }
        let points = object.as_ref().map(|local| local.cluster_queue.clone());
        local.object = object;
        let after = local.target().cloned();
        let workloads = local.workloads.clone();
        if pointed != points {
            if let Some(queue) = points {
                let demand = local.demand.clone();
                let account = self.accounts.open(&queue);
                account.locals.insert(key.clone());
                account.demand.add_all(&demand);
            }
            if let Some(queue) = pointed
                && let Some(account) = self.accounts.get_mut(&queue)
            {
                account.locals.remove(key);
                let demand = self.locals.get(key).map(|local| local.demand.clone());
                account.demand.remove_all(&demand.unwrap_or_default());
                self.drop_empty_account(&queue);
            }
        }
        if before != after {
            for id in &workloads {
                self.dequeue(id, before.as_ref());
                self.enqueue(id, after.as_ref());
            }
        }
        self.review(workloads);
        self.drop_empty_local(key);
    }

    /// Looks at these workloads again: a reason for eviction may have come or gone.
    pub(crate) fn review(&mut self, workloads: impl IntoIterator<Item = WorkloadId>) {
        for id in workloads {
            let Some(record) = self.workloads.get(&id) else {
                continue;
            };
            let State::Admitted(_, asked) = &record.state else {
                continue;
            };
            if asked
                .as_ref()
                .is_some_and(|reason| self.is_obsolete(record, reason))
            {
                self.ask(&id, None);
            }
            self.reviewed.insert(id);
        }
    }

    /// Whether there is no ground any more to evict a workload for this reason. What was decided for
    /// another workload's sake, or because time ran out, is not taken back.
    fn is_obsolete(&self, record: &Record, reason: &EvictReason) -> bool {
        match reason {
            EvictReason::ClusterQueueStopped | EvictReason::LocalQueueStopped => {
                !self.has_reason(record, reason)
            }
            EvictReason::ReservationTimedOut | EvictReason::Preempted { .. } => false,
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
            EvictReason::ReservationTimedOut => {
                let deadline = self.deadline(record);
                deadline.is_some_and(|deadline| deadline <= self.now)
            }
            EvictReason::Preempted { .. } => false,
        }
    }

    pub(crate) fn drop_empty_local(&mut self, key: &LocalQueueKey) {
        if self.locals.get(key).is_some_and(Local::is_empty) {
            self.locals.remove(key);
        }
    }

    /// Closes the account of a name that nothing is said of any more.
    pub(crate) fn drop_empty_account(&mut self, queue: &QueueName) {
        let is_empty = self.accounts.get(queue).is_some_and(Account::is_empty);
        if is_empty && !self.config.queues.contains_key(queue) {
            self.accounts.close(queue);
        }
    }
}
