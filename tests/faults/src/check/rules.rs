//! `AdmittedFirst`, `GatesHold`, `NoMorePods` and `FreedAtTheEnd`: nothing is released without an admission,
//! nothing goes on while a gate is left, no more pods run than were admitted, and quota is freed only when
//! the work has ended. Each rule looks at one change and at the cluster as it is after it.

use serde_json::Value;
use sluice_crds::QUEUE_GATE;

use super::cluster::{
    Cluster, gates_of, has_ended, holds_quota, is_decided, is_live, is_per_pod, is_released,
    is_terminating, job_of, job_of_workload, list, name_of, own_admission, owner_of, pod_gates,
    queue_of, text, uid_of,
};
use crate::history::Kind;

/// A queued job that was just released has quota.
pub(super) fn released_without_admission(
    before: Option<&Value>,
    job: &Value,
    cluster: &Cluster,
) -> Option<String> {
    if !is_just_released(before, job) {
        return None;
    }
    let uid = uid_of(job);
    let is_admitted = cluster.holds_quota(uid) || cluster.had_quota(uid);
    (!is_admitted).then(|| "it was released, and holds no quota".to_owned())
}

/// A job that Sluice has just released may run no more pods at a time than it was admitted with: the release is of the
/// job as it was read for it.
pub(super) fn released_with_more_pods(
    before: Option<&Value>,
    job: &Value,
    cluster: &Cluster,
) -> Option<String> {
    // One that is decided to end makes no pods: it is released so that it can.
    if !is_just_released(before, job) || is_decided(job) {
        return None;
    }
    let mut workloads = cluster.workloads_of(uid_of(job));
    let admitted = admitted_pods(workloads.find(|workload| holds_quota(workload))?);
    let number = |path: &str| job.pointer(path).and_then(Value::as_i64);
    let at_a_time = number("/spec/parallelism").unwrap_or(1);
    let succeeded = number("/status/succeeded").unwrap_or(0);
    let left = number("/spec/completions").map(|completions| completions - succeeded);
    let pods = left.map_or(at_a_time, |left| left.min(at_a_time));
    (admitted < pods).then(|| format!("it was released to run {pods} pods, {admitted} have quota"))
}

/// Whether a queued job that is released as a whole was not released before.
fn is_just_released(before: Option<&Value>, job: &Value) -> bool {
    let was_released = before.is_some_and(is_released);
    queue_of(job).is_some() && !is_per_pod(job) && is_released(job) && !was_released
}

/// A pod that has just lost the queue gate was admitted: by its own record, or with its job or group.
pub(super) fn ungated_without_admission(
    before: Option<&Value>,
    pod: &Value,
    cluster: &Cluster,
) -> Option<String> {
    let was_gated = before.is_some_and(|pod| pod_gates(pod).contains(QUEUE_GATE));
    if !was_gated || pod_gates(pod).contains(QUEUE_GATE) || own_admission(pod).is_some() {
        return None;
    }
    let owners = list(pod, "/metadata/ownerReferences").map(|owner| text(owner, "/uid"));
    let mut subjects = owners.chain([uid_of(pod)]);
    let is_admitted =
        subjects.any(|uid| cluster.holds_quota(uid)) || in_admitted_group(pod, cluster);
    (!is_admitted).then(|| "it lost the queue gate, and has no usage".to_owned())
}

/// While a gate is left: suspended, or behind gates; and no Workload.
pub(super) fn passed_a_gate(job: &Value, cluster: &Cluster) -> Option<String> {
    let gates = gates_of(job);
    if gates.is_empty() || has_ended(job) {
        return None;
    }
    if let Some(workload) = cluster.workloads_of(uid_of(job)).next() {
        return Some(format!(
            "held by {gates:?}, and there is Workload {}",
            name_of(workload)
        ));
    }
    let has_gated_pods = job
        .pointer("/spec/template")
        .is_some_and(|template| !pod_gates(template).is_empty());
    if is_released(job) && !has_gated_pods {
        return Some(format!("held by {gates:?}, and not suspended"));
    }
    let live = cluster
        .pods_of(uid_of(job))
        .find(|pod| is_live(pod) && !is_terminating(pod));
    live.map(|pod| format!("held by {gates:?}, and pod {} is not", name_of(pod)))
}

/// No more pods of a job are past their gates than its Workload has quota for. Those that were told to
/// end don't count: their successors may be there already.
pub(super) fn too_many_pods(job: &str, cluster: &Cluster) -> Option<String> {
    let workload = cluster
        .workloads_of(job)
        .find(|workload| holds_quota(workload))?;
    let live = cluster
        .pods_of(job)
        .filter(|pod| is_live(pod) && !is_terminating(pod));
    let live = i64::try_from(live.count()).unwrap_or(i64::MAX);
    let admitted = pods_with_quota(workload);
    (admitted < live).then(|| format!("{live} pods are past their gates, {admitted} have quota"))
}

/// When quota is given back, wholly or for some pods, the work has ended: no pod of it is left, those
/// terminating pods included, and the job can't make any. `is_deleted` asks for those whose job is gone,
/// or for the others.
pub(super) fn freed_too_early(
    before: Option<&Value>,
    workload: Option<&Value>,
    cluster: &Cluster,
    is_deleted: bool,
) -> Option<String> {
    let before = before.filter(|workload| holds_quota(workload))?;
    let job = job_of_workload(before);
    if cluster.by_uid(Kind::Job, job).is_none() != is_deleted {
        return None;
    }
    // The garbage collector takes the Workload with the job. What it held stays in use: see `WithinQuota`.
    if is_deleted && workload.is_none() {
        return None;
    }
    let left = workload
        .filter(|workload| holds_quota(workload))
        .map_or(0, pods_with_quota);
    if pods_with_quota(before) <= left {
        return None;
    }
    let mut live = cluster.pods_of(job).filter(|pod| is_live(pod));
    let count = i64::try_from(live.by_ref().count()).unwrap_or(i64::MAX);
    if left < count {
        return Some(format!("quota for {left} pods is left, and {count} run"));
    }
    let found = cluster.by_uid(Kind::Job, job);
    // The Job controller makes no more pods once it has decided how a Job ends, and writes the end only after that.
    let goes_on = left == 0
        && found.is_some_and(|job| is_released(job) && !is_decided(job) && !is_per_pod(job));
    goes_on.then(|| "its quota was freed, and its job goes on".to_owned())
}

/// A job has one Workload at most.
pub(super) fn second_workload(workload: &Value, cluster: &Cluster) -> Option<String> {
    let job = owner_of(workload);
    let names: Vec<_> = cluster.workloads_of(job).map(name_of).collect();
    (!job.is_empty() && 1 < names.len()).then(|| format!("one job has {names:?}"))
}

/// An admission is never exchanged for another one: it is taken back first. It may shrink.
pub(super) fn admitted_anew(before: Option<&Value>, workload: &Value) -> Option<String> {
    let before = before.filter(|workload| holds_quota(workload))?;
    if !holds_quota(workload) {
        return None;
    }
    let place = |workload: &Value| {
        let queue = text(workload, "/status/admission/clusterQueue").to_owned();
        let sets = list(workload, "/status/admission/podSetAssignments");
        let flavors: Vec<_> = sets.map(|set| set["flavors"].clone()).collect();
        (queue, flavors)
    };
    let (was, is) = (place(before), place(workload));
    if was != is {
        return Some(format!("admitted with {was:?}, then with {is:?}"));
    }
    let (was, is) = (admitted_pods(before), admitted_pods(workload));
    (was < is).then(|| format!("admitted with {was} pods, then with {is}"))
}

/// The job of a pod, where it is known.
pub(super) fn job_uid(pod: &Value) -> Option<&str> {
    Some(job_of(pod)).filter(|uid| !uid.is_empty())
}

fn in_admitted_group(pod: &Value, cluster: &Cluster) -> bool {
    let group = pod.pointer("/metadata/labels/sluice.dev~1pod-group-name");
    let Some(group) = group.and_then(Value::as_str) else {
        return false;
    };
    let namespace = text(pod, "/metadata/namespace");
    let mut members = cluster.of(Kind::Pod).filter(|member| {
        text(member, "/metadata/namespace") == namespace
            && text(member, "/metadata/labels/sluice.dev~1pod-group-name") == group
    });
    members.any(|member| {
        let mut workloads = cluster
            .of(Kind::Workload)
            .filter(|workload| holds_quota(workload));
        workloads.any(|workload| {
            list(workload, "/metadata/ownerReferences").any(|o| text(o, "/uid") == uid_of(member))
        })
    })
}

/// For how many pods a Workload holds quota.
fn pods_with_quota(workload: &Value) -> i64 {
    let reclaimed = list(workload, "/status/reclaimablePods");
    admitted_pods(workload)
        - reclaimed
            .filter_map(|set| set["count"].as_i64())
            .sum::<i64>()
}

fn admitted_pods(workload: &Value) -> i64 {
    let sets = list(workload, "/status/admission/podSetAssignments");
    sets.filter_map(|set| set["count"].as_i64()).sum()
}
