//! The patch that puts gates into the pod templates of an object, or takes them out again. The webhooks and the
//! controller decide when it is sent.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};
use sluice_crds::{POD_SET_ANNOTATION, PRIORITY_CLASS_LABEL};

use crate::field::metadata::label;
use crate::gates::{self, GateState};
use crate::jobkind::hold::Hold;
use crate::jobkind::kind::CompiledKind;
use crate::patch::gating::{Gating, unlist};
use crate::pod_sets::template::Template;
use crate::read::aliases::{KeyAliases, MetadataKey};
use crate::read::place::Place;
use crate::read::view::QueueLabels;

#[cfg(test)]
mod tests;

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
    /// Other keys for keys of Sluice's own. Nobody spells them out on pods that are made of a template that holds them.
    pub key_aliases: &'a KeyAliases,
}

impl CompiledKind {
    /// The patch that puts into every pod template of `object` what its pods wait behind: the queue
    /// gate if it is in a queue, or held until it is, and one gate for each gate of its annotations. What others wrote
    /// into the list of propagated gates goes, also from the templates of what is suspended. Applied
    /// to its own outcome it is empty.
    pub fn gate_patch(&self, object: &Value, waiting: Waiting<'_>) -> Patch {
        let gates = if self.is_suspended_by_gates() {
            GateState::None
        } else {
            gates::read(&gates::gate_annotations(object))
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
            let old = before.iter().flatten().find(|old| old.set == set);
            let old = old.and_then(|old| old.pod.as_deref());
            let gating = self.gating(object, &set, (&pod, old), &gates, waiting);
            let gating = match old {
                Some(old) => gating.after(old),
                None => gating,
            };
            // Another template makes the pods anew: what only describes them waits for an edit of the template.
            let is_untouched = old == Some(&*pod) && self.asks_the_same(object, &pod, waiting);
            if is_untouched && gating.holds(&pod, &place, self.queue_gates()) {
                continue;
            }
            operations.extend(gating.patch(&pod, &place, self.queue_gates()));
        }
        Patch(operations)
    }

    /// Whether the edit of an object changes nothing that its pods take from the object.
    fn asks_the_same(&self, object: &Value, pod: &Value, waiting: Waiting<'_>) -> bool {
        let Some(old) = waiting.old else {
            return false;
        };
        let labels = waiting.queue_labels.keys().chain([PRIORITY_CLASS_LABEL]);
        let labels: Vec<&str> = labels.collect();
        let of = |object| {
            labels
                .iter()
                .map(|key| label(object, key))
                .collect::<Vec<_>>()
        };
        gates::gate_annotations(old) == gates::gate_annotations(object)
            && of(old) == of(object)
            && self.group_marks(old, pod) == self.group_marks(object, pod)
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
        let gating = self.gating(object, "", (&made, None), gates, waiting);
        let operations = gating.patch(&made, &Place::pod(), self.queue_gates());
        // These are our own operations on our own value: they can't fail.
        json_patch::patch(&mut made, &operations).ok()?;
        match place {
            Place::Template(at) => Some(at.set(object, made)),
            Place::Metadata(at) => Some(at.set(object, made.get("metadata")?.clone())),
            Place::Info { .. } => None,
        }
    }

    /// What the pods of the set `set` wait behind, by their template as it is and as it was.
    fn gating(
        &self,
        object: &Value,
        set: &str,
        (pod, old): (&Value, Option<&Value>),
        gates: &GateState,
        waiting: Waiting<'_>,
    ) -> Gating {
        let gating = Gating::behind(gates);
        match (waiting.hold, waiting.queue) {
            (Hold::Pods, None) if !gates.require_queue() => {
                gating.annotation(POD_SET_ANNOTATION, set)
            }
            (Hold::Pods, _) => gating
                .annotation(POD_SET_ANNOTATION, set)
                .queue_gate(sluice_crds::QUEUE_GATE),
            (Hold::EachPod, Some(queue)) => {
                let gating = self.queued_by_itself(gating, object, (pod, old), queue, waiting);
                let marks = self.group_marks(object, pod).into_iter();
                marks.fold(gating, |gating, (key, value)| gating.annotation(key, value))
            }
            (Hold::EachPod, None) if gates.require_queue() => {
                gating.by_itself(pod, self.queue_gates())
            }
            (Hold::EachPod, None) | (Hold::Suspend, _) => gating,
        }
    }

    /// What pods that are queued by themselves take from their template under other keys, and from the object that they
    /// are made for.
    fn queued_by_itself(
        &self,
        gating: Gating,
        object: &Value,
        (template, old): (&Value, Option<&Value>),
        (key, queue): (&str, &str),
        waiting: Waiting<'_>,
    ) -> Gating {
        let mut gating = gating.by_itself(template, self.queue_gates());
        let own_keys = waiting.key_aliases.own_keys(None, template);
        let edited = old.map(|old| waiting.key_aliases.own_keys(Some(old), template));
        let own_keys: BTreeMap<&MetadataKey, String> = own_keys
            .into_iter()
            .chain(edited.into_iter().flatten())
            .filter_map(|own| Some((own.key, own.value?)))
            .collect();
        for (key, value) in &own_keys {
            gating = match key {
                MetadataKey::Label(key) => gating.label(key, value),
                MetadataKey::Annotation(key) => gating.annotation(key, value),
            };
        }
        let is_spelt = |own: &str| own_keys.contains_key(&MetadataKey::Label(own.to_owned()));
        let mut queue_labels = waiting.queue_labels.keys();
        if !queue_labels.any(|key| label(template, key).is_some() || is_spelt(key)) {
            gating = gating.label(key, queue);
        }
        let Some(class) = label(object, PRIORITY_CLASS_LABEL) else {
            return gating;
        };
        // What came from the object follows it.
        let was = waiting.old.and_then(|old| label(old, PRIORITY_CLASS_LABEL));
        let own = label(template, PRIORITY_CLASS_LABEL);
        if !is_spelt(PRIORITY_CLASS_LABEL) && (own.is_none() || own == was) {
            gating = gating.label(PRIORITY_CLASS_LABEL, class);
        }
        gating
    }
}
