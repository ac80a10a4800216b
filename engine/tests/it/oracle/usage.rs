//! The usage of quota, added up from the workloads each time. Decisions are not here.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    Admission, AdmissionScope, Amount, ByFlavor, Snapshot, Time, Workload, WorkloadId,
    WorkloadState,
};

use super::{Oracle, let_in};
use crate::oracle::quota::{Cell, Charge, Node, Tree, View, clamp};
use crate::oracle::targets::Holder;

impl Oracle {
    /// Who holds quota, and what.
    pub(crate) fn held(&self) -> impl Iterator<Item = (&Workload, &Admission)> {
        self.workloads
            .values()
            .filter_map(|workload| match &workload.state {
                WorkloadState::Admitted(admission) | WorkloadState::Evicting(admission, _) => {
                    Some((workload, admission))
                }
                _ => Some((workload, self.assumed.get(&workload.id)?)),
            })
    }

    pub(crate) fn admission(&self, id: &WorkloadId) -> Option<&Admission> {
        self.held()
            .find(|(workload, _)| workload.id == *id)
            .map(|(_, admission)| admission)
    }

    /// Whether a workload that holds quota is on its way out.
    pub(super) fn leaves(&self, workload: &Workload) -> bool {
        matches!(workload.state, WorkloadState::Evicting(..))
            || (self.asked.contains_key(&workload.id) && workload.evictable)
    }

    /// What is charged in a tree, by those who are leaving too or only by the others.
    pub(crate) fn view(&self, tree: &Tree, with_leaving: bool) -> View {
        let mut view = tree.nothing();
        for (workload, admission) in self.held() {
            if let Some(queue) = tree.queue(&admission.queue)
                && (with_leaving || !self.leaves(workload))
            {
                view.add(queue, &charge_in(tree, admission));
            }
        }
        view
    }

    /// Who might be evicted, now or once its admission is confirmed, as far as that depends on them alone.
    pub(super) fn holders(&self, tree: &Tree) -> Vec<Holder> {
        let preempted = self.rounds.get(&tree.nodes[0].name);
        let is_protected = |id: &WorkloadId| preempted.is_some_and(|round| round.contains(id));
        let holders = self.held().filter_map(|(workload, admission)| {
            let may_go = workload.evictable && !is_protected(&workload.id);
            (may_go && !self.leaves(workload)).then_some(())?;
            let queue = self.queues.get(&admission.queue)?;
            Some(Holder {
                rules: queue.preemption,
                by_usage: queue.admission_scope == AdmissionScope::ByUsage,
                id: workload.id.clone(),
                queue: tree.queue(&admission.queue)?,
                local: workload.queue.clone(),
                charge: charge_in(tree, admission),
                priority: workload.priority,
                created: workload.created,
                since: admission.since,
                is_confirmed: matches!(workload.state, WorkloadState::Admitted(_)),
            })
        });
        holders.collect()
    }

    /// What the engine's own snapshot must be.
    pub(crate) fn snapshot(&self, now: Time) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (_, admission) in self.held() {
            for ((flavor, resource), amount) in
                charge_of(admission).into_iter().filter(|(_, a)| *a > 0)
            {
                let queue = snapshot.queues.entry(admission.queue.clone()).or_default();
                let sum = queue
                    .entry(flavor)
                    .or_default()
                    .entry(resource)
                    .or_default();
                *sum = Amount::new(sum.get() + amount);
            }
        }
        let named = self
            .queues
            .values()
            .filter_map(|queue| queue.cohort.clone());
        let parents = self
            .cohorts
            .values()
            .filter_map(|cohort| cohort.parent.clone());
        let cohorts = named.chain(parents).chain(self.cohorts.keys().cloned());
        let roots = cohorts.filter_map(|name| self.path(&Node::Cohort(name))?.pop());
        for root in roots.collect::<BTreeSet<_>>() {
            let tree = self.tree(&root);
            let view = self.view(&tree, true);
            for (number, member) in tree.nodes.iter().enumerate() {
                let Node::Cohort(cohort) = &member.name else {
                    continue;
                };
                let usage =
                    |(cell, name): (usize, &Cell)| (name.clone(), tree.usage(&view, number, cell));
                let usage = by_flavor(tree.cells.iter().enumerate().map(usage).collect());
                if !usage.is_empty() {
                    snapshot.cohorts.insert(cohort.clone(), usage);
                }
            }
        }
        for (name, workloads) in self.waiting(now) {
            let queue = self.queues.get(&name);
            let is_passed =
                |workload: &&Workload| queue.is_some_and(|queue| self.is_passed(queue, workload));
            let counted: Vec<&Workload> = workloads.into_iter().filter(|w| !is_passed(w)).collect();
            let first = match queue {
                Some(queue) => let_in(queue, counted),
                None => counted,
            };
            let ids = first.into_iter().map(|workload| workload.id.clone());
            snapshot.pending.insert(name, ids.collect());
        }
        snapshot
    }
}

/// What an admission charges, by cell.
pub(crate) fn charge_of(admission: &Admission) -> Vec<(Cell, i128)> {
    let mut charge: BTreeMap<Cell, i128> = BTreeMap::new();
    for pod_set in &*admission.pod_sets {
        for (resource, amount) in &pod_set.usage {
            if let Some(flavor) = pod_set.flavors.get(resource) {
                let sum = charge
                    .entry((flavor.clone(), resource.clone()))
                    .or_default();
                *sum += clamp(*amount);
            }
        }
    }
    charge.into_iter().collect()
}

fn charge_in(tree: &Tree, admission: &Admission) -> Charge {
    let charge = charge_of(admission).into_iter();
    charge
        .map(|(cell, amount)| (tree.cell(&cell), amount))
        .collect()
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
