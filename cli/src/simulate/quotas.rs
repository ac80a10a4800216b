//! The queues that jobs are played in: flavors, cohorts, ClusterQueues, LocalQueues and what belongs to
//! them, and what the engine is told besides. How they are read from objects is said in `settings`.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Selector, SelectorExt as _};
use sluice_crds::{QueuePriorityClasses, UndeclaredResources};
use sluice_engine::{
    ClusterQueue, ClusterQueueName, Cohort, CohortName, Event, FairPreemption, Flavor, FlavorName,
    LocalQueue, LocalQueueKey, ResourceGroup, Settings,
};
use sluice_kinds::priority_classes::{DisallowedClass, PriorityClasses, PriorityFrom};

use sluice_estimates::play::Cell;

/// The label that every namespace has.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// A set of queues.
#[derive(Debug, Clone, Default)]
pub struct Quotas {
    /// Flavors.
    pub flavors: BTreeMap<FlavorName, Flavor>,
    /// Cohorts that have an object.
    pub cohorts: BTreeMap<CohortName, Cohort>,
    /// ClusterQueues.
    pub queues: BTreeMap<ClusterQueueName, ClusterQueue>,
    /// The flavor that each resource of a ClusterQueue is taken from first.
    pub first_flavors: BTreeMap<ClusterQueueName, BTreeMap<String, String>>,
    /// Which namespaces each of them takes. None: none.
    pub selectors: BTreeMap<ClusterQueueName, Option<Selector>>,
    /// LocalQueues.
    pub locals: BTreeMap<LocalQueueKey, LocalQueue>,
    /// The labels of namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// WorkloadPriorityClasses.
    pub workload_priorities: BTreeMap<String, i32>,
    /// What ClusterQueues say of the classes of their jobs, if anything.
    pub class_rules: BTreeMap<ClusterQueueName, QueuePriorityClasses>,
    /// PriorityClasses.
    pub priority_classes: PriorityClasses,
    /// ClusterQueues that keep pods which nobody would make again: these are not evicted, and may not borrow.
    pub keepers: BTreeSet<ClusterQueueName>,
}

impl Quotas {
    /// What the engine is to be told.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let flavors = self.flavors.values().cloned().map(Event::UpsertFlavor);
        let cohorts = self.cohorts.values().cloned().map(Event::UpsertCohort);
        let queues = self.queues.values().cloned();
        let locals = self.locals.values().map(|local| LocalQueue {
            namespace_selected: self.selects(local),
            ..local.clone()
        });
        flavors
            .chain(cohorts)
            .chain(queues.map(Event::UpsertClusterQueue))
            .chain(locals.map(Event::UpsertLocalQueue))
    }

    /// The ClusterQueue that a LocalQueue points to.
    pub fn queue_of(&self, local: &LocalQueueKey) -> Option<&ClusterQueueName> {
        self.locals.get(local).map(|local| &local.cluster_queue)
    }

    /// What says which priority a job has in a LocalQueue, as the controller has it.
    ///
    /// # Errors
    /// Its ClusterQueue does not allow a class of it.
    pub fn priority_from<'a>(
        &'a self,
        queue: &LocalQueueKey,
        label: Option<&'a str>,
        of_pods: impl IntoIterator<Item = &'a str>,
    ) -> Result<PriorityFrom<'a>, DisallowedClass> {
        let rules = self.queue_of(queue).and_then(|name| {
            let rules = self.class_rules.get(name)?;
            Some((name.as_str(), rules))
        });
        self.priority_classes.priority_from(label, of_pods, rules)
    }

    /// The priority of a PriorityClass, if there is one of this name.
    pub fn pod_priority(&self, name: &str) -> Option<i32> {
        let found = self.priority_classes.of_template(Some(name));
        found.ok().map(|(_, value)| value)
    }

    /// Whether the ClusterQueue of a LocalQueue keeps pods which nobody would make again.
    pub fn keeps(&self, local: &LocalQueueKey) -> bool {
        self.queue_of(local)
            .is_some_and(|queue| self.keepers.contains(queue))
    }

    /// The cohort at the top of the tree that a ClusterQueue shares in.
    pub fn root_of(&self, queue: &ClusterQueueName) -> Option<&CohortName> {
        let cohort = self.queues.get(queue)?.cohort.as_ref()?;
        Some(self.root_of_cohort(cohort))
    }

    /// The cohort at the top of the tree that `cohort` is in.
    pub fn root_of_cohort<'a>(&'a self, cohort: &'a CohortName) -> &'a CohortName {
        let mut root = cohort;
        let mut seen = BTreeSet::new();
        while seen.insert(root)
            && let Some(parent) = self.cohorts.get(root).and_then(|c| c.parent.as_ref())
        {
            root = parent;
        }
        root
    }

    /// Whether the ClusterQueue of `local` takes its namespace. One that has no object among the
    /// input has no labels but its name.
    fn selects(&self, local: &LocalQueue) -> bool {
        let Some(Some(selector)) = self.selectors.get(&local.cluster_queue) else {
            return false;
        };
        let namespace = &*local.key.namespace;
        let mut labels = self.namespaces.get(namespace).cloned().unwrap_or_default();
        labels.insert(NAMESPACE_LABEL.to_owned(), namespace.to_owned());
        selector.matches(&labels)
    }
}

/// Settings of the engine as a configuration has them in which nothing else is said.
pub fn settings(has_fair_sharing: bool) -> Settings {
    Settings {
        fair_sharing: has_fair_sharing.then(|| FairPreemption::DEFAULT.to_vec()),
        undeclared_resources: sluice_translate::undeclared(
            UndeclaredResources::Block,
            sluice_translate::IGNORED_RESOURCES,
        ),
        ..Settings::new(sluice_translate::POD)
    }
}

/// What is nominal in `groups`, in nano-units. If two cover a resource, the first counts.
pub fn nominal(groups: &[ResourceGroup]) -> BTreeMap<Cell, i128> {
    let mut cells = BTreeMap::new();
    let mut covered = BTreeSet::new();
    for group in groups {
        let mine: Vec<_> = group.covered_resources.difference(&covered).collect();
        for flavor in &group.flavors {
            for resource in &mine {
                if let Some(quota) = flavor.resources.get(*resource) {
                    let cell = (flavor.name.clone(), (*resource).clone());
                    cells.insert(cell, quota.nominal.get().max(0));
                }
            }
        }
        let mine: Vec<_> = mine.into_iter().cloned().collect();
        covered.extend(mine);
    }
    cells
}
