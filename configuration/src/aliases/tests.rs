use super::*;

fn told(labels: &[&str], gates: &[&str]) -> Vec<String> {
    let owned = |texts: &[&str]| -> Vec<String> { texts.iter().map(|&t| t.to_owned()).collect() };
    let aliases = Aliases {
        queue_label_aliases: owned(labels),
        queue_gate_aliases: owned(gates),
        ..Aliases::default()
    };
    let mut problems = Vec::new();
    aliases.check(&mut problems);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn aliases_that_are_used_elsewhere_are_accepted() {
    let labels = ["kueue.x-k8s.io/queue-name", "queue", "acme.io/Team_Queue"];
    let gates = ["scheduling.volcano.sh/queue-allocation-gate"];
    assert!(told(&labels, &gates).is_empty());
}

#[test]
fn aliases_that_can_not_be_meant_are_told_by_place_and_value() {
    for (label, expected) in [
        ("", "must be the key of a label"),
        ("a b", "must be the key of a label"),
        ("acme.io/", "must be the key of a label"),
        ("Acme.io/x", "must be the key of a label"),
        ("acme.io/a/b", "must be the key of a label"),
        ("a'] || true", "must be the key of a label"),
        ("sluice.dev/queue-name", "may not be a key of sluice.dev"),
        ("sluice.dev/managed", "may not be a key of sluice.dev"),
        (
            "kubernetes.io/metadata.name",
            "may not be a key of Kubernetes itself",
        ),
        ("job-name", "may not be a key of Kubernetes itself"),
        ("kueue.x-k8s.io/scheduling-gated-by", "is a gate annotation"),
    ] {
        let told = told(&["acme.io/queue", label], &[]);
        assert_eq!(told.len(), 1, "{told:?}");
        let start = format!("queueLabelAliases[1]: Invalid value: {label:?}: {expected}");
        assert!(told[0].starts_with(&start), "{told:?}");
    }
    assert_eq!(
        told(&["acme.io/q", "acme.io/q"], &[]),
        ["queueLabelAliases[1]: Duplicate value: \"acme.io/q\""]
    );
    assert_eq!(
        told(&["acme.io/q"], &["acme.io/q"]),
        [
            "queueGateAliases[0]: Invalid value: \"acme.io/q\": may not also be one of queueLabelAliases"
        ]
    );
    let own = told(&[], &["sluice.dev/queue-allocation-gate"]);
    assert!(
        own[0].starts_with("queueGateAliases[0]: Invalid value"),
        "{own:?}"
    );
}
#[test]
fn presets_have_all_keys_of_a_system() {
    let aliases = Aliases {
        alias_presets: vec![AliasPreset::Kueue, AliasPreset::Volcano],
        queue_label_aliases: vec![
            "acme.io/q".to_owned(),
            "kueue.x-k8s.io/queue-name".to_owned(),
        ],
        ..Aliases::default()
    };
    let mut problems = Vec::new();
    aliases.check(&mut problems);
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(
        aliases.queue_labels(),
        ["kueue.x-k8s.io/queue-name", "acme.io/q"]
    );
    assert_eq!(
        aliases.queue_gates(),
        ["scheduling.volcano.sh/queue-allocation-gate"]
    );
    let keys = aliases.key_aliases();
    let label = |key: &str| MetadataKey::Label(key.to_owned());
    let annotation = |key: &str| MetadataKey::Annotation(key.to_owned());
    for (own, other) in [
        (
            label("sluice.dev/queue-name"),
            annotation("scheduling.volcano.sh/queue-name"),
        ),
        (
            label("sluice.dev/priority-class"),
            label("kueue.x-k8s.io/priority-class"),
        ),
        (
            annotation("sluice.dev/min-parallelism"),
            annotation("kueue.x-k8s.io/job-min-parallelism"),
        ),
        (
            label("sluice.dev/pod-group-name"),
            label("kueue.x-k8s.io/pod-group-name"),
        ),
        (
            annotation("sluice.dev/pod-group-total-count"),
            annotation("kueue.x-k8s.io/pod-group-total-count"),
        ),
        (
            annotation("sluice.dev/retriable-in-group"),
            annotation("kueue.x-k8s.io/retriable-in-group"),
        ),
    ] {
        assert_eq!(keys.of(&own), [other]);
    }
    assert_eq!(Aliases::default().key_aliases(), KeyAliases::default());
}

/// The plugin, which reads no configuration, goes by the presets.
#[test]
fn presets_are_those_of_the_plugin() {
    let keys = |alias_presets| {
        let aliases = Aliases {
            alias_presets,
            ..Aliases::default()
        };
        aliases.key_aliases()
    };
    let [kueue, volcano] = [System::Kueue, System::Volcano].map(KeyAliases::of_system);
    assert_eq!(keys(vec![AliasPreset::Kueue]), kueue);
    assert_eq!(keys(vec![AliasPreset::Volcano]), volcano);
    let both = vec![AliasPreset::Kueue, AliasPreset::Volcano];
    assert_eq!(keys(both), kueue.and(volcano));
}

#[test]
fn a_key_means_one_thing() {
    let told = |aliases: Aliases| -> Vec<String> {
        let mut problems = Vec::new();
        aliases.check(&mut problems);
        problems.iter().map(ToString::to_string).collect()
    };
    let preset = |preset: AliasPreset| Aliases {
        alias_presets: vec![preset],
        ..Aliases::default()
    };
    let priority_class = vec!["kueue.x-k8s.io/priority-class".to_owned()];
    let gate = vec!["scheduling.volcano.sh/queue-allocation-gate".to_owned()];
    assert_eq!(
        told(Aliases {
            alias_presets: vec![AliasPreset::Kueue, AliasPreset::Kueue],
            pod_group_name_label_aliases: priority_class.clone(),
            ..Aliases::default()
        }),
        [
            "aliasPresets[1]: Duplicate value: \"Kueue\"",
            "podGroupNameLabelAliases[0]: Invalid value: \"kueue.x-k8s.io/priority-class\": may not also be \
             one of priorityClassLabelAliases"
        ]
    );
    // Also of a field that comes before the one that the preset adds the key to.
    assert_eq!(
        told(Aliases {
            queue_label_aliases: priority_class.clone(),
            ..preset(AliasPreset::Kueue)
        }),
        [
            "queueLabelAliases[0]: Invalid value: \"kueue.x-k8s.io/priority-class\": may not also be one of \
             priorityClassLabelAliases"
        ]
    );
    assert_eq!(
        told(Aliases {
            queue_annotation_aliases: gate.clone(),
            ..preset(AliasPreset::Volcano)
        }),
        [
            "queueAnnotationAliases[0]: Invalid value: \"scheduling.volcano.sh/queue-allocation-gate\": may not \
             also be one of queueGateAliases"
        ]
    );
    // In its own field it is what the preset says, and without the preset it may be anything.
    for aliases in [
        Aliases {
            priority_class_label_aliases: priority_class.clone(),
            ..preset(AliasPreset::Kueue)
        },
        Aliases {
            queue_annotation_aliases: gate,
            queue_label_aliases: priority_class,
            ..Aliases::default()
        },
    ] {
        assert_eq!(told(aliases), [""; 0]);
    }
}
