//! Where the pods of a job may run, and how many: what the release of an admitted job writes into its pod templates,
//! and what its eviction writes back. The node selector of a flavor comes with the admission
//! (`translate/src/admissions.rs`); how a template is patched is `kinds/src/patch`.

use sluice_crds::PodSetAssignment;
use sluice_kinds::patch::Placing;
use sluice_kinds::template::Placement;
use sluice_kinds::view::PodSetView;

use crate::cache::WorkloadRecord;

/// What is written into the template of each pod set at the release: the node selector and the tolerations of its
/// flavors beside the user's own, and how many pods.
pub fn placings<'a>(record: &WorkloadRecord, pod_sets: &'a [PodSetView]) -> Vec<Placing<'a>> {
    let placings = pod_sets.iter().map(|set| {
        let own = own_placement(record, set).unwrap_or_else(|| set.placement.clone());
        let count = own_count(record, set);
        Placing {
            set,
            to: own.with(&assigned_placement(record, &set.name)),
            count: reduced_count(record, &set.name).map_or(count, |reduced| reduced.min(count)),
        }
    });
    placings.collect()
}

/// What is written into the templates again at the eviction, as the user wrote it.
pub fn restorings<'a>(record: &WorkloadRecord, pod_sets: &'a [PodSetView]) -> Vec<Placing<'a>> {
    let restorings = placings(record, pod_sets).into_iter().map(|placed| {
        let set = placed.set;
        let own = own_placement(record, set).filter(|_| set.placement == placed.to);
        Placing {
            set,
            to: own.unwrap_or_else(|| set.placement.clone()),
            count: own_count(record, set),
        }
    });
    restorings
        .filter(|own| own.set.placement != own.to || own.set.count != own.count)
        .collect()
}

/// The user's own count of a pod set that may have been released with fewer pods: it is the recorded one,
/// if there are as many pods as were admitted.
pub(crate) fn own_count(record: &WorkloadRecord, view: &PodSetView) -> u32 {
    let mut recorded = record.spec.pod_sets.iter();
    let recorded = recorded.find(|set| set.name == *view.name);
    let recorded = recorded.and_then(|set| u32::try_from(set.count).ok());
    let is_reduced =
        view.count_at.is_some() && reduced_count(record, &view.name) == Some(view.count);
    recorded.filter(|_| is_reduced).unwrap_or(view.count)
}

/// How many pods of a set were admitted, if these are fewer than it asked for.
pub(crate) fn reduced_count(record: &WorkloadRecord, pod_set: &str) -> Option<u32> {
    let mut recorded = record.spec.pod_sets.iter();
    let recorded = recorded.find(|set| set.name == pod_set)?;
    let admitted = assignment(record, pod_set)?.count;
    u32::try_from(admitted)
        .ok()
        .filter(|_| admitted < recorded.count)
}

/// The user's own placement of a pod set whose template may hold what Sluice put in: it is the
/// recorded one, if the template says that or what follows from it.
pub(crate) fn own_placement(record: &WorkloadRecord, view: &PodSetView) -> Option<Placement> {
    let recorded = record
        .spec
        .pod_sets
        .iter()
        .find(|set| set.name == *view.name)?;
    let own = Placement {
        node_selector: recorded.node_selector.clone(),
        tolerations: recorded.tolerations.clone(),
    };
    let placed = own.with(&assigned_placement(record, &view.name));
    (view.placement == own || view.placement == placed).then_some(own)
}

fn assigned_placement(record: &WorkloadRecord, pod_set: &str) -> Placement {
    assignment(record, pod_set)
        .map(|assignment| Placement {
            node_selector: assignment.node_selector.clone(),
            tolerations: assignment.tolerations.clone(),
        })
        .unwrap_or_default()
}

fn assignment<'a>(record: &'a WorkloadRecord, pod_set: &str) -> Option<&'a PodSetAssignment> {
    let admission = record.status.admission.as_ref()?;
    let mut assignments = admission.pod_set_assignments.iter();
    assignments.find(|assignment| assignment.name == pod_set)
}
