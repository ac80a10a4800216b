//! Which Gates, and which namespaces, have a webhook of their own: those that apply to objects which ask for nothing of
//! Sluice. What that is asked lies in `sluice_webhooks::manifests`.

use std::collections::BTreeSet;

use sluice_webhooks::Policy;
use sluice_webhooks::manifests::{APPLIED_MAX, AppliedGate, EnforcedNamespaces, ManagedResource};

/// Which Gates are set on all that they apply to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InPlace {
    gates: BTreeSet<String>,
    too_many: BTreeSet<String>,
}

impl InPlace {
    pub(super) fn is_in_place(&self, gate: &str) -> bool {
        self.gates.contains(gate)
    }

    pub(super) fn is_one_too_many(&self, gate: &str) -> bool {
        self.too_many.contains(gate)
    }
}

/// The Gates that are to have a webhook, and what is in place once they do. `kinds` are the managed kinds, each by its
/// group and name.
pub(super) fn wanted(
    policy: &Policy,
    kinds: &[(&str, &str, &ManagedResource)],
) -> (Vec<AppliedGate>, InPlace) {
    let (mut wanted, mut in_place) = (Vec::new(), InPlace::default());
    for (gate, applies_to) in policy.applied() {
        let Some(name) = gate.object_name() else {
            continue;
        };
        // Of one that is not sound the selector may be what no API server takes.
        let selector = policy.gate(gate).and_then(|spec| {
            let applies_to = spec.applies_to.as_ref();
            applies_to.and_then(|applies_to| applies_to.namespace_selector.clone())
        });
        let selector = selector.filter(|_| applies_to.reaches_others() && applies_to.is_sound());
        let Some(namespaces) = selector else {
            in_place.gates.insert(name);
            continue;
        };
        if APPLIED_MAX <= wanted.len() {
            in_place.too_many.insert(name);
            continue;
        }
        let resources = kinds.iter();
        let resources = resources.filter(|(group, kind, _)| applies_to.may_be(group, kind));
        wanted.push(AppliedGate {
            name: name.clone(),
            namespaces,
            resources: resources
                .map(|(.., resource)| (*resource).clone())
                .collect(),
            pods: applies_to.may_be("", "Pod"),
        });
        in_place.gates.insert(name);
    }
    (wanted, in_place)
}

/// The namespaces that have a webhook for objects without a queue: those with the label, always, so that it counts from
/// when it is set; and those that the configuration selects.
pub(super) fn enforced(policy: &Policy) -> Vec<EnforcedNamespaces> {
    let managed = policy.managed_namespaces();
    let selected = managed.selector();
    let selected =
        selected.map(|selector| EnforcedNamespaces::selected(selector, managed.is_dry_run()));
    let labelled = [
        EnforcedNamespaces::labelled(),
        EnforcedNamespaces::labelled_dry_run(),
    ];
    labelled.into_iter().chain(selected).collect()
}
