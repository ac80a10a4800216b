//! What is required of objects in which namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::managed::{Enforced, ManagedNamespaces, ManagedNamespacesSpec};
use super::unlabelled::Unlabelled;

fn of(managed: &ManagedNamespaces, label: Option<&str>) -> Enforced {
    let label = label.map(|value| ("sluice.dev/enforcement".to_owned(), value.to_owned()));
    managed.of_namespace("n", &label.into_iter().collect::<BTreeMap<_, _>>())
}

fn everywhere(unlabelled: Unlabelled, dry_run: bool) -> ManagedNamespaces {
    let spec = ManagedNamespacesSpec {
        selector: Some(LabelSelector::default()),
        unlabelled,
        dry_run,
        ..ManagedNamespacesSpec::default()
    };
    ManagedNamespaces::compile(&spec, "").unwrap()
}

#[test]
fn the_label_goes_before_the_configuration() {
    let by_label = ManagedNamespaces::default();
    let configured = everywhere(Unlabelled::Refuse, true);
    let cases = [
        (
            None,
            (Unlabelled::Ignore, false),
            (Unlabelled::Refuse, true),
        ),
        (
            Some("Default"),
            (Unlabelled::Default, false),
            (Unlabelled::Default, false),
        ),
        (
            Some("Hold"),
            (Unlabelled::Hold, false),
            (Unlabelled::Hold, false),
        ),
        (
            Some("Refuse"),
            (Unlabelled::Refuse, false),
            (Unlabelled::Refuse, false),
        ),
        (
            Some("Ignore"),
            (Unlabelled::Ignore, false),
            (Unlabelled::Ignore, false),
        ),
        (
            Some("DryRun"),
            (Unlabelled::Hold, true),
            (Unlabelled::Refuse, true),
        ),
        // Nobody knows what was meant: an object waits.
        (
            Some("refuse"),
            (Unlabelled::Hold, false),
            (Unlabelled::Hold, false),
        ),
        (
            Some(""),
            (Unlabelled::Hold, false),
            (Unlabelled::Hold, false),
        ),
    ];
    let enforced = |(unlabelled, is_dry_run)| Enforced {
        unlabelled,
        is_dry_run,
    };
    for (label, without, with) in cases {
        assert_eq!(of(&by_label, label), enforced(without), "{label:?}");
        assert_eq!(of(&configured, label), enforced(with), "{label:?}");
    }
}

#[test]
fn excluded_namespaces_are_never_managed() {
    let managed = everywhere(Unlabelled::Refuse, false).without(["n".to_owned()]);
    for label in [None, Some("Hold")] {
        assert!(!of(&managed, label).requires_queue(), "{label:?}");
    }
}

#[test]
fn a_configuration_that_ignores_has_no_selector() {
    assert_eq!(everywhere(Unlabelled::Ignore, false).selector(), None);
    let selector = LabelSelector::default();
    assert_eq!(
        everywhere(Unlabelled::Hold, false).selector(),
        Some(&selector)
    );
}
