//! Pods of a cluster that are admitted by themselves, as jobs that stand as they do.

use std::sync::Arc;

use serde_json::Value;
use sluice_crds::POD_PREFIX;
use sluice_engine::{Admission, Borrowing, LocalQueueKey, Time, WorkloadId};
use sluice_kinds::metadata;
use sluice_kinds::pod::{PodMode, PodPhase, PodView};
use sluice_kinds::priority_classes::PriorityFrom;
use sluice_kinds::view::LabelledQueue;
use sluice_translate as translate;
use sluice_translate::ReleasedPod;

use super::annotations::{arrival, said_duration};
use super::settings::{name_of, text};
use crate::simulate::jobs::{Class, InputJob, Jobs, Priority, SeenJob};
use crate::simulate::quotas::Quotas;
use crate::simulate::span::Moment;
use sluice_estimates::durations::FOREVER;
use sluice_estimates::play::Start;

/// The job that a pod with this `view` stands for; none if it is not admitted by itself, is held by gates, or has ended.
///
/// # Errors
/// All that is wrong with it.
pub fn standing(
    object: &Value,
    view: &PodView,
    quotas: &Quotas,
    jobs: &mut Jobs,
) -> Result<Option<InputJob>, Vec<String>> {
    let (PodMode::Single, LabelledQueue::Named(queue), PodPhase::Live) =
        (&view.mode, &view.queue, view.phase)
    else {
        return Ok(None);
    };
    let queue = LocalQueueKey::new(text(object, "/metadata/namespace"), queue.as_str());
    let usage = view.usage();
    let asks = usage.map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let told = |problem: sluice_kinds::Problem| vec![problem.to_string()];
    let arrival = arrival(object).map_err(told)?;
    let created = match arrival {
        Some(Moment::At(millis)) => Time::from_millis(millis),
        _ => Time::default(),
    };
    let label = view.priority_class_label.as_deref();
    let from = quotas.priority_from(&queue, label, view.priority_class.as_deref());
    let is_kept = metadata::controller(object).is_none() && quotas.keeps(&queue);
    let is_deleted = object.pointer("/metadata/deletionTimestamp").is_some();
    let recorded = view.admitted.as_ref().and_then(|found| found.as_ref().ok());
    let start = if view.queue_gate.is_none() {
        let (flavors, cluster_queue, cohort, since) = match recorded {
            Some(recorded) => (
                recorded.flavors.clone(),
                recorded.cluster_queue.clone(),
                recorded.cohort.clone(),
                Time::from_millis(recorded.at.0.as_millisecond()),
            ),
            // One that runs without an admission uses the first flavors of its queue.
            None => match quotas.queue_of(&queue) {
                Some(name) => {
                    let flavors = quotas.first_flavors.get(name);
                    (
                        flavors.cloned().unwrap_or_default(),
                        name.to_string(),
                        None,
                        created,
                    )
                }
                None => return Ok(None),
            },
        };
        let admission = Admission {
            since,
            ..translate::pod_admission(ReleasedPod {
                cluster_queue: cluster_queue.as_str(),
                cohort: cohort.as_deref(),
                flavors: &flavors,
                asks: &asks,
                is_bound: view.is_bound,
            })
        };
        if is_deleted {
            Start::Evicting {
                admission,
                preemptor: None,
            }
        } else {
            Start::Admitted {
                admission,
                pods: 1,
                evictable: !is_kept,
            }
        }
    } else if view.other_gates.is_empty() && !is_deleted && from.is_ok() {
        Start::Pending
    } else {
        return Ok(None);
    };
    let kept_priority = recorded.and_then(|recorded| recorded.priority);
    let value = kept_priority.or(view.priority).unwrap_or_default();
    let class = match from {
        Ok(PriorityFrom::Label(name) | PriorityFrom::QueueDefault { name, .. })
            if kept_priority.is_none() =>
        {
            Some(Class::Workload(jobs.name(name)))
        }
        _ => None,
    };
    let uid = text(object, "/metadata/uid");
    Ok(Some(InputJob {
        name: name_of(object).into(),
        queue,
        priority: Priority { class, value },
        arrival,
        duration: said_duration(object)
            .map_err(told)?
            .or(view.never_ends.then_some(FOREVER)),
        pod_sets: Arc::new([translate::pod_set(&asks, Borrowing::allowed_if(!is_kept))]),
        kind: "Pod".into(),
        seen: Some(SeenJob {
            id: WorkloadId::from(format!("{POD_PREFIX}{uid}")),
            start,
        }),
    }))
}
