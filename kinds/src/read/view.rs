//! What Sluice sees of a Job-like object: checked values, no JSON. How they are read is said in
//! `jobkind`, what follows from them is said by the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

use crate::field::location::Location;
use crate::field::names;
use crate::field::problem::Problem;
use crate::read::claims::Claim;
use crate::read::place::Place;
use crate::read::requests::Amounts;
use crate::read::requests::RequestedDevices;
use crate::read::template::Placement;

/// A set of equal pods.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that say nothing of each other"
)]
pub struct PodSetView {
    /// The name of the set, unique in the object.
    pub name: Arc<str>,
    /// How many pods run at the same time.
    pub count: u32,
    /// How many of them will do, if the object says that fewer will, or why that can't be read. An
    /// object that is admitted as a whole anyway is none the worse for it.
    pub min_count: Option<Result<u32, Problem>>,
    /// Where the object says how many there are, if it can be admitted with fewer.
    pub count_at: Option<Location>,
    /// How many of them have ended and will not be replaced.
    pub reclaimable: u32,
    /// Whether they are made from a template that is not in the object: nothing can be written to them.
    pub is_assumed: bool,
    /// Whether every object of its kind has the set, by the name that the JobKind gives it.
    pub is_fixed: bool,
    /// What the scheduler will count for one pod, in nano-units.
    pub requests: Amounts,
    /// The part of that which the object itself says, whatever the namespace adds today.
    pub declared: Amounts,
    /// The devices in both that the object requests by the names of their classes, if they count as other resources.
    pub requested_devices: Option<Arc<RequestedDevices>>,
    /// The claims by which one pod asks for devices.
    pub claims: Arc<[Claim]>,
    /// What these devices are counted as, besides `requests`, or why they are not counted.
    pub devices: Result<Amounts, Vec<Problem>>,
    /// The template's nodeSelector and tolerations.
    pub placement: Placement,
    /// What the API server adds to them in each pod, as its RuntimeClass says.
    pub class_placement: Placement,
    /// The RuntimeClass that the template names.
    pub runtime_class: Option<Arc<str>>,
    /// Whether there is no such RuntimeClass, where that is known: the API server refuses such pods.
    pub lacks_runtime_class: bool,
    /// The terms of the template's required node affinity: one of them must match.
    pub required_affinity: Vec<NodeSelectorTerm>,
    /// The template's PriorityClass.
    pub priority_class: Option<String>,
    /// Whether the pods carry scheduling gates that are none of Sluice's: neither the queue gate
    /// nor one that stands for a gate annotation.
    pub has_external_gates: bool,
    /// What of the marks by which Sluice knows its pods the template carries.
    pub marks: TemplateMarks,
    /// Where Sluice writes for these pods.
    pub place: Place,
}

/// What of the marks by which Sluice knows its pods a pod template carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateMarks {
    /// Whether it has any metadata.
    pub(crate) has_metadata: bool,
    /// The label `sluice.dev/managed`.
    pub(crate) managed: Mark,
    /// The annotation `sluice.dev/pod-set`.
    pub(crate) pod_set: Mark,
}

impl TemplateMarks {
    /// Whether its pods are born with the label by which they are watched, if their controller makes them as the template
    /// says.
    #[must_use]
    pub fn are_watched(&self) -> bool {
        self.managed == Mark::Set
    }
}

/// Whether a label or annotation is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// There are no labels, or annotations, at all.
    NoMap,
    /// There are others.
    Unset,
    /// It is there.
    Set,
}

impl PodSetView {
    /// Whether its pods are born without the label by which they are watched, though it could be in their template.
    #[must_use]
    pub fn lacks_label(&self) -> bool {
        !self.is_assumed && !self.marks.are_watched()
    }

    /// The same pods, of which all are needed.
    #[must_use]
    pub fn as_a_whole(self) -> Self {
        Self {
            min_count: None,
            ..self
        }
    }

    /// Whether these pods ask for the same as `other`, whatever their number.
    pub fn asks_for_the_same(&self, other: &Self) -> bool {
        self.written_requests() == other.written_requests()
            && self.placement == other.placement
            && self.required_affinity == other.required_affinity
    }

    /// A name for what these pods ask for: equal for pods that [ask for the same](Self::asks_for_the_same), and the same
    /// for ever, whatever devices are counted as, for it is stored. It is short: users can have others come to it.
    pub fn role(&self) -> String {
        let Self {
            placement,
            required_affinity,
            ..
        } = self;
        let asked = serde_json::json!([
            self.written_requests()
                .iter()
                .map(|(name, amount)| (name, amount.to_string()))
                .collect::<Vec<_>>(),
            placement.node_selector,
            placement.tolerations,
            required_affinity,
        ]);
        format!("{:016x}", crate::gates::stable_hash(&asked.to_string()))
    }
}

/// The RuntimeClasses that pod sets name and that don't exist.
pub fn missing_runtime_classes(pod_sets: &[PodSetView]) -> Vec<Problem> {
    let missing = pod_sets.iter().filter(|set| set.lacks_runtime_class);
    let missing = missing.filter_map(|set| {
        let class = set.runtime_class.as_deref()?;
        let field = format!("{}.runtimeClassName", set.place.spec_field());
        let rule = format!("there is no RuntimeClass {class:?}: create it, and the job is queued");
        Some(Problem::invalid(field, class, rule))
    });
    missing.collect()
}

/// What is wrong with how an object says that fewer pods will do.
pub fn bad_min_counts(pod_sets: &[PodSetView]) -> Vec<Problem> {
    let min_counts = pod_sets.iter().filter_map(|set| set.min_count.as_ref());
    min_counts
        .filter_map(|min_count| min_count.as_ref().err().cloned())
        .collect()
}

/// How an object ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Whether it did what it was for.
    pub succeeded: bool,
    /// What its own controller says about it.
    pub message: String,
}

/// The queue that an object names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelledQueue {
    /// No queue label.
    None,
    /// The name of a LocalQueue.
    Named(String),
    /// A label that names no queue, with the reason.
    Invalid(Problem),
}

/// The keys of the labels that name a queue, Sluice's own first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLabels(Vec<String>);

impl QueueLabels {
    /// Sluice's own label and the `aliases` that the configuration adds.
    pub fn new(aliases: impl IntoIterator<Item = String>) -> Self {
        let own = sluice_crds::QUEUE_NAME_LABEL.to_owned();
        Self(std::iter::once(own).chain(aliases).collect())
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The queue that `labels` name, which may be all labels of an object.
    pub fn read(&self, labels: &BTreeMap<String, String>) -> LabelledQueue {
        let mut named: Option<(&str, &String)> = None;
        for key in self.keys() {
            let Some(value) = labels.get(key) else {
                continue;
            };
            match named {
                Some((first, other)) if other != value => {
                    return LabelledQueue::Invalid(Problem::invalid(
                        format!("metadata.labels[{key}]"),
                        value.clone(),
                        format!("must equal the label {first}, which names {other:?}"),
                    ));
                }
                Some(_) => {}
                None => named = Some((key, value)),
            }
        }
        match named {
            None => LabelledQueue::None,
            Some((key, value)) => {
                match names::subdomain(value, &format!("metadata.labels[{key}]"))
                    .into_iter()
                    .next()
                {
                    None => LabelledQueue::Named(value.clone()),
                    Some(problem) => LabelledQueue::Invalid(problem),
                }
            }
        }
    }
}

impl Default for QueueLabels {
    fn default() -> Self {
        Self::new([])
    }
}
