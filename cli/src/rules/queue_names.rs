//! The names by which objects ask for a queue: Sluice's own, and the aliases that its configuration adds, which
//! are options here.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::Value;
use sluice_crds::QUEUE_REQUIRED_GATE;
use sluice_kinds::QueueGates;
use sluice_kinds::aliases::{
    KeyAliases, QUEUE_GATE_ALIASES, QUEUE_LABEL_ALIASES, System, foreign_keys,
};
use sluice_kinds::metadata::annotation_text;
use sluice_kinds::pod::{PodMode, PodPhase, PodView};
use sluice_kinds::view::{LabelledQueue, QueueLabels};

/// The options for aliases of all that is read under several names. For every other alias the webhooks write Sluice's own
/// key; in objects of files, which no webhook has seen, those of the presets are read.
#[derive(Debug, Clone, Default, Args)]
pub struct QueueAliases {
    /// Labels that name a queue besides sluice.dev/queue-name, as in Sluice's configuration.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    queue_label_aliases: Vec<String>,
    /// The keys of other systems to read as Sluice's own, as in Sluice's configuration: Kueue, Volcano.
    #[arg(
        long,
        value_name = "PRESET",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    alias_presets: Vec<Preset>,
    /// Names of the queue gate besides sluice.dev/queue-allocation-gate, as in Sluice's configuration.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    queue_gate_aliases: Vec<String>,
}

/// Another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Preset {
    Kueue,
    Volcano,
}

impl Preset {
    fn system(self) -> System {
        match self {
            Self::Kueue => System::Kueue,
            Self::Volcano => System::Volcano,
        }
    }
}

/// The names of the queue label and of the queue gate, and the other keys that stand for keys of Sluice's own.
#[derive(Debug, Clone, Default)]
pub struct QueueNames {
    /// The labels that name a queue.
    pub labels: QueueLabels,
    /// The gates by which a pod waits for its queue.
    pub gates: QueueGates,
    /// All other keys, which the webhooks write beside those of others.
    keys: KeyAliases,
}

impl QueueAliases {
    /// Those of these.
    #[cfg(test)]
    pub fn of(presets: &[Preset]) -> Self {
        Self {
            alias_presets: presets.to_vec(),
            ..Self::default()
        }
    }

    /// Those of Kueue.
    #[cfg(test)]
    pub fn of_kueue() -> Self {
        Self::of(&[Preset::Kueue])
    }

    /// All names, Sluice's own first.
    pub fn names(&self) -> QueueNames {
        let systems = || self.alias_presets.iter().map(|preset| preset.system());
        let with = |field, own: &[String]| {
            let presets = systems().flat_map(|system| foreign_keys(system, field));
            let names: Vec<String> = presets.map(str::to_owned).collect();
            names.into_iter().chain(own.to_vec())
        };
        QueueNames {
            labels: QueueLabels::new(with(QUEUE_LABEL_ALIASES, &self.queue_label_aliases)),
            gates: QueueGates::new(with(QUEUE_GATE_ALIASES, &self.queue_gate_aliases)),
            keys: systems()
                .map(KeyAliases::of_system)
                .fold(KeyAliases::default(), KeyAliases::and),
        }
    }
}

impl QueueNames {
    /// What a pod says, as a controller with these names reads it.
    pub fn read(&self, pod: &Value) -> PodView {
        PodView::read(pod, &self.labels, &self.gates)
    }

    /// An object of a file as the webhooks would have it stored, if it has keys of others that stand for keys of Sluice's
    /// own, and lacks these.
    pub fn with_own_keys(&self, object: &Value) -> Option<Value> {
        let lacked = self.keys.own_keys(None, object);
        if lacked.is_empty() {
            return None;
        }
        let mut object = object.clone();
        for own in lacked {
            let operation = own.operation(&object);
            json_patch::patch(&mut object, &[operation]).ok()?;
        }
        Some(object)
    }
}

/// Whether a pod that Sluice manages asks for its queue by a name that is not among those it was read with: it names no
/// queue, or waits behind a gate that it asked for by an annotation, as for a queue gate.
pub fn has_unknown_queue(pod: &Value, view: &PodView) -> bool {
    let is_missed = match view.mode {
        // Enforcement holds it until somebody names a queue.
        PodMode::Single => {
            let is_held = (view.other_gates.iter()).any(|gate| **gate == *QUEUE_REQUIRED_GATE);
            view.queue == LabelledQueue::None && !is_held
        }
        // The record of an admission has a term if the pod was admitted by itself.
        PodMode::Child => {
            let is_asked_for = |gate: &Arc<str>| annotation_text(pod, gate) == Some("true");
            let is_admitted_alone =
                matches!(&view.admitted, Some(Ok(admitted)) if admitted.term.is_some());
            is_admitted_alone || view.other_gates.iter().any(is_asked_for)
        }
        PodMode::Group(_) => false,
    };
    is_missed && view.phase == PodPhase::Live
}

/// The note that so many pods are left out, if any are.
pub fn unknown_queue_note(pods: usize) -> Option<String> {
    let pods = match pods {
        0 => return None,
        1 => "1 pod that Sluice manages is".to_owned(),
        _ => format!("{pods} pods that Sluice manages are"),
    };
    Some(format!(
        "left out: {pods} queued by no known label or gate; if Sluice's configuration has aliases, name them with \
         --alias-presets, --queue-label-aliases and --queue-gate-aliases"
    ))
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};
    use serde_json::json;

    use super::*;

    const KUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
    const VOLCANO_GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";

    fn names(arguments: &[&str]) -> QueueNames {
        let command = QueueAliases::augment_args(Command::new("list"));
        let words = ["list"].iter().chain(arguments);
        let aliases = QueueAliases::from_arg_matches(&command.get_matches_from(words));
        aliases.unwrap().names()
    }

    /// The webhooks write no key of Sluice's own beside these.
    #[test]
    fn a_pod_is_queued_by_aliases() {
        let pod = |label: &str, gate: &str| {
            json!({
                "metadata": {"labels": {label: "main", "sluice.dev/managed": "true"}, "annotations": {gate: "true"}},
                "spec": {"schedulingGates": [{"name": gate}], "containers": [{"name": "c"}]},
            })
        };
        let own = ("sluice.dev/queue-name", "sluice.dev/queue-allocation-gate");
        let pods = [
            pod(own.0, own.1),
            pod(KUEUE_LABEL, own.1),
            pod(own.0, VOLCANO_GATE),
        ];
        let cases: [(&[&str], [bool; 3]); 5] = [
            (&[], [true, false, false]),
            (&["--alias-presets", "Kueue"], [true, true, false]),
            (&["--alias-presets", "Kueue,Volcano"], [true, true, true]),
            (&["--queue-label-aliases", KUEUE_LABEL], [true, true, false]),
            (&["--queue-gate-aliases", VOLCANO_GATE], [true, false, true]),
        ];
        for (arguments, expected) in cases {
            let names = names(arguments);
            let views = pods.each_ref().map(|pod| names.read(pod));
            let is_queued = |view: &PodView| {
                view.mode == PodMode::Single
                    && view.queue_gate.is_some()
                    && matches!(view.queue, LabelledQueue::Named(_))
            };
            assert_eq!(views.each_ref().map(is_queued), expected, "{arguments:?}");
            for ((pod, view), is_found) in pods.iter().zip(&views).zip(expected) {
                assert_eq!(has_unknown_queue(pod, view), !is_found, "{arguments:?}");
            }
        }
    }

    #[test]
    fn pods_that_enforcement_holds_are_not_missed() {
        let gates = [
            "sluice.dev/queue-allocation-gate",
            "sluice.dev/queue-required",
        ];
        let gates = gates.map(|name| json!({"name": name}));
        let pod = json!({
            "metadata": {
                "labels": {"sluice.dev/managed": "true"},
                "annotations": {"sluice.dev/queue-allocation-gate": "true"},
            },
            "spec": {"schedulingGates": gates, "containers": [{"name": "c"}]},
        });
        let view = QueueNames::default().read(&pod);
        assert_eq!(view.mode, PodMode::Single);
        assert!(!has_unknown_queue(&pod, &view));
    }

    #[test]
    fn a_pod_that_was_admitted_by_itself_and_names_no_known_queue_is_missed() {
        let admitted = json!({
            "clusterQueue": "c", "flavors": {"cpu": "default"}, "at": "2026-11-28T08:00:00Z", "term": "t",
        });
        let pod = json!({
            "metadata": {
                "labels": {"sluice.dev/managed": "true"},
                "annotations": {VOLCANO_GATE: "true", "sluice.dev/admitted": admitted.to_string()},
            },
            "spec": {"containers": [{"name": "c"}]},
        });
        let view = QueueNames::default().read(&pod);
        assert!(matches!(view.admitted, Some(Ok(_))), "{:?}", view.admitted);
        assert!(has_unknown_queue(&pod, &view));
    }

    #[test]
    fn pods_of_jobs_are_not_missed() {
        let pod = json!({
            "metadata": {"labels": {"sluice.dev/managed": "true"}, "annotations": {"sluice.dev/pod-set": "main"}},
            "spec": {"containers": [{"name": "c"}]},
        });
        let view = QueueNames::default().read(&pod);
        assert!(!has_unknown_queue(&pod, &view));
        assert_eq!(unknown_queue_note(0), None);
    }
}
