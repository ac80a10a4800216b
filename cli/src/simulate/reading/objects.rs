//! Jobs from Job-like objects, read by JobKinds as the controller reads them. Workloads are read in `workloads`.

use std::cell::Cell;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL};
use sluice_engine::{Borrowing, LocalQueueKey, PodSet};
use sluice_kinds::devices::uncounted;
use sluice_kinds::hold::Hold;
use sluice_kinds::metadata::{annotation_text, controller, label, labels};
use sluice_kinds::priority_classes::{NoPriorityClass, PriorityFrom};
use sluice_kinds::requests::PodDefaults;
use sluice_kinds::view::{LabelledQueue, PodSetView, bad_min_counts};
use sluice_kinds::{CompiledKind, Problem};
use sluice_translate as translate;

use super::annotations::{arrival, no_duration, said_duration};
use super::settings::{Place, Role, check_version, is_pod, name_of, text};
use super::workloads;
use crate::input::Document;
use crate::read_object;
use crate::rules::Rules;
use crate::rules::queue_names::QueueNames;
use crate::simulate::jobs::{Class, InputJob, Jobs, Priority};
use crate::simulate::problem::Problems;
use crate::simulate::quotas::Quotas;

pub mod new_pod;

/// What objects are read with.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a question of its own"
)]
pub struct Reader<'a> {
    /// The JobKinds.
    pub rules: &'a [Rules],
    /// Where priority classes are.
    pub quotas: &'a Quotas,
    /// How long a job runs that has no duration of its own.
    pub duration: Option<Duration>,
    /// Whether there must be one of the two.
    pub needs_durations: bool,
    /// What the API server adds to pods.
    pub pod_defaults: &'a PodDefaults,
    /// Whether all PriorityClasses are known.
    pub knows_all_classes: bool,
    /// The names by which objects ask for a queue.
    pub names: &'a QueueNames,
    /// Whether objects are passed over that no JobKind reads.
    pub ignores_other_kinds: bool,
    /// Whether pods are read that would be admitted by themselves.
    pub reads_pods: bool,
    /// How many jobs were read whose pods claim devices, or request them by the name of their class.
    pub with_devices: Cell<usize>,
}

impl Reader<'_> {
    /// Reads the jobs among `documents`. Returns those that were passed over.
    pub fn read<'d>(
        &self,
        documents: &'d [Document],
        jobs: &mut Jobs,
        problems: &mut Problems,
    ) -> Vec<&'d Document> {
        let mut passed_over = Vec::new();
        for document in documents {
            let place = Place(document);
            let object = &document.value;
            let read = match Role::of(document) {
                Role::Workload => workloads::history(object, jobs)
                    .and_then(|job| self.with_duration(job))
                    .map(|job| job.into_iter().collect()),
                Role::Job => self.job(object, jobs),
                Role::Setting(_) | Role::JobKind | Role::Unused => continue,
            };
            match read {
                Ok(found) if found.is_empty() => passed_over.push(document),
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

    /// The job, with a duration if that must be known.
    fn with_duration(&self, job: Option<InputJob>) -> Result<Option<InputJob>, Vec<String>> {
        let Some(job) = job else {
            return Ok(None);
        };
        let duration = job.duration.or(self.duration);
        if duration.is_none() && self.needs_durations {
            return Err(vec![no_duration().to_string()]);
        }
        Ok(Some(InputJob { duration, ..job }))
    }

    /// The job that a Job-like object is, or the jobs that its pods are; none if it is in no queue.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn job(&self, object: &Value, jobs: &mut Jobs) -> Result<Vec<InputJob>, Vec<String>> {
        let kind = match read_object::reader(object, self.rules) {
            Ok((_, kind)) => kind,
            Err((None, _)) if self.reads_pods && is_pod(object) => return self.pod(object, jobs),
            Err((None, _)) if self.ignores_other_kinds => return Ok(Vec::new()),
            Err((_, problem)) => {
                let problem = check_version(object).err().unwrap_or(problem);
                return Err(vec![problem.to_string()]);
            }
        };
        let named = labels(object, self.names.labels.keys());
        let queue = match self.names.labels.read(&named) {
            LabelledQueue::None => return Ok(Vec::new()),
            LabelledQueue::Named(queue) => queue,
            LabelledQueue::Invalid(problem) => return Err(vec![problem.to_string()]),
        };
        let mut problems = Vec::new();
        let mut tell = |found: Problem| problems.push(found.to_string());
        let asked = annotation_text(object, ADMISSION_ANNOTATION);
        let hold = kind.hold_at_creation(object, asked);
        let views = self.pod_sets(object, kind, hold).unwrap_or_else(|found| {
            found.into_iter().for_each(&mut tell);
            Vec::new()
        });
        let namespace = namespace(object).map_err(&mut tell).ok();
        let arrival = arrival(object).unwrap_or_else(|problem| {
            tell(problem);
            None
        });
        let duration = self.duration(object).map_err(&mut tell).ok();
        let key = LocalQueueKey::new(namespace.unwrap_or_default(), queue.as_str());
        let priority = self.priority(object, &key, &views, jobs);
        let priority = priority.map_err(|problem| problems.push(problem)).ok();
        let (Some(_), Some(duration), Some(priority), true) =
            (namespace, duration, priority, problems.is_empty())
        else {
            return Err(problems);
        };
        let kind_name: Arc<str> = text(object, "/kind").into();
        let input = |name: String, pod_sets: Arc<[PodSet]>| InputJob {
            name: name.into(),
            queue: key.clone(),
            priority: priority.clone(),
            arrival,
            duration,
            pod_sets,
            kind: kind_name.clone(),
            seen: None,
        };
        let name = name_of(object);
        if hold != Hold::EachPod {
            let pod_sets = (views.iter())
                .map(|view| translate::pod_set(view, Borrowing::Allowed))
                .collect();
            return Ok(vec![input(name, pod_sets)]);
        }
        let mut pods = Vec::new();
        for view in &views {
            let one = PodSet {
                count: 1,
                ..translate::pod_set(view, Borrowing::Allowed)
            };
            let pod_sets: Arc<[PodSet]> = Arc::new([one]);
            // More than can be played are not made one by one: a count may be in the thousands of millions.
            let count = usize::try_from(view.count).unwrap_or(usize::MAX);
            for number in 0..count.min(crate::simulate::jobs::JOBS_MAX + 1) {
                let name = format!("{name}-{}-{number}", view.name);
                pods.push(input(name, pod_sets.clone()));
            }
        }
        Ok(pods)
    }

    /// The job that a pod is; none if it would not be admitted by itself, or names no queue.
    fn pod(&self, object: &Value, jobs: &mut Jobs) -> Result<Vec<InputJob>, Vec<String>> {
        let told = |problem: Problem| vec![problem.to_string()];
        let read = new_pod::read(object, self.names, self.pod_defaults);
        let read = read.map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        let Some((queue, mut asks)) = read else {
            return Ok(Vec::new());
        };
        self.leave_devices_out(slice::from_mut(&mut asks));
        let claims = uncounted(slice::from_ref(&asks));
        if !claims.is_empty() {
            return Err(claims.iter().map(ToString::to_string).collect());
        }
        let key = LocalQueueKey::new(namespace(object).map_err(told)?, queue.as_str());
        let priority = self.priority(object, &key, slice::from_ref(&asks), jobs);
        let is_kept = controller(object).is_none() && self.quotas.keeps(&key);
        Ok(vec![InputJob {
            name: name_of(object).into(),
            priority: priority.map_err(|problem| vec![problem])?,
            queue: key,
            arrival: arrival(object).map_err(told)?,
            duration: self.duration(object).map_err(told)?,
            pod_sets: Arc::new([translate::pod_set(&asks, Borrowing::allowed_if(!is_kept))]),
            kind: "Pod".into(),
            seen: None,
        }])
    }

    /// Leaves out the devices that pods of a job claim or request by the name of their class, and notes that.
    fn leave_devices_out(&self, views: &mut [PodSetView]) {
        read_object::count_no_devices(views);
        let mut has_devices = false;
        for view in views {
            has_devices |= view.leave_out_requested_devices() || !view.claims.is_empty();
        }
        if has_devices {
            self.with_devices.set(self.with_devices.get() + 1);
        }
    }

    /// How long it takes, if that must be known.
    fn duration(&self, object: &Value) -> Result<Option<Duration>, Problem> {
        let said = said_duration(object)?.or(self.duration);
        if said.is_none() && self.needs_durations {
            return Err(no_duration());
        }
        Ok(said)
    }

    fn priority(
        &self,
        object: &Value,
        queue: &LocalQueueKey,
        views: &[PodSetView],
        jobs: &mut Jobs,
    ) -> Result<Priority, String> {
        let named = views.iter();
        let named = named.filter_map(|view| view.priority_class.as_deref());
        let label = label(object, PRIORITY_CLASS_LABEL);
        let found = self.quotas.priority_from(queue, label, named);
        let found = found.map_err(|class| format!("can't be queued: {class}"))?;
        let class = match found {
            PriorityFrom::Label(name) | PriorityFrom::QueueDefault { name, .. }
                if self.quotas.workload_priorities.contains_key(name) =>
            {
                Some(Class::Workload(jobs.name(name)))
            }
            PriorityFrom::Label(name) => {
                return Err(Problem::invalid(
                    format!("metadata.labels[{PRIORITY_CLASS_LABEL}]"),
                    name,
                    "there is no WorkloadPriorityClass of this name in the input",
                )
                .to_string());
            }
            PriorityFrom::QueueDefault {
                name,
                cluster_queue,
            } => {
                let rule = format!(
                    "there is no WorkloadPriorityClass {name:?} in the input, the default of ClusterQueue {cluster_queue:?}"
                );
                let field = format!("metadata.labels[{PRIORITY_CLASS_LABEL}]");
                return Err(Problem::required(field, rule).to_string());
            }
            PriorityFrom::Pods(named) => match self.quotas.priority_classes.of_template(named) {
                Ok((class, _)) => class.map(|name| Class::Pod(jobs.name(name))),
                // Nobody brings those along that come with Kubernetes.
                Err(_) if !self.knows_all_classes => None,
                Err(NoPriorityClass(name)) => {
                    return Err(Problem::invalid(
                        "spec.template.spec.priorityClassName",
                        name,
                        "there is no PriorityClass of this name, so that no pod can be made",
                    )
                    .to_string());
                }
            },
        };
        Ok(Priority { class, value: 0 })
    }

    /// The pod sets of an object. Fewer pods will do only where it says so by a field, which needs one that
    /// suspends it: as in the controller.
    fn pod_sets(
        &self,
        object: &Value,
        kind: &CompiledKind,
        hold: Hold,
    ) -> Result<Vec<PodSetView>, Vec<Problem>> {
        if kind.has_pods_of_children() {
            let rule = "this kind has only the pods of its children: add the children to the files";
            return Err(vec![Problem::forbidden("kind", rule)]);
        }
        let mut views = kind.pod_sets(object, self.pod_defaults)?;
        self.leave_devices_out(&mut views);
        let claims = uncounted(&views);
        if !claims.is_empty() {
            return Err(claims);
        }
        let problems = bad_min_counts(&views);
        match hold {
            Hold::Suspend if !problems.is_empty() => Err(problems),
            Hold::Suspend => Ok(views),
            Hold::Pods | Hold::EachPod => {
                Ok(views.into_iter().map(PodSetView::as_a_whole).collect())
            }
        }
    }
}

/// The note about objects that were skipped, if any were.
pub fn passed_over_note(documents: &[&Document]) -> Option<String> {
    let first = &documents.first()?.value;
    let first = format!("{} {:?}", text(first, "/kind"), name_of(first));
    let queue = format!("no queue (label {QUEUE_NAME_LABEL})");
    Some(match documents.len() {
        1 => format!("{first} was skipped: it names {queue}, is inactive, or has no JobKind"),
        count => format!(
            "{count} objects were skipped, the first {first}: they name {queue}, are inactive, or have no JobKind"
        ),
    })
}

/// The note about devices that are not counted, if any are.
pub fn with_devices_note(jobs: usize) -> Option<String> {
    let jobs = match jobs {
        0 => return None,
        1 => "1 job claims, or requests".to_owned(),
        _ => format!("{jobs} jobs claim, or request"),
    };
    Some(format!(
        "left out: devices that {jobs} by the name of their class, as deviceClasses in Sluice's configuration says how they \
         are counted; where it does not name their device classes, the controller holds a job that claims them"
    ))
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
