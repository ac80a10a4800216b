//! Jobs from objects: Job-like objects, read by JobKinds as the controller reads them, and Workloads,
//! which also tell what happened to their jobs in a cluster.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::Value;
use sluice_crds::{
    ADMISSION_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL, WorkloadSpec, WorkloadStatus,
};
use sluice_engine::{LocalQueueKey, PodSet};
use sluice_kinds::devices::uncounted;
use sluice_kinds::hold::Hold;
use sluice_kinds::metadata::{annotation_text, label, labels};
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::{PodSetView, QueueLabels, QueueName, bad_min_counts};
use sluice_kinds::{CompiledKind, Problem};
use sluice_translate as translate;

use super::jobs::{Class, InputJob, Jobs, Priority};
use super::problem::Problems;
use super::quotas::Quotas;
use super::settings::{Place, Role, check_version, name_of, text};
use super::span::{self, Moment};
use crate::input::Document;
use crate::rules::Rules;
use crate::rules::strict;
use crate::see;

/// Annotation on a job: how long it takes, for the simulator alone.
pub const DURATION_ANNOTATION: &str = "sluice.dev/simulate-duration";
/// Annotation on a job: when it is created, for the simulator alone.
pub const ARRIVAL_ANNOTATION: &str = "sluice.dev/simulate-arrival";

/// What objects are read with.
#[derive(Debug)]
pub struct Reader<'a> {
    /// The JobKinds.
    pub rules: &'a [Rules],
    /// Where priority classes are.
    pub quotas: &'a Quotas,
    /// How long a job runs that has no duration of its own.
    pub duration: Option<Duration>,
    /// The labels that name a queue.
    pub queue_labels: &'a QueueLabels,
    /// Whether objects are passed over that no JobKind reads.
    pub ignores_other_kinds: bool,
}

impl Reader<'_> {
    /// Reads the jobs among `documents`. Returns how many were passed over.
    pub fn read(&self, documents: &[Document], jobs: &mut Jobs, problems: &mut Problems) -> usize {
        let mut passed_over = 0;
        for document in documents {
            let place = Place(document);
            let object = &document.value;
            let read = match Role::of(document) {
                Role::Workload => self.workload(object, jobs),
                Role::Job => self.job(object, jobs),
                Role::Setting(_) | Role::JobKind | Role::Definition => continue,
            };
            match read {
                Ok(found) if found.is_empty() => passed_over += 1,
                Ok(found) => found.into_iter().for_each(|job| jobs.push(job)),
                Err(found) => {
                    for problem in found {
                        problems.add_text(&place, &problem);
                    }
                }
            }
        }
        passed_over
    }

    /// The job that a Workload records; none if it is inactive.
    fn workload(&self, object: &Value, jobs: &mut Jobs) -> Result<Vec<InputJob>, Vec<String>> {
        check_version(object).map_err(|problem| vec![problem.to_string()])?;
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let (spec, unknown) = strict::<WorkloadSpec>(spec, "spec")?;
        if !unknown.is_empty() {
            return Err(unknown);
        }
        if !spec.active {
            return Ok(Vec::new());
        }
        let status = object.get("status").cloned();
        let status = status.and_then(|status| serde_json::from_value(status).ok());
        let status: WorkloadStatus = status.unwrap_or_default();
        let mut problems = Vec::new();
        let mut tell = |found: Problem| problems.push(found.to_string());
        let pod_sets = translate::pod_sets(&spec, true)
            .map_err(|found| found.into_iter().for_each(&mut tell))
            .unwrap_or_default();
        let arrival = arrival(object).unwrap_or_else(|problem| {
            tell(problem);
            None
        });
        let duration = self
            .duration(object, ran(&status.conditions))
            .unwrap_or_else(|problem| {
                tell(problem);
                Duration::ZERO
            });
        if !problems.is_empty() {
            return Err(problems);
        }
        let class = spec.priority_class_ref.map(|class| {
            let name = jobs.name(&class.name);
            match class.kind.as_str() {
                "WorkloadPriorityClass" => Class::Workload(name),
                _ => Class::Pod(name),
            }
        });
        Ok(vec![InputJob {
            name: name_of(object).into(),
            queue: LocalQueueKey::new(text(object, "/metadata/namespace"), spec.queue_name),
            priority: Priority {
                class,
                value: spec.priority,
            },
            arrival,
            duration,
            pod_sets: pod_sets.into(),
        }])
    }

    /// The job that a Job-like object is, or the jobs that its pods are; none if it is in no queue.
    fn job(&self, object: &Value, jobs: &mut Jobs) -> Result<Vec<InputJob>, Vec<String>> {
        let kind = match see::reader(object, self.rules) {
            Ok((_, kind)) => kind,
            Err((None, _)) if self.ignores_other_kinds => return Ok(Vec::new()),
            Err((_, problem)) => return Err(vec![problem.to_string()]),
        };
        let named = labels(object, self.queue_labels.keys());
        let queue = match self.queue_labels.read(&named) {
            QueueName::None => return Ok(Vec::new()),
            QueueName::Named(queue) => queue,
            QueueName::Invalid(problem) => return Err(vec![problem.to_string()]),
        };
        let mut problems = Vec::new();
        let mut tell = |found: Problem| problems.push(found.to_string());
        let asked = annotation_text(object, ADMISSION_ANNOTATION);
        let hold = kind.hold_at_creation(object, asked);
        let views = pod_sets(object, kind, hold).unwrap_or_else(|found| {
            found.into_iter().for_each(&mut tell);
            Vec::new()
        });
        let namespace = namespace(object).map_err(&mut tell).ok();
        let arrival = arrival(object).unwrap_or_else(|problem| {
            tell(problem);
            None
        });
        let duration = self.duration(object, None).map_err(&mut tell).ok();
        let priority = self.priority(object, &views, jobs).map_err(&mut tell).ok();
        let (Some(namespace), Some(duration), Some(priority), true) =
            (namespace, duration, priority, problems.is_empty())
        else {
            return Err(problems);
        };
        let input = |name: String, pod_sets: Arc<[PodSet]>| InputJob {
            name: name.into(),
            queue: LocalQueueKey::new(namespace, queue.as_str()),
            priority: priority.clone(),
            arrival,
            duration,
            pod_sets,
        };
        let name = name_of(object);
        if hold != Hold::EachPod {
            let pod_sets = (views.iter())
                .map(|view| translate::pod_set(view, true))
                .collect();
            return Ok(vec![input(name, pod_sets)]);
        }
        let mut pods = Vec::new();
        for view in &views {
            let one = PodSet {
                count: 1,
                ..translate::pod_set(view, true)
            };
            let pod_sets: Arc<[PodSet]> = Arc::new([one]);
            // More than can be played are not made one by one: a count may be in the thousands of millions.
            let count = usize::try_from(view.count).unwrap_or(usize::MAX);
            for number in 0..count.min(super::jobs::JOBS_MAX + 1) {
                let name = format!("{name}-{}-{number}", view.name);
                pods.push(input(name, pod_sets.clone()));
            }
        }
        Ok(pods)
    }

    fn duration(&self, object: &Value, ran: Option<Duration>) -> Result<Duration, Problem> {
        let annotation = annotation_text(object, DURATION_ANNOTATION);
        if let Some(text) = annotation {
            return span::parse(text)
                .map_err(|rule| Problem::invalid(field_of(DURATION_ANNOTATION), text, rule));
        }
        ran.or(self.duration).ok_or_else(|| {
            Problem::required(
                field_of(DURATION_ANNOTATION),
                "the time that the job runs (such as \"5m\"); or set --duration for all jobs without one",
            )
        })
    }

    fn priority(
        &self,
        object: &Value,
        views: &[PodSetView],
        jobs: &mut Jobs,
    ) -> Result<Priority, Problem> {
        let class = match label(object, PRIORITY_CLASS_LABEL) {
            Some(name) if self.quotas.workload_priorities.contains_key(name) => {
                Some(Class::Workload(jobs.name(name)))
            }
            Some(name) => {
                return Err(Problem::invalid(
                    format!("metadata.labels[{PRIORITY_CLASS_LABEL}]"),
                    name,
                    "there is no WorkloadPriorityClass of this name in the input",
                ));
            }
            None => {
                let named = views.iter().find_map(|view| view.priority_class.as_deref());
                let known = named.filter(|name| self.quotas.pod_priorities.contains_key(*name));
                known.map(|name| Class::Pod(jobs.name(name)))
            }
        };
        Ok(Priority { class, value: 0 })
    }
}

/// The note about objects that were skipped.
pub fn passed_over_note(count: usize) -> String {
    format!(
        "{count} objects were skipped: they name no queue (label {QUEUE_NAME_LABEL}), are inactive, or have no JobKind"
    )
}

/// The pod sets of an object. Fewer pods will do only where it says so by a field, which needs one that
/// suspends it: as in the controller.
fn pod_sets(
    object: &Value,
    kind: &CompiledKind,
    hold: Hold,
) -> Result<Vec<PodSetView>, Vec<Problem>> {
    if kind.has_pods_of_children() {
        let rule = "this kind has only the pods of its children: add the children to the files";
        return Err(vec![Problem::forbidden("kind", rule)]);
    }
    let views = kind.pod_sets(object, &PodDefaults::default())?;
    let claims = uncounted(&views);
    if !claims.is_empty() {
        return Err(claims);
    }
    let problems = bad_min_counts(&views);
    match hold {
        Hold::Suspend if !problems.is_empty() => Err(problems),
        Hold::Suspend => Ok(views),
        Hold::Pods | Hold::EachPod => Ok(views.into_iter().map(PodSetView::as_a_whole).collect()),
    }
}

fn field_of(annotation: &str) -> String {
    format!("metadata.annotations[{annotation}]")
}

fn namespace(object: &Value) -> Result<&str, Problem> {
    match text(object, "/metadata/namespace") {
        "" => Err(Problem::required(
            "metadata.namespace",
            "the namespace of its LocalQueue",
        )),
        namespace => Ok(namespace),
    }
}

/// When an object was, or is to be, created.
fn arrival(object: &Value) -> Result<Option<Moment>, Problem> {
    if let Some(text) = annotation_text(object, ARRIVAL_ANNOTATION) {
        let moment = span::parse_moment(text);
        return moment
            .map(Some)
            .map_err(|rule| Problem::invalid(field_of(ARRIVAL_ANNOTATION), text, rule));
    }
    let field = "metadata.creationTimestamp";
    match text(object, "/metadata/creationTimestamp") {
        "" => Ok(None),
        created => match span::parse_moment(created) {
            Ok(moment @ Moment::At(_)) => Ok(Some(moment)),
            _ => Err(Problem::invalid(
                field,
                created,
                "must be an RFC 3339 time (such as \"2026-01-31T12:00:00Z\")",
            )),
        },
    }
}

/// How long a job ran in the cluster that its Workload is from: since it was last admitted.
fn ran(conditions: &[Condition]) -> Option<Duration> {
    let since = |kind: &str| {
        let mut all = conditions.iter();
        let found = all.find(|condition| condition.type_ == kind && condition.status == "True")?;
        let Time(at) = &found.last_transition_time;
        Some(at.as_millisecond())
    };
    let millis = since("Finished")?.checked_sub(since("Admitted")?)?;
    u64::try_from(millis).ok().map(Duration::from_millis)
}
