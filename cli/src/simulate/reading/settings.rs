//! Reads what jobs are judged by (queues, cohorts, flavors, priority classes, namespaces) from objects, as
//! the controller does. Jobs themselves are read in `objects` and `trace`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube::core::Selector;
use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sluice_crds::{
    ClusterQueueSpec, CohortSpec, GROUP, LocalQueueSpec, LocalQueueStatus, ResourceFlavorSpec,
    VERSION, WhenNotRestartable,
};
use sluice_engine::LocalQueueKey;
use sluice_kinds::Problem;
use sluice_kinds::metadata::group_version;
use sluice_translate as translate;

use crate::input::Document;
use crate::rules::{goes_with_job_kinds, strict};
use crate::simulate::problem::Problems;
use crate::simulate::quotas::Quotas;

/// What an object is to the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It says something about queues.
    Setting(Setting),
    /// It says how objects are read.
    JobKind,
    /// It goes with a JobKind, as the schema of its kind: a simulation has no use for it.
    Unused,
    /// It is the record of a job.
    Workload,
    /// It is a job, or nothing that is known.
    Job,
}

/// What an object says something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// A ResourceFlavor.
    Flavor,
    /// A Cohort.
    Cohort,
    /// A ClusterQueue.
    ClusterQueue,
    /// A LocalQueue.
    LocalQueue,
    /// A WorkloadPriorityClass.
    WorkloadPriorityClass,
    /// A PriorityClass.
    PriorityClass,
    /// A Namespace.
    Namespace,
}

impl Role {
    /// What the object in `document` is.
    pub fn of(document: &Document) -> Self {
        let (group, _) = group_version(text(&document.value, "/apiVersion"));
        let setting = match (group, text(&document.value, "/kind")) {
            (GROUP, "ResourceFlavor") => Setting::Flavor,
            (GROUP, "Cohort") => Setting::Cohort,
            (GROUP, "ClusterQueue") => Setting::ClusterQueue,
            (GROUP, "LocalQueue") => Setting::LocalQueue,
            (GROUP, "WorkloadPriorityClass") => Setting::WorkloadPriorityClass,
            ("scheduling.k8s.io", "PriorityClass") => Setting::PriorityClass,
            ("", "Namespace") => Setting::Namespace,
            (GROUP, "JobKind") => return Self::JobKind,
            (GROUP, "Workload") => return Self::Workload,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => return Self::Unused,
            _ if goes_with_job_kinds(&document.value) => return Self::Unused,
            _ => return Self::Job,
        };
        Self::Setting(setting)
    }
}

/// The settings that Kueue has by the same names.
const KUEUES: [&str; 5] = [
    "ResourceFlavor",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
    "WorkloadPriorityClass",
];

/// Where an object is: its file, the document, its kind and name.
#[derive(Debug)]
pub struct Place<'a>(pub &'a Document);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Document { file, place, value } = self.0;
        let kind = text(value, "/kind");
        write!(f, "{file}, {place}, {kind} {:?}", name_of(value))
    }
}

/// The name of an object, with its namespace if it names one.
pub fn name_of(object: &Value) -> String {
    let name = match text(object, "/metadata/name") {
        "" => text(object, "/metadata/generateName"),
        name => name,
    };
    match text(object, "/metadata/namespace") {
        "" => name.to_owned(),
        namespace => format!("{namespace}/{name}"),
    }
}

/// The text at `pointer`, or nothing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether an object of Sluice's own group, or of a kind that Kueue has by the same name, is of the version that is known.
pub fn check_version(object: &Value) -> Result<(), Problem> {
    let api_version = text(object, "/apiVersion");
    let known = format!("{GROUP}/{VERSION}");
    let (group, _) = group_version(api_version);
    let is_kueues = group == "kueue.x-k8s.io" && KUEUES.contains(&text(object, "/kind"));
    if group != GROUP && !is_kueues || api_version == known {
        return Ok(());
    }
    let problem = Problem::not_supported("apiVersion", api_version, &[&known]);
    Err(problem)
}

/// Whether an object is of a kind that is in no namespace. Of jobs that is known nowhere here: they are in one.
pub fn is_without_namespace(document: &Document) -> bool {
    match Role::of(document) {
        Role::Setting(setting) => setting != Setting::LocalQueue,
        Role::JobKind | Role::Unused => true,
        Role::Workload | Role::Job => false,
    }
}

/// Whose clock times in objects are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// That of the play, which begins at a moment in a cluster.
    OfPlay,
    /// Another one: a play that begins whenever.
    Other,
}

/// Whether an object is a pod.
pub fn is_pod(object: &Value) -> bool {
    text(object, "/apiVersion") == "v1" && text(object, "/kind") == "Pod"
}

/// Whether an object is a ClusterQueue whose status has a share: the configuration of its controller has fairSharing.
pub fn has_fair_sharing(document: &Document) -> bool {
    Role::of(document) == Role::Setting(Setting::ClusterQueue)
        && document.value.pointer("/status/fairSharing").is_some()
}

/// Takes in the settings among `documents`. Each takes the place of the one of its kind and name that
/// `quotas` has, as when it is applied to a cluster; but no two of them may be the same.
pub fn read(documents: &[Document], clock: Clock, quotas: &mut Quotas, problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for document in documents {
        let Role::Setting(setting) = Role::of(document) else {
            continue;
        };
        let place = Place(document);
        let mut reader = Reader {
            object: &document.value,
            clock,
            quotas,
            problems: Vec::new(),
        };
        let name = name_of(&document.value);
        if !seen.insert((setting, name.clone())) {
            let duplicate = Problem::duplicate("metadata.name", name);
            problems.add(&place, &duplicate);
            continue;
        }
        reader.read(setting);
        for problem in reader.problems {
            problems.add_text(&place, &problem);
        }
    }
}

struct Reader<'a> {
    object: &'a Value,
    clock: Clock,
    quotas: &'a mut Quotas,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn read(&mut self, setting: Setting) {
        if let Err(problem) = check_version(self.object) {
            self.tell(&[problem]);
            return;
        }
        let name = text(self.object, "/metadata/name").to_owned();
        if name.is_empty() {
            self.tell(&[Problem::required("metadata.name", "an object has a name")]);
            return;
        }
        match setting {
            Setting::Flavor => {
                if let Some(spec) = self.spec::<ResourceFlavorSpec>() {
                    let flavor = translate::flavor(&name, &spec);
                    self.quotas.flavors.insert(flavor.name.clone(), flavor);
                }
            }
            Setting::Cohort => {
                if let Some(spec) = self.spec::<CohortSpec>()
                    && let Some(cohort) = self.counted(translate::cohort(&name, &spec))
                {
                    self.quotas.cohorts.insert(cohort.name.clone(), cohort);
                }
            }
            Setting::ClusterQueue => self.cluster_queue(&name),
            Setting::LocalQueue => self.local_queue(&name),
            Setting::WorkloadPriorityClass | Setting::PriorityClass => self.class(setting, name),
            Setting::Namespace => {
                let labels = self.object.pointer("/metadata/labels").cloned();
                let labels = labels.and_then(|labels| serde_json::from_value(labels).ok());
                let labels: BTreeMap<_, _> = labels.unwrap_or_default();
                self.quotas.namespaces.insert(name, labels);
            }
        }
    }

    fn cluster_queue(&mut self, name: &str) {
        let Some(spec) = self.spec::<ClusterQueueSpec>() else {
            return;
        };
        let selector = match spec.namespace_selector.clone().map(Selector::try_from) {
            None => None,
            Some(Ok(selector)) => Some(selector),
            Some(Err(error)) => {
                let text = format!("spec.namespaceSelector: Invalid value: {error}");
                self.problems.push(text);
                None
            }
        };
        let counted = self.counted(translate::cluster_queue(name, &spec));
        // As the controller has it: it admits nothing, and what is used stays used.
        let uncountable = || translate::uncountable_cluster_queue(name, &spec);
        let counted = counted.or_else(|| (self.clock == Clock::OfPlay).then(uncountable));
        if let Some(queue) = counted {
            if spec.when_not_restartable == WhenNotRestartable::Keep {
                self.quotas.keepers.insert(queue.name.clone());
            } else {
                self.quotas.keepers.remove(&queue.name);
            }
            let flavors = translate::first_flavors(&spec.resource_groups);
            self.quotas
                .first_flavors
                .insert(queue.name.clone(), flavors);
            match spec.priority_classes {
                Some(rules) => self.quotas.class_rules.insert(queue.name.clone(), rules),
                None => self.quotas.class_rules.remove(&queue.name),
            };
            self.quotas.selectors.insert(queue.name.clone(), selector);
            self.quotas.queues.insert(queue.name.clone(), queue);
        }
    }

    fn local_queue(&mut self, name: &str) {
        let namespace = text(self.object, "/metadata/namespace");
        if namespace.is_empty() {
            let rule = "a LocalQueue is in a namespace";
            self.tell(&[Problem::required("metadata.namespace", rule)]);
            return;
        }
        let key = LocalQueueKey::new(namespace, name);
        // What was used before the beginning is not known on another clock.
        let status = (self.object.get("status"))
            .filter(|_| self.clock == Clock::OfPlay)
            .and_then(|status| LocalQueueStatus::deserialize(status).ok())
            .unwrap_or_default();
        if let Some(spec) = self.spec::<LocalQueueSpec>()
            && let Some(local) = self.counted(translate::local_queue(&key, &spec, &status))
        {
            self.quotas.locals.insert(key, local);
        }
    }

    fn class(&mut self, setting: Setting, name: String) {
        let value = self.object.get("value");
        let Some(number) = value
            .and_then(Value::as_i64)
            .and_then(|v| v.try_into().ok())
        else {
            let problem = match value {
                None => Problem::required("value", "the priority"),
                Some(other) => Problem::invalid("value", other.to_string(), "must be an int32"),
            };
            self.tell(&[problem]);
            return;
        };
        if setting == Setting::PriorityClass {
            self.quotas.priority_classes.put(&name, Some(self.object));
        } else {
            self.quotas.workload_priorities.insert(name, number);
        }
    }

    /// The spec, read as the API server reads it: no field may be unknown.
    fn spec<T: DeserializeOwned>(&mut self) -> Option<T> {
        let empty = Value::Object(serde_json::Map::new());
        let spec = self.object.get("spec").unwrap_or(&empty);
        match strict(spec, "spec") {
            Ok((spec, unknown)) => {
                self.problems.extend(unknown);
                Some(spec)
            }
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    fn counted<T>(&mut self, translated: Result<T, Vec<Problem>>) -> Option<T> {
        translated.map_err(|problems| self.tell(&problems)).ok()
    }

    fn tell(&mut self, problems: &[Problem]) {
        self.problems
            .extend(problems.iter().map(ToString::to_string));
    }
}
