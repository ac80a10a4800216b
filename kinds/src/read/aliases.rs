//! Keys of others that mean the same as keys of Sluice's own, as users of Kueue and Volcano set them. An object that
//! carries one is taken as if it had Sluice's own key with that value. The labels that name a queue, and the names of
//! the queue gate, are read under all their names where they are read (`view.rs`, `crate::gates::scheduling`).

use std::collections::BTreeMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, RemoveOperation};
use serde_json::{Value, json};
use sluice_crds::{
    MIN_PARALLELISM_ANNOTATION, POD_GROUP_LABEL, POD_GROUP_TOTAL_ANNOTATION, PRIORITY_CLASS_LABEL,
    QUEUE_GATE, QUEUE_NAME_LABEL, RETRIABLE_IN_GROUP_ANNOTATION,
};

/// The field of the configuration that lists labels which name a queue.
pub const QUEUE_LABEL_ALIASES: &str = "queueLabelAliases";
/// The field of the configuration that lists annotations which name a queue.
pub const QUEUE_ANNOTATION_ALIASES: &str = "queueAnnotationAliases";
/// The field of the configuration that lists names of the queue gate.
pub const QUEUE_GATE_ALIASES: &str = "queueGateAliases";

/// Another system, whose keys have a meaning here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Kueue.
    Kueue,
    /// Volcano.
    Volcano,
}

/// A key by which another system says what a key of Sluice's own says.
#[derive(Debug)]
pub struct ForeignKey {
    /// Whose it is.
    pub system: System,
    /// Where it stands: `labels` or `annotations`.
    pub map: &'static str,
    /// The key.
    pub key: &'static str,
    /// The field of the configuration that lists such keys.
    pub field: &'static str,
    /// The key of Sluice's own.
    pub own: &'static str,
}

impl ForeignKey {
    const fn new(
        system: System,
        (map, key): (&'static str, &'static str),
        field: &'static str,
        own: &'static str,
    ) -> Self {
        Self {
            system,
            map,
            key,
            field,
            own,
        }
    }

    /// The key, with where it stands.
    pub fn metadata_key(&self) -> MetadataKey {
        match self.map {
            "labels" => MetadataKey::Label(self.key.to_owned()),
            _ => MetadataKey::Annotation(self.key.to_owned()),
        }
    }
}

/// What users of Kueue and Volcano set on jobs and pods.
#[rustfmt::skip]
pub const FOREIGN_KEYS: [ForeignKey; 8] = [
    ForeignKey::new(System::Kueue, ("labels", "kueue.x-k8s.io/queue-name"), QUEUE_LABEL_ALIASES, QUEUE_NAME_LABEL),
    ForeignKey::new(System::Kueue, ("labels", "kueue.x-k8s.io/priority-class"), "priorityClassLabelAliases", PRIORITY_CLASS_LABEL),
    ForeignKey::new(System::Kueue, ("labels", "kueue.x-k8s.io/pod-group-name"), "podGroupNameLabelAliases", POD_GROUP_LABEL),
    ForeignKey::new(System::Kueue, ("annotations", "kueue.x-k8s.io/pod-group-total-count"), "podGroupTotalCountAnnotationAliases", POD_GROUP_TOTAL_ANNOTATION),
    ForeignKey::new(System::Kueue, ("annotations", "kueue.x-k8s.io/job-min-parallelism"), "minParallelismAnnotationAliases", MIN_PARALLELISM_ANNOTATION),
    ForeignKey::new(System::Kueue, ("annotations", "kueue.x-k8s.io/retriable-in-group"), "retriableInGroupAnnotationAliases", RETRIABLE_IN_GROUP_ANNOTATION),
    ForeignKey::new(System::Volcano, ("annotations", "scheduling.volcano.sh/queue-name"), QUEUE_ANNOTATION_ALIASES, QUEUE_NAME_LABEL),
    ForeignKey::new(System::Volcano, ("annotations", "scheduling.volcano.sh/queue-allocation-gate"), QUEUE_GATE_ALIASES, QUEUE_GATE),
];

/// The keys of another system that this field of the configuration would list.
pub fn foreign_keys(system: System, field: &'static str) -> impl Iterator<Item = &'static str> {
    let keys = FOREIGN_KEYS.iter();
    let keys = keys.filter(move |foreign| foreign.system == system && foreign.field == field);
    keys.map(|foreign| foreign.key)
}

/// A key of the metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataKey {
    /// The key of a label.
    Label(String),
    /// The key of an annotation.
    Annotation(String),
}

impl MetadataKey {
    /// A key of Sluice's own, where it stands.
    pub fn own(key: &str) -> Self {
        if matches!(
            key,
            QUEUE_NAME_LABEL | PRIORITY_CLASS_LABEL | POD_GROUP_LABEL
        ) {
            Self::Label(key.to_owned())
        } else {
            Self::Annotation(key.to_owned())
        }
    }

    /// The value that `object` has under it.
    fn value<'a>(&self, object: &'a Value) -> Option<&'a str> {
        self.value_in(object.get("metadata")?)
    }

    /// The value under it in the metadata of an object, or of a template.
    pub fn value_in<'a>(&self, metadata: &'a Value) -> Option<&'a str> {
        let (map, key) = self.parts();
        metadata.get(map)?.get(key)?.as_str()
    }

    /// The map in the metadata, and the key there.
    pub fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Label(key) => ("labels", key),
            Self::Annotation(key) => ("annotations", key),
        }
    }
}

/// Other keys for keys of Sluice's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyAliases(BTreeMap<MetadataKey, Vec<MetadataKey>>);

/// How an object gets Sluice's own key, or loses it.
#[derive(Debug, PartialEq, Eq)]
pub struct OwnKey<'a> {
    /// The key.
    pub key: &'a MetadataKey,
    /// Its value; none if it goes.
    pub value: Option<String>,
}

impl OwnKey<'_> {
    /// What writes it into `object`, or takes it away.
    pub fn operation(&self, object: &Value) -> PatchOperation {
        let (map, key) = self.key.parts();
        let has_map = object
            .pointer(&format!("/metadata/{map}"))
            .is_some_and(Value::is_object);
        let below = PointerBuf::from_tokens(["metadata", map, key]);
        match &self.value {
            Some(value) if has_map => PatchOperation::Add(AddOperation {
                path: below,
                value: json!(value),
            }),
            Some(value) => PatchOperation::Add(AddOperation {
                path: PointerBuf::from_tokens(["metadata", map]),
                value: json!({key: value}),
            }),
            None => PatchOperation::Remove(RemoveOperation { path: below }),
        }
    }
}

impl KeyAliases {
    /// Those of another system.
    pub fn of_system(system: System) -> Self {
        let mut aliases = BTreeMap::<_, Vec<_>>::new();
        for foreign in &FOREIGN_KEYS {
            if foreign.system == system
                && !matches!(foreign.field, QUEUE_LABEL_ALIASES | QUEUE_GATE_ALIASES)
            {
                aliases
                    .entry(MetadataKey::own(foreign.own))
                    .or_default()
                    .push(foreign.metadata_key());
            }
        }
        Self(aliases)
    }

    /// These, and then those of `others`.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        for (own, keys) in others.0 {
            self.0.entry(own).or_default().extend(keys);
        }
        self
    }

    /// These other keys, each list by the key that it stands for.
    pub fn new(aliases: impl IntoIterator<Item = (MetadataKey, Vec<MetadataKey>)>) -> Self {
        let aliases = aliases.into_iter();
        Self(aliases.filter(|(_, others)| !others.is_empty()).collect())
    }

    /// The other keys for `own`.
    pub fn of(&self, own: &MetadataKey) -> &[MetadataKey] {
        self.0.get(own).map(Vec::as_slice).unwrap_or_default()
    }

    /// All other keys.
    pub fn all(&self) -> impl Iterator<Item = &MetadataKey> {
        self.0.values().flatten()
    }

    /// What `new` lacks of Sluice's own keys. Where it has one, that counts; but an edit of `old` that changes only
    /// another key is one of Sluice's own.
    pub fn own_keys(&self, old: Option<&Value>, new: &Value) -> Vec<OwnKey<'_>> {
        let value = |keys: &[MetadataKey], object: &Value| {
            let found = keys.iter().find_map(|key| key.value(object));
            found.map(str::to_owned)
        };
        let changes = self.0.iter().filter_map(|(key, others)| {
            let (own, other) = (key.value(new), value(others, new));
            let Some(old) = old else {
                let value = Some(other?);
                return own.is_none().then_some(OwnKey { key, value });
            };
            let is_edited = other != value(others, old) && own == key.value(old);
            (is_edited && other.as_deref() != own).then_some(OwnKey { key, value: other })
        });
        changes.collect()
    }

    /// Puts Sluice's own keys beside the others. Those that are there stay.
    pub fn complete(
        &self,
        labels: &mut BTreeMap<String, String>,
        annotations: &mut BTreeMap<String, String>,
    ) {
        for (own, others) in &self.0 {
            let mut found = others.iter().filter_map(|other| match other {
                MetadataKey::Label(key) => labels.get(key).cloned(),
                MetadataKey::Annotation(key) => annotations.get(key).cloned(),
            });
            if let Some(value) = found.next() {
                match own {
                    MetadataKey::Label(key) => labels.entry(key.clone()).or_insert(value),
                    MetadataKey::Annotation(key) => annotations.entry(key.clone()).or_insert(value),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn label_key(key: &str) -> MetadataKey {
        MetadataKey::Label(key.to_owned())
    }

    fn aliases() -> KeyAliases {
        let queue = MetadataKey::Annotation("volcano/queue".to_owned());
        KeyAliases::new([
            (
                label_key("own/class"),
                vec![label_key("kueue/class"), label_key("acme/class")],
            ),
            (label_key("own/queue"), vec![queue]),
            (label_key("own/none"), vec![]),
        ])
    }

    #[test]
    fn an_object_gets_sluice_s_own_keys() {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        let class = |value: Option<&str>| vec![("own/class", value.map(str::to_owned))];
        let none = || labels(json!({}));
        let kueue = |value: &str| labels(json!({"kueue/class": value}));
        let both = |own: &str, other: &str| labels(json!({"own/class": own, "kueue/class": other}));
        let cases = [
            ("nothing", None, none(), vec![]),
            ("new", None, kueue("a"), class(Some("a"))),
            (
                "the second",
                None,
                labels(json!({"acme/class": "a"})),
                class(Some("a")),
            ),
            ("the own counts", None, both("b", "a"), vec![]),
            ("untouched", Some(kueue("a")), kueue("a"), vec![]),
            (
                "edited",
                Some(both("a", "a")),
                both("a", "b"),
                class(Some("b")),
            ),
            ("both edited", Some(both("a", "a")), both("c", "b"), vec![]),
            (
                "taken away",
                Some(both("a", "a")),
                labels(json!({"own/class": "a"})),
                class(None),
            ),
            (
                "made the same",
                Some(both("a", "b")),
                both("a", "a"),
                vec![],
            ),
        ];
        for (name, old, new, expected) in cases {
            let aliases = aliases();
            let found = aliases.own_keys(old.as_ref(), &new);
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(key, value)| (label_key(key), value))
                .collect();
            let found: Vec<_> = found
                .into_iter()
                .map(|own| (own.key.clone(), own.value))
                .collect();
            assert_eq!(found, expected, "{name}");
        }
        let queued = json!({"metadata": {"annotations": {"volcano/queue": "q"}}});
        let aliases = aliases();
        let found = aliases.own_keys(None, &queued);
        assert_eq!(*found[0].key, label_key("own/queue"));
    }

    #[test]
    fn what_is_read_without_a_webhook_is_completed() {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let mut labels = map(&[("kueue/class", "a")]);
        let mut annotations = map(&[("volcano/queue", "q")]);
        aliases().complete(&mut labels, &mut annotations);
        assert_eq!(
            labels,
            map(&[("kueue/class", "a"), ("own/class", "a"), ("own/queue", "q")])
        );
        aliases().complete(&mut labels, &mut annotations);
        assert_eq!(labels.len(), 3);
    }
}
