//! Sorts jobs by what they ask for. It depends on the jobs alone, so that two plays of the same jobs have
//! the same sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_crds::Quantity;
use sluice_engine::PodSet;

use sluice_estimates::play::Job;

/// Different requests that each are a size of their own; if there are more, they are put together.
const SIZES_MAX: usize = 8;

/// What all pods of a job ask for, in nano-units.
type Requests = BTreeMap<String, i128>;

/// The size of each job: its rank among the sizes, and what it is called.
#[derive(Debug)]
pub struct Sizes {
    by_pod_sets: BTreeMap<Arc<[PodSet]>, (usize, String)>,
}

impl Sizes {
    /// The sizes of `jobs`.
    pub fn of(jobs: &[Job]) -> Self {
        let mut requests: BTreeMap<Arc<[PodSet]>, Requests> = BTreeMap::new();
        for job in jobs {
            if !requests.contains_key(&job.pod_sets) {
                requests.insert(job.pod_sets.clone(), total(&job.pod_sets));
            }
        }
        let mut largest = Requests::new();
        for (resource, amount) in requests.values().flatten() {
            let most = largest.entry(resource.clone()).or_default();
            *most = (*most).max(*amount);
        }
        let distinct: BTreeSet<_> = requests.values().cloned().collect();
        let mut by_share: Vec<_> = distinct.into_iter().collect();
        by_share.sort_by_key(|requests| share(requests, &largest));
        let is_exact = by_share.len() <= SIZES_MAX;
        let named = |requests: &Requests| {
            if is_exact {
                let rank = by_share.iter().position(|known| known == requests);
                return (rank.unwrap_or_default(), name(requests));
            }
            match share(requests, &largest) {
                0..=125 => (0, "small (to 1/8 of the largest)".to_owned()),
                126..=500 => (1, "medium (to 1/2)".to_owned()),
                _ => (2, "large".to_owned()),
            }
        };
        let by_pod_sets = requests
            .iter()
            .map(|(sets, total)| (sets.clone(), named(total)));
        Self {
            by_pod_sets: by_pod_sets.collect(),
        }
    }

    /// The size of a job.
    pub fn get(&self, job: &Job) -> (usize, &str) {
        let known = self.by_pod_sets.get(&job.pod_sets);
        known.map_or((0, ""), |(rank, name)| (*rank, name))
    }
}

fn total(pod_sets: &[PodSet]) -> Requests {
    let mut total = Requests::new();
    for set in pod_sets {
        for (resource, amount) in &set.requests {
            let all = amount.get().saturating_mul(i128::from(set.count));
            let sum = total.entry(resource.to_string()).or_default();
            *sum = sum.saturating_add(all);
        }
        let pods = total.entry("pods".to_owned()).or_default();
        *pods = pods.saturating_add(i128::from(set.count) * sluice_crds::quantity::NANOS);
    }
    total
}

/// How large requests are beside the largest of each resource, in thousandths: the most that they are of
/// any, rounded up.
fn share(requests: &Requests, largest: &Requests) -> i128 {
    let shares = requests.iter().map(|(resource, amount)| {
        let most = largest.get(resource).copied().unwrap_or_default().max(1);
        // Divided first where the product would be too large.
        let exact = amount
            .checked_mul(1000)
            .map(|product| (product + most - 1) / most);
        exact.unwrap_or_else(|| amount / (most / 1000).max(1))
    });
    shares.max().unwrap_or_default()
}

/// What is asked for; the number of pods only if that is more than one, or nothing else is.
fn name(requests: &Requests) -> String {
    let pods = requests.get("pods").copied().unwrap_or_default();
    let says_pods = requests.len() < 2 || pods != sluice_crds::quantity::NANOS;
    let texts = requests
        .iter()
        .filter(|(resource, _)| says_pods || *resource != "pods")
        .map(|(resource, nanos)| format!("{resource}={}", Quantity::of(resource, *nanos)));
    texts.collect::<Vec<_>>().join(" ")
}
