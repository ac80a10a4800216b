//! What to do about a pod: lift the gates that stand for a lifted gate annotation, release it, take
//! it back. Which pods wait for quota alone is `cache/pod.rs::waits_for_quota_alone`; the engine decides which of
//! them are admitted. A pod of a job or group is released as far as what its Workload was admitted with.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use sluice_crds::reasons::event;
use sluice_crds::{
    Admission, MANAGED_LABEL, POD_SET_ANNOTATION, PROPAGATED_GATES_ANNOTATION, PodSetAssignment,
};
use sluice_engine::LocalQueueKey;
use sluice_kinds::gates::{Gate, GateRecord, GateState};
use sluice_kinds::patch::{Lifting, lifting_patch};
use sluice_kinds::pod::{PodAdmission, PodMode};
use sluice_kinds::template::Placement;
use sluice_kinds::view::LabelledQueue;

use crate::cache::{JobRecord, PodKey, PodRecord, Subject, Uid};
use crate::plan::gates::action::{self, GateAction, GateNow};
use crate::plan::group;
use crate::plan::place_in_queue;
use crate::plan::writes::plan_and_notes::{Note, Present};
use crate::plan::writes::write::{PodPurpose, Write};
use crate::process::hashing::HashSet;

/// The gates that hold a pod by the annotations of the object that it belongs to, or its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldBy {
    /// Nobody knows yet: whom it belongs to is being looked up, or can't be found out.
    Unknown,
    /// All of them: an annotation can't be read.
    All,
    /// These scheduling gates.
    Gates(BTreeSet<String>),
}

impl HeldBy {
    /// What `gates` mean for pods.
    pub fn of(gates: &GateState) -> Self {
        match gates {
            GateState::Invalid(_) => Self::All,
            gates => Self::Gates(
                gates
                    .names()
                    .map(|gate: &Gate| gate.scheduling_gate().into_owned())
                    .collect(),
            ),
        }
    }
}

/// The gates that hold a pod without a controller: those in its own annotations; and all that stand for gates which it
/// never had itself, and so came down from a controller that it has lost. Nobody can lift these any more.
pub fn held_by_itself(pod: &PodRecord) -> HeldBy {
    if pod.gate_record.is_deactivated() {
        return HeldBy::All;
    }
    let HeldBy::Gates(mut held) = HeldBy::of(&pod.gates) else {
        return HeldBy::All;
    };
    held.extend(came_down(pod).into_iter().map(ToOwned::to_owned));
    HeldBy::Gates(held)
}

/// The gates that hold a pod by the annotations of `job`, to which it belongs. What nobody has judged may list gates of
/// others in its templates, which are not Sluice's to lift: these hold the pod too. `waits_by_pods` if only the metadata
/// of its pods is in the object, where a list stays that it once had.
pub fn held_by_job(pod: &PodRecord, job: &JobRecord, waits_by_pods: bool) -> HeldBy {
    let HeldBy::Gates(mut held) = HeldBy::of(&job.gates) else {
        return HeldBy::All;
    };
    held.extend(
        forged(pod, job, waits_by_pods)
            .into_iter()
            .map(ToOwned::to_owned),
    );
    HeldBy::Gates(held)
}

/// The scheduling gates that a pod lists, and that `job` has never had.
fn forged<'a>(pod: &'a PodRecord, job: &JobRecord, waits_by_pods: bool) -> BTreeSet<&'a str> {
    let has_passed = job.gate_record.lifted_from(&job.uid).next().is_some();
    let is_judged = job.queue != LabelledQueue::None || job.is_held() || has_passed;
    if is_judged && !waits_by_pods {
        return BTreeSet::new();
    }
    let own = job.gates.scheduling_gates();
    let never_lifted = never_lifted(pod, &job.gate_record, &job.uid).into_iter();
    never_lifted.filter(|gate| !own.contains(*gate)).collect()
}

/// That a pod waits for gates that its object lists and has never had, if so.
pub fn forged_gates(pod: &PodRecord, job: &JobRecord, waits_by_pods: bool) -> Option<Note> {
    let forged = forged(pod, job, waits_by_pods);
    let forged: Vec<&str> = forged.intersection(&listed(pod)).copied().collect();
    (!forged.is_empty()).then(|| {
        let gates = forged.join(", ");
        Note::warning(
            event::GATES_LEFT,
            format!(
                "The pod lists gates that its object never had ({gates}), and Sluice does not lift them: remove the annotation {PROPAGATED_GATES_ANNOTATION} from the pod template"
            ),
        )
    })
}

/// The scheduling gates in the spec of a pod, but for Sluice's own.
fn listed(pod: &PodRecord) -> BTreeSet<&str> {
    pod.other_gates.iter().map(|gate| &**gate).collect()
}

/// The scheduling gates of a pod that stand for gates which it never had itself.
fn came_down(pod: &PodRecord) -> BTreeSet<&str> {
    never_lifted(pod, &pod.gate_record, &pod.uid)
}

/// The gates that a pod lists, but for those that were lifted from the object with this record.
fn never_lifted<'a>(pod: &'a PodRecord, record: &GateRecord, uid: &str) -> BTreeSet<&'a str> {
    let lifted = record.lifted_from(uid);
    let lifted = lifted.filter_map(|lifted| Gate::parse(&lifted.gate, "").ok());
    let lifted: BTreeSet<String> = lifted
        .map(|gate| gate.scheduling_gate().into_owned())
        .collect();
    let all = pod.propagated.iter().map(|gate| &**gate);
    all.filter(|gate| !lifted.contains(*gate)).collect()
}

/// That a pod without a controller is held for good, if so: by gates of the controller that it has lost.
pub fn left_gated(pod: &PodRecord) -> Option<Note> {
    if pod.owner.is_some() || !pod.is_gated_elsewhere() {
        return None;
    }
    let HeldBy::Gates(own) = HeldBy::of(&pod.gates) else {
        return None;
    };
    let listed = listed(pod);
    let left: Vec<_> = came_down(pod)
        .into_iter()
        .filter(|gate| !own.contains(*gate) && listed.contains(gate))
        .collect();
    (!left.is_empty()).then(|| {
        Note::warning(
            event::GATES_LEFT,
            format!(
                "The pod keeps gates of an object that it does not belong to any more ({}), and nobody can lift them: delete the pod, and create it again if it is still needed",
                left.join(", ")
            ),
        )
    })
}

/// The write that removes from a pod the gates that stand for gates which are not in the annotation
/// any more. Never touches a gate that was not put there for the annotation.
pub fn lift(key: &PodKey, pod: &PodRecord, held_by: &HeldBy) -> Option<Write> {
    let HeldBy::Gates(held_by) = held_by else {
        return None;
    };
    if !pod.is_gated_elsewhere() {
        return None;
    }
    let listed: BTreeSet<&str> = pod.propagated.iter().map(|name| &**name).collect();
    let gates: Vec<&str> = pod
        .other_gates
        .iter()
        .filter(|gate| listed.contains(&***gate) && !held_by.contains(&***gate))
        .map(|gate| &**gate)
        .collect();
    (!gates.is_empty()).then(|| patch(key, pod, gates, None, None, PodPurpose::LiftGates))
}

/// What the Gates of its own gates ask for about a pod, if anything: the write, and what to tell.
pub fn act_on_gates(
    key: &PodKey,
    pod: &PodRecord,
    gate: &dyn Fn(&Gate) -> Option<GateNow>,
    now: Present,
) -> Option<(Write, Vec<Note>)> {
    let place_of = |name: &Gate| place_in_queue::of(gate(name).as_ref());
    let is_queued = pod.mode != PodMode::Child && pod.queue_gate.is_some();
    let action = if pod.is_held_by_gates() {
        action::act(pod.into(), gate, now)
    } else if is_queued {
        // Before its other gates are lifted, and it can be admitted.
        place_in_queue::complete(pod.into(), &place_of, now)
    } else {
        None
    };
    let action = action.or_else(|| GateAction::without_labels(&pod.stale_labels))?;
    let mut metadata = action.metadata(&pod.revision.0.to_string());
    metadata.insert("uid".to_owned(), json!(&*pod.uid));
    let write = Write::PatchPod {
        key: key.clone(),
        patch: json!({"metadata": metadata}),
        purpose: PodPurpose::KeepGates,
    };
    Some((write, action.notes))
}

/// The write that admits a pod by itself: its queue gate goes, the flavors' placement comes, and the
/// record of its usage.
pub fn admit(
    key: &PodKey,
    pod: &PodRecord,
    admission: &PodAdmission,
    placement: &Placement,
) -> Option<Write> {
    let gate = pod.queue_gate.as_deref()?;
    let purpose = PodPurpose::Admit;
    Some(patch(
        key,
        pod,
        vec![gate],
        Some(placement),
        Some(admission),
        purpose,
    ))
}

/// The write that records what a pod uses that runs: by an admission of an ended leader, or without one.
pub fn take_over(key: &PodKey, pod: &PodRecord, admission: &PodAdmission) -> Write {
    patch(
        key,
        pod,
        Vec::new(),
        None,
        Some(admission),
        PodPurpose::Admit,
    )
}

/// The write that releases a pod of an admitted job or group.
pub fn release(
    key: &PodKey,
    pod: &PodRecord,
    admission: &PodAdmission,
    assignment: &PodSetAssignment,
) -> Option<Write> {
    let gate = pod.queue_gate.as_deref()?;
    let purpose = PodPurpose::Release;
    let placement = placement(assignment);
    let mut write = patch(
        key,
        pod,
        vec![gate],
        Some(&placement),
        Some(admission),
        purpose,
    );
    if let Write::PatchPod { patch, .. } = &mut write
        && let Some(annotations) = patch.pointer_mut("/metadata/annotations")
        && let Some(annotations) = annotations.as_object_mut()
    {
        // The pods of a group are told apart by it once they carry what their flavors added.
        annotations.insert(POD_SET_ANNOTATION.to_owned(), json!(assignment.name));
    }
    Some(write)
}

/// The write that releases a pod of an object that names no queue any more: it needs no quota.
pub fn release_unqueued(key: &PodKey, pod: &PodRecord) -> Option<Write> {
    let gate = pod.queue_gate.as_deref()?;
    let purpose = PodPurpose::Release;
    Some(patch(key, pod, vec![gate], None, None, purpose))
}

/// The write that gives a pod the label back that it is watched by.
pub fn relabel(key: &PodKey, pod: &PodRecord) -> Write {
    Write::PatchPod {
        key: key.clone(),
        patch: json!({"metadata": {"uid": &*pod.uid, "labels": {MANAGED_LABEL: "true"}}}),
        purpose: PodPurpose::Relabel,
    }
}

/// The write that deletes a pod.
pub fn delete(key: &PodKey, pod: &PodRecord, purpose: PodPurpose) -> Write {
    Write::DeletePod {
        key: key.clone(),
        uid: pod.uid.to_string(),
        purpose,
    }
}

fn patch(
    key: &PodKey,
    pod: &PodRecord,
    gates: Vec<&str>,
    placement: Option<&Placement>,
    admission: Option<&PodAdmission>,
    purpose: PodPurpose,
) -> Write {
    let own = pod.asks.as_ref().as_ref().ok().map(|set| &set.placement);
    let lifting = Lifting {
        uid: &pod.uid,
        gates,
        add: own.zip(placement.filter(|placement| !placement.is_empty())),
        admission,
        resource_version: &pod.revision.0.to_string(),
    };
    Write::PatchPod {
        key: key.clone(),
        patch: lifting_patch(&lifting),
        purpose,
    }
}

/// A pod of a job or group, as far as its release is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Where it is.
    pub key: &'a PodKey,
    /// The pod.
    pub pod: &'a PodRecord,
    /// The pod set that it belongs to.
    pub pod_set: &'a str,
    /// Whether a write for it is under way, or rests after a failure.
    pub is_busy: bool,
    /// Whether the write under way releases it: it counts as released.
    pub is_leaving: bool,
}

/// The pods that may be released now: the oldest first, of each pod set as many as were admitted.
/// `used_up` says how many places of a set are taken by pods that have done their part.
pub fn releases<'a>(
    members: &[Member<'a>],
    admission: &'a Admission,
    used_up: impl Fn(&str) -> usize,
) -> Vec<(Member<'a>, &'a PodSetAssignment)> {
    let mut chosen = Vec::new();
    for assignment in &admission.pod_set_assignments {
        let of_set = || members.iter().filter(|m| m.pod_set == assignment.name);
        let count = usize::try_from(assignment.count).unwrap_or(0);
        let taken = of_set()
            .filter(|member| member.pod.is_released() || member.is_leaving)
            .count();
        let unused = count
            .saturating_sub(taken)
            .saturating_sub(used_up(&assignment.name));
        let mut waiting: Vec<&Member<'a>> = of_set()
            .filter(|member| member.pod.waits_for_quota_alone() && !member.is_leaving)
            .collect();
        waiting.sort_by(|one, other| {
            (one.pod.created, &one.pod.uid).cmp(&(other.pod.created, &other.pod.uid))
        });
        // A pod that backs off after a failure keeps its place, or another would take it meanwhile and
        // there would be one too many.
        let next = waiting.into_iter().take(unused);
        let ready = next.filter(|member| !member.is_busy);
        chosen.extend(ready.map(|member| (*member, assignment)));
    }
    chosen
}

/// Pods of an admitted job for which there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodsWaiting {
    /// How many.
    pub count: usize,
    /// Since when the oldest of them exists.
    pub since: Option<Timestamp>,
}

/// The pods that wait behind Sluice's gate alone and are not released now, if there are some.
pub fn waiting(
    members: &[Member<'_>],
    releases: &[(Member<'_>, &PodSetAssignment)],
) -> Option<PodsWaiting> {
    let released: HashSet<&Uid> = releases.iter().map(|(member, _)| &member.pod.uid).collect();
    let waiting = members.iter().filter(|member| {
        let waits = member.pod.waits_for_quota_alone() && !member.is_leaving && !member.is_busy;
        waits && !released.contains(&member.pod.uid)
    });
    let since: Vec<_> = waiting.map(|member| member.pod.exists_since()).collect();
    (!since.is_empty()).then(|| PodsWaiting {
        count: since.len(),
        since: since.into_iter().flatten().min(),
    })
}

/// What the flavors of `assignment` add to a pod.
fn placement(assignment: &PodSetAssignment) -> Placement {
    Placement {
        node_selector: assignment.node_selector.clone(),
        tolerations: assignment.tolerations.clone(),
    }
}

/// The LocalQueue of a pod that is admitted by itself. One that names none any more keeps what it was
/// admitted with until it has ended.
pub fn queue_of(pod: &PodRecord) -> Option<&str> {
    match &pod.queue {
        LabelledQueue::Named(queue) => Some(queue),
        LabelledQueue::None | LabelledQueue::Invalid(_) => {
            let has_usage = pod.queue_gate.is_none() && pod.recorded_admission().is_some();
            has_usage.then_some("")
        }
    }
}

/// The LocalQueue of a pod, as [`queue_of`] names it.
pub fn local_queue_of(key: &PodKey, pod: &PodRecord) -> Option<LocalQueueKey> {
    Some(LocalQueueKey::new(key.namespace.clone(), queue_of(pod)?))
}

/// The pod set of its job that a pod belongs to, or the role that it plays in its group.
pub fn pod_set_of(pod: &PodRecord, subject: &Subject) -> Option<Arc<str>> {
    match subject {
        Subject::Group(_) => Some(group::role_of(pod).into()),
        Subject::Job(_) | Subject::Pod(_) => pod.pod_set.clone(),
    }
}

#[cfg(test)]
mod tests;
