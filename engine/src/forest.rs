//! Which queues and cohorts make up which tree, and when a tree has to be built anew. The
//! arithmetic within one tree is `tree.rs`.
//!
//! A change of the configuration uproots the trees that it touches: their members become orphans.
//! [`Forest::settle`] gathers orphans into trees again. Nothing here recurses, so a chain of any
//! length is safe; one deeper than the limit becomes an inactive tree.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::accounts::{AccountId, Accounts};
use crate::cells::Cells;
use crate::ledger::{Charge, Ledger};
use crate::limits::TREE_DEPTH_MAX;
use crate::model::{ClusterQueue, Cohort, Flavor, StopPolicy};
use crate::names::{CohortName, FlavorName, QueueName, WorkloadId};
use crate::pending::ClassId;
use crate::plans::{LayoutId, Plans};
use crate::status::InactiveReason;
use crate::tree::{NodeId, QuotaTree, View};

/// A queue or a cohort.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeName {
    Cohort(CohortName),
    Queue(QueueName),
}

/// Flavors, cohorts and ClusterQueues as they are configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) flavors: BTreeMap<FlavorName, Flavor>,
    pub(crate) cohorts: BTreeMap<CohortName, Cohort>,
    pub(crate) queues: BTreeMap<QueueName, Arc<ClusterQueue>>,
    /// All that quota was given for, or that was charged.
    pub(crate) cells: Cells,
    /// What names each cohort as the one above. None is empty.
    children: BTreeMap<CohortName, BTreeSet<NodeName>>,
}

/// One cohort tree, or a single queue without cohort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    members: Vec<NodeName>,
    pub(crate) quota: QuotaTree,
    /// Empty in an inactive tree.
    pub(crate) queues: Queues,
    /// Empty in an inactive tree.
    pub(crate) cohorts: BTreeMap<CohortName, NodeId>,
    /// How shapes can be placed in its queues.
    pub(crate) plans: Plans,
    /// Why nothing in this tree is admitted.
    pub(crate) inactive: Option<InactiveReason>,
    /// What the next decision has to look at.
    pub(crate) woken: Woken,
    /// Classes that may come to fit when usage grows: see `Slots::fit_is_monotone`; and where those of
    /// other queues may have to go, more usage may mean more of those.
    pub(crate) restless: BTreeSet<ClassRef>,
    /// How many workloads hold quota here and are on their way out.
    pub(crate) leaving: usize,
    /// The workloads that wait for them, as of the last decision.
    pub(crate) claimants: BTreeSet<WorkloadId>,
}

/// A queue in its tree.
#[derive(Clone, Debug)]
pub(crate) struct QueueNode {
    pub(crate) id: NodeId,
    pub(crate) account: AccountId,
    pub(crate) config: Arc<ClusterQueue>,
    pub(crate) layout: LayoutId,
    pub(crate) inactive: Option<InactiveReason>,
}

/// The queues of a tree, by name and by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues {
    ids: BTreeMap<QueueName, NodeId>,
    /// None for a cohort.
    nodes: Vec<Option<QueueNode>>,
}

/// A class of waiting workloads and the node of its queue.
pub(crate) type ClassRef = (NodeId, ClassId);

/// What a decision has to look at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Woken {
    /// Something was freed or changed: everything.
    pub(crate) all: bool,
    /// Otherwise these.
    pub(crate) classes: BTreeSet<ClassRef>,
}

/// All trees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forest {
    /// By root; a tree with a cycle by the first cohort of the cycle.
    trees: BTreeMap<NodeName, Tree>,
    homes: BTreeMap<NodeName, NodeName>,
    orphans: BTreeSet<NodeName>,
    touched: BTreeSet<NodeName>,
}

impl Config {
    fn parent(&self, node: &NodeName) -> Option<&CohortName> {
        match node {
            NodeName::Cohort(name) => self.cohorts.get(name)?.parent.as_ref(),
            NodeName::Queue(name) => self.queues.get(name)?.cohort.as_ref(),
        }
    }

    fn children(&self, node: &NodeName) -> impl Iterator<Item = &NodeName> {
        let children = match node {
            NodeName::Cohort(name) => self.children.get(name),
            NodeName::Queue(_) => None,
        };
        children.into_iter().flatten()
    }

    /// Whether there is an object of this name, or a cohort that something names.
    fn exists(&self, node: &NodeName) -> bool {
        match node {
            NodeName::Cohort(name) => {
                self.cohorts.contains_key(name) || self.children.contains_key(name)
            }
            NodeName::Queue(name) => self.queues.contains_key(name),
        }
    }

    /// Keeps `children` when what `child` names as the cohort above changes.
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

    /// The flavors that a queue has quota for and that don't exist.
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

    fn queue_inactive(&self, queue: &ClusterQueue) -> Option<InactiveReason> {
        if queue.stop != StopPolicy::None {
            return Some(InactiveReason::Stopped);
        }
        let missing = self.missing_flavors(queue);
        (!missing.is_empty()).then_some(InactiveReason::FlavorNotFound(missing))
    }

    /// Everything that hangs together with `start`, however it is linked.
    fn component(&self, start: &NodeName) -> BTreeSet<NodeName> {
        let mut found = BTreeSet::from([start.clone()]);
        let mut open = vec![start.clone()];
        while let Some(node) = open.pop() {
            let parent = self.parent(&node).cloned().map(NodeName::Cohort);
            for next in self.children(&node).cloned().chain(parent) {
                if found.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// The cohorts of the cycle that parents lead into from `start`, in a component without root.
    fn cycle(&self, start: &NodeName) -> BTreeSet<CohortName> {
        let mut seen: BTreeSet<&CohortName> = BTreeSet::new();
        let mut next = self.parent(start);
        while let Some(name) = next
            && seen.insert(name)
        {
            next = self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.as_ref());
        }
        // `next` was met before, so it is on the cycle: once around from there.
        let mut cycle = BTreeSet::new();
        while let Some(name) = next
            && cycle.insert(name.clone())
        {
            next = self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.as_ref());
        }
        cycle
    }

    /// Builds the tree that `start` is part of; also says what it goes by.
    fn tree(&self, start: &NodeName, accounts: &Accounts) -> (NodeName, Tree) {
        let members = self.component(start);
        let woken = Woken {
            all: true,
            classes: BTreeSet::new(),
        };
        let mut tree = Tree {
            woken,
            ..Tree::default()
        };
        let root = members
            .iter()
            .find(|node| self.parent(node).is_none())
            .cloned();
        let Some(root) = root else {
            let cycle = self.cycle(start);
            let key = cycle
                .first()
                .cloned()
                .map_or_else(|| start.clone(), NodeName::Cohort);
            tree.members = members.into_iter().collect();
            tree.inactive = Some(InactiveReason::CohortCycle(cycle.into_iter().collect()));
            return (key, tree);
        };
        let mut level = vec![(root.clone(), None)];
        for _ in 0..TREE_DEPTH_MAX {
            let mut below = Vec::new();
            for (node, parent) in level {
                let id = self.plant(&mut tree, &node, parent, accounts);
                below.extend(self.children(&node).map(|child| (child.clone(), Some(id))));
            }
            level = below;
        }
        if level.is_empty() {
            tree.quota.sum_up();
        } else {
            let inactive = Some(InactiveReason::CohortTreeTooDeep);
            tree = Tree {
                inactive,
                ..Tree::default()
            };
        }
        tree.members = members.into_iter().collect();
        (root, tree)
    }

    /// Adds one node to a tree.
    fn plant(
        &self,
        tree: &mut Tree,
        node: &NodeName,
        parent: Option<NodeId>,
        accounts: &Accounts,
    ) -> NodeId {
        match node {
            NodeName::Cohort(name) => {
                let config = self.cohorts.get(name);
                let groups = config.map(|cohort| cohort.resource_groups.as_slice());
                let weight = config.map(|cohort| cohort.fair_weight).unwrap_or_default();
                let groups = groups.unwrap_or_default();
                let id = tree.quota.add(parent, groups, weight, None, &self.cells);
                tree.cohorts.insert(name.clone(), id);
                id
            }
            NodeName::Queue(name) => {
                let config = self.queues.get(name);
                let groups = config.map(|config| config.resource_groups.as_slice());
                let weight = config.map(|config| config.fair_weight).unwrap_or_default();
                let ledger = accounts.get(name).map(|account| &account.ledger);
                let charged = ledger.into_iter().flat_map(Ledger::totals);
                let groups = groups.unwrap_or_default();
                let id = (tree.quota).add(parent, groups, weight, charged, &self.cells);
                if let (Some(config), Some(account)) = (config, accounts.id(name)) {
                    tree.queues.insert(QueueNode {
                        id,
                        account,
                        config: Arc::clone(config),
                        layout: tree.plans.layout(config),
                        inactive: self.queue_inactive(config),
                    });
                }
                id
            }
        }
    }
}

impl Queues {
    fn insert(&mut self, node: QueueNode) {
        self.ids.insert(node.config.name.clone(), node.id);
        if self.nodes.len() <= node.id {
            self.nodes.resize_with(node.id.saturating_add(1), || None);
        }
        if let Some(place) = self.nodes.get_mut(node.id) {
            *place = Some(node);
        }
    }

    pub(crate) fn node(&self, name: &QueueName) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn get(&self, name: &QueueName) -> Option<&QueueNode> {
        self.at(self.node(name)?)
    }

    pub(crate) fn at(&self, id: NodeId) -> Option<&QueueNode> {
        self.nodes.get(id)?.as_ref()
    }

    /// All of them.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &QueueNode> {
        self.nodes.iter().flatten()
    }

    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueName, &QueueNode)> {
        let node = |(name, id): (_, &NodeId)| Some((name, self.at(*id)?));
        self.ids.iter().filter_map(node)
    }
}

impl Tree {
    /// Why a queue of this tree admits nothing.
    pub(crate) fn queue_inactive(&self, queue: &QueueName) -> Option<&InactiveReason> {
        let own = || self.queues.get(queue).and_then(|n| n.inactive.as_ref());
        self.inactive.as_ref().or_else(own)
    }

    /// Has the next decision look at a class.
    pub(crate) fn wake(&mut self, queue: &QueueName, class: ClassId) {
        if let Some(node) = self.queues.node(queue) {
            self.woken.classes.insert((node, class));
        }
    }

    pub(crate) fn charge(&mut self, view: View, node: NodeId, charge: &Charge, cells: &Cells) {
        for (cell, charged) in &**charge {
            self.quota.mention(*cell, cells);
            self.quota.charge(view, node, *cell, charged.total);
        }
    }

    pub(crate) fn discharge(&mut self, view: View, node: NodeId, charge: &Charge) {
        for (cell, charged) in &**charge {
            self.quota.discharge(view, node, *cell, charged.total);
        }
    }
}

impl Forest {
    /// Notes that a node, or what it is linked to, has changed.
    pub(crate) fn uproot(&mut self, node: &NodeName) {
        if let Some(key) = self.homes.get(node)
            && let Some(tree) = self.trees.remove(key)
        {
            self.touched.remove(&key.clone());
            for member in tree.members {
                self.homes.remove(&member);
                self.orphans.insert(member);
            }
        }
        self.orphans.insert(node.clone());
    }

    /// Builds all trees that are missing, and returns the queues in them.
    pub(crate) fn settle(&mut self, config: &Config, accounts: &Accounts) -> Vec<QueueName> {
        let mut queues = Vec::new();
        while let Some(node) = self.orphans.pop_first() {
            // The new tree may swallow one that the change didn't name, by a link from here.
            if !config.exists(&node) || self.homes.contains_key(&node) {
                continue;
            }
            let (key, tree) = config.tree(&node, accounts);
            for member in &tree.members {
                self.homes.insert(member.clone(), key.clone());
                self.orphans.remove(member);
                if let NodeName::Queue(queue) = member {
                    queues.push(queue.clone());
                }
            }
            self.touched.insert(key.clone());
            self.trees.insert(key, tree);
        }
        queues
    }

    /// The tree of a node, built for the occasion if it is missing.
    pub(crate) fn tree_of(
        &self,
        node: &NodeName,
        config: &Config,
        accounts: &Accounts,
    ) -> Option<Cow<'_, Tree>> {
        if let Some(tree) = self.home(node) {
            return Some(Cow::Borrowed(tree));
        }
        config
            .exists(node)
            .then(|| Cow::Owned(config.tree(node, accounts).1))
    }

    /// The tree of a queue, if it is there, for a change of its usage or of what it has to look at.
    pub(crate) fn touch(&mut self, queue: &QueueName) -> Option<&mut Tree> {
        let key = self.homes.get(&NodeName::Queue(queue.clone()))?;
        self.touched.insert(key.clone());
        self.trees.get_mut(key)
    }

    /// Room that was kept for a workload may be had by others.
    pub(crate) fn wake_if_claimed(&mut self, queue: &QueueName, id: &WorkloadId) {
        let key = self.homes.get(&NodeName::Queue(queue.clone()));
        if let Some(key) = key
            && let Some(tree) = self.trees.get_mut(key)
            && tree.claimants.contains(id)
        {
            tree.woken.all = true;
            self.touched.insert(key.clone());
        }
    }

    /// Whether room was kept for a workload of this queue at the last look.
    pub(crate) fn has_claimed(&self, queue: &QueueName, id: &WorkloadId) -> bool {
        let tree = self.home(&NodeName::Queue(queue.clone()));
        tree.is_some_and(|tree| tree.claimants.contains(id))
    }

    /// Whether room was kept for anybody in the tree of a queue at the last look.
    pub(crate) fn has_claims(&self, queue: &QueueName) -> bool {
        let tree = self.home(&NodeName::Queue(queue.clone()));
        tree.is_some_and(|tree| !tree.claimants.is_empty())
    }

    /// The tree of a node, if it is there.
    fn home(&self, node: &NodeName) -> Option<&Tree> {
        self.trees.get(self.homes.get(node)?)
    }

    /// Time has passed for a queue whose order depends on it.
    pub(crate) fn wake_in_time(&mut self, queue: &QueueName, is_strict: bool) {
        let key = self.homes.get(&NodeName::Queue(queue.clone()));
        if let Some(key) = key
            && let Some(tree) = self.trees.get_mut(key)
            && (is_strict || tree.leaving > 0)
        {
            tree.woken.all = true;
            self.touched.insert(key.clone());
        }
    }

    /// More usage, or more that may be evicted: what may gain by that is looked at again.
    pub(crate) fn wake_restless(&mut self, queue: &QueueName) {
        let Some(key) = self.homes.get(&NodeName::Queue(queue.clone())) else {
            return;
        };
        if let Some(tree) = self.trees.get_mut(key)
            && !tree.restless.is_empty()
        {
            tree.woken.classes.extend(tree.restless.iter().cloned());
            self.touched.insert(key.clone());
        }
    }

    /// Takes out the trees that were touched, in order.
    pub(crate) fn take_touched(&mut self) -> Vec<(NodeName, Tree)> {
        let touched = std::mem::take(&mut self.touched);
        let tree = |key: NodeName| self.trees.remove(&key).map(|tree| (key, tree));
        touched.into_iter().filter_map(tree).collect()
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.trees.values()
    }

    pub(crate) fn put_back(&mut self, key: NodeName, tree: Tree) {
        self.trees.insert(key, tree);
    }
}
