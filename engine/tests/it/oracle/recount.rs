//! What the account says, counted anew from every workload.

use std::collections::BTreeMap;

use sluice_engine::{
    Admission, Amount, ByFlavor, Engine, LocalQueueKey, PodSetAssignment, ResourceName, Workload,
    WorkloadState,
};

use crate::oracle::{Oracle, clamp, countable};

/// Total, allocated and reserved.
type Parts = (i128, i128, i128);

/// Compares what the engine says about each queue with what the oracle knows about workloads.
pub(crate) fn check_account(engine: &Engine, oracle: &Oracle) {
    for name in oracle.queues.keys() {
        if oracle.deleted.contains(name) {
            assert_eq!(engine.queue_status(name), None, "{name} is deleted");
            continue;
        }
        let status = engine.queue_status(name).unwrap();
        let points_here = |key: &LocalQueueKey| {
            let local = oracle.locals.get(key);
            local.is_some_and(|local| local.cluster_queue == *name)
        };
        let waiting = pending(oracle, |workload| points_here(&workload.queue));
        assert_eq!(status.pending, waiting.len(), "pending in {name}");
        assert_eq!(
            status.pending_requests,
            requests(&waiting),
            "asked of {name}"
        );
        let held = held(oracle, |_, admission| admission.queue == *name);
        assert_eq!(status.reserving, held.len(), "reserving in {name}");
        assert_eq!(status.admitted, admitted(&held), "admitted in {name}");
        let found = numbers(status.usage, |usage| {
            (usage.total, usage.allocated, usage.reserved())
        });
        assert_eq!(found, parts(&held), "parts of {name}");
    }
    for key in oracle.locals.keys() {
        let status = engine.local_queue_status(key).unwrap();
        let waiting = pending(oracle, |workload| workload.queue == *key);
        assert_eq!(status.pending, waiting.len(), "pending in {key}");
        assert_eq!(
            status.pending_requests,
            requests(&waiting),
            "asked of {key}"
        );
        let held = held(oracle, |workload, _| workload.queue == *key);
        assert_eq!(status.reserving, held.len(), "reserving in {key}");
        assert_eq!(status.admitted, admitted(&held), "admitted in {key}");
        let found = numbers(status.usage, |usage| {
            (usage.total, usage.allocated, usage.reserved())
        });
        assert_eq!(found, parts(&held), "parts of {key}");
    }
}

fn pending(oracle: &Oracle, of: impl Fn(&Workload) -> bool) -> Vec<&Workload> {
    let waits = |workload: &&Workload| {
        workload.state == WorkloadState::Pending && !oracle.assumed.contains_key(&workload.id)
    };
    let workloads = oracle.workloads.values().filter(waits);
    workloads.filter(|workload| of(workload)).collect()
}

fn requests(workloads: &[&Workload]) -> BTreeMap<ResourceName, Amount> {
    let mut sums: BTreeMap<ResourceName, i128> = BTreeMap::new();
    for workload in workloads.iter().filter(|workload| countable(workload)) {
        for pod_set in &workload.pod_sets {
            for (resource, amount) in &pod_set.requests {
                *sums.entry(resource.clone()).or_default() +=
                    amount.get() * i128::from(pod_set.count);
            }
            *sums.entry("pods".into()).or_default() += i128::from(pod_set.count);
        }
    }
    sums.retain(|_, sum| *sum != 0);
    sums.into_iter()
        .map(|(resource, sum)| (resource, Amount::new(sum)))
        .collect()
}

fn held(
    oracle: &Oracle,
    of: impl Fn(&Workload, &Admission) -> bool,
) -> Vec<(&Workload, &Admission)> {
    let held = oracle
        .workloads
        .values()
        .filter_map(|workload| match &workload.state {
            WorkloadState::Admitted(admission) | WorkloadState::Evicting(admission, _) => {
                Some((workload, admission))
            }
            _ => Some((workload, oracle.assumed.get(&workload.id)?)),
        });
    held.filter(|(workload, admission)| of(workload, admission))
        .collect()
}

fn admitted(held: &[(&Workload, &Admission)]) -> usize {
    let confirmed =
        |(workload, _): &&(&Workload, _)| matches!(workload.state, WorkloadState::Admitted(_));
    held.iter().filter(confirmed).count()
}

fn parts(held: &[(&Workload, &Admission)]) -> ByFlavor<Parts> {
    let mut parts: ByFlavor<Parts> = ByFlavor::new();
    for pod_set in held.iter().flat_map(|(_, admission)| &*admission.pod_sets) {
        for (resource, amount) in &pod_set.usage {
            let total = clamp(*amount);
            if let Some(flavor) = pod_set.flavors.get(resource)
                && total > 0
            {
                let allocated = allocated(pod_set, total);
                let flavor = parts.entry(flavor.clone()).or_default();
                let sum = flavor.entry(resource.clone()).or_default();
                sum.0 += total;
                sum.1 += allocated;
                sum.2 += total - allocated;
            }
        }
    }
    parts
}

fn allocated(pod_set: &PodSetAssignment, total: i128) -> i128 {
    let (bound, count) = (u128::from(pod_set.bound), u128::from(pod_set.count));
    if bound >= count {
        return total;
    }
    // At most 2^96 times less than 2^32.
    i128::try_from(total.unsigned_abs() * bound / count).unwrap()
}

/// What isn't nothing.
fn numbers<T>(usage: ByFlavor<T>, of: impl Fn(T) -> (Amount, Amount, Amount)) -> ByFlavor<Parts> {
    let mut numbers: ByFlavor<Parts> = ByFlavor::new();
    for (flavor, resources) in usage {
        for (resource, usage) in resources {
            let (total, allocated, reserved) = of(usage);
            let parts = (total.get(), allocated.get(), reserved.get());
            if parts != (0, 0, 0) {
                let flavor = numbers.entry(flavor.clone()).or_default();
                flavor.insert(resource, parts);
            }
        }
    }
    numbers
}
