//! The aliases: keys of others that mean the same as Sluice's own. They go into match conditions and selectors, and a
//! key that means something else already would have objects held, or read, by mistake.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sluice_crds::{
    GROUP, MIN_PARALLELISM_ANNOTATION, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION,
    PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL, RETRIABLE_IN_GROUP_ANNOTATION,
};
use sluice_kinds::Problem;
use sluice_kinds::aliases::{
    KeyAliases, MetadataKey, QUEUE_ANNOTATION_ALIASES, QUEUE_GATE_ALIASES, QUEUE_LABEL_ALIASES,
    System, foreign_keys,
};
use sluice_kinds::gates::GATE_ANNOTATIONS;
use sluice_kinds::names::is_qualified_name;

/// The keys of another system that stand for keys of Sluice's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum AliasPreset {
    /// Kueue's: queue name, priority class, minimal parallelism, and groups of pods.
    Kueue,
    /// Volcano's: queue name and queue gate.
    Volcano,
}

impl AliasPreset {
    fn system(self) -> System {
        match self {
            Self::Kueue => System::Kueue,
            Self::Volcano => System::Volcano,
        }
    }
}

/// The aliases as the configuration lists them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_field_names,
    reason = "these are names of the configuration file, where they stand among others"
)]
pub struct Aliases {
    /// Accept the keys of another system that have a meaning here: a job or pod that carries one is taken as if it
    /// carried Sluice's own key.
    alias_presets: Vec<AliasPreset>,
    /// Labels that name a queue besides `sluice.dev/queue-name`, for instance
    /// `kueue.x-k8s.io/queue-name`. The match conditions of the webhooks follow; admission policies
    /// have to be generated with them.
    queue_label_aliases: Vec<String>,
    /// Annotations that name a queue, for instance Volcano's `scheduling.volcano.sh/queue-name`.
    queue_annotation_aliases: Vec<String>,
    /// Names of the queue gate, and of the annotation by which a pod asks for it, besides
    /// `sluice.dev/queue-allocation-gate`: for instance Volcano's,
    /// `scheduling.volcano.sh/queue-allocation-gate`. The match conditions of the webhooks
    /// follow; admission policies have to be generated with them.
    queue_gate_aliases: Vec<String>,
    /// Labels that name a WorkloadPriorityClass besides `sluice.dev/priority-class`, for instance
    /// `kueue.x-k8s.io/priority-class`.
    priority_class_label_aliases: Vec<String>,
    /// Annotations that name the fewest pods that a job accepts, besides `sluice.dev/min-parallelism`, for instance
    /// `kueue.x-k8s.io/job-min-parallelism`.
    min_parallelism_annotation_aliases: Vec<String>,
    /// Labels that name the group of a bare pod besides `sluice.dev/pod-group-name`, for instance
    /// `kueue.x-k8s.io/pod-group-name`.
    pod_group_name_label_aliases: Vec<String>,
    /// Annotations that count the pods of a group besides `sluice.dev/pod-group-total-count`, for instance
    /// `kueue.x-k8s.io/pod-group-total-count`.
    pod_group_total_count_annotation_aliases: Vec<String>,
    /// Annotations that say whether a pod of a group may be replaced besides `sluice.dev/retriable-in-group`, for
    /// instance `kueue.x-k8s.io/retriable-in-group`.
    retriable_in_group_annotation_aliases: Vec<String>,
}

/// What the aliases of a field are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Label,
    Annotation,
    Gate,
}

impl Form {
    fn rule(self) -> &'static str {
        match self {
            Self::Label => "must be the key of a label (such as \"kueue.x-k8s.io/queue-name\")",
            Self::Annotation => {
                "must be the key of an annotation (such as \"kueue.x-k8s.io/job-min-parallelism\")"
            }
            Self::Gate => {
                "must be the name of a scheduling gate, and the key of an annotation (such as \
                 \"scheduling.volcano.sh/queue-allocation-gate\")"
            }
        }
    }
}

/// A field, its keys, and which key of Sluice's own they stand for.
struct Field<'a> {
    name: &'static str,
    form: Form,
    own: Option<&'static str>,
    keys: &'a [String],
}

impl Aliases {
    /// All fields. The queue labels and the queue gates are read under all their names where they are read.
    fn fields(&self) -> [Field<'_>; 8] {
        let field = |name, form, own, keys| Field {
            name,
            form,
            own,
            keys,
        };
        [
            field(
                QUEUE_LABEL_ALIASES,
                Form::Label,
                None,
                &self.queue_label_aliases,
            ),
            field(
                QUEUE_ANNOTATION_ALIASES,
                Form::Annotation,
                Some(QUEUE_NAME_LABEL),
                &self.queue_annotation_aliases,
            ),
            field(
                QUEUE_GATE_ALIASES,
                Form::Gate,
                None,
                &self.queue_gate_aliases,
            ),
            field(
                "priorityClassLabelAliases",
                Form::Label,
                Some(PRIORITY_CLASS_LABEL),
                &self.priority_class_label_aliases,
            ),
            field(
                "minParallelismAnnotationAliases",
                Form::Annotation,
                Some(MIN_PARALLELISM_ANNOTATION),
                &self.min_parallelism_annotation_aliases,
            ),
            field(
                "podGroupNameLabelAliases",
                Form::Label,
                Some(POD_GROUP_LABEL),
                &self.pod_group_name_label_aliases,
            ),
            field(
                "podGroupTotalCountAnnotationAliases",
                Form::Annotation,
                Some(POD_GROUP_TOTAL_ANNOTATION),
                &self.pod_group_total_count_annotation_aliases,
            ),
            field(
                "retriableInGroupAnnotationAliases",
                Form::Annotation,
                Some(RETRIABLE_IN_GROUP_ANNOTATION),
                &self.retriable_in_group_annotation_aliases,
            ),
        ]
    }

    /// The keys that presets add to a field.
    fn preset_keys(&self, field: &Field<'_>) -> impl Iterator<Item = &'static str> {
        let name = field.name;
        let systems = self.alias_presets.iter().map(|preset| preset.system());
        systems.flat_map(move |system| foreign_keys(system, name))
    }

    /// The keys of a field, those of presets first.
    fn keys(&self, field: &Field<'_>) -> Vec<String> {
        let mut keys: Vec<String> = self.preset_keys(field).map(str::to_owned).collect();
        for key in field.keys {
            if !keys.contains(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// The labels that name a queue besides Sluice's own.
    pub fn queue_labels(&self) -> Vec<String> {
        let [labels, ..] = self.fields();
        self.keys(&labels)
    }

    /// The annotations that name a queue.
    pub fn queue_annotations(&self) -> Vec<String> {
        let [_, annotations, ..] = self.fields();
        self.keys(&annotations)
    }

    /// The names of the queue gate besides Sluice's own.
    pub fn queue_gates(&self) -> Vec<String> {
        let [_, _, gates, ..] = self.fields();
        self.keys(&gates)
    }

    /// All others, by the keys that they stand for.
    pub fn key_aliases(&self) -> KeyAliases {
        let fields = self.fields();
        let aliases = fields.iter().filter_map(|field| {
            let own = MetadataKey::own(field.own?);
            let keys = self.keys(field).into_iter();
            let aliases = match field.form {
                Form::Label => keys.map(MetadataKey::Label).collect(),
                Form::Annotation | Form::Gate => keys.map(MetadataKey::Annotation).collect(),
            };
            Some((own, aliases))
        });
        KeyAliases::new(aliases)
    }

    /// What is wrong with them, each with its place in the configuration.
    pub(crate) fn check(&self, problems: &mut Vec<Problem>) {
        for (index, preset) in self.alias_presets.iter().enumerate() {
            if self
                .alias_presets
                .iter()
                .take(index)
                .any(|before| before == preset)
            {
                let field = format!("aliasPresets[{index}]");
                problems.push(Problem::duplicate(field, format!("{preset:?}")));
            }
        }
        let fields = self.fields();
        for (index, field) in fields.iter().enumerate() {
            problems.extend(field.problems());
            for (place, key) in field.keys.iter().enumerate() {
                // Of two fields that list a key, the second is told. What a preset adds may be in any other field.
                let is_in = |(at, other): &(usize, &Field<'_>)| {
                    *at < index && other.keys.contains(key)
                        || *at != index && self.preset_keys(other).any(|preset| preset == key)
                };
                let mut others = fields.iter().enumerate();
                if let Some((_, other)) = others.find(is_in) {
                    let place = format!("{}[{place}]", field.name);
                    let rule = format!("may not also be one of {}", other.name);
                    problems.push(Problem::invalid(place, key.clone(), rule));
                }
            }
        }
    }
}

impl Field<'_> {
    fn problems(&self) -> Vec<Problem> {
        let values = self.keys.iter().enumerate();
        values
            .filter_map(|(index, value)| self.problem(index, value))
            .collect()
    }

    fn problem(&self, index: usize, value: &str) -> Option<Problem> {
        let field = format!("{}[{index}]", self.name);
        let domain = value.split_once('/').map_or("", |(domain, _)| domain);
        let is_own = domain == GROUP || domain.ends_with(&format!(".{GROUP}"));
        let rule = if !is_qualified_name(value) {
            self.form.rule().to_owned()
        } else if is_own {
            format!("may not be a key of {GROUP}: Sluice's own need no alias")
        } else if GATE_ANNOTATIONS.contains(&value) {
            "is a gate annotation".to_owned()
        } else if is_of_kubernetes(domain) || OF_KUBERNETES.contains(&value) {
            "may not be a key of Kubernetes itself".to_owned()
        } else if self.keys.iter().take(index).any(|other| other == value) {
            return Some(Problem::duplicate(field, value));
        } else {
            return None;
        };
        Some(Problem::invalid(field, value, rule))
    }
}

/// Labels without a domain that controllers of Kubernetes set on their pods.
const OF_KUBERNETES: [&str; 5] = [
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
];

/// The domains that Kubernetes keeps for itself: nobody's queues are named there.
fn is_of_kubernetes(domain: &str) -> bool {
    domain == "kubernetes.io" || domain == "k8s.io" || domain.ends_with(".kubernetes.io")
}

#[cfg(test)]
mod tests;
