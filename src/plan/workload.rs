//! The Workload of a job: what its spec says, and whether the job is what was admitted. What its status says
//! at each turn of the job's life lies in `workload/status.rs`, what its priority is in `workload/priority.rs`.

pub mod ended_term_admissions;
pub mod pending_reason;
pub mod placement;
pub mod priority;
pub mod requests_comparison;
mod status;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use sluice_crds::{JOB_UID_LABEL, PodSet, Workload, WorkloadSpec, workload_name};
use sluice_kinds::CompiledKind;
use sluice_kinds::devices::uncounted;
use sluice_kinds::metadata::api_version;
use sluice_kinds::view::{PodSetView, bad_min_counts, missing_runtime_classes};
use sluice_translate as translate;

use crate::cache::{JobKey, JobRecord, WorkloadRecord};
use crate::plan::workload::placement::{own_count, own_placement, reduced_count};
use priority::{NoPriority, Priority};
pub use status::{
    Next, admitted, evicted, finished, finished_note, requeued, waiting, waits_for_user,
};

/// What is told of a job or group whose Workload somebody has deleted, and whose pods Sluice deletes.
pub(super) const WORKLOAD_DELETED: &str = "Its Workload was deleted, and without one it is not admitted: its pods are deleted, and those made in their place are queued";

/// The spec of the Workload of a job that asks for `pod_sets`. With `record`, what Sluice put into
/// the templates is left out.
pub fn spec(
    queue: &str,
    pod_sets: &[PodSetView],
    record: Option<&WorkloadRecord>,
    priority: &Priority,
) -> WorkloadSpec {
    let pod_sets = pod_sets.iter().map(|view| {
        let own = record.and_then(|record| own_placement(record, view));
        let count = record.map_or(view.count, |record| own_count(record, view));
        translate::pod_set_record(view, own.as_ref().unwrap_or(&view.placement), count)
    });
    WorkloadSpec {
        queue_name: queue.to_owned(),
        pod_sets: pod_sets.collect(),
        priority: priority.value,
        priority_class_ref: priority.class.clone(),
        active: record.is_none_or(|record| record.spec.active),
        job_creation_timestamp: None,
    }
}

/// The spec of the Workload of a job or group that waits for quota. `place` is when it takes its place in its queue. If its
/// ClusterQueue does not allow its priority class, this says so too: its Workload is written without a priority.
///
/// # Errors
/// It has no priority for another reason: its Workload stays as it is.
pub fn queued_spec(
    queue: &str,
    pod_sets: &[PodSetView],
    record: Option<&WorkloadRecord>,
    priority: Result<Priority, NoPriority>,
    place: Option<Timestamp>,
) -> Result<(WorkloadSpec, Option<NoPriority>), NoPriority> {
    let found = priority::or_recorded(priority, record);
    let priority = priority::to_record(&found, record)?;
    let spec = WorkloadSpec {
        active: record.is_none_or(|record| record.spec.active),
        job_creation_timestamp: place.map(Time),
        ..spec(queue, pod_sets, None, &priority)
    };
    Ok((spec, found.err()))
}

/// The Workload of a job, to be created.
pub fn object(key: &JobKey, job: &JobRecord, kind: &CompiledKind, spec: WorkloadSpec) -> Workload {
    Workload {
        metadata: ObjectMeta {
            name: Some(workload_name(&key.name, &job.uid)),
            namespace: Some(key.namespace.to_string()),
            labels: Some([(JOB_UID_LABEL.to_owned(), job.uid.to_string())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: api_version(&kind.group, &kind.version),
                kind: kind.kind.clone(),
                name: key.name.to_string(),
                uid: job.uid.to_string(),
                controller: Some(true),
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// How closely what a job asks for must be what it was admitted with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It is not released yet: all must be equal.
    Exact,
    /// It runs: fewer pods are fine.
    Within,
    /// Its pods are released one by one, as many as were admitted: what each asks for counts.
    EachPodWithin,
}

/// Whether what a job asks for is what it was admitted with.
pub fn covers(record: &WorkloadRecord, pod_sets: &[PodSetView], fit: Fit) -> bool {
    if fit == Fit::Exact {
        let queue = &record.spec.queue_name;
        let pod_sets = &requests_comparison::as_recorded(record, pod_sets);
        let asked = spec(queue, pod_sets, Some(record), &Priority::default());
        let is_counted = uncounted(pod_sets).is_empty()
            && missing_runtime_classes(pod_sets).is_empty()
            && bad_min_counts(pod_sets).is_empty();
        let known = requests_comparison::as_counted(record, pod_sets);
        return is_counted && asked.pod_sets == *known;
    }
    pod_sets.iter().all(|view| {
        let mut recorded = record.spec.pod_sets.iter();
        let Some(known) = recorded.find(|known| known.name == *view.name) else {
            return false;
        };
        // What a namespace adds to pods may have changed since these were made.
        let asks_no_more = requests_comparison::asks_no_more(known, view, &view.declared);
        let given = reduced_count(record, &view.name).map_or(known.count, as_count);
        let is_no_more = as_count(view.count) <= given;
        (fit == Fit::EachPodWithin || is_no_more) && asks_no_more
    })
}

/// Whether a job has a pod set that it was not admitted with, and that its user may have brought in. One that every object
/// of its kind has is new because its JobKind was edited.
pub fn brings_pod_set(record: &WorkloadRecord, pod_sets: &[PodSetView]) -> bool {
    let is_recorded =
        |view: &PodSetView| (record.spec.pod_sets.iter()).any(|set| set.name == *view.name);
    pod_sets
        .iter()
        .any(|view| !view.is_fixed && !is_recorded(view))
}

/// The pod sets of an admitted job, by the names that they were admitted by: its JobKind may name them otherwise by now.
/// Those that are new take the names that are gone, in their order.
pub fn by_admitted_names<'a>(
    record: &WorkloadRecord,
    pod_sets: &'a [PodSetView],
) -> Cow<'a, [PodSetView]> {
    let recorded = &record.spec.pod_sets;
    let is_recorded = |view: &PodSetView| recorded.iter().any(|set| set.name == *view.name);
    if pod_sets.iter().all(is_recorded) {
        return Cow::Borrowed(pod_sets);
    }
    let mut gone = recorded
        .iter()
        .filter(|set| !pod_sets.iter().any(|view| *view.name == set.name));
    let named = pod_sets.iter().cloned().map(|view| {
        let admitted = if is_recorded(&view) {
            None
        } else {
            gone.next()
        };
        PodSetView {
            name: admitted.map_or_else(|| view.name.clone(), |set| set.name.as_str().into()),
            ..view
        }
    });
    Cow::Owned(named.collect())
}

fn as_count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Whether a pod of an admitted job asks for no more than each pod of its set was admitted with.
pub fn covers_pod(record: &WorkloadRecord, pod_set: &str, asks: &PodSetView) -> bool {
    let known = record.spec.pod_sets.iter().find(|set| set.name == pod_set);
    known.is_some_and(|known| requests_comparison::asks_no_more(known, asks, &asks.requests))
}

/// Whether a pod of an admitted group asks for just what the pods of its set were admitted with.
pub fn covers_member(record: &WorkloadRecord, pod_set: &str, asks: &PodSetView) -> bool {
    let known = record.spec.pod_sets.iter().find(|set| set.name == pod_set);
    known.is_some_and(|known| {
        let asked = PodSetView {
            name: pod_set.into(),
            ..asks.clone()
        };
        let recorded = translate::pod_set_record(&asked, &asked.placement, asked.count);
        let count = known.count;
        let known = requests_comparison::renamed(known, asks);
        *known == PodSet { count, ..recorded }
    })
}
