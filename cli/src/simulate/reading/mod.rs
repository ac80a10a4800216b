//! How queues and jobs are read: from objects in files and of a cluster, and from traces.
//!
//! | file | what is read |
//! |---|---|
//! | `settings` | queues, and what they refer to |
//! | `kinds` | JobKinds, by which jobs are read |
//! | `objects` | jobs, and new pods that are jobs by themselves |
//! | `enforcement` | what namespaces make of new objects without a queue |
//! | `annotations` | what they say for the simulator alone |
//! | `workloads`, `pods` | records of jobs, and pods that are their own |
//! | `trace` | jobs in CSV |
//!
//! Must not know how jobs are played.

mod annotations;
mod enforcement;
mod kinds;
mod objects;
mod pods;
mod settings;
mod trace;
mod workloads;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sluice_engine::{Time, WorkloadId};
use sluice_kinds::Problem;
use sluice_kinds::metadata::group_version;
use sluice_kinds::pod::PodMode;
use sluice_kinds::requests::PodDefaults;

use self::enforcement::Enforcement;
use self::objects::new_pod;
pub use self::settings::is_without_namespace;
use self::settings::{Clock, Place, Role, check_version};
pub use self::workloads::engine_id;
use crate::input::{Document, InputError};
use crate::read_object;
use crate::report::ObjectReport;
use crate::rules::queue_names::{QueueNames, has_unknown_queue, unknown_queue_note};
use crate::rules::{self, Rules};
use crate::simulate::jobs::{InputJob, JOBS_MAX, Jobs};
use crate::simulate::problem::{Failure, Problems};
use crate::simulate::quotas::Quotas;
use sluice_estimates::durations::{Durations, FOREVER};

/// What was seen in a cluster.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Queues, what they refer to, JobKinds, Workloads and pods.
    pub documents: Vec<Document>,
    /// What the API server adds to pods of the namespace in question.
    pub pod_defaults: PodDefaults,
}

/// All that is to be read.
#[derive(Debug, Default)]
pub struct Given {
    /// What was seen in a cluster, if one was asked.
    pub seen: Option<Seen>,
    /// Objects of files.
    pub files: Vec<Document>,
    /// Queues to compare with, if there are any.
    pub compared: Option<Vec<Document>>,
    /// Traces, with the names of their files.
    pub traces: Vec<(String, String)>,
}

/// How it is read.
#[derive(Debug, Default)]
pub struct Options {
    /// How long a job runs of which nothing else is known.
    pub duration: Option<Duration>,
    /// The names by which objects ask for a queue.
    pub names: QueueNames,
    /// Whether objects are passed over that no JobKind reads.
    pub ignores_other_kinds: bool,
    /// Whether the objects of files are about to be created: namespaces do to them what their label says, and pods are
    /// read too. They are reported on as `jobkind check` does.
    pub creates: bool,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Input {
    /// The queues.
    pub quotas: Quotas,
    /// The queues to compare with, if there are any.
    pub other: Option<Quotas>,
    /// The jobs: those of a cluster, those of files, those of traces.
    pub jobs: Jobs,
    /// How many of the first of them are those of a cluster.
    pub seen: usize,
    /// Jobs that have finished in the cluster.
    pub finished: Vec<InputJob>,
    /// How long they ran.
    pub durations: Durations,
    /// When the play begins, if that is a moment in a cluster.
    pub now: Option<Time>,
    /// Whether the queues of the cluster share by dominant resource share.
    pub has_fair_sharing: bool,
    /// What `jobkind check` would say of the objects of files that are no settings, if they are about to be created.
    pub reports: Vec<ObjectReport>,
    /// Which objects of files were passed over, if any were.
    pub passed_over: Option<String>,
    /// What is to be known besides.
    pub notes: Vec<String>,
}

impl Input {
    /// Has the jobs of a cluster that still run count for how long jobs run.
    pub fn note_running(&mut self) {
        let Self {
            jobs,
            durations,
            now: Some(now),
            ..
        } = self
        else {
            return;
        };
        durations.note_running(jobs.all().iter().map(|job| job.asked(*now)));
    }
}

/// Reads all that is given.
///
/// # Errors
/// All that is wrong with it.
pub fn read(given: &Given, options: &Options) -> Result<Input, Failure> {
    let mut problems = Problems::default();
    let mut input = Input::default();
    let of_cluster = given.seen.as_ref();
    let documents = of_cluster.map_or(&[][..], |seen| &seen.documents);
    // What is wrong in a cluster is wrong there, and is told.
    let mut of_objects = Problems::default();
    settings::read(documents, Clock::OfPlay, &mut input.quotas, &mut of_objects);
    settings::read(&given.files, Clock::Other, &mut input.quotas, &mut problems);
    input.other = given.compared.as_ref().map(|compared| {
        let mut other = input.quotas.clone();
        settings::read(compared, Clock::Other, &mut other, &mut problems);
        only_settings(compared, &mut problems);
        other
    });
    if let Some(seen) = of_cluster {
        input.now = Some(Time::from_millis(seen.at));
        input.has_fair_sharing = documents.iter().any(settings::has_fair_sharing);
        standing(seen, &options.names, &mut input, &mut of_objects);
        input.note_running();
        input.notes.extend(left_out(&of_objects));
    }
    read_jobs(given, options, &mut input, &mut problems).map_err(Failure::Unreadable)?;
    if 0 < input.jobs.refused() {
        let all = JOBS_MAX.saturating_add(input.jobs.refused());
        let text = format!("must have at most {JOBS_MAX} jobs, and has {all}");
        problems.add_text(&"the input", &text);
    }
    if problems.is_empty() {
        Ok(input)
    } else {
        Err(Failure::Problems(problems))
    }
}

/// Tells of objects of the cluster that can't be read. The controller leaves them out, too.
fn left_out(problems: &Problems) -> impl Iterator<Item = String> {
    problems.lines().map(|line| format!("left out: {line}"))
}

/// Reads the jobs of a cluster as they stand, in the order of what the controller calls them.
fn standing(seen: &Seen, names: &QueueNames, input: &mut Input, problems: &mut Problems) {
    let Input {
        quotas,
        jobs,
        finished,
        durations,
        ..
    } = input;
    let mut found: BTreeMap<WorkloadId, InputJob> = BTreeMap::new();
    let mut left_out = 0;
    let endless = kinds::endless(&seen.documents);
    let mut endless_groups = BTreeSet::new();
    for document in &seen.documents {
        let object = &document.value;
        let read = match Role::of(document) {
            Role::Workload => workloads::standing(object, quotas, jobs, (durations, &endless)),
            Role::Job if settings::is_pod(object) => {
                let view = names.read(object);
                left_out += usize::from(has_unknown_queue(object, &view));
                if let (PodMode::Group(Ok(group)), true) = (&view.mode, view.never_ends) {
                    let namespace = settings::text(object, "/metadata/namespace");
                    endless_groups.insert(engine_id(None, Some((namespace, &group.name)), ""));
                }
                pods::standing(object, &view, quotas, jobs)
            }
            _ => continue,
        };
        match read {
            Ok(Some(job)) if job.seen.is_none() => finished.push(job),
            Ok(job) => {
                let known = job.and_then(|job| Some((job.seen.as_ref()?.id.clone(), job)));
                found.extend(known);
            }
            Err(all) => {
                for problem in all {
                    problems.add_text(&Place(document), &problem);
                }
            }
        }
    }
    for (id, mut job) in found {
        if endless_groups.contains(id.as_str()) {
            job.duration.get_or_insert(FOREVER);
        }
        jobs.push(job);
    }
    input.seen = jobs.all().len();
    input.notes.extend(unknown_queue_note(left_out));
}

fn read_jobs(
    given: &Given,
    options: &Options,
    input: &mut Input,
    problems: &mut Problems,
) -> Result<(), Vec<InputError>> {
    let of_cluster = given.seen.as_ref();
    let names = &options.names;
    let needs_kinds = |document: &Document| matches!(Role::of(document), Role::Job | Role::JobKind);
    // To compile them takes a moment that a trace needn't wait.
    let rules = if given.files.iter().any(needs_kinds) {
        // Kinds that a cluster does not declare are none there.
        let seen = of_cluster.map(|seen| &*seen.documents);
        kinds::read(&given.files, seen, &names.gates, problems)?
    } else {
        Vec::new()
    };
    let no_defaults = PodDefaults::default();
    let reader = objects::Reader {
        rules: &rules,
        quotas: &input.quotas,
        duration: options.duration.filter(|_| of_cluster.is_none()),
        needs_durations: of_cluster.is_none(),
        pod_defaults: of_cluster.map_or(&no_defaults, |seen| &seen.pod_defaults),
        knows_all_classes: of_cluster.is_some(),
        names,
        ignores_other_kinds: options.ignores_other_kinds,
        reads_pods: options.creates,
        with_devices: Cell::default(),
    };
    let mut files = Cow::Borrowed(&given.files[..]);
    for (index, document) in given.files.iter().enumerate() {
        let spelt = names.with_own_keys(&document.value);
        if let Some(value) = spelt.filter(|_| Role::of(document) == Role::Job)
            && let Some(document) = files.to_mut().get_mut(index)
        {
            document.value = value;
        }
    }
    if options.creates {
        let enforcement = Enforcement {
            rules: &rules,
            quotas: &input.quotas,
            queue_labels: &names.labels,
        };
        enforcement.apply(files.to_mut(), problems, &mut input.notes);
        let jobs = files.iter();
        let jobs = jobs.filter(|document| Role::of(document) == Role::Job);
        let report = |document| report(document, &rules, names);
        input.reports = jobs.map(report).collect();
    }
    let passed_over = reader.read(&files, &mut input.jobs, problems);
    let with_devices = objects::with_devices_note(reader.with_devices.get());
    input.notes.extend(with_devices);
    let reader = trace::Reader {
        quotas: &input.quotas,
        duration: options.duration,
    };
    for (file, text) in &given.traces {
        reader.read(file, text, &mut input.jobs, problems);
    }
    input.passed_over = objects::passed_over_note(&passed_over);
    input.notes.extend(input.passed_over.clone());
    Ok(())
}

/// The first of `files` that is a job by the JobKinds among them and among what was `seen`, or else a pod.
pub fn job_of<'a>(files: &'a [Document], seen: &[Document]) -> Option<&'a Document> {
    let kinds = seen.iter().chain(files);
    let kinds: BTreeSet<(&str, &str)> = kinds
        .filter(|document| Role::of(document) == Role::JobKind)
        .map(|document| {
            let spec = |pointer| settings::text(&document.value, pointer);
            (spec("/spec/group"), spec("/spec/kind"))
        })
        .collect();
    let is_read = |document: &&Document| {
        let (group, _) = group_version(settings::text(&document.value, "/apiVersion"));
        kinds.contains(&(group, settings::text(&document.value, "/kind")))
    };
    let is_pod = |document: &&Document| settings::is_pod(&document.value);
    let job = files.iter().find(is_read);
    job.or_else(|| files.iter().find(is_pod))
}

/// What is said of an object that is about to be created.
fn report(document: &Document, rules: &[Rules], names: &QueueNames) -> ObjectReport {
    let report = read_object::object(document, rules, &names.labels);
    if report.job_kind.is_some() {
        return report;
    }
    if settings::is_pod(&document.value) {
        return match new_pod::no_job(&document.value, names) {
            None => read_object::pod(document, &names.labels),
            Some(problem) => ObjectReport {
                problems: vec![problem.to_string()],
                ..report
            },
        };
    }
    let kinds = rules.iter();
    let mut kinds: Vec<String> = kinds
        .map(|rules| rules::name_of_kind(&rules.group, &rules.kind))
        .collect();
    kinds.push("Pod".to_owned());
    let kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    ObjectReport {
        problems: vec![Problem::not_supported("kind", &report.kind, &kinds).to_string()],
        ..report
    }
}

/// What is compared are queues: both plays have the same jobs.
fn only_settings(documents: &[Document], problems: &mut Problems) {
    for document in documents {
        if matches!(Role::of(document), Role::Setting(_) | Role::Unused) {
            continue;
        }
        match check_version(&document.value) {
            Err(problem) => problems.add(&Place(document), &problem),
            Ok(()) => problems.add_text(
                &Place(document),
                "must be a kind of queue or what queues refer to: both runs have the jobs of -f",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
