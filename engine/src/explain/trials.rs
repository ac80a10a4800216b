//! Tries the flavors of its ClusterQueue for a pending workload, as an assignment without preemption does. The types are
//! in `api/outlook.rs`.

use crate::api::amount::Amount;
use crate::api::names::WorkloadId;
use crate::api::outlook::{Need, Trial, Trials};
use crate::api::quota::Borrowing;
use crate::api::workload::PodSet;
use crate::cohort::tree::{CohortTree, QueueNode};
use crate::flavor::options::{
    FlavorChoice, FlavorOptions, SlotId, fewest_pods, flavor_choice, flavor_options, for_pods,
};
use crate::flavor::undeclared_resources::requests_by_group;
use crate::quota::flavor_resources::FlavorResourceId;
use crate::quota::usage::RequestedUsage;
use crate::quota::view::View;
use crate::state::engine::Engine;
use crate::workload::info::{WorkloadInfo, WorkloadPhase};

/// A pending workload, and where it is queued.
#[derive(Clone, Copy)]
pub(super) struct Tried<'a> {
    pub(super) tree: &'a CohortTree,
    pub(super) node: &'a QueueNode,
    pub(super) info: &'a WorkloadInfo,
}

/// The flavors that were tried, and the usage in those that it would get.
pub(super) struct TriedFlavors {
    flavors: Vec<Trial>,
    /// What it would use in each pod set's first flavor that fits, or else in the first that suits its pods; in the
    /// combination that lacks least if the flavor of one pod set may leave too little to another.
    pub(super) requested: RequestedUsage,
    /// What is lacking of that.
    pub(super) lacking: RequestedUsage,
}

impl Engine {
    /// How the flavors of its ClusterQueue stand for a pending workload. None if it is not pending, its requests are not
    /// valid, or there is no active ClusterQueue for it.
    pub fn trials(&self, id: &WorkloadId) -> Option<Trials> {
        let info = self.workloads.get(id)?;
        let local_queue = self.local_queues.get(&info.local_queue)?.object.as_ref()?;
        let tree = self.tree_of_queue(&local_queue.cluster_queue)?;
        let tried = self.tried(info, &tree)?;
        let options = tried.options(self);
        let TriedFlavors {
            flavors, lacking, ..
        } = tried.flavors(self, &options);
        let lacking = lacking.into_iter().filter_map(|(cell, amount)| {
            let (flavor, resource) = self.config.flavor_resources.name(cell)?.clone();
            Some((flavor, resource, amount))
        });
        Some(Trials {
            queue: local_queue.cluster_queue.clone(),
            ever_fits: options.ever_fits(&tree.quota, tried.node.id, &info.shape),
            lacking: lacking.collect(),
            flavors,
        })
    }

    /// Where a workload is queued, if it is pending and could be tried.
    pub(super) fn tried<'a>(
        &'a self,
        info: &'a WorkloadInfo,
        tree: &'a CohortTree,
    ) -> Option<Tried<'a>> {
        let local_queue = self.local_queues.get(&info.local_queue)?.object.as_ref()?;
        let is_tried = info.state == WorkloadPhase::Pending && info.shape.problem.is_none();
        let node = tree.queues.get(&local_queue.cluster_queue)?;
        is_tried.then_some(Tried { tree, node, info })
    }
}

impl Tried<'_> {
    /// Which flavors it could get, whatever is used.
    pub(super) fn options(self, engine: &Engine) -> FlavorOptions {
        let (queue, shape) = (&self.node.config, &self.info.shape);
        flavor_options(&engine.config, queue, shape, engine.shapes.pod())
    }

    /// Tries one flavor after the other for one pod set after the other. Where a pod set fits into none, those after it
    /// are tried as if it had got the first that suits its pods. If the flavor of one pod set may leave too little to
    /// another, each is taken to get that of the combination that lacks least, unless there are more than are tried.
    pub(super) fn flavors(self, engine: &Engine, options: &FlavorOptions) -> TriedFlavors {
        let mut tried = TriedFlavors {
            flavors: Vec::new(),
            requested: RequestedUsage::new(),
            lacking: RequestedUsage::new(),
        };
        let config = &self.node.config;
        let way = self.way(options);
        for (index, pod_set) in self.info.shape.pod_sets.iter().enumerate() {
            let groups = requests_by_group(config, pod_set, engine.shapes.pod());
            // What the ClusterQueue has no quota for is said without flavors.
            for (number, (group, requests)) in groups.unwrap_or_default() {
                let place = SlotId {
                    pod_set: index,
                    group: number,
                };
                let in_way = way.iter().find(|(slot, _)| *slot == place);
                let mut taken: Option<(FlavorChoice, bool)> = None;
                for flavor in &group.flavors {
                    let choice = flavor_choice(&engine.config, group, flavor, pod_set, &requests);
                    let needs = choice
                        .as_ref()
                        .map(|choice| self.needs(pod_set, choice, &tried.requested));
                    let trial = Trial {
                        pod_set: pod_set.name.clone(),
                        flavor: flavor.name.clone(),
                        needs: needs.map_err(Clone::clone),
                    };
                    let fits = trial.fits();
                    tried.flavors.push(trial);
                    if let Ok(choice) = choice
                        && match in_way {
                            Some((_, of_way)) => of_way.flavor == choice.flavor,
                            None => taken.as_ref().is_none_or(|(_, fitted)| fits && !fitted),
                        }
                    {
                        taken = Some((choice, fits));
                    }
                }
                if let Some((choice, _)) = taken {
                    self.take(pod_set, &choice, &mut tried);
                }
            }
        }
        tried
    }

    /// The combination that lacks least, if the flavor of one pod set may leave too little to another.
    fn way(self, options: &FlavorOptions) -> Vec<(SlotId, &FlavorChoice)> {
        let FlavorOptions::Slots(slots) = options else {
            return Vec::new();
        };
        if !slots.early_choice_matters {
            return Vec::new();
        }
        let counts: Vec<u32> = self.info.shape.pod_sets.iter().map(fewest_pods).collect();
        let lacking = |cell, amount| self.lacking(cell, amount);
        let way = slots.way_lacking_least(&self.tree.quota, self.node.id, &counts, lacking);
        way.unwrap_or_default()
    }

    fn take(self, pod_set: &PodSet, choice: &FlavorChoice, tried: &mut TriedFlavors) {
        for (_, cell, each) in &choice.usage_per_pod {
            let amount = for_pods(*each, fewest_pods(pod_set));
            if amount == Amount::ZERO {
                continue;
            }
            let requested = tried.requested.entry(*cell).or_default();
            *requested = requested.plus(amount);
            let lacking = self.lacking(*cell, *requested);
            if lacking > Amount::ZERO {
                tried.lacking.insert(*cell, lacking);
            }
        }
    }

    fn needs(self, pod_set: &PodSet, choice: &FlavorChoice, taken: &RequestedUsage) -> Vec<Need> {
        let (quota, node, borrowing) = (&self.tree.quota, self.node.id, self.borrowing());
        let need = |(resource, cell, each): &(_, FlavorResourceId, Amount)| {
            let request = for_pods(*each, fewest_pods(pod_set));
            let before = taken.get(cell).copied().unwrap_or_default();
            let all = request.plus(before);
            let is_nothing = request == Amount::ZERO;
            let limit = quota.limit(node, (*cell, all), borrowing);
            let limit = limit.filter(|_| !is_nothing);
            let free = quota.available(View::Now, node, *cell, borrowing);
            Need {
                resource: Clone::clone(resource),
                request,
                free: free.minus(before).at_least_zero(),
                most: quota.most(node, *cell, borrowing),
                lacking: if is_nothing {
                    Amount::ZERO
                } else {
                    self.lacking(*cell, all)
                },
                limit: limit.and_then(|limit| self.tree.limiting_node(limit)),
            }
        };
        choice.usage_per_pod.iter().map(need).collect()
    }

    /// What is lacking of one cell.
    fn lacking(self, cell: FlavorResourceId, amount: Amount) -> Amount {
        let (quota, node) = (&self.tree.quota, self.node.id);
        quota.lacking(node, (cell, amount), self.borrowing())
    }

    pub(super) fn borrowing(self) -> Borrowing {
        self.info.shape.borrowing()
    }
}
