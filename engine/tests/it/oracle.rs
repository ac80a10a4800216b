//! The same decisions, made slowly and by definition: the quota of the whole tree is worked out
//! anew for every question, and every admission is chosen by looking at every waiting workload.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    Admission, Amount, ByFlavor, ClusterQueue, Cohort, CohortName, Decision, Event, EvictReason,
    Flavor, FlavorName, LocalQueue, LocalQueueKey, PodSetAssignment, QueueName, QueueingStrategy,
    Quota, ResourceGroup, ResourceName, Snapshot, StopPolicy, TaintEffect, Time, WhenCanBorrow,
    Workload, WorkloadId, WorkloadState,
};

type Cell = (FlavorName, ResourceName);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Cohort(CohortName),
    Queue(QueueName),
}

/// What an engine has been told, and what it has decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) flavors: BTreeMap<FlavorName, Flavor>,
    pub(crate) cohorts: BTreeMap<CohortName, Cohort>,
    pub(crate) queues: BTreeMap<QueueName, ClusterQueue>,
    pub(crate) locals: BTreeMap<LocalQueueKey, LocalQueue>,
    pub(crate) workloads: BTreeMap<WorkloadId, Workload>,
    pub(crate) assumed: BTreeMap<WorkloadId, Admission>,
    asked: BTreeMap<WorkloadId, EvictReason>,
}

const LIMIT: i128 = Amount::LIMIT.get();

impl Oracle {
    pub(crate) fn apply(&mut self, event: Event) {
        match event {
            Event::UpsertFlavor(flavor) => {
                self.flavors.insert(flavor.name.clone(), flavor);
            }
            Event::RemoveFlavor(name) => {
                self.flavors.remove(&name);
            }
            Event::UpsertCohort(cohort) => {
                self.cohorts.insert(cohort.name.clone(), cohort);
            }
            Event::RemoveCohort(name) => {
                self.cohorts.remove(&name);
            }
            Event::UpsertClusterQueue(queue) => {
                self.queues.insert(queue.name.clone(), queue);
            }
            Event::RemoveClusterQueue(name) => {
                self.queues.remove(&name);
            }
            Event::UpsertLocalQueue(local) => {
                self.locals.insert(local.key.clone(), local);
            }
            Event::RemoveLocalQueue(key) => {
                self.locals.remove(&key);
            }
            Event::UpsertWorkload(workload) => {
                if workload.state != WorkloadState::Pending {
                    self.assumed.remove(&workload.id);
                }
                self.workloads.insert(workload.id.clone(), workload);
            }
            Event::RemoveWorkload(id) => {
                self.assumed.remove(&id);
                self.workloads.remove(&id);
            }
            Event::AdmissionFailed(id) => {
                self.assumed.remove(&id);
            }
            Event::EvictionFailed(id) => {
                self.asked.remove(&id);
            }
        }
        let asked = std::mem::take(&mut self.asked);
        let holds = |(id, reason): &(WorkloadId, EvictReason)| self.reasons(id).contains(reason);
        self.asked = asked.into_iter().filter(holds).collect();
    }

    pub(crate) fn decide(&mut self) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for id in self.workloads.keys().cloned().collect::<Vec<_>>() {
            if let Some(reason) = self.reasons(&id).first().cloned()
                && !self.asked.contains_key(&id)
            {
                self.asked.insert(id.clone(), reason.clone());
                decisions.push(Decision::Evict { id, reason });
            }
        }
        while let Some((id, admission)) = self.best() {
            self.assumed.insert(id.clone(), admission.clone());
            decisions.push(Decision::Admit { id, admission });
        }
        decisions
    }

    fn reasons(&self, id: &WorkloadId) -> Vec<EvictReason> {
        let Some(workload) = self.workloads.get(id) else {
            return Vec::new();
        };
        let WorkloadState::Admitted(admission) = &workload.state else {
            return Vec::new();
        };
        let drains = |stop: StopPolicy| stop == StopPolicy::HoldAndDrain;
        let mut reasons = Vec::new();
        if self
            .queues
            .get(&admission.queue)
            .is_some_and(|queue| drains(queue.stop))
        {
            reasons.push(EvictReason::ClusterQueueStopped);
        }
        if self
            .locals
            .get(&workload.queue)
            .is_some_and(|local| drains(local.stop))
        {
            reasons.push(EvictReason::LocalQueueStopped);
        }
        reasons
    }

    /// Who waits for which queue, in the order of the queue.
    fn waiting(&self) -> BTreeMap<QueueName, Vec<&Workload>> {
        let mut waiting: BTreeMap<QueueName, Vec<&Workload>> = BTreeMap::new();
        for (id, workload) in &self.workloads {
            let open = |l: &&LocalQueue| l.stop == StopPolicy::None && l.namespace_selected;
            if workload.state == WorkloadState::Pending
                && !self.assumed.contains_key(id)
                && countable(workload)
                && let Some(local) = self.locals.get(&workload.queue).filter(open)
            {
                waiting
                    .entry(local.cluster_queue.clone())
                    .or_default()
                    .push(workload);
            }
        }
        for workloads in waiting.values_mut() {
            workloads.sort_by_key(|w| order(w));
        }
        waiting
    }

    /// The one that is to be admitted next.
    fn best(&self) -> Option<(WorkloadId, Admission)> {
        let mut best = None;
        for (name, workloads) in self.waiting() {
            let Some(queue) = self.queues.get(&name).filter(|queue| self.active(queue)) else {
                continue;
            };
            let strict = queue.strategy == QueueingStrategy::StrictFifo;
            for workload in workloads
                .into_iter()
                .take(if strict { 1 } else { usize::MAX })
            {
                if let Some((admission, borrows)) = self.fit(queue, workload) {
                    let rank = (borrows, order(workload));
                    if best.as_ref().is_none_or(|(found, _)| rank < *found) {
                        best = Some((rank, admission));
                    }
                }
            }
        }
        best.map(|((_, (_, _, id)), admission)| (id, admission))
    }

    fn active(&self, queue: &ClusterQueue) -> bool {
        let mut flavors = queue
            .resource_groups
            .iter()
            .flat_map(|group| &group.flavors);
        queue.stop == StopPolicy::None
            && flavors.all(|flavor| self.flavors.contains_key(&flavor.name))
            && self.path(&Node::Queue(queue.name.clone())).is_some()
    }

    fn parent(&self, node: &Node) -> Option<Node> {
        let parent = match node {
            Node::Cohort(name) => self
                .cohorts
                .get(name)
                .and_then(|cohort| cohort.parent.clone()),
            Node::Queue(name) => self.queues.get(name).and_then(|queue| queue.cohort.clone()),
        };
        parent.map(Node::Cohort)
    }

    /// From a node up to its root; none if there is no root.
    fn path(&self, node: &Node) -> Option<Vec<Node>> {
        let mut path = vec![node.clone()];
        while let Some(parent) = self.parent(path.last().unwrap()) {
            if path.contains(&parent) {
                return None;
            }
            path.push(parent);
        }
        Some(path)
    }

    fn children(&self, node: &Node) -> Vec<Node> {
        let cohorts = self.cohorts.keys().cloned().map(Node::Cohort);
        let all = cohorts.chain(self.queues.keys().cloned().map(Node::Queue));
        all.filter(|child| self.parent(child).as_ref() == Some(node))
            .collect()
    }

    fn quota(&self, node: &Node, cell: &Cell) -> Quota {
        let groups = match node {
            Node::Cohort(name) => self.cohorts.get(name).map(|c| c.resource_groups.as_slice()),
            Node::Queue(name) => self.queues.get(name).map(|q| q.resource_groups.as_slice()),
        };
        let group = group_of(groups.unwrap_or_default(), &cell.1);
        let flavors = group.into_iter().flat_map(|(_, group)| &group.flavors);
        let mut quotas = flavors
            .filter(|f| f.name == cell.0)
            .map(|f| f.resources.get(&cell.1));
        quotas.next().flatten().copied().unwrap_or_default()
    }

    fn subtree(&self, node: &Node, cell: &Cell) -> i128 {
        let lent = |child: &Node| self.subtree(child, cell) - self.guaranteed(child, cell);
        let nominal = clamp(self.quota(node, cell).nominal);
        nominal + self.children(node).iter().map(lent).sum::<i128>()
    }

    fn guaranteed(&self, node: &Node, cell: &Cell) -> i128 {
        let limit = self.quota(node, cell).lending_limit.map(clamp);
        limit.map_or(0, |limit| (self.subtree(node, cell) - limit).max(0))
    }

    /// What is charged to each queue.
    fn charged(&self) -> BTreeMap<QueueName, BTreeMap<Cell, i128>> {
        let mut charged: BTreeMap<QueueName, BTreeMap<Cell, i128>> = BTreeMap::new();
        for (id, workload) in &self.workloads {
            let admission = match &workload.state {
                WorkloadState::Admitted(admission) | WorkloadState::Evicting(admission) => {
                    Some(admission)
                }
                _ => self.assumed.get(id),
            };
            let Some(admission) = admission else { continue };
            let queue = charged.entry(admission.queue.clone()).or_default();
            for pod_set in &admission.pod_sets {
                for (resource, amount) in &pod_set.usage {
                    if let Some(flavor) = pod_set.flavors.get(resource) {
                        *queue.entry((flavor.clone(), resource.clone())).or_default() +=
                            clamp(*amount);
                    }
                }
            }
        }
        charged
    }

    fn usage(&self, node: &Node, cell: &Cell, charged: &BTreeMap<Cell, i128>, to: &Node) -> i128 {
        match node {
            Node::Queue(name) => {
                let own = self.charged().get(name).and_then(|c| c.get(cell)).copied();
                let more = charged.get(cell).filter(|_| node == to).copied();
                own.unwrap_or_default() + more.unwrap_or_default()
            }
            Node::Cohort(_) => (self.children(node).iter())
                .map(|child| {
                    let usage = self.usage(child, cell, charged, to);
                    (usage - self.guaranteed(child, cell)).max(0)
                })
                .sum(),
        }
    }

    /// Whether each node whose usage this would raise stays within what it may use.
    fn fits(&self, queue: &ClusterQueue, charge: &BTreeMap<Cell, i128>) -> bool {
        let to = Node::Queue(queue.name.clone());
        let path = self.path(&to).unwrap();
        charge.keys().all(|cell| {
            path.iter().all(|node| {
                let before = self.usage(node, cell, &BTreeMap::new(), &to);
                let after = self.usage(node, cell, charge, &to);
                let limit = match self.parent(node) {
                    None => Some(0),
                    Some(_) => self.quota(node, cell).borrowing_limit.map(clamp),
                };
                let subtree = self.subtree(node, cell);
                after == before || limit.is_none_or(|limit| after <= subtree + limit)
            })
        })
    }

    fn borrows(&self, queue: &ClusterQueue, charge: &BTreeMap<Cell, i128>) -> bool {
        let node = Node::Queue(queue.name.clone());
        charge.iter().any(|(cell, amount)| {
            let usage = self.usage(&node, cell, charge, &node);
            *amount > 0 && usage > clamp(self.quota(&node, cell).nominal)
        })
    }

    /// Flavors for all pod sets of a workload, and whether any of them borrows.
    fn fit(&self, queue: &ClusterQueue, workload: &Workload) -> Option<(Admission, bool)> {
        let mut admission = Admission {
            queue: queue.name.clone(),
            since: Time::default(),
            unused_since: None,
            pod_sets: Vec::new(),
        };
        let mut taken: BTreeMap<Cell, i128> = BTreeMap::new();
        let mut any_borrows = false;
        for pod_set in &workload.pod_sets {
            let mut assignment = PodSetAssignment {
                name: pod_set.name.clone(),
                count: pod_set.count,
                flavors: BTreeMap::new(),
                usage: BTreeMap::new(),
                bound: 0,
            };
            let mut wanted: BTreeMap<usize, BTreeMap<ResourceName, i128>> = BTreeMap::new();
            let mut requests = pod_set.requests.clone();
            requests.insert("pods".into(), Amount::new(1));
            for (resource, amount) in requests {
                let total = amount.get() * i128::from(pod_set.count);
                match group_of(&queue.resource_groups, &resource) {
                    Some((index, _)) => {
                        wanted.entry(index).or_default().insert(resource, total);
                    }
                    None if total == 0 || resource.as_str() == "pods" => {}
                    None => return None,
                }
            }
            for (index, wanted) in wanted {
                let group = &queue.resource_groups[index];
                let mut options = Vec::new();
                for flavor in &group.flavors {
                    let listed = wanted.keys().all(|r| flavor.resources.contains_key(r));
                    if !listed || !self.matches(group, &self.flavors[&flavor.name], pod_set) {
                        continue;
                    }
                    let mut charge = BTreeMap::new();
                    for (resource, amount) in wanted.iter().filter(|(_, amount)| **amount > 0) {
                        let cell = (flavor.name.clone(), resource.clone());
                        let before = taken.get(&cell).copied().unwrap_or_default();
                        charge.insert(cell, before + amount);
                    }
                    if self.fits(queue, &charge) {
                        options.push((flavor.name.clone(), self.borrows(queue, &charge), charge));
                    }
                }
                let own = options.iter().position(|(_, borrows, _)| !borrows);
                let look_on = queue.fungibility.when_can_borrow == WhenCanBorrow::TryNextFlavor;
                let pick = if look_on { own.unwrap_or(0) } else { 0 };
                let (flavor, borrows, charge) = options.into_iter().nth(pick)?;
                any_borrows |= borrows;
                taken.extend(charge);
                for (resource, amount) in wanted {
                    assignment.flavors.insert(resource.clone(), flavor.clone());
                    assignment.usage.insert(resource, Amount::new(amount));
                }
            }
            admission.pod_sets.push(assignment);
        }
        Some((admission, any_borrows))
    }

    /// The generator makes only taints without value and selectors of equality.
    fn matches(
        &self,
        group: &ResourceGroup,
        flavor: &Flavor,
        pod_set: &sluice_engine::PodSet,
    ) -> bool {
        let labels = |name| self.flavors.get(name).map(|flavor| &flavor.node_labels);
        let known = group
            .flavors
            .iter()
            .filter_map(|flavor| labels(&flavor.name));
        let keys: BTreeSet<&String> = known.flat_map(BTreeMap::keys).collect();
        let selected = (pod_set.node_selector.iter())
            .all(|(key, value)| !keys.contains(key) || flavor.node_labels.get(key) == Some(value));
        let tolerations = || pod_set.tolerations.iter().chain(&flavor.tolerations);
        selected
            && flavor.node_taints.iter().all(|taint| {
                taint.effect == TaintEffect::PreferNoSchedule
                    || tolerations().any(|toleration| toleration.key.as_ref() == Some(&taint.key))
            })
    }

    /// What the engine's own snapshot must be.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let charged = self.charged();
        for (queue, cells) in &charged {
            let usage = by_flavor(cells.clone());
            if !usage.is_empty() {
                snapshot.queues.insert(queue.clone(), usage);
            }
        }
        let cells: BTreeSet<&Cell> = charged.values().flat_map(BTreeMap::keys).collect();
        let named = self
            .queues
            .values()
            .filter_map(|queue| queue.cohort.clone());
        let parents = self
            .cohorts
            .values()
            .filter_map(|cohort| cohort.parent.clone());
        let cohorts = named.chain(parents).chain(self.cohorts.keys().cloned());
        for cohort in cohorts.collect::<BTreeSet<_>>() {
            let node = Node::Cohort(cohort.clone());
            if self.path(&node).is_none() {
                continue;
            }
            let usage = |cell: &&Cell| self.usage(&node, cell, &BTreeMap::new(), &node);
            let usage = by_flavor(cells.iter().map(|c| ((*c).clone(), usage(c))).collect());
            if !usage.is_empty() {
                snapshot.cohorts.insert(cohort, usage);
            }
        }
        for (queue, workloads) in self.waiting() {
            let ids = workloads
                .into_iter()
                .map(|workload| workload.id.clone())
                .collect();
            snapshot.pending.insert(queue, ids);
        }
        snapshot
    }
}

fn by_flavor(cells: BTreeMap<Cell, i128>) -> ByFlavor<Amount> {
    let mut usage: ByFlavor<Amount> = ByFlavor::new();
    for ((flavor, resource), amount) in cells.into_iter().filter(|(_, amount)| *amount != 0) {
        usage
            .entry(flavor)
            .or_default()
            .insert(resource, Amount::new(amount));
    }
    usage
}

pub(crate) fn clamp(amount: Amount) -> i128 {
    amount.get().clamp(0, LIMIT)
}

fn order(workload: &Workload) -> (std::cmp::Reverse<i32>, i64, WorkloadId) {
    (
        std::cmp::Reverse(workload.priority),
        workload.created,
        workload.id.clone(),
    )
}

fn group_of<'a>(
    groups: &'a [ResourceGroup],
    resource: &ResourceName,
) -> Option<(usize, &'a ResourceGroup)> {
    groups
        .iter()
        .enumerate()
        .find(|(_, group)| group.covered_resources.contains(resource))
}

pub(crate) fn countable(workload: &Workload) -> bool {
    let mut sums: BTreeMap<&ResourceName, i128> = BTreeMap::new();
    for pod_set in &workload.pod_sets {
        for (resource, amount) in &pod_set.requests {
            let total = amount.get().checked_mul(i128::from(pod_set.count));
            let sum = sums.entry(resource).or_default();
            match total.and_then(|total| sum.checked_add(total)) {
                Some(total) if amount.get() >= 0 && total <= LIMIT => *sum = total,
                _ => return false,
            }
        }
    }
    true
}
