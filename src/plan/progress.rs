//! What an admitted job tells of itself while it runs: whether its pods do their work, and how many
//! have ended for good, so that their quota is free. When that is written is not decided here.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sluice_crds::reasons::event;
use sluice_crds::{ConditionType, PodSetAssignment, ReclaimablePod, WorkloadStatus};
use sluice_kinds::view::PodSetView;

use crate::cache::WorkloadRecord;
use crate::cache::conditions::{self, ConditionUpdate};
use crate::plan::writes::plan_and_notes::{Note, Present};

/// What is said of a job that should have pods, and has had none for long.
const NO_PODS: &str = "It is admitted, and has had no pods for 5 minutes: its other events and its status may say why; if they say nothing, its controller may not run. It keeps its quota, unless spec.reservation of its ClusterQueue limits that";
/// The reason of PodsReady for pods that have never been ready.
const WAIT_FOR_START: &str = "WaitForStart";
/// The reason of PodsReady for pods that were ready once and are not any more.
const WAIT_FOR_RECOVERY: &str = "WaitForRecovery";
/// The reason of `PodsReady` where all pods are ready that were so before.
pub const RECOVERED: &str = "Recovered";

/// How many pods of a pod set may run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LivePods {
    /// All that are not gone.
    pub all: usize,
    /// Those that nobody has deleted: what is being deleted may already have been replaced.
    pub staying: usize,
}

/// What a job tells of itself.
pub struct Told<'a> {
    /// Whether all its pods do their work, if it tells that.
    pub ready: Option<bool>,
    /// Whether it should have pods, and has had none for long.
    pub lacks_pods: bool,
    /// Whether its controller works on it, and its pods may lack the label by which they are seen.
    pub hides_pods: bool,
    /// Its pod sets.
    pub pod_sets: &'a [PodSetView],
    /// Whether fewer pods than were admitted mean less quota: its pods come and go as its count says.
    pub counts_pods: bool,
    /// How many pods of a set may run. What a job tells is not believed against that.
    pub live_pods_of_set: &'a dyn Fn(&str) -> LivePods,
}

/// The status of an admitted Workload whose job runs, if the job tells something new.
pub fn report(record: &WorkloadRecord, told: &Told<'_>, now: Present) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    if let Some(is_ready) = told.ready
        && let Some(update) =
            readiness(&status.conditions, is_ready).or_else(|| absence(&status.conditions, told))
    {
        conditions::set(&mut status.conditions, update, record.generation, now);
    }
    status.reclaimable_pods = reclaimable_pods(record, told.live_pods_of_set, |set, live| {
        said_to_have_ended(set, live, told)
    });
    (status != record.status).then_some(status)
}

/// The status of an admitted Workload whose job has ended and has pods that run on, if more of the others are gone than it
/// says: none of them comes again. Of pods without the label none is seen.
pub fn report_ended(
    record: &WorkloadRecord,
    pod_sets: &[PodSetView],
    live_pods_of_set: &dyn Fn(&str) -> LivePods,
) -> Option<WorkloadStatus> {
    let mut status = record.status.clone();
    status.reclaimable_pods = reclaimable_pods(record, live_pods_of_set, |set, _| {
        let view = pod_sets.iter().find(|view| *view.name == *set.name);
        let is_seen = view.is_some_and(|view| view.marks.are_watched());
        if is_seen { set.count } else { 0 }
    });
    (status != record.status).then_some(status)
}

/// Whether more pods of a set run than hold quota, as some had ended for good that came back. Of pods that can't be seen,
/// as their template lacks the label, as many run as it says.
pub(super) fn is_refuted(
    record: &WorkloadRecord,
    pod_sets: &[PodSetView],
    live_pods_of_set: &dyn Fn(&str) -> LivePods,
) -> bool {
    let admission = record.status.admission.as_ref();
    let mut sets = admission.into_iter().flat_map(|a| &a.pod_set_assignments);
    sets.any(|set| {
        let count = u32::try_from(set.count).unwrap_or_default();
        let reclaimed = record.reclaimed(&set.name);
        let counted = usize::try_from(count.saturating_sub(reclaimed)).unwrap_or(usize::MAX);
        let unseen = pod_sets.iter().find(|view| *view.name == *set.name);
        let unseen = unseen.filter(|view| view.lacks_label());
        let unseen = unseen.map_or(0, |view| view.count.saturating_sub(view.reclaimable));
        let unseen = usize::try_from(unseen).unwrap_or(usize::MAX);
        0 < reclaimed && counted < live_pods_of_set(&set.name).staying.max(unseen)
    })
}

/// Whether a suspended job would run pods whose quota it has given back: it was made smaller while it ran, and was
/// suspended and made larger in one update.
pub(super) fn wants_reclaimed(record: &WorkloadRecord, pod_sets: &[PodSetView]) -> bool {
    let admission = record.status.admission.as_ref();
    let mut sets = admission.into_iter().flat_map(|a| &a.pod_set_assignments);
    sets.any(|set| {
        let reclaimed = record.reclaimed(&set.name);
        let count = u32::try_from(set.count).unwrap_or_default();
        let view = pod_sets.iter().find(|view| *view.name == *set.name);
        let wanted = view.map_or(0, |view| {
            view.count.min(count).saturating_sub(view.reclaimable)
        });
        0 < reclaimed && count.saturating_sub(reclaimed) < wanted
    })
}

/// How many pods of each set have ended for good, of which so many are `said` to have. What was said of them once has
/// given quota away, so it is never less; and what still runs has not ended, whatever the job says.
fn reclaimable_pods(
    record: &WorkloadRecord,
    live_pods_of_set: &dyn Fn(&str) -> LivePods,
    said: impl Fn(&PodSetAssignment, i32) -> i32,
) -> Vec<ReclaimablePod> {
    let admission = record.status.admission.iter();
    let assignments = admission.flat_map(|admission| &admission.pod_set_assignments);
    let reclaimable = assignments.map(|set| {
        let live = as_count(live_pods_of_set(&set.name).all);
        let ended = set.count.saturating_sub(live).max(0);
        let ended = said(set, live).min(ended);
        ReclaimablePod {
            name: set.name.clone(),
            count: ended.max(as_count(record.reclaimed(&set.name))),
        }
    });
    reclaimable.filter(|set| 0 < set.count).collect()
}

/// How many pods of a set have ended for good by what a running job tells. So many of them are seen to run.
fn said_to_have_ended(set: &PodSetAssignment, live: i32, told: &Told<'_>) -> i32 {
    let view = told.pod_sets.iter().find(|view| *view.name == *set.name);
    view.map_or(0, |view| {
        as_count(view.reclaimable).saturating_add(if told.counts_pods {
            fewer(set, view, live)
        } else {
            0
        })
    })
}

/// By how many pods a running job was made smaller than it was admitted. Said only once all pods are seen
/// that it still wants: until then the others may be on their way. Of pods without the label none is seen.
fn fewer(set: &PodSetAssignment, view: &PodSetView, live: i32) -> i32 {
    let wanted = as_count(view.count);
    let are_seen = wanted.saturating_sub(as_count(view.reclaimable)) <= live;
    if are_seen && view.marks.are_watched() {
        set.count.saturating_sub(wanted).max(0)
    } else {
        0
    }
}

fn as_count(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// PodsReady of a Workload that has just been admitted, or is evicted.
pub(super) fn not_started() -> ConditionUpdate {
    ConditionUpdate {
        kind: ConditionType::PodsReady,
        is_true: false,
        reason: WAIT_FOR_START,
        message: "Not all of its pods are ready".to_owned(),
    }
}

/// Whether all pods have been ready since the admission: an admission takes back what `PodsReady` said before.
pub fn were_ready(known: &[Condition]) -> bool {
    let known = conditions::find(known, ConditionType::PodsReady);
    known.is_some_and(|known| known.status == "True" || known.reason == WAIT_FOR_RECOVERY)
}

/// What PodsReady is to say, if that is something new. That it is not there yet says enough.
fn readiness(known: &[Condition], is_ready: bool) -> Option<ConditionUpdate> {
    let known = conditions::find(known, ConditionType::PodsReady);
    let was_ready = known.is_some_and(|known| known.status == "True");
    let had_to_recover = known.is_some_and(|known| known.reason == WAIT_FOR_RECOVERY);
    let (reason, message) = match (was_ready, is_ready) {
        (true, true) | (false, false) => return None,
        (true, false) => (WAIT_FOR_RECOVERY, "Not all of its pods are ready any more"),
        (false, true) if had_to_recover => (RECOVERED, "All of its pods are ready again"),
        (false, true) => ("Started", "All of its pods are ready"),
    };
    Some(ConditionUpdate {
        kind: ConditionType::PodsReady,
        is_true: is_ready,
        reason,
        message: message.to_owned(),
    })
}

/// What `PodsReady` is to say of a job whose pods have never been ready: that it has none, and that it has some after all,
/// or may have some.
fn absence(known: &[Condition], told: &Told<'_>) -> Option<ConditionUpdate> {
    let known = conditions::find(known, ConditionType::PodsReady)?;
    if known.reason == WAIT_FOR_START && told.lacks_pods {
        return Some(ConditionUpdate {
            kind: ConditionType::PodsReady,
            is_true: false,
            reason: event::NO_PODS,
            message: NO_PODS.to_owned(),
        });
    }
    let mut sets = told.pod_sets.iter();
    let has_pods = sets.any(|set| 0 < (told.live_pods_of_set)(&set.name).all);
    // Pods that have left it and keep its quota run, and it lacks pods all the same.
    let may_have_pods = (has_pods || told.hides_pods) && !told.lacks_pods;
    (known.reason == event::NO_PODS && may_have_pods).then(not_started)
}

/// What is told of a job that should have pods, and has had none for long.
pub(super) fn no_pods() -> Note {
    Note::warning(event::NO_PODS, NO_PODS)
}

/// What a job has told of itself, in words that are equal if it is.
pub fn told(status: &WorkloadStatus) -> String {
    let ready = conditions::find(&status.conditions, ConditionType::PodsReady);
    let ready = ready.map_or("", |ready| ready.reason.as_str());
    format!("{ready} {:?}", status.reclaimable_pods)
}

#[cfg(test)]
mod tests;
