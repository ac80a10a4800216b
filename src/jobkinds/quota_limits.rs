//! What ClusterQueues could provide if nothing were used, worked out by an engine that knows no workload: for warnings
//! alone, on every replica. What is warned of does not live here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use sluice_crds::{ClusterQueue, Cohort};
use sluice_engine::{ClusterQueueName, Engine, Event, Settings, Time, UndeclaredResources};
use sluice_translate as translate;
use sluice_webhooks::{GroupLimits, QuotaLimits, Uncovered};

/// The quotas that are known.
pub struct QuotaBook {
    engine: Engine,
    settings: Settings,
    queues: BTreeMap<ClusterQueueName, sluice_engine::ClusterQueue>,
    cohorts: BTreeMap<String, sluice_engine::Cohort>,
}

impl QuotaBook {
    /// None is known.
    pub fn new(settings: Settings) -> Self {
        Self {
            engine: Engine::new(settings.clone()),
            settings,
            queues: BTreeMap::new(),
            cohorts: BTreeMap::new(),
        }
    }

    /// Takes in other settings.
    pub fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Takes in a ClusterQueue, or that it is gone. Returns whether that changes any quota. One that can't be counted
    /// is as good as none: nothing is said of it.
    pub fn set_queue(&mut self, name: &str, object: Option<&DynamicObject>) -> bool {
        let queue = object.and_then(parse::<ClusterQueue>);
        let queue = queue.and_then(|queue| translate::cluster_queue(name, &queue.spec).ok());
        let name = ClusterQueueName::from(name);
        if self.queues.get(&name) == queue.as_ref() {
            return false;
        }
        self.engine.apply(match queue.clone() {
            Some(queue) => Event::UpsertClusterQueue(queue),
            None => Event::RemoveClusterQueue(name.clone()),
        });
        match queue {
            Some(queue) => self.queues.insert(name, queue),
            None => self.queues.remove(&name),
        };
        true
    }

    /// The same of a Cohort.
    pub fn set_cohort(&mut self, name: &str, object: Option<&DynamicObject>) -> bool {
        let cohort = object.and_then(parse::<Cohort>);
        let cohort = cohort.and_then(|cohort| translate::cohort(name, &cohort.spec).ok());
        if self.cohorts.get(name) == cohort.as_ref() {
            return false;
        }
        self.engine.apply(match cohort.clone() {
            Some(cohort) => Event::UpsertCohort(cohort),
            None => Event::RemoveCohort(name.into()),
        });
        match cohort {
            Some(cohort) => self.cohorts.insert(name.to_owned(), cohort),
            None => self.cohorts.remove(name),
        };
        true
    }

    /// Forgets ClusterQueues, or Cohorts, that are not among these, as they were listed anew.
    pub fn keep_queues(&mut self, names: &BTreeSet<String>) {
        let gone = self
            .queues
            .keys()
            .filter(|name| !names.contains(name.as_str()));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.set_queue(name.as_str(), None);
        }
    }

    /// The same of Cohorts.
    pub fn keep_cohorts(&mut self, names: &BTreeSet<String>) {
        let gone = self.cohorts.keys().filter(|name| !names.contains(*name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.set_cohort(&name, None);
        }
    }

    /// What each ClusterQueue could provide.
    pub fn limits(&mut self) -> BTreeMap<String, Arc<QuotaLimits>> {
        // Builds the trees, each once.
        self.engine.decide(Time::default());
        let names = self.queues.keys();
        let known =
            names.filter_map(|name| Some((name.as_str().to_owned(), self.limits_of(name)?)));
        known
            .map(|(name, limits)| (name, Arc::new(limits)))
            .collect()
    }

    fn limits_of(&self, name: &ClusterQueueName) -> Option<QuotaLimits> {
        let queue = self.queues.get(name)?;
        let largest = self.engine.largest_requests(name)?;
        let mut covered = BTreeSet::new();
        let mut groups = Vec::new();
        for group in &queue.resource_groups {
            // Of two groups with a resource the first counts.
            let resources: Vec<_> = group.covered_resources.difference(&covered).collect();
            let flavors = group.flavors.iter().map(|flavor| {
                let of_flavor = largest.get(&flavor.name);
                let amounts = resources.iter().filter_map(|resource| {
                    let amount = of_flavor?.get(*resource)?;
                    Some((resource.as_str().to_owned(), amount.get()))
                });
                (flavor.name.as_str().to_owned(), amounts.collect())
            });
            groups.push(GroupLimits {
                flavors: flavors.collect(),
            });
            covered.extend(group.covered_resources.iter().cloned());
        }
        let of_queue = queue.undeclared_resources.as_ref();
        let policy = of_queue.unwrap_or(&self.settings.undeclared_resources);
        Some(QuotaLimits {
            groups,
            uncovered: uncovered(policy),
        })
    }
}

fn uncovered(policy: &UndeclaredResources) -> Uncovered {
    match policy {
        UndeclaredResources::Ignore => Uncovered::Ignored,
        UndeclaredResources::Block => Uncovered::InadmissibleBut(Arc::default()),
        UndeclaredResources::IgnoreOnly(ignored) => {
            let names = ignored.iter().map(|name| name.as_str().to_owned());
            Uncovered::InadmissibleBut(Arc::new(names.collect()))
        }
    }
}

fn parse<T: DeserializeOwned>(object: &DynamicObject) -> Option<T> {
    let value = serde_json::to_value(object).ok()?;
    serde_json::from_value(value).ok()
}
