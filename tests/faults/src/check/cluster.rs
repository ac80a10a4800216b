//! The cluster as it was at one revision, and how its objects are read: by JSON pointer, so that no
//! type of Sluice's own code can hide what is stored.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, ADMITTED_ANNOTATION, JOB_UID_LABEL, QUEUE_GATE, QUEUE_NAME_LABEL,
    Quantity,
};

use super::terms::{latest_term, signed_in, term_of};
use crate::history::{Key, Kind, Revision};

/// The annotations that hold a job before it is queued.
const GATE_ANNOTATIONS: [&str; 2] = [
    "kueue.x-k8s.io/scheduling-gated-by",
    "kueue.x-k8s.io/admission-gated-by",
];

/// All objects that checks look at.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    objects: BTreeMap<Key, Value>,
    /// The term of who leads, or was the last to do so, as an admission names it; none before anybody has.
    term: Option<String>,
    /// Whether that leader has admitted something.
    has_decided: bool,
    /// Of the late ones, those that came in before it did, or before it led. It may have listed them before its
    /// first decision: then they count, and it may release them.
    may_count: BTreeSet<String>,
    /// The UIDs of Workloads, and of pods that are admitted by themselves, whose admission came in when the term of
    /// its leader had ended, or may have done so for all that the present leader can know. It counts once the present
    /// leader has written its own term into it. Such a pod may run until the leader has seen it: its admission is its
    /// release.
    late: BTreeSet<String>,
    /// Whether the object of the last revision was among them before it.
    was_late: bool,
    /// The Workload whose late admission counts since the last revision.
    taken_over: Option<Value>,
    /// Workloads with quota that are gone, as somebody has deleted them or the garbage collector takes them
    /// with their jobs: what they held counts as usage until the pods of the job are gone.
    outlived: Vec<Value>,
    /// The jobs of those that were gone before the present term began. No leader that begins then can know of them.
    unknown_to_leader: BTreeSet<String>,
}

impl Cluster {
    /// Goes one revision on. Returns the object as it was before.
    pub(super) fn apply(&mut self, revision: &Revision) -> Option<Value> {
        let mut is_early = false;
        if let Some(object) = &revision.object {
            match revision.key.kind {
                Kind::Lease => match term_of(object) {
                    Some(term) => {
                        if self.term.as_ref() != Some(&term) {
                            self.has_decided = false;
                            self.may_count.extend(self.late.iter().cloned());
                            let gone = self.outlived.iter().map(job_of_workload);
                            self.unknown_to_leader = gone.map(str::to_owned).collect();
                        }
                        self.term = Some(term);
                        self.doubt_earlier_terms();
                    }
                    None => self.has_decided = false,
                },
                Kind::Workload => {
                    let term =
                        |workload: &Value| text(workload, "/status/admission/term").to_owned();
                    is_early = self.note_term(revision, object, term);
                }
                Kind::Pod => {
                    // The admission of a pod is its release, so it stays counted; but it tells of a later term.
                    is_early = self.note_term(revision, object, pod_signed_in);
                }
                Kind::Job => self.note_release(object),
                Kind::ClusterQueue | Kind::Cohort => {}
            }
        } else if revision.key.kind == Kind::Lease {
            // Whatever comes in now the next leader may have seen before it decides anything.
            self.has_decided = false;
        }
        let before = match &revision.object {
            Some(object) => self.objects.insert(revision.key.clone(), object.clone()),
            None => self.objects.remove(&revision.key),
        };
        // The leader may have listed the job as it is now.
        if is_early || revision.key.kind == Kind::Job {
            self.doubt_earlier_terms();
        }
        if let (None, Kind::Workload, Some(workload)) =
            (&revision.object, revision.key.kind, &before)
            && holds_quota(workload)
        {
            // What an earlier Workload of the job held was free before this one held anything.
            let job = job_of_workload(workload);
            self.outlived.retain(|other| job_of_workload(other) != job);
            self.unknown_to_leader.remove(job);
            self.outlived.push(workload.clone());
        }
        before
    }

    /// Workloads that are gone while pods of their jobs run, and how many pods.
    pub(super) fn outlived(&self) -> impl Iterator<Item = (&Value, i128)> {
        self.outlived.iter().filter_map(|workload| {
            // An owner that left its dependents is not named any more.
            let job = job_of_workload(workload);
            if self.holds_quota(job) || self.unknown_to_leader.contains(job) {
                return None;
            }
            let live = self.pods_of(job).filter(|pod| is_live(pod));
            let live = i128::try_from(live.count()).unwrap_or(i128::MAX);
            (0 < live).then_some((workload, live))
        })
    }

    /// Whether what this Workload or pod was admitted with came in late, and does not count yet.
    pub(super) fn is_late(&self, object: &Value) -> bool {
        self.late.contains(uid_of(object))
    }

    /// Whether the object of the last revision was late before it.
    pub(super) fn was_late(&self) -> bool {
        self.was_late
    }

    /// Before its first decision, a leader can't tell whether the one before it has seen an admission of a still earlier
    /// term. It decides again about those whose job was not released.
    fn doubt_earlier_terms(&mut self) {
        if self.has_decided {
            return;
        }
        let admitted: Vec<&Value> = self.of(Kind::Workload).filter(|w| holds_quota(w)).collect();
        let workloads = admitted.iter().map(|workload| signed_in(workload));
        // The usage of a pod may be recorded without a term.
        let pods: Vec<String> = self.of(Kind::Pod).map(pod_signed_in).collect();
        let pods = pods.iter().filter(|term| !term.is_empty());
        let terms = workloads.chain(pods.map(String::as_str));
        let own = self.term.as_deref().unwrap_or_default();
        let Some(latest) = latest_term(own, terms) else {
            return;
        };
        let is_doubtful = |workload: &&&Value| {
            let uid = job_of_workload(workload);
            let job = self.by_uid(Kind::Job, uid);
            signed_in(workload) != latest
                && !is(workload, "Evicted")
                && job.is_some_and(has_stopped)
                && !self.pods_of(uid).any(is_live)
        };
        let doubtful = admitted.iter().filter(is_doubtful);
        let doubtful: Vec<String> = doubtful.map(|w| uid_of(w).to_owned()).collect();
        self.may_count.extend(doubtful.iter().cloned());
        self.late.extend(doubtful);
    }

    /// Notes the term in which a Workload or a pod was admitted. Returns whether it came in late and before the present
    /// leader has decided anything.
    fn note_term(
        &mut self,
        revision: &Revision,
        object: &Value,
        term_of: impl Fn(&Value) -> String,
    ) -> bool {
        let uid = uid_of(object).to_owned();
        self.was_late = self.late.contains(&uid);
        let term = term_of(object);
        let before = self.objects.get(&revision.key).map(term_of);
        if term.is_empty() {
            self.late.remove(&uid);
            self.may_count.remove(&uid);
            return false;
        }
        if before.as_ref() == Some(&term) {
            return false;
        }
        // One that is signed with no term, or before anybody has led, is as good as it says.
        let is_present = self.term.as_ref().is_none_or(|present| *present == term);
        self.has_decided |= is_present && self.term.is_some();
        if is_present {
            self.late.remove(&uid);
            self.may_count.remove(&uid);
            return false;
        }
        if self.has_decided {
            self.may_count.remove(&uid);
        } else {
            self.may_count.insert(uid.clone());
        }
        self.late.insert(uid);
        !self.has_decided
    }

    /// What the leader has released it has taken over as it was.
    fn note_release(&mut self, job: &Value) {
        self.taken_over = None;
        let workload = self.workloads_of(uid_of(job)).find(|workload| {
            let uid = uid_of(workload);
            self.late.contains(uid) && self.may_count.contains(uid) && holds_quota(workload)
        });
        if let Some(workload) = workload.filter(|_| is_released(job)).cloned() {
            self.late.remove(uid_of(&workload));
            self.taken_over = Some(workload);
        }
    }

    /// The Workload whose late admission counts since the Job of the last revision was released.
    pub(super) fn taken_over(&self) -> Option<&Value> {
        self.taken_over.as_ref()
    }

    /// The objects of a kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter();
        objects
            .filter(move |(key, _)| key.kind == kind)
            .map(|(_, object)| object)
    }

    /// The object of a kind with this UID.
    pub(super) fn by_uid(&self, kind: Kind, uid: &str) -> Option<&Value> {
        self.of(kind).find(|object| uid_of(object) == uid)
    }

    /// The cluster object of a kind with this name.
    pub(super) fn by_name(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.of(kind).find(|object| name_of(object) == name)
    }

    /// The Workloads of the job with this UID: one, if all is well.
    pub(super) fn workloads_of(&self, job: &str) -> impl Iterator<Item = &Value> {
        self.of(Kind::Workload)
            .filter(move |workload| job_of_workload(workload) == job)
    }

    /// Whether a Workload of the job with this UID holds quota.
    pub(super) fn holds_quota(&self, job: &str) -> bool {
        let mut workloads = self.workloads_of(job);
        workloads.any(|workload| {
            let may_count = self.may_count.contains(uid_of(workload));
            holds_quota(workload) && (may_count || !self.is_late(workload))
        })
    }

    /// Whether the job with this UID had quota when somebody deleted its Workload, and it has no other one yet:
    /// its release may be on its way.
    pub(super) fn had_quota(&self, job: &str) -> bool {
        let mut outlived = self.outlived.iter();
        outlived.any(|workload| job_of_workload(workload) == job)
            && self.workloads_of(job).next().is_none()
    }

    /// The pods of the job with this UID. The label that the job's controller gives them stays on
    /// those that were orphaned.
    pub(super) fn pods_of(&self, job: &str) -> impl Iterator<Item = &Value> {
        self.of(Kind::Pod).filter(move |pod| job_of(pod) == job)
    }
}

/// The text at a JSON pointer; empty when there is none.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// The name of an object.
pub(super) fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The UID of an object.
pub(super) fn uid_of(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The UID of the first owner of an object: of a Workload, its job.
pub(super) fn owner_of(object: &Value) -> &str {
    text(object, "/metadata/ownerReferences/0/uid")
}

/// The UID of the job of a Workload: the label stays when the garbage collector takes the owner away.
pub(super) fn job_of_workload(workload: &Value) -> &str {
    annotation_or_label(workload, "labels", JOB_UID_LABEL).unwrap_or_else(|| owner_of(workload))
}

/// The UID of the job whose pod this is.
pub(super) fn job_of(pod: &Value) -> &str {
    match annotation_or_label(pod, "labels", "batch.kubernetes.io/controller-uid") {
        Some(uid) => uid,
        None => owner_of(pod),
    }
}

/// The LocalQueue that an object names.
pub(super) fn queue_of(object: &Value) -> Option<&str> {
    annotation_or_label(object, "labels", QUEUE_NAME_LABEL)
}

/// Whether each pod of this job is admitted by itself.
pub(super) fn is_per_pod(job: &Value) -> bool {
    annotation_or_label(job, "annotations", ADMISSION_ANNOTATION) == Some("PerPod")
}

/// The gates that hold a job before it is queued.
pub(super) fn gates_of(job: &Value) -> BTreeSet<&str> {
    let texts = GATE_ANNOTATIONS.iter();
    let texts = texts.filter_map(|key| annotation_or_label(job, "annotations", key));
    texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect()
}

/// Whether the condition of this type is True.
pub(super) fn is(object: &Value, type_: &str) -> bool {
    list(object, "/status/conditions").any(|c| c["type"] == type_ && c["status"] == "True")
}

/// Whether a job has ended, well or not.
pub(super) fn has_ended(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

/// Whether it is decided how a job ends: it makes no more pods.
pub(super) fn is_decided(job: &Value) -> bool {
    is(job, "SuccessCriteriaMet") || is(job, "FailureTarget")
}

/// Whether a job is suspended, and its controller has seen that.
fn has_stopped(job: &Value) -> bool {
    job.pointer("/spec/suspend") == Some(&Value::Bool(true))
        && (is(job, "Suspended") || is_decided(job))
}

/// Whether a job has been released: neither suspended nor ended nor being deleted.
pub(super) fn is_released(job: &Value) -> bool {
    job.pointer("/spec/suspend") != Some(&Value::Bool(true))
        && !has_ended(job)
        && job.pointer("/metadata/deletionTimestamp").is_none()
}

/// Whether a Workload holds quota: it is admitted and has not finished.
pub(super) fn holds_quota(workload: &Value) -> bool {
    workload
        .pointer("/status/admission")
        .is_some_and(Value::is_object)
        && !is(workload, "Finished")
}

/// The names of the scheduling gates of a pod or pod template.
pub(super) fn pod_gates(pod: &Value) -> BTreeSet<&str> {
    list(pod, "/spec/schedulingGates")
        .map(|gate| text(gate, "/name"))
        .collect()
}

/// Whether a pod may use a node: it waits at no gate and has not ended.
pub(super) fn is_live(pod: &Value) -> bool {
    !["Succeeded", "Failed"].contains(&text(pod, "/status/phase")) && pod_gates(pod).is_empty()
}

/// Whether a pod was told to end.
pub(super) fn is_terminating(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some()
}

/// The record of a pod that is admitted by itself and has usage: it has one, is past Sluice's gate, and
/// has not ended.
pub(super) fn own_admission(pod: &Value) -> Option<Value> {
    let record = annotation_or_label(pod, "annotations", ADMITTED_ANNOTATION)?;
    let has_ended = ["Succeeded", "Failed"].contains(&text(pod, "/status/phase"));
    let has_usage = !has_ended && !pod_gates(pod).contains(QUEUE_GATE);
    serde_json::from_str(record).ok().filter(|_| has_usage)
}

/// The term in which a pod was admitted by itself; empty when there is none.
fn pod_signed_in(pod: &Value) -> String {
    let record = own_admission(pod).unwrap_or_default();
    text(&record, "/term").to_owned()
}

/// What the pods of a template ask for of each resource, as long as nothing but the requests of
/// containers counts. None where more does: init containers, overhead, pod-level resources.
pub(super) fn plain_requests(pod: &Value) -> Option<BTreeMap<&str, i128>> {
    let more = ["/spec/initContainers", "/spec/overhead", "/spec/resources"];
    if more.iter().any(|pointer| pod.pointer(pointer).is_some()) {
        return None;
    }
    let mut sum: BTreeMap<&str, i128> = BTreeMap::new();
    for container in list(pod, "/spec/containers") {
        let requests = container
            .pointer("/resources/requests")
            .and_then(Value::as_object);
        for (resource, amount) in requests.into_iter().flatten() {
            *sum.entry(resource).or_default() += nanos(amount);
        }
    }
    Some(sum)
}

/// A quantity in nano-units; 0 when there is none.
pub(super) fn nanos(quantity: &Value) -> i128 {
    let text = match quantity {
        Value::Null => return 0,
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Quantity(text).nanos().unwrap_or(i128::MAX / 4)
}

/// A label or an annotation.
fn annotation_or_label<'a>(object: &'a Value, which: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(which)?.get(key)?.as_str()
}
