//! Bytes to events: every kind, every field, few names, small numbers and now and then the ends of
//! their range. What becomes of them is `history.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_engine::{
    Admission, AdmissionScope, Amount, BorrowWithinCohort, ClusterQueue, Cohort, Consumed, Event,
    FairPreemption, Flavor, FlavorFungibility, FlavorPreference, FlavorQuotas, LabelExpression,
    LabelOperator, LocalQueue, LocalQueueKey, NodeSelectorTerm, PodSet, PodSetAssignment,
    Preemption, QueueingStrategy, Quota, ReclaimWithinCohort, ResourceGroup, ResourceName,
    Settings, StopPolicy, Taint, TaintEffect, Time, Toleration, TolerationOperator, Weight,
    WhenCanBorrow, WhenCanPreempt, WithinClusterQueue, Workload, WorkloadState,
};

use crate::bytes::Bytes;

pub const FLAVORS: [&str; 3] = ["f0", "f1", "f2"];
pub const RESOURCES: [&str; 3] = ["cpu", "mem", "pods"];
pub const COHORTS: [&str; 5] = ["c0", "c1", "c2", "c3", "c4"];
pub const QUEUES: [&str; 4] = ["q0", "q1", "q2", "q3"];
pub const LOCALS: [&str; 5] = ["l0", "l1", "l2", "l3", "l4"];
pub const WORKLOADS: [&str; 10] = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];

pub fn settings(bytes: &mut Bytes<'_>) -> Settings {
    let fair_sharing = match bytes.below(6) {
        0..3 => None,
        3 => Some(FairPreemption::DEFAULT.to_vec()),
        4 => Some(vec![FairPreemption::LessThanInitialShare]),
        _ => Some(Vec::new()),
    };
    let half_lives = [
        Duration::from_mins(1),
        Duration::from_millis(1),
        Duration::ZERO,
        Duration::MAX,
    ];
    let pod = if bytes.rarely() {
        amount(bytes)
    } else {
        Amount::new(1)
    };
    Settings {
        fair_sharing,
        usage_half_life: bytes.pick(&half_lives),
        ..Settings::new(pod)
    }
}

pub fn amount(bytes: &mut Bytes<'_>) -> Amount {
    let limit = Amount::LIMIT.get();
    Amount::new(match bytes.byte() {
        small @ 0..240 => i128::from(small % 12),
        240 => limit,
        241 => limit + 1,
        242 => limit - 1,
        243 => i128::MAX,
        244 => i128::MIN,
        245 => -1,
        246 => limit / 2,
        large => 1 << (u32::from(large % 8) * 12 + 8),
    })
}

pub fn time(bytes: &mut Bytes<'_>, now: Time) -> Time {
    match bytes.byte() {
        small @ 0..200 => now.after(Duration::from_millis(u64::from(small))),
        long @ 200..240 => now.after(Duration::from_secs(u64::from(long - 199) * 3600)),
        back @ 240..250 => Time::from_millis(now.as_millis().saturating_sub(i64::from(back - 239))),
        250..253 => Time::from_millis(i64::MAX),
        _ => Time::from_millis(i64::MIN),
    }
}

fn count(bytes: &mut Bytes<'_>) -> u32 {
    match bytes.byte() {
        small @ 0..250 => u32::from(small % 5),
        250..253 => u32::from(u16::MAX),
        _ => u32::MAX,
    }
}

fn duration(bytes: &mut Bytes<'_>) -> Duration {
    match bytes.byte() {
        small @ 0..250 => Duration::from_millis(u64::from(small)),
        _ => Duration::MAX,
    }
}

fn weight(bytes: &mut Bytes<'_>) -> Weight {
    Weight::from_thousandths(bytes.pick(&[1000, 1000, 2000, 500, 1, 0, u32::MAX]))
}

fn stop(bytes: &mut Bytes<'_>) -> StopPolicy {
    match bytes.below(8) {
        0..6 => StopPolicy::None,
        6 => StopPolicy::Hold,
        _ => StopPolicy::HoldAndDrain,
    }
}

fn label(bytes: &mut Bytes<'_>) -> (String, String) {
    (
        bytes.pick(&["zone", "gen"]).into(),
        bytes.pick(&["a", "7"]).into(),
    )
}

fn taint(bytes: &mut Bytes<'_>) -> Taint {
    Taint {
        key: "spot".into(),
        value: String::new(),
        effect: bytes.pick(&[
            TaintEffect::NoSchedule,
            TaintEffect::PreferNoSchedule,
            TaintEffect::NoExecute,
        ]),
    }
}

fn toleration(bytes: &mut Bytes<'_>) -> Toleration {
    Toleration {
        key: bytes.maybe(|_| "spot".into()),
        operator: bytes.pick(&[TolerationOperator::Exists, TolerationOperator::Equal]),
        value: String::new(),
        effect: bytes.maybe(|_| TaintEffect::NoSchedule),
    }
}

fn term(bytes: &mut Bytes<'_>) -> NodeSelectorTerm {
    let operators = [
        LabelOperator::In,
        LabelOperator::NotIn,
        LabelOperator::Exists,
        LabelOperator::DoesNotExist,
        LabelOperator::Gt,
        LabelOperator::Lt,
    ];
    NodeSelectorTerm {
        expressions: bytes.several(2, |bytes| {
            let (key, value) = label(bytes);
            LabelExpression {
                key,
                operator: bytes.pick(&operators),
                values: vec![value],
            }
        }),
    }
}

pub fn flavor(bytes: &mut Bytes<'_>) -> Flavor {
    let name = bytes.pick(&FLAVORS).into();
    let plain = bytes.byte() < 160;
    Flavor {
        name,
        node_labels: (!plain).then(|| label(bytes)).into_iter().collect(),
        node_taints: if plain {
            Vec::new()
        } else {
            bytes.several(1, taint)
        },
        tolerations: if plain {
            Vec::new()
        } else {
            bytes.several(1, toleration)
        },
    }
}

fn quota(bytes: &mut Bytes<'_>) -> Quota {
    Quota {
        nominal: amount(bytes),
        borrowing_limit: bytes.maybe(amount),
        lending_limit: bytes.maybe(amount),
    }
}

fn flavor_quotas(bytes: &mut Bytes<'_>, resources: &BTreeSet<ResourceName>) -> FlavorQuotas {
    let name = bytes.pick(&FLAVORS).into();
    let listed = resources.iter().filter(|_| bytes.byte() < 240);
    let listed: Vec<_> = listed.cloned().collect();
    FlavorQuotas {
        name,
        resources: (listed.into_iter().map(|resource| (resource, quota(bytes)))).collect(),
    }
}

fn groups(bytes: &mut Bytes<'_>) -> Vec<ResourceGroup> {
    bytes.several(2, |bytes| {
        let covered = bytes.byte();
        let resources = (RESOURCES.iter().enumerate())
            .filter(|(index, _)| covered >> index & 1 == 0)
            .map(|(_, name)| (*name).into());
        let covered_resources = resources.collect();
        ResourceGroup {
            flavors: bytes.several(3, |bytes| flavor_quotas(bytes, &covered_resources)),
            covered_resources,
        }
    })
}

pub fn cohort(bytes: &mut Bytes<'_>) -> Cohort {
    Cohort {
        parent: bytes.maybe(|bytes| bytes.pick(&COHORTS).into()),
        resource_groups: groups(bytes),
        fair_weight: weight(bytes),
        ..Cohort::new(bytes.pick(&COHORTS).into())
    }
}

pub fn queue(bytes: &mut Bytes<'_>) -> ClusterQueue {
    let name = bytes.pick(&QUEUES).into();
    let cohort = bytes.byte();
    let rules = bytes.byte();
    ClusterQueue {
        cohort: (cohort >= 32).then(|| COHORTS[usize::from(cohort) % COHORTS.len()].into()),
        strategy: match rules & 3 {
            0 => QueueingStrategy::StrictFifo,
            _ => QueueingStrategy::BestEffortFifo,
        },
        resource_groups: groups(bytes),
        stop: stop(bytes),
        fungibility: fungibility(rules >> 2),
        preemption: preemption(bytes),
        fair_weight: weight(bytes),
        admission_scope: match rules >> 5 {
            0..6 => AdmissionScope::ByOrder,
            _ => AdmissionScope::ByUsage,
        },
        max_pending: bytes.rarely().then(|| usize::from(bytes.below(4))),
        reservation_timeout: bytes.rarely().then(|| duration(bytes)),
        recovery_timeout: bytes.rarely().then(|| duration(bytes)),
        ..ClusterQueue::new(name)
    }
}

fn fungibility(bits: u8) -> FlavorFungibility {
    FlavorFungibility {
        when_can_borrow: match bits & 1 {
            0 => WhenCanBorrow::MayStopSearch,
            _ => WhenCanBorrow::TryNextFlavor,
        },
        when_can_preempt: match bits & 2 {
            0 => WhenCanPreempt::TryNextFlavor,
            _ => WhenCanPreempt::MayStopSearch,
        },
        preference: match bits & 4 {
            0 => FlavorPreference::BorrowingOverPreemption,
            _ => FlavorPreference::PreemptionOverBorrowing,
        },
    }
}

fn preemption(bytes: &mut Bytes<'_>) -> Preemption {
    Preemption {
        within_cluster_queue: bytes.pick(&[
            WithinClusterQueue::Never,
            WithinClusterQueue::LowerPriority,
            WithinClusterQueue::LowerOrNewerEqualPriority,
        ]),
        reclaim_within_cohort: bytes.pick(&[
            ReclaimWithinCohort::Never,
            ReclaimWithinCohort::LowerPriority,
            ReclaimWithinCohort::Any,
        ]),
        borrow_within_cohort: match bytes.below(3) {
            0 => BorrowWithinCohort::Never,
            _ => BorrowWithinCohort::LowerPriority {
                max_priority_threshold: bytes.maybe(priority),
            },
        },
    }
}

pub fn local_key(bytes: &mut Bytes<'_>) -> LocalQueueKey {
    LocalQueueKey::new("ns", bytes.pick(&LOCALS))
}

pub fn local(bytes: &mut Bytes<'_>, now: Time) -> LocalQueue {
    let (key, target) = (local_key(bytes), bytes.pick(&QUEUES).into());
    LocalQueue {
        stop: stop(bytes),
        namespace_selected: !bytes.rarely(),
        fair_weight: weight(bytes),
        consumed: bytes.rarely().then(|| Consumed {
            at: time(bytes, now),
            amounts: amounts(bytes),
        }),
        ..LocalQueue::new(key, target)
    }
}

fn amounts(bytes: &mut Bytes<'_>) -> BTreeMap<ResourceName, Amount> {
    let named = bytes.byte();
    (RESOURCES.iter().enumerate())
        .filter(|(index, _)| named >> index & 1 == 0)
        .map(|(_, name)| ((*name).into(), amount(bytes)))
        .collect()
}

fn priority(bytes: &mut Bytes<'_>) -> i32 {
    match bytes.byte() {
        small @ 0..250 => i32::from(small % 4) - 1,
        250..253 => i32::MIN,
        _ => i32::MAX,
    }
}

/// A workload that waits.
pub fn workload(bytes: &mut Bytes<'_>, now: Time) -> Workload {
    let (id, queue) = (bytes.pick(&WORKLOADS).into(), local_key(bytes));
    Workload {
        priority: priority(bytes),
        created: match bytes.byte() {
            small @ 0..250 => i64::from(small % 16),
            250..253 => i64::MIN,
            _ => i64::MAX,
        },
        pod_sets: {
            let count = bytes.pick(&[1, 1, 1, 2, 3, 0]);
            bytes.exactly(count, pod_set)
        },
        not_before: bytes.rarely().then(|| time(bytes, now)),
        evictable: !bytes.rarely(),
        ..Workload::new(id, queue)
    }
}

fn pod_set(bytes: &mut Bytes<'_>) -> PodSet {
    let name = bytes.pick(&["main", "side"]).into();
    let pods = count(bytes);
    let picky = bytes.rarely();
    PodSet {
        min_count: if bytes.byte() < 192 {
            None
        } else {
            Some(count(bytes))
        },
        requests: amounts(bytes),
        node_selector: picky.then(|| label(bytes)).into_iter().collect(),
        affinity: if picky {
            bytes.several(2, term)
        } else {
            Vec::new()
        },
        tolerations: if picky {
            bytes.several(1, toleration)
        } else {
            Vec::new()
        },
        ..PodSet::new(name, pods)
    }
}

/// An admission that nobody here decided: it was stored before the engine started.
pub fn stored_admission(bytes: &mut Bytes<'_>, now: Time) -> Admission {
    Admission {
        queue: bytes.pick(&QUEUES).into(),
        cohort: None,
        since: time(bytes, now),
        unused_since: bytes.maybe(|bytes| time(bytes, now)),
        had_nodes: bytes.rarely(),
        pod_sets: Arc::from(bytes.several(2, |bytes| {
            let usage = amounts(bytes);
            let flavors = usage.keys().filter(|_| !bytes.rarely());
            let flavors: Vec<_> = flavors.cloned().collect();
            PodSetAssignment {
                name: "main".into(),
                count: count(bytes),
                flavors: (flavors.into_iter())
                    .map(|resource| (resource, bytes.pick(&FLAVORS).into()))
                    .collect(),
                usage,
                bound: count(bytes),
            }
        })),
    }
}

/// What becomes of a workload that holds `admission`.
pub fn next_state(bytes: &mut Bytes<'_>, held: Option<Admission>, now: Time) -> WorkloadState {
    let Some(mut admission) = held else {
        return match bytes.below(4) {
            0 => WorkloadState::Finished,
            1 => WorkloadState::Inactive,
            2 => WorkloadState::Pending,
            _ => WorkloadState::Admitted(stored_admission(bytes, now)),
        };
    };
    let move_on = bytes.below(8);
    if let 5.. = move_on {
        for pod_set in Arc::make_mut(&mut admission.pod_sets) {
            pod_set.bound = count(bytes);
            *pod_set = pod_set.clone().without(count(bytes));
        }
        admission.unused_since = bytes.maybe(|bytes| time(bytes, now));
    }
    match move_on {
        0 => WorkloadState::Finished,
        1 => WorkloadState::Pending,
        2 => WorkloadState::Inactive,
        3 | 7 => WorkloadState::Evicting(admission, None),
        _ => WorkloadState::Admitted(admission),
    }
}

/// A change of anything but workloads, or one that takes something away.
pub fn change(bytes: &mut Bytes<'_>, kind: u8, now: Time) -> Event {
    match kind {
        0 => Event::UpsertFlavor(flavor(bytes)),
        1 => Event::UpsertCohort(cohort(bytes)),
        2 => Event::UpsertClusterQueue(queue(bytes)),
        3 => Event::UpsertLocalQueue(local(bytes, now)),
        4 => Event::RemoveWorkload(bytes.pick(&WORKLOADS).into()),
        5 => Event::AdmissionFailed(bytes.pick(&WORKLOADS).into()),
        6 => Event::EvictionFailed(bytes.pick(&WORKLOADS).into()),
        _ => match bytes.below(4) {
            0 => Event::RemoveFlavor(bytes.pick(&FLAVORS).into()),
            1 => Event::RemoveCohort(bytes.pick(&COHORTS).into()),
            2 => Event::RemoveClusterQueue(bytes.pick(&QUEUES).into()),
            _ => Event::RemoveLocalQueue(local_key(bytes)),
        },
    }
}
