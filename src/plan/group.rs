//! The way of a group of pods that are admitted together: complete, queued, admitted, ended. Its
//! record is a Workload that names the group; it has no other object. A controller may make the pods of a
//! group again; of bare pods nobody does.

mod changes;
mod disagreement;
mod lost;
mod members;

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use sluice_crds::reasons::event;
use sluice_crds::{
    ConditionType, JOB_UID_LABEL, POD_GROUP_LABEL, PODS_MADE_BY_ANNOTATION, ReclaimablePod,
    Workload, WorkloadSpec, group_workload_name,
};
use sluice_kinds::pod::{PodGroup, PodPhase};
use sluice_kinds::view::{Finished, LabelledQueue};

use self::changes::GroupChange;
pub use self::lost::LostPods;
use self::members::{counted, pod_sets};
pub use self::members::{gates_left, is_ready, members, present, role_of};
use crate::cache::conditions;
use crate::cache::{GroupKey, PodKey, PodRecord, WorkloadKey, WorkloadRecord};
use crate::plan::eviction_steps::requeue;
use crate::plan::evictions::cause::Cause;
use crate::plan::evictions::requeue_backoff::Backoff;
use crate::plan::place_in_queue::{self, PlaceOf};
use crate::plan::workload;
use crate::plan::workload::priority::{NoPriority, Priority};
use crate::plan::write_builders::{delete_workload, status_write, update_spec};
use crate::plan::writes::plan_and_notes::{Note, Plan, Present};
use crate::plan::writes::write::{StatusPurpose, Write};

/// For how long an admitted group keeps its quota without pods: a controller that restarts a group makes the first pod as
/// soon as the last one is gone. One that has made the group smaller, or away with it, makes none, and others wait.
const QUOTA_KEPT_FOR: Duration = Duration::from_secs(10);
/// How long a controller may take to make pods again that were deleted, on a busy machine.
pub const REPLACED_WITHIN: Duration = Duration::from_mins(1);
/// The same of a deactivated group: a controller that is slow must not undo what an administrator has done.
const DEACTIVATED_WITHIN: Duration = Duration::from_mins(10);

/// What is told of pods that do not say the same of their group.
const DISAGREE: &str = "its pods do not agree about it";

/// What is known of a group of which a controller makes the pods again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Absence {
    /// For how long it has had no pods, as far as this process has seen.
    pub lasted: Duration,
    /// Whether the object that they belong to is gone, or being deleted.
    pub maker_is_gone: bool,
}

/// All that the plan for a group depends on.
pub struct GroupSituation<'a> {
    /// Which group.
    pub key: &'a GroupKey,
    /// Its pods, the oldest first.
    pub pods: &'a [(&'a PodKey, &'a PodRecord)],
    /// Its Workload, if there is one.
    pub workload: Option<(&'a WorkloadKey, &'a WorkloadRecord)>,
    /// Whether its namespace is being deleted.
    pub namespace_is_terminating: bool,
    /// Whether a Workload of this group that somebody has deleted still has usage.
    pub still_in_use: bool,
    /// Its pods that run and were admitted by a Workload which somebody has deleted.
    pub lost: LostPods,
    /// How many of its pods may run: released, and not gone.
    pub live_pods: usize,
    /// How many pods of each role have succeeded and are gone.
    pub succeeded_and_gone: &'a BTreeMap<String, u32>,
    /// Whether its pods may come again, if it has none.
    pub absence: Absence,
    /// Its priority if this is its oldest pod, or why that can't be known.
    pub priority: &'a dyn Fn(&PodRecord) -> Result<Priority, NoPriority>,
    /// How long it backs off after it has given its quota back, if it has to.
    pub backoff: &'a dyn Fn(&WorkloadRecord) -> Backoff,
    /// Where a pod takes its place that had this gate.
    pub place_of: PlaceOf<'a>,
    /// The present.
    pub now: Present,
}

/// What to do about a group. Which of its pods are released is said by [`crate::plan::pod::releases`].
pub fn plan(situation: &GroupSituation<'_>) -> Plan {
    let GroupSituation {
        pods,
        workload,
        now,
        ..
    } = situation;
    // Nothing can be created there any more.
    if situation.namespace_is_terminating && workload.is_none() {
        return Plan::default();
    }
    let Some((_, first)) = pods.first() else {
        return gone(situation);
    };
    let Some(group) = first.group() else {
        return Plan::default();
    };
    if let Some((key, record)) = workload {
        if record.deleting {
            return Plan::default();
        }
        if record.is_finished() {
            return again(situation, key, record);
        }
        let gone = with_gone(record, situation);
        if let Some(finished) = finished(pods, &gone, group.total) {
            let status = workload::finished(record, &finished, *now);
            return status_write(key, record, status, StatusPurpose::Finish)
                .and_note(workload::finished_note(&finished));
        }
        if record.status.admission.is_some() && gone != record.status.reclaimable_pods {
            let mut status = record.status.clone();
            status.reclaimable_pods = gone;
            return status_write(key, record, status, StatusPurpose::Report);
        }
        if record.is_evicting() {
            return if 0 < situation.live_pods {
                Plan::default()
            } else {
                requeue(key, record, (situation.backoff)(record), *now)
            };
        }
        if record.status.admission.is_some() {
            if let Some(plan) = follow(situation, key, record) {
                return plan;
            }
            return if pods.iter().any(|(_, pod)| pod.is_live()) {
                Plan::default()
            } else {
                Plan::note(Note::normal(
                    event::WAITS_FOR_REPLACEMENT,
                    "Pods of this group have failed or were deleted, and none runs: its quota stays reserved for replacement pods; delete the pods of the group to end it",
                ))
            };
        }
    }
    waiting(situation, first, group)
}

/// A group that waits to be complete, and then for quota.
fn waiting(situation: &GroupSituation<'_>, first: &PodRecord, group: &PodGroup) -> Plan {
    let GroupSituation { pods, workload, .. } = situation;
    // Their quota is free, and it can ask for some again, when they are gone.
    if 0 < situation.lost.count {
        return Plan::note(lost::note(situation.lost));
    }
    let queue = match &first.queue {
        LabelledQueue::Named(queue) => queue,
        LabelledQueue::None => {
            return Plan::note(Note::warning(
                event::NO_QUEUE,
                "The pods of this group name no queue: add the label sluice.dev/queue-name to the oldest pod",
            ));
        }
        LabelledQueue::Invalid(problem) => {
            return Plan::note(Note::warning(
                event::INVALID_QUEUE_NAME,
                problem.to_string(),
            ));
        }
    };
    let total = usize::try_from(group.total).unwrap_or(usize::MAX);
    let present = counted(pods, total).len();
    if present < total && workload.is_none() {
        return incomplete(pods, total);
    }
    let pod_sets = match pod_sets(pods, total) {
        Ok(pod_sets) => pod_sets,
        Err(problem) => {
            return Plan::note(Note::warning(event::INVALID_POD_SETS, problem.to_string()));
        }
    };
    let record = workload.map(|(_, record)| record);
    let place = taken(situation, first, record);
    let priority = (situation.priority)(first);
    let (spec, refused) = match workload::queued_spec(queue, &pod_sets, record, priority, place) {
        Ok(queued) => queued,
        Err(refused) => return Plan::note(refused.note()),
    };
    match workload {
        // The release of a pod may be under way.
        None if situation.still_in_use && 0 < situation.live_pods => Plan::default(),
        None => {
            let waits =
                refused.map_or_else(|| queued(pods, queue, total), |refused| refused.note());
            let object = object(situation.key, first, &counted(pods, total), spec);
            let plan = Plan::write(Write::CreateWorkload(Box::new(object))).and_note(waits);
            match disagreement::told(pods) {
                Some(why) => plan.and_note(Note::warning(
                    event::PODS_DISAGREE,
                    format!("All {total} pods of this group exist, but {DISAGREE}: {why}"),
                )),
                None => plan,
            }
        }
        // Some pods are gone: it keeps its place and can't be admitted until it is complete again.
        Some(_) if present < total => Plan::default(),
        Some((key, record)) if record.spec != spec => update_spec(key, record, spec),
        Some(_) => Plan::default(),
    }
}

/// A group of which pods are missing that were never there.
fn incomplete(pods: &[(&PodKey, &PodRecord)], total: usize) -> Plan {
    let told = format!("Not all {total} pods of this group exist");
    Plan::note(match disagreement::told(pods) {
        Some(why) => Note::warning(
            event::PODS_DISAGREE,
            format!("{told}, and {DISAGREE}: {why}"),
        ),
        None => Note::normal(event::GROUP_INCOMPLETE, told),
    })
}

/// What is told of a group that is queued from now on.
fn queued(pods: &[(&PodKey, &PodRecord)], queue: &str, total: usize) -> Note {
    let waits = if gates_left(pods).is_empty() {
        "waits for quota"
    } else {
        "waits until their scheduling gates are gone, and then for quota"
    };
    let text = format!("All {total} pods exist: {waits} in LocalQueue {queue:?}");
    Note::normal(event::QUEUED, text)
}

/// The Workload of a group that these pods make up, to be created.
///
/// A bare pod may be older than those that a controller makes for the same group: that some are made again counts. It is
/// recorded once. Where a controller's pods take the places of bare ones later, the group is taken for bare until it is
/// evicted, and its next Workload says who makes them. That gains nobody anything: a user may run bare pods anyway, and a
/// group that is kept may not borrow.
fn object(
    key: &GroupKey,
    first: &PodRecord,
    pods: &[(&PodKey, &PodRecord)],
    spec: WorkloadSpec,
) -> Workload {
    let GroupKey { namespace, name } = key;
    // The Workload outlives its pods for a while.
    let owner = pods.iter().find_map(|(_, pod)| pod.owner.as_ref());
    let annotations = owner.map(|owner| {
        let maker = format!("{} {}", owner.kind, owner.name);
        [(PODS_MADE_BY_ANNOTATION.to_owned(), maker)].into()
    });
    let labels = [
        (POD_GROUP_LABEL.to_owned(), name.to_string()),
        (JOB_UID_LABEL.to_owned(), first.uid.to_string()),
    ];
    Workload {
        metadata: ObjectMeta {
            annotations,
            name: Some(group_workload_name(name)),
            namespace: Some(namespace.to_string()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// The place of the group in its queue: that of its oldest pod, also after that one was replaced. A gate may say that
/// it is that of the pod from which it was lifted last.
fn taken(
    situation: &GroupSituation<'_>,
    oldest: &PodRecord,
    record: Option<&WorkloadRecord>,
) -> Option<Timestamp> {
    let recorded = record.and_then(WorkloadRecord::recorded_place);
    let pods = situation.pods.iter();
    let lifted =
        pods.filter_map(|(_, pod)| place_in_queue::known((*pod).into(), situation.place_of));
    let taken = recorded.or(oldest.created);
    taken.into_iter().chain(lifted).max()
}

/// What to do about an admitted group whose pods say something else by now, if they do.
fn follow(
    situation: &GroupSituation<'_>,
    key: &WorkloadKey,
    record: &WorkloadRecord,
) -> Option<Plan> {
    let GroupSituation {
        pods,
        live_pods,
        priority,
        now,
        ..
    } = situation;
    let plan = match changes::change(pods, *live_pods, record, priority)? {
        GroupChange::Evict(cause) => evict(key, record, &cause, *now),
        GroupChange::Priority(spec) => Plan::write(Write::UpdateWorkloadSpec {
            key: key.clone(),
            revision: record.revision,
            spec: Box::new(spec),
        }),
    };
    Some(plan)
}

fn evict(key: &WorkloadKey, record: &WorkloadRecord, cause: &Cause, now: Present) -> Plan {
    let status = workload::evicted(record, cause, now);
    status_write(key, record, status, StatusPurpose::Evict).and_note(cause.note())
}

/// All pods are gone: the Workload goes too. If a controller makes the pods again, an admitted group keeps its quota for a
/// moment, and is evicted then. The Workload of an evicted group stays for a while: its place in the queue, and how often
/// it was evicted, is theirs.
fn gone(situation: &GroupSituation<'_>) -> Plan {
    let GroupSituation { absence, now, .. } = situation;
    let Some((key, record)) = situation.workload.filter(|(_, record)| !record.deleting) else {
        return Plan::default();
    };
    if record.is_made_again && record.is_evicting() && !record.is_finished() {
        return requeue(key, record, (situation.backoff)(record), *now);
    }
    let none_will_come = absence.maker_is_gone || situation.namespace_is_terminating;
    if record.is_made_again && record.holds_quota() && !none_will_come {
        if keeps_quota_for(record, absence.lasted).is_some() {
            return Plan::default();
        }
        return evict(key, record, &Cause::pods_gone(), *now);
    }
    if kept_for(record, *now).is_some() {
        return Plan::default();
    }
    delete_workload(key, record)
}

/// For how long an admitted group that has had no pods for so long keeps its quota still, if it does.
pub fn keeps_quota_for(record: &WorkloadRecord, absent_for: Duration) -> Option<Duration> {
    if !record.is_made_again || !record.holds_quota() || record.is_evicting() {
        return None;
    }
    let left = QUOTA_KEPT_FOR.checked_sub(absent_for)?;
    (!left.is_zero()).then_some(left)
}

/// For how long the Workload of a group without pods stays, if it does.
pub fn kept_for(record: &WorkloadRecord, now: Present) -> Option<Duration> {
    // It gave its quota back then. `Requeued` may have been false before.
    let requeued = record.since(ConditionType::QuotaReserved)?;
    let was_evicted = conditions::is_true(&record.status.conditions, ConditionType::Evicted)
        && record.status.admission.is_none();
    if !record.is_made_again || record.is_finished() || !was_evicted {
        return None;
    }
    let within = if record.spec.active {
        REPLACED_WITHIN
    } else {
        DEACTIVATED_WITHIN
    };
    let until = requeued.checked_add(within).ok()?;
    let left = Duration::try_from(until.duration_since(now)).ok()?;
    (!left.is_zero()).then_some(left)
}

/// The group has ended. If there are pods that have not, it is another group by the same name: it
/// queues for itself.
fn again(situation: &GroupSituation<'_>, key: &WorkloadKey, record: &WorkloadRecord) -> Plan {
    let begins = situation.pods.iter().all(|(_, pod)| pod.is_live());
    if begins {
        return delete_workload(key, record);
    }
    let mut pods = situation.pods.iter();
    if pods.any(|(_, pod)| pod.is_live() && !pod.is_released()) {
        return Plan::note(Note::warning(
            event::GROUP_ENDED,
            "This group has ended, so its new pods are not queued: delete the pods of it that have ended, or create the new pods in a group of another name",
        ));
    }
    Plan::default()
}

/// How many pods of each pod set have succeeded and are gone: as recorded, or more. What still runs is not gone.
fn with_gone(record: &WorkloadRecord, situation: &GroupSituation<'_>) -> Vec<ReclaimablePod> {
    let admission = record.status.admission.iter();
    let sets = admission.flat_map(|admission| &admission.pod_set_assignments);
    let gone = sets.map(|set| {
        let pods = situation.pods.iter().map(|(_, pod)| pod);
        let runs = pods.filter(|pod| pod.is_released() && role_of(pod) == set.name);
        let runs = i32::try_from(runs.count()).unwrap_or(i32::MAX);
        let known = situation.succeeded_and_gone.get(&set.name);
        let known = known.map_or(0, |count| i32::try_from(*count).unwrap_or(i32::MAX));
        let recorded = i32::try_from(record.reclaimed(&set.name)).unwrap_or(i32::MAX);
        ReclaimablePod {
            name: set.name.clone(),
            count: known.min(set.count.saturating_sub(runs)).max(recorded),
        }
    });
    gone.filter(|set| 0 < set.count).collect()
}

/// How the group ended, if it has: all pods have succeeded, or one that can't be replaced has failed
/// and none runs any more.
fn finished(
    pods: &[(&PodKey, &PodRecord)],
    gone: &[ReclaimablePod],
    total: u32,
) -> Option<Finished> {
    let of = |phase: PodPhase| pods.iter().filter(move |(_, pod)| pod.phase == phase);
    let gone = gone
        .iter()
        .map(|set| u32::try_from(set.count).unwrap_or_default());
    let present = u32::try_from(of(PodPhase::Succeeded).count()).unwrap_or(u32::MAX);
    let succeeded = gone.fold(present, u32::saturating_add);
    // Members may disagree about the total.
    let runs = pods.iter().any(|(_, pod)| pod.is_released());
    if total <= succeeded && !runs {
        return Some(Finished {
            succeeded: true,
            message: format!("All {total} pods of the group succeeded"),
        });
    }
    let failed = of(PodPhase::Failed).count();
    let is_final = pods
        .iter()
        .filter_map(|(_, pod)| pod.group())
        .any(|group| !group.is_retriable);
    (0 < failed && is_final && !runs).then(|| Finished {
        succeeded: false,
        message: format!(
            "{failed} of {total} pods of the group failed, and one of them forbids retries (sluice.dev/retriable-in-group: \"false\")"
        ),
    })
}

#[cfg(test)]
mod tests;
