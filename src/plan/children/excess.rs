//! Children of an object that is queued as a whole, as the Jobs of a JobSet are: they run together on what that one
//! was admitted with. Says which of them may not run. Whose child an object is says `lineage.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use sluice_crds::quantity::NANOS;
use sluice_crds::reasons::event;
use sluice_crds::{MANAGED_LABEL, Quantity, ResourceList};
use sluice_engine::ResourceName;
use sluice_kinds::gates::GateState;
use sluice_kinds::hold::Hold;
use sluice_kinds::requests::RequestedDevices;
use sluice_kinds::view::LabelledQueue;

use crate::cache::pod::CHAIN_MAX;
use crate::cache::{JobKey, JobRecord, Uid, WorkloadRecord};
use crate::plan::workload::placement::reduced_count;
use crate::plan::writes::plan_and_notes::Note;
use crate::process::hashing::HashMap;

/// Amounts of resources in nano-units, and of pods.
type Amounts = BTreeMap<String, i128>;

/// Why a child may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Excess {
    /// The queued object above it holds no admission.
    NotAdmitted,
    /// The queued object above it has finished, and its quota is free.
    Finished,
    /// The label by which its pods are watched was taken out of the template of this pod set.
    Unlabelled { pod_set: String },
    /// It asks for more of this resource than that object holds quota for.
    MoreThanAdmitted {
        resource: String,
        asks: Quantity,
        admitted: Quantity,
    },
    /// It and those children that go before it ask together for more of this resource.
    MoreTogether {
        resource: String,
        asks: Quantity,
        others: Quantity,
        admitted: Quantity,
    },
}

/// A child that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningChild {
    /// `metadata.uid`.
    pub uid: Uid,
    /// The object that owns it.
    owner: Uid,
    created: Option<Timestamp>,
    /// What its pods ask for, all together, without those that have ended for good. What LimitRanges add is left out: they
    /// may be newer than the admission.
    asks: Amounts,
    /// What they asked for when it was first seen to run.
    asked_first: Amounts,
    /// Whether its pods ask for devices by claims.
    has_claims: bool,
    /// The devices that its pods request by the names of their classes.
    requested_devices: Vec<Arc<RequestedDevices>>,
    /// The first of its pod sets that has lost the label by which its pods are watched.
    unlabelled: Option<String>,
}

impl RunningChild {
    /// The child as it runs, if it does. `known` is what was known of it; `was_labelled` says whether its pods were born
    /// with the label by which they are watched.
    pub fn read(child: &JobRecord, known: Option<&Self>, was_labelled: bool) -> Option<Self> {
        let reading = child.reading.as_ref().ok()?;
        if child.suspended != Some(false) || reading.finished.is_some() || child.deleting {
            return None;
        }
        let mut asks = Amounts::new();
        for set in reading.pod_sets.iter().flat_map(|sets| sets.iter()) {
            // For those that have ended for good its owner may have given quota back.
            let count = set.count.saturating_sub(set.reclaimable);
            add_pods(&mut asks, count);
            for (name, amount) in &set.declared {
                add(&mut asks, name, *amount, count);
            }
        }
        let mut sets = reading.pod_sets.iter().flat_map(|sets| sets.iter());
        let has_claims = sets.any(|set| !set.claims.is_empty());
        let sets = reading.pod_sets.iter().flat_map(|sets| sets.iter());
        let requested_devices = sets.filter_map(|set| set.requested_devices.clone());
        let requested_devices = requested_devices.collect();
        let sets = reading.pod_sets.iter().flat_map(|sets| sets.iter());
        let mut unlabelled = sets.filter(|set| was_labelled && set.lacks_label());
        let known = known.filter(|known| known.uid == child.uid);
        Some(Self {
            uid: child.uid.clone(),
            owner: child.owner.as_ref()?.uid.clone(),
            created: child.created,
            asked_first: known.map_or_else(|| asks.clone(), |known| known.asked_first.clone()),
            asks,
            has_claims,
            requested_devices,
            unlabelled: unlabelled.next().map(|set| set.name.to_string()),
        })
    }

    /// One without pods uses nothing: thousands of them must not delay that others are found.
    fn has_pods(&self) -> bool {
        self.asks
            .get(ResourceName::PODS)
            .is_some_and(|pods| 0 < *pods)
    }

    /// Whether it is one pod that asks for no more than `limits`, and for no devices: so much those may ask for that clean up
    /// after their owner.
    pub fn is_within(&self, limits: &ResourceList) -> bool {
        let limit = |name: &String| {
            if name == ResourceName::PODS {
                return NANOS;
            }
            let limit = limits.get(name).and_then(|limit| limit.nanos().ok());
            limit.unwrap_or_default()
        };
        self.has_pods()
            && !self.has_claims
            && self.asks.iter().all(|(name, asks)| *asks <= limit(name))
    }

    fn has_grown(&self) -> bool {
        let first = |name| self.asked_first.get(name).copied().unwrap_or_default();
        let mut asks = self.asks.iter();
        asks.any(|(name, asks)| first(name) < *asks)
    }

    /// Who goes first: who was there first. Who has grown since goes last, as the others had what they ask for when it did.
    fn place(&self) -> (bool, Option<Timestamp>, &Uid) {
        (self.has_grown(), self.created, &self.uid)
    }
}

/// Which of the `children` that run may not, and why. All belong to `root`, whose Workload is `workload`. Those of `besides`
/// may run whatever it was admitted with.
///
/// A child draws on what its owner asks for, if that runs too, and then on what `root` was admitted with: the Jobs of a
/// JobSet of a TrainJob are not counted beside the JobSet. What can't be suspended draws like the others, and is stopped
/// by nobody; pods that are admitted by themselves have usage by themselves.
pub fn excess<'a>(
    root: &JobRecord,
    workload: Option<&WorkloadRecord>,
    children: &'a BTreeMap<JobKey, RunningChild>,
    besides: &BTreeSet<&JobKey>,
) -> Vec<(&'a JobKey, Excess)> {
    let admitted = workload.filter(|record| record.holds_quota());
    let has_finished = root.finished().is_some();
    // Until its pods are gone it keeps its quota, and its children may run: KubeRay keeps a cluster for a while.
    let has_ended = has_finished && workload.is_some_and(WorkloadRecord::is_finished);
    // What was admitted and is being deleted is evicted like any other; what was not may be kept by a finalizer, and its
    // controller may go on with it.
    let is_left = root.deleting && (admitted.is_some() || root.deletes_pods);
    let may_end = has_finished && !has_ended;
    if root.hold != Hold::Suspend || may_end || is_left || !is_held(root, workload) {
        return Vec::new();
    }
    let judged = children.iter().filter(|(key, _)| !besides.contains(key));
    let Some(record) = admitted else {
        let why = if has_ended {
            Excess::Finished
        } else {
            Excess::NotAdmitted
        };
        let all = judged.filter(|(_, child)| child.has_pods());
        return all.map(|(key, _)| (key, why.clone())).collect();
    };
    let by_uid: HashMap<&Uid, &RunningChild> = (children.values())
        .map(|child| (&child.uid, child))
        .collect();
    let mut in_order: Vec<_> = judged
        .map(|(key, child)| (owners(child, &by_uid), key, child))
        .collect();
    in_order.sort_by_key(|(owners, _, child)| (owners.len(), child.place()));
    let mut admitted = left_of(record);
    // They may have been recorded by these names.
    for devices in children.values().flat_map(|child| &child.requested_devices) {
        devices.rename(&mut admitted);
    }
    let mut left = Left {
        root: admitted.clone(),
        admitted,
        owners: HashMap::default(),
    };
    let found = in_order.into_iter().filter_map(|(owners, key, child)| {
        let pod_set = child.unlabelled.clone();
        let excess = (left.draw(&owners, child))
            .or_else(|| pod_set.map(|pod_set| Excess::Unlabelled { pod_set }));
        excess.map(|excess| (key, excess))
    });
    found.collect()
}

/// The owners of a child that run too, the nearest first.
fn owners<'a>(child: &'a RunningChild, by_uid: &HashMap<&Uid, &'a RunningChild>) -> Vec<&'a Uid> {
    let mut found = Vec::new();
    let mut above = &child.owner;
    while let Some(owner) = by_uid.get(above)
        && found.len() < CHAIN_MAX
    {
        found.push(&owner.uid);
        above = &owner.owner;
    }
    found
}

/// What is left for children to draw on.
struct Left<'a> {
    admitted: Amounts,
    /// Of what the root was admitted with.
    root: Amounts,
    /// Of what each child asks for whose own children run.
    owners: HashMap<&'a Uid, Amounts>,
}

impl<'a> Left<'a> {
    /// Gives a child what it asks for, or says why it does not get that.
    fn draw(&mut self, owners: &[&'a Uid], child: &'a RunningChild) -> Option<Excess> {
        for (resource, asks) in &child.asks {
            if resource == ResourceName::PODS && !self.admitted.contains_key(resource) {
                continue;
            }
            let given = owners.iter().map(|owner| self.of_owner(owner, resource));
            let given = given.fold(0, i128::saturating_add);
            let left = self.root.get(resource).copied().unwrap_or_default();
            if left.saturating_add(given) < *asks {
                return Some(self.too_much(resource, *asks, left));
            }
        }
        for (resource, asks) in &child.asks {
            let mut asks = *asks;
            for owner in owners {
                if let Some(left) = self.owners.get_mut(*owner) {
                    asks = take(left, resource, asks);
                }
            }
            take(&mut self.root, resource, asks);
        }
        self.owners.insert(&child.uid, child.asks.clone());
        None
    }

    fn of_owner(&self, owner: &Uid, resource: &str) -> i128 {
        let owner = self.owners.get(owner);
        let left = owner.and_then(|left| left.get(resource));
        left.copied().unwrap_or_default()
    }

    fn too_much(&self, resource: &str, asks: i128, left: i128) -> Excess {
        let admitted = self.admitted.get(resource).copied().unwrap_or_default();
        let amount = |amount| Quantity::of(resource, amount);
        if admitted < asks {
            return Excess::MoreThanAdmitted {
                resource: resource.to_owned(),
                asks: amount(asks),
                admitted: amount(admitted),
            };
        }
        Excess::MoreTogether {
            resource: resource.to_owned(),
            asks: amount(asks),
            others: amount(admitted.saturating_sub(left)),
            admitted: amount(admitted),
        }
    }
}

/// Takes as much of a resource as there is, and returns what is still asked for.
fn take(from: &mut Amounts, resource: &str, asks: i128) -> i128 {
    let Some(left) = from.get_mut(resource) else {
        return asks;
    };
    let taken = asks.min(*left);
    *left = left.saturating_sub(taken);
    asks.saturating_sub(taken)
}

/// Whether an object may run only when it is admitted, or its gates are gone.
fn is_held(root: &JobRecord, workload: Option<&WorkloadRecord>) -> bool {
    let is_gated = root.gates != GateState::None && !root.released;
    is_gated || root.queue != LabelledQueue::None || root.was_held(workload.is_some())
}

/// What is left of what a Workload was admitted with, all its pods together: pods that have ended for good have given
/// their quota back. What could not be counted never was admitted: where the spec can't be read any more, the admission
/// says how much that was.
fn left_of(record: &WorkloadRecord) -> Amounts {
    let mut amounts = Amounts::new();
    let admission = record.status.admission.iter();
    let assigned = admission.flat_map(|admission| &admission.pod_set_assignments);
    let left = |name: &str, admitted: u32| admitted.saturating_sub(record.reclaimed(name));
    if record.unreadable.is_some() {
        for set in assigned {
            let count = u32::try_from(set.count).unwrap_or_default();
            let left = left(&set.name, count);
            for (name, of_all) in &set.resource_usage {
                let of_all = of_all.nanos().unwrap_or_default();
                let of_each = of_all.checked_div(count.into()).unwrap_or_default();
                add(&mut amounts, name, of_each, left);
            }
        }
        return amounts;
    }
    let mut assigned = assigned;
    let has_quota_of_pods = assigned.any(|set| set.flavors.contains_key(ResourceName::PODS));
    for set in &record.spec.pod_sets {
        let asked = u32::try_from(set.count).unwrap_or_default();
        let admitted = reduced_count(record, &set.name).unwrap_or(asked);
        let left = left(&set.name, admitted);
        if has_quota_of_pods {
            add_pods(&mut amounts, left);
        }
        for (name, of_each) in &set.requests {
            let of_each = of_each.nanos().unwrap_or_default();
            add(&mut amounts, name, of_each, left);
        }
    }
    amounts
}

/// Adds what so many pods ask for.
fn add(amounts: &mut Amounts, name: &str, of_each: i128, count: u32) {
    let sum = amounts.entry(name.to_owned()).or_default();
    *sum = sum.saturating_add(of_each.saturating_mul(count.into()));
}

/// Counts pods as a resource, which they are where there is quota for them.
fn add_pods(amounts: &mut Amounts, count: u32) {
    add(amounts, ResourceName::PODS, NANOS, count);
}

/// What the user is told about a child that is suspended. `root` names what it belongs to.
pub fn note(excess: &Excess, root: &str) -> Note {
    const REMEDY: &str = "increase the requests of that object, or create this object without the owner reference, so that it is queued by itself";
    match excess {
        Excess::NotAdmitted => Note::warning(
            event::OWNER_NOT_ADMITTED,
            format!(
                "Suspended: {root}, to which this object belongs, is not admitted; after the admission its controller resumes this object"
            ),
        ),
        Excess::Finished => Note::warning(
            event::OWNER_FINISHED,
            format!(
                "Suspended: {root}, to which this object belongs, has finished, and its quota is free; create this object without the owner reference, so that it is queued by itself"
            ),
        ),
        Excess::Unlabelled { pod_set } => Note::warning(
            event::LABEL_REMOVED,
            format!(
                "Suspended: the label {MANAGED_LABEL} was removed from the pod template of its pod set {pod_set:?}, and pods without it can't be counted in what {root}, to which this object belongs, was admitted with; put the label back, and resume this object"
            ),
        ),
        Excess::MoreThanAdmitted {
            resource,
            asks,
            admitted,
        } => Note::warning(
            event::EXCEEDS_OWNER,
            format!(
                "Suspended: it requests {resource} {asks}, and {root}, to which it belongs, holds quota for {admitted}; {REMEDY}"
            ),
        ),
        Excess::MoreTogether {
            resource,
            asks,
            others,
            admitted,
        } => Note::warning(
            event::EXCEEDS_OWNER,
            format!(
                "Suspended: it requests {resource} {asks}, other objects that belong to {root} use {others}, and {root} holds quota for {admitted}; {REMEDY}"
            ),
        ),
    }
}
