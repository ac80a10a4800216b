//! How a Job-like object is held: by its suspend field, or by scheduling gates on its pods; and the
//! patch that puts the gates into its pod templates. When that is sent is decided elsewhere.

use std::collections::BTreeMap;

use json_patch::Patch;
use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, AdmissionMode, POD_SET_ANNOTATION, PRIORITY_CLASS_LABEL};

use crate::gates;
use crate::gating::{Gating, unlist};
use crate::jobkind::CompiledKind;
use crate::metadata::{self, label};
use crate::problem::Problem;
use crate::queue_gates::{propagated_gates, scheduling_gates};
use crate::view::QueueLabels;

/// How a Job-like object waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// It is suspended and has no pods.
    Suspend,
    /// All its pods wait behind gates and are let go together.
    Pods,
    /// Each of its pods waits behind gates and is let go by itself.
    EachPod,
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
    /// How an object is to be held that is being created with these `annotations`.
    pub fn hold_at_creation(&self, object: &Value, annotations: &BTreeMap<String, String>) -> Hold {
        let is_opted_in = self.first_is_opted_in(object);
        let mode = match asked(annotations) {
            Some(mode) => mode,
            None if is_opted_in => AdmissionMode::PerPod,
            None => self.admission(),
        };
        match mode {
            AdmissionMode::PerPod => Hold::EachPod,
            // With a gate in the template the pods wait anyway; and an object with the queue gate
            // there already is one whose pods are to be held.
            AdmissionMode::Whole
                if self.suspend_path().is_none()
                    || self.any_template(object, |t| scheduling_gates(t).next().is_some()) =>
            {
                Hold::Pods
            }
            AdmissionMode::Whole => Hold::Suspend,
        }
    }

    /// How a stored object with these `annotations` is held. `object` needs no metadata.
    pub fn hold(&self, object: &Value, annotations: &BTreeMap<String, String>) -> Hold {
        let has_queue_gate = self.any_template(object, |t| self.queue_gates().carried(t).is_some());
        let mode = asked(annotations).unwrap_or(self.admission());
        if self.suspend_path().is_some() && !self.gates_pods(object) {
            return Hold::Suspend;
        }
        let by_mode = self.suspend_path().is_none() || !has_queue_gate;
        if self.first_is_opted_in(object) || (by_mode && mode == AdmissionMode::PerPod) {
            Hold::EachPod
        } else {
            Hold::Pods
        }
    }

    /// Whether every pod template of `object` carries the queue gate.
    pub fn is_gated(&self, object: &Value) -> bool {
        self.templates(object).all(|(_, _, template)| {
            template.is_some_and(|template| self.queue_gates().carried(template).is_some())
        })
    }

    /// Whether a pod template of `object` brings gates that Sluice has to lift from its pods.
    pub fn gates_pods(&self, object: &Value) -> bool {
        self.any_template(object, |template| {
            self.queue_gates().carried(template).is_some()
                || propagated_gates(template).next().is_some()
        })
    }

    /// The patch that puts into every pod template of `object` what its pods wait behind: the queue
    /// gate if it is in a queue, and one gate for each gate of its annotations. What others wrote
    /// into the list of propagated gates goes, also from the templates of what is suspended. Applied
    /// to its own outcome it is empty.
    pub fn gate_patch(&self, object: &Value, waiting: Waiting<'_>) -> Patch {
        let gates = gates::read(&metadata::gate_annotations(object));
        let mut operations = Vec::new();
        for (name, path, template) in self.templates(object) {
            let Some(template) = template.filter(|template| template.is_object()) else {
                continue;
            };
            let at: Vec<&str> = path.segments().iter().map(String::as_str).collect();
            if waiting.hold == Hold::Suspend {
                operations.extend(unlist(template, &at));
                continue;
            }
            let mut gating = Gating::behind(&gates);
            if let Some(before) = waiting.old.and_then(|old| path.get(old)) {
                gating = gating.after(before);
            }
            if waiting.hold == Hold::Pods {
                gating = gating.annotation(POD_SET_ANNOTATION, name);
            }
            gating = match (waiting.hold, waiting.queue) {
                (_, None) => gating,
                (Hold::EachPod, Some(queue)) => {
                    self.queued_by_itself(gating, object, template, queue, waiting.queue_labels)
                }
                (Hold::Pods | Hold::Suspend, Some(_)) => gating.queue_gate(sluice_crds::QUEUE_GATE),
            };
            operations.extend(gating.patch(template, &at, self.queue_gates()));
        }
        Patch(operations)
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
    /// be admitted by themselves would be charged twice.
    pub fn check_whole(&self, object: &Value) -> Vec<Problem> {
        self.templates(object)
            .filter_map(|(_, path, template)| {
                let mark = self.queue_gates().opt_in(template?)?;
                Some(Problem::forbidden(
                    format!("{}.metadata.annotations[{mark}]", path.field()),
                    format!(
                        "asks for each pod to be admitted by itself, but this object is admitted as \
                         a whole; the annotation {ADMISSION_ANNOTATION} with the value \"PerPod\" \
                         changes that at creation"
                    ),
                ))
            })
            .collect()
    }

    fn first_is_opted_in(&self, object: &Value) -> bool {
        self.templates(object)
            .next()
            .and_then(|(_, _, template)| template)
            .is_some_and(|template| self.queue_gates().opt_in(template).is_some())
    }

    fn any_template(&self, object: &Value, is: impl Fn(&Value) -> bool) -> bool {
        self.templates(object)
            .any(|(_, _, template)| template.is_some_and(&is))
    }
}

/// The mode that the annotation asks for. A value that names none counts as absent: it can't be
/// created.
fn asked(annotations: &BTreeMap<String, String>) -> Option<AdmissionMode> {
    admission_mode(annotations.get(ADMISSION_ANNOTATION)?).ok()
}

#[cfg(test)]
mod tests;
