//! How a Job-like object is held: by its suspend field, or by scheduling gates on its pods. The patches
//! for that are in `patch`.

use std::collections::BTreeSet;

use serde_json::Value;
use sluice_crds::{ADMISSION_ANNOTATION, AdmissionMode};

use crate::field::problem::{Problem, fill};
use crate::gates::scheduling::{propagated, scheduling_gates};
use crate::gates::{self, GateState};
use crate::jobkind::kind::CompiledKind;
use crate::pod_sets::template::Template;
use crate::read::place::Place;

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
    /// Whether every pod of it is born behind the gates of the object, as far as that can be read.
    pub brings_gates: bool,
    /// Whether its pods bring gates that Sluice has to lift from them.
    pub gates_pods: bool,
}

/// The rule for pods that ask to be admitted by themselves, of an object that is admitted as a whole; with the
/// annotation that changes how the object is admitted.
pub const ASKS_FOR_EACH_POD: &str = "requires that each pod is admitted by itself, but this object is admitted as a whole; to change that, create the object with the annotation {}: \"PerPod\"";

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
    /// by one look at the templates, of an object with these `gates`.
    pub fn holding(&self, object: &Value, gates: &GateState, asked: Option<&str>) -> Holding {
        let templates = self.templates(object);
        let can_bring = !matches!(gates, GateState::Invalid(_));
        let gates = gates.scheduling_gates();
        let is_brought = can_bring && templates.iter().all(|t| brings(t, &gates));
        Holding {
            hold: self.held_by(&templates, asked),
            is_gated: self.all_wait(&templates),
            brings_gates: self.is_opaque() || is_brought,
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

    /// Whether the pods of `object` are born with a scheduling gate, whosever it is, or with a list of gates.
    pub fn has_gated_template(&self, object: &Value) -> bool {
        let has_gate = |pod: &Value| {
            scheduling_gates(pod)
                .chain(propagated(pod))
                .next()
                .is_some()
        };
        any_pod(&self.templates(object), has_gate)
    }

    /// Whether the pods of `object` bring gates that Sluice has to lift from them.
    pub fn gates_pods(&self, object: &Value) -> bool {
        self.any_is_lifted(&self.templates(object))
    }

    /// Whether every pod of `object` is born behind all that holds the object: the queue gate if it
    /// `is_queued`, and a propagated gate for each of its annotations.
    pub fn is_born_held(&self, object: &Value, is_queued: bool) -> bool {
        let gates = gates::read(&gates::gate_annotations(object)).scheduling_gates();
        let templates = self.templates(object);
        let is_held = |template: &Template<'_>| {
            (!is_queued || self.waits(template)) && brings(template, &gates)
        };
        let is_reason = is_queued || !gates.is_empty();
        is_reason && !templates.is_empty() && templates.iter().all(is_held)
    }

    fn all_wait(&self, templates: &[Template<'_>]) -> bool {
        !templates.is_empty() && templates.iter().all(|template| self.waits(template))
    }

    fn any_is_lifted(&self, templates: &[Template<'_>]) -> bool {
        let is_lifted = |template| self.waits(template) || brought_gates(template).next().is_some();
        templates.iter().any(is_lifted)
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

    /// What is wrong with the templates of an object that is admitted as a whole: pods that ask to
    /// be admitted by themselves would be counted twice.
    pub fn check_whole(&self, object: &Value) -> Vec<Problem> {
        let templates = self.templates(object);
        let opted_in = templates.iter().filter_map(|template| {
            let mark = self.queue_gates().opt_in(template.pod.as_deref()?)?;
            Some(Problem::forbidden(
                format!("{}.annotations[{mark}]", template.place.metadata_field()),
                fill(ASKS_FOR_EACH_POD, &[ADMISSION_ANNOTATION]),
            ))
        });
        opted_in.collect()
    }

    fn first_is_opted_in(&self, templates: &[Template<'_>]) -> bool {
        let first = templates.first().and_then(|first| first.pod.as_deref());
        first.is_some_and(|pod| self.queue_gates().opt_in(pod).is_some())
    }
}

/// The gates that stand for gate annotations on the pods of a template. Where only the metadata of pods is known, they get
/// those that it lists when they are created.
fn brought_gates<'t>(template: &'t Template<'_>) -> impl Iterator<Item = &'t str> {
    let is_metadata = matches!(template.place, Place::Metadata(_));
    template.pod.as_deref().into_iter().flat_map(move |pod| {
        // Both lists are the user's, and may be long.
        let carried: BTreeSet<&str> = scheduling_gates(pod).collect();
        propagated(pod).filter(move |name| is_metadata || carried.contains(name))
    })
}

/// Whether the pods of a template bring each of these gates.
fn brings(template: &Template<'_>, gates: &BTreeSet<String>) -> bool {
    if gates.is_empty() {
        return true;
    }
    let brought: BTreeSet<&str> = brought_gates(template).collect();
    gates.iter().all(|gate| brought.contains(gate.as_str()))
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
