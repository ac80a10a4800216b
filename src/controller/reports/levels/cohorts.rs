//! How cohorts stand, as metrics have it: each by itself, and what all ClusterQueues below it come to.

use std::collections::{BTreeMap, BTreeSet};

use sluice_engine::{
    Amount, ByFlavor, CohortName, CohortStatus, Engine, QueueStatus, ResourceName, ResourceUsage,
};

use super::units::{ratio, units};
use crate::process::metrics::Gathered;
use crate::process::metrics::definitions::{self, Definition};

/// All cohorts that are noted.
#[derive(Debug, Default)]
pub struct Cohorts(BTreeMap<CohortName, OfCohort>);

#[derive(Debug)]
struct OfCohort {
    status: CohortStatus,
    below: Below,
}

/// What all ClusterQueues below a cohort come to.
#[derive(Debug, Default)]
struct Below {
    admitted: usize,
    pending: BTreeMap<ResourceName, Amount>,
    usage: ByFlavor<ResourceUsage>,
}

impl Cohorts {
    /// Notes a cohort, and all above it.
    pub fn note(&mut self, engine: &Engine, name: &CohortName) {
        let mut next = Some(name.clone());
        while let Some(name) = next.take() {
            if self.0.contains_key(&name) {
                return;
            }
            let Some(status) = engine.cohort_status(&name) else {
                return;
            };
            next.clone_from(&status.parent);
            let below = Below::default();
            self.0.insert(name, OfCohort { status, below });
        }
    }

    /// Adds a ClusterQueue of this cohort to it and to all above.
    pub fn add(&mut self, cohort: &CohortName, queue: &QueueStatus) {
        for name in self.path_up(cohort).unwrap_or_default() {
            if let Some(cohort) = self.0.get_mut(&name) {
                cohort.below.add(queue);
            }
        }
    }

    /// The root of a cohort. None in an inactive tree.
    pub fn root(&self, cohort: &CohortName) -> Option<CohortName> {
        self.path_up(cohort)?.pop()
    }

    /// A cohort and all above it. None in an inactive tree, as there it may have no end.
    fn path_up(&self, cohort: &CohortName) -> Option<Vec<CohortName>> {
        let mut path = Vec::new();
        let mut next = Some(cohort);
        while let Some(name) = next {
            let status = &self.0.get(name)?.status;
            status.active.as_ref().ok()?;
            path.push(name.clone());
            next = status.parent.as_ref();
        }
        Some(path)
    }

    /// Gathers how all of them stand.
    pub fn gather(&self, gathered: &mut Gathered) {
        for (name, cohort) in &self.0 {
            let root = self.root(name);
            let root = root.as_ref().map_or("", CohortName::as_str);
            let parent = cohort.status.parent.as_ref();
            let parent = parent.map_or("", CohortName::as_str);
            let labels = [name.as_str(), parent, root];
            gathered.count(&definitions::COHORT_INFO, &labels, 1);
            gather_own(gathered, name, &cohort.status);
            gather_below(gathered, name, cohort);
        }
    }
}

impl Below {
    fn add(&mut self, queue: &QueueStatus) {
        self.admitted = self.admitted.saturating_add(queue.admitted);
        for (resource, amount) in &queue.pending_requests {
            let sum = self.pending.entry(resource.clone()).or_default();
            *sum = sum.plus(*amount);
        }
        for (flavor, resources) in &queue.usage {
            let of_flavor = self.usage.entry(flavor.clone()).or_default();
            for (resource, usage) in resources {
                let sum = of_flavor.entry(resource.clone()).or_default();
                sum.total = sum.total.plus(usage.total);
                sum.allocated = sum.allocated.plus(usage.allocated);
            }
        }
    }
}

fn gather_own(gathered: &mut Gathered, name: &CohortName, status: &CohortStatus) {
    for (flavor, resources) in &status.configured {
        for (resource, quota) in resources {
            let labels = [name.as_str(), flavor.as_str(), resource.as_str()];
            for (definition, amount) in [
                (&definitions::COHORT_NOMINAL, Some(quota.nominal)),
                (&definitions::COHORT_BORROWING_LIMIT, quota.borrowing_limit),
                (&definitions::COHORT_LENDING_LIMIT, quota.lending_limit),
            ] {
                if let Some(amount) = amount {
                    gathered.set(definition, &labels, units(amount));
                }
            }
        }
    }
    let mut gather = |definition: &'static Definition, amounts: &ByFlavor<Amount>| {
        for (flavor, resources) in amounts {
            for (resource, amount) in resources {
                let labels = [name.as_str(), flavor.as_str(), resource.as_str()];
                gathered.set(definition, &labels, units(*amount));
            }
        }
    };
    gather(&definitions::COHORT_QUOTA, &status.quota);
    gather(&definitions::COHORT_USAGE, &status.usage);
    gather(&definitions::COHORT_BORROWED, &status.borrowed);
    if let Some(share) = status.share {
        gathered.set(&definitions::COHORT_SHARE, &[name.as_str()], ratio(share));
    }
}

fn gather_below(gathered: &mut Gathered, name: &CohortName, cohort: &OfCohort) {
    let OfCohort { status, below } = cohort;
    if status.active.is_err() {
        return;
    }
    let labels = [name.as_str()];
    gathered.count(&definitions::COHORT_ADMITTED, &labels, below.admitted);
    for (flavor, resources) in &below.usage {
        for (resource, usage) in resources {
            let labels = [name.as_str(), flavor.as_str(), resource.as_str()];
            gathered.set(
                &definitions::COHORT_RESERVATIONS,
                &labels,
                units(usage.total),
            );
            gathered.set(
                &definitions::COHORT_RESERVED,
                &labels,
                units(usage.reserved()),
            );
        }
    }
    // Whoever makes a job may name any resource.
    let known: BTreeSet<&ResourceName> = status.quota.values().flat_map(BTreeMap::keys).collect();
    for (resource, amount) in &below.pending {
        if known.contains(resource) {
            let labels = [name.as_str(), resource.as_str()];
            gathered.set(&definitions::COHORT_PENDING, &labels, units(*amount));
        }
    }
}
