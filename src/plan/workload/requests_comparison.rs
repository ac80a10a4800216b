//! What pods request now compared with what their Workload records, for one pod of a set: whether they ask for no more.
//! Devices that pods claim are counted by their templates as these were: they may be others by now, or gone. Devices that
//! they request by the names of their classes may have been recorded by these names.

use std::borrow::Cow;

use sluice_crds::{PodSet, Quantity, ResourceList};
use sluice_kinds::requests::{Amounts, beyond};
use sluice_kinds::view::PodSetView;

use crate::cache::WorkloadRecord;

/// Whether `requests` of pods like `asks` are no more than the recorded usage, beside the devices that they
/// claim, and they claim these by the same templates.
pub fn asks_no_more(known: &PodSet, asks: &PodSetView, requests: &Amounts) -> bool {
    let known = &*renamed(known, asks);
    let mut more = beyond(requests, |name| given(known, name));
    more.next().is_none() && claims_as(known, asks)
}

/// A recorded pod set, with what it records by the names of classes of devices counted as pods like `asks` count it.
pub fn renamed<'a>(known: &'a PodSet, asks: &PodSetView) -> Cow<'a, PodSet> {
    let renamed = asks.requested_devices.as_ref().and_then(|devices| {
        let mut requests = amounts(&known.requests)?;
        devices.rename(&mut requests);
        let requests = requests.into_iter().map(|(name, amount)| {
            let quantity = Quantity::of(&name, amount);
            (name, quantity)
        });
        Some(PodSet {
            requests: requests.collect(),
            ..known.clone()
        })
    });
    renamed.map_or(Cow::Borrowed(known), Cow::Owned)
}

/// The recorded pod sets, as these pod sets are counted now. What is not admitted yet is recorded anew instead.
pub fn as_counted<'a>(record: &'a WorkloadRecord, pod_sets: &[PodSetView]) -> Cow<'a, [PodSet]> {
    let recorded = &record.spec.pod_sets;
    let renames_some = pod_sets.iter().any(|set| set.requested_devices.is_some());
    if record.status.admission.is_none() || !renames_some {
        return Cow::Borrowed(recorded);
    }
    let counted = recorded.iter().map(|known| {
        let mut asked = pod_sets.iter();
        let asks = asked.find(|view| *view.name == known.name);
        asks.map_or_else(|| known.clone(), |asks| renamed(known, asks).into_owned())
    });
    Cow::Owned(counted.collect())
}

/// The same pod sets, with their devices as they were counted where the Workload is admitted and they are
/// claimed by the same templates.
pub fn as_recorded<'a>(
    record: &WorkloadRecord,
    pod_sets: &'a [PodSetView],
) -> Cow<'a, [PodSetView]> {
    let claims_some = pod_sets.iter().any(|set| !set.claims.is_empty());
    if record.status.admission.is_none() || !claims_some {
        return Cow::Borrowed(pod_sets);
    }
    let counted = pod_sets.iter().map(|view| {
        let mut recorded = record.spec.pod_sets.iter();
        let known = recorded.find(|set| set.name == *view.name);
        let known = known.filter(|known| claims_as(known, view));
        PodSetView {
            devices: known
                .and_then(|known| amounts(&known.claimed_devices))
                .map_or_else(|| view.devices.clone(), Ok),
            ..view.clone()
        }
    });
    Cow::Owned(counted.collect())
}

/// Whether pods claim devices by what was counted for those in `known`, and by nothing else.
fn claims_as(known: &PodSet, asks: &PodSetView) -> bool {
    let templates = asks.claimed_templates();
    templates.len() == asks.claims.len() && templates == known.resource_claim_templates
}

/// The recorded usage of a resource beside the devices.
fn given(known: &PodSet, resource: &str) -> Option<i128> {
    let recorded = known.requests.get(resource)?.nanos().ok()?;
    let claimed = known.claimed_devices.get(resource).map(Quantity::nanos);
    recorded.checked_sub(claimed.transpose().ok()?.unwrap_or_default())
}

fn amounts(recorded: &ResourceList) -> Option<Amounts> {
    let amounts = recorded.iter();
    amounts
        .map(|(name, amount)| Some((name.clone(), amount.nanos().ok()?)))
        .collect()
}
