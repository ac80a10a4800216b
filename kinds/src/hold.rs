//! How a Job-like object is held: by its suspend field, or by scheduling gates on its pods; and the
//! patch that puts the gates into its pod templates. When that is sent is decided elsewhere.

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, AdmissionMode, POD_SET_ANNOTATION, PRIORITY_CLASS_LABEL};

use crate::gates::{self, GateState};
use crate::gating::{Gating, unlist};
use crate::jobkind::CompiledKind;
use crate::metadata::{self, label};
use crate::place::Place;
use crate::pod_set_rule::Template;
use crate::problem::Problem;
use crate::queue_gates::{propagated, propagated_gates, scheduling_gates};
use crate::view::QueueLabels;

/// How a Job-like object waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is suspended and has no pods.
    Suspend,
    /// All its pods wait behind gates and are released together.
    Pods,
    /// Each of its pods waits behind gates and is released by itself.
    EachPod,
}

/// How a stored object waits, and what its pods bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// How it is held.
    pub hold: Hold,
    /// Whether every pod of it is born with the queue gate.
    pub is_gated: bool,
    /// Whether its pods bring gates that Sluice has to lift from them.
    pub gates_pods: bool,
}

/// Who waits, and for what: what [`CompiledKind::gate_patch`] depends on besides the object.
#[derive(Debug, Clone, Copy)]
pub struct Waiting<'a> {
    /// How it waits. Of [`Hold::Suspend`] the templates say nothing.
    pub hold: Hold,
    /// The object as it was, if it is being edited: the propagated gates that its templates listed
    /// may stay listed.
    pub old: Option<&'a Value>,
    /// Key and value of the label that names its queue; none if only gates hold it.
    pub queue: Option<(&'a str, &'a str)>,
    /// The labels that name a queue.
    pub queue_labels: &'a QueueLabels,
}

/// The mode that the value of the annotation `sluice.dev/admission` names.
///
/// # Errors
/// There is no such mode.
pub fn admission_mode(value: &str) -> Result<AdmissionMode, Problem> {
    match value {
        "Whole" => Ok(AdmissionMode::Whole),
        "PerPod" => Ok(AdmissionMode::PerPod),
        other => Err(Problem::not_supported(
            gates::field_of(ADMISSION_ANNOTATION),
            other,
            &["PerPod", "Whole"],
        )),
    }
}

impl CompiledKind {
    /// How an object is to be held that is being created and whose annotation `sluice.dev/admission`
    /// is `asked`.
    pub fn hold_at_creation(&self, object: &Value, asked: Option<&str>) -> Hold {
        let templates = self.templates(object);
        let mode = match mode(asked) {
            _ if self.is_opaque() => AdmissionMode::PerPod,
            _ if self.waits_suspended() => return Hold::Suspend,
            Some(mode) => mode,
            None if self.first_is_opted_in(&templates) => AdmissionMode::PerPod,
            None => self.admission(),
        };
        match mode {
            AdmissionMode::PerPod => Hold::EachPod,
            // With a gate in the template the pods wait anyway; and an object with the queue gate
            // there already is one whose pods are to be held.
            AdmissionMode::Whole
                if self.suspend_path().is_none()
                    || any_pod(&templates, |pod| scheduling_gates(pod).next().is_some()) =>
            {
                Hold::Pods
            }
            AdmissionMode::Whole => Hold::Suspend,
        }
    }

    /// How a stored object is held whose annotation `sluice.dev/admission` is `asked`. `object` needs
    /// no metadata.
    pub fn hold(&self, object: &Value, asked: Option<&str>) -> Hold {
        self.held_by(&self.templates(object), asked)
    }

    /// All that [`CompiledKind::hold`], [`CompiledKind::is_gated`] and [`CompiledKind::gates_pods`] say,
    /// by one look at the templates.
    pub fn holding(&self, object: &Value, asked: Option<&str>) -> Holding {
        let templates = self.templates(object);
        Holding {
            hold: self.held_by(&templates, asked),
            is_gated: self.all_wait(&templates),
            gates_pods: self.any_is_lifted(&templates),
        }
    }

    fn held_by(&self, templates: &[Template<'_>], asked: Option<&str>) -> Hold {
        if self.is_opaque() {
            return Hold::EachPod;
        }
        let has_suspend = self.suspend_path().is_some();
        if self.waits_suspended() || has_suspend && !self.any_is_lifted(templates) {
            return Hold::Suspend;
        }
        let has_queue_gate = any_pod(templates, |pod| self.queue_gates().carried(pod).is_some());
        let mode = mode(asked).unwrap_or(self.admission());
        let by_mode = !has_suspend || !has_queue_gate;
        if self.first_is_opted_in(templates) || (by_mode && mode == AdmissionMode::PerPod) {
            Hold::EachPod
        } else {
            Hold::Pods
        }
    }

    /// Whether gates hold an object of this kind by its suspend field even where its pods are
    /// admitted by themselves: what its pods get says nothing of gates.
    pub fn is_suspended_by_gates(&self) -> bool {
        self.is_opaque() && self.suspend_path().is_some()
    }

    /// What is wrong with admitting an object of this kind in this `mode`.
    pub fn check_mode(&self, mode: AdmissionMode) -> Option<Problem> {
        let kind = &self.kind;
        let (value, rule) = match mode {
            AdmissionMode::Whole if self.is_opaque() => (
                "Whole",
                format!(
                    "must be \"PerPod\": the requests of a {kind} are known only from its pods"
                ),
            ),
            AdmissionMode::PerPod if self.waits_suspended() => (
                "PerPod",
                format!("must be \"Whole\": the pod templates of a {kind} can't hold its pods"),
            ),
            AdmissionMode::Whole | AdmissionMode::PerPod => return None,
        };
        let field = gates::field_of(ADMISSION_ANNOTATION);
        Some(Problem::invalid(field, value, rule))
    }

    /// Whether every pod of `object` is born with the queue gate.
    pub fn is_gated(&self, object: &Value) -> bool {
        self.all_wait(&self.templates(object))
    }

    /// Whether the pods of `object` bring gates that Sluice has to lift from them.
    pub fn gates_pods(&self, object: &Value) -> bool {
        self.any_is_lifted(&self.templates(object))
    }

    /// Whether every pod of `object` is born behind all that holds the object: the queue gate if it
    /// `is_queued`, and a propagated gate for each of its annotations.
    pub fn is_born_held(&self, object: &Value, is_queued: bool) -> bool {
        let gates = gates::read(&metadata::gate_annotations(object)).scheduling_gates();
        let templates = self.templates(object);
        let is_held = |template: &Template<'_>| {
            let Some(pod) = template.pod.as_deref() else {
                return false;
            };
            let listed = |gate: &String| {
                scheduling_gates(pod).any(|carried| carried == gate)
                    && propagated(pod).any(|listed| listed == gate)
            };
            (!is_queued || self.waits(template)) && gates.iter().all(listed)
        };
        let is_reason = is_queued || !gates.is_empty();
        is_reason && !templates.is_empty() && templates.iter().all(is_held)
    }

    fn all_wait(&self, templates: &[Template<'_>]) -> bool {
        !templates.is_empty() && templates.iter().all(|template| self.waits(template))
    }

    fn any_is_lifted(&self, templates: &[Template<'_>]) -> bool {
        templates.iter().any(|template| self.waits(template))
            || any_pod(templates, |pod| propagated_gates(pod).next().is_some())
    }

    /// Whether the pods of `template` are born with the queue gate: it is in the template, or they
    /// ask for it.
    pub(crate) fn waits(&self, template: &Template<'_>) -> bool {
        template
            .pod
            .as_deref()
            .is_some_and(|pod| match template.place {
                Place::Metadata(_) => self.queue_gates().opt_in(pod).is_some(),
                Place::Template(_) | Place::Info { .. } => {
                    self.queue_gates().carried(pod).is_some()
                }
            })
    }

    /// The patch that puts into every pod template of `object` what its pods wait behind: the queue
    /// gate if it is in a queue, and one gate for each gate of its annotations. What others wrote
    /// into the list of propagated gates goes, also from the templates of what is suspended. Applied
    /// to its own outcome it is empty.
    pub fn gate_patch(&self, object: &Value, waiting: Waiting<'_>) -> Patch {
        let gates = if self.is_suspended_by_gates() {
            GateState::None
        } else {
            gates::read(&metadata::gate_annotations(object))
        };
        let before = waiting.old.map(|old| self.templates(old));
        let mut operations = Vec::new();
        for template in self.templates(object) {
            let Template {
                set, place, pod, ..
            } = template;
            let Some(pod) = pod else {
                operations.extend(self.make(object, &place, &gates, waiting));
                continue;
            };
            if waiting.hold == Hold::Suspend {
                operations.extend(unlist(&pod, &place));
                continue;
            }
            let gating = self.gating(object, &set, &pod, &gates, waiting);
            let old = before.iter().flatten().find(|old| old.set == set);
            let gating = match old.and_then(|old| old.pod.as_deref()) {
                Some(old) => gating.after(old),
                None => gating,
            };
            operations.extend(gating.patch(&pod, &place, self.queue_gates()));
        }
        Patch(operations)
    }

    /// Makes a template, or the metadata of pods, that is not there, with nothing in it but what holds
    /// the pods.
    fn make(
        &self,
        object: &Value,
        place: &Place,
        gates: &GateState,
        waiting: Waiting<'_>,
    ) -> Option<PatchOperation> {
        if waiting.hold == Hold::Suspend {
            return None;
        }
        let mut made = json!({"metadata": {}, "spec": {}});
        let gating = self.gating(object, "", &made, gates, waiting);
        let operations = gating.patch(&made, &Place::pod(), self.queue_gates());
        // These are our own operations on our own value: they can't fail.
        json_patch::patch(&mut made, &operations).ok()?;
        match place {
            Place::Template(at) => Some(at.set(object, made)),
            Place::Metadata(at) => Some(at.set(object, made.get("metadata")?.clone())),
            Place::Info { .. } => None,
        }
    }

    /// What the pods of the set `set` wait behind.
    fn gating(
        &self,
        object: &Value,
        set: &str,
        pod: &Value,
        gates: &GateState,
        waiting: Waiting<'_>,
    ) -> Gating {
        let gating = Gating::behind(gates);
        match (waiting.hold, waiting.queue) {
            (Hold::Pods, None) => gating.annotation(POD_SET_ANNOTATION, set),
            (Hold::Pods, Some(_)) => gating
                .annotation(POD_SET_ANNOTATION, set)
                .queue_gate(sluice_crds::QUEUE_GATE),
            (Hold::EachPod, Some(queue)) => {
                let gating =
                    self.queued_by_itself(gating, object, pod, queue, waiting.queue_labels);
                let marks = self.group_marks(object, pod).into_iter();
                marks.fold(gating, |gating, (key, value)| gating.annotation(key, value))
            }
            (Hold::EachPod, None) | (Hold::Suspend, _) => gating,
        }
    }

    /// What pods that are queued by themselves take from the object that they are made for.
    fn queued_by_itself(
        &self,
        gating: Gating,
        object: &Value,
        template: &Value,
        (key, queue): (&str, &str),
        queue_labels: &QueueLabels,
    ) -> Gating {
        let mut gating = gating.by_itself(template, self.queue_gates());
        if !queue_labels
            .keys()
            .any(|key| label(template, key).is_some())
        {
            gating = gating.label(key, queue);
        }
        match label(object, PRIORITY_CLASS_LABEL) {
            Some(class) if label(template, PRIORITY_CLASS_LABEL).is_none() => {
                gating.label(PRIORITY_CLASS_LABEL, class)
            }
            _ => gating,
        }
    }

    /// What is wrong with the templates of an object that is admitted as a whole: pods that ask to
    /// be admitted by themselves would be counted twice.
    pub fn check_whole(&self, object: &Value) -> Vec<Problem> {
        let templates = self.templates(object);
        let opted_in = templates.iter().filter_map(|template| {
            let mark = self.queue_gates().opt_in(template.pod.as_deref()?)?;
            Some(Problem::forbidden(
                format!("{}.annotations[{mark}]", template.place.metadata_field()),
                format!(
                    "requires that each pod is admitted by itself, but this object is admitted as a whole; to change that, create the object with the annotation {ADMISSION_ANNOTATION}: \"PerPod\""
                ),
            ))
        });
        opted_in.collect()
    }

    fn first_is_opted_in(&self, templates: &[Template<'_>]) -> bool {
        let first = templates.first().and_then(|first| first.pod.as_deref());
        first.is_some_and(|pod| self.queue_gates().opt_in(pod).is_some())
    }
}

fn any_pod(templates: &[Template<'_>], is: impl Fn(&Value) -> bool) -> bool {
    let mut pods = templates
        .iter()
        .filter_map(|template| template.pod.as_deref());
    pods.any(is)
}

/// The mode that the annotation asks for. A value that names none counts as absent: it can't be
/// created.
fn mode(asked: Option<&str>) -> Option<AdmissionMode> {
    admission_mode(asked?).ok()
}

#[cfg(test)]
mod tests;
