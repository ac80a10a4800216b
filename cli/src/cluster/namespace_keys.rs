//! What namespaces say to Sluice: one label. Other keys of its domain there are mistakes, which nobody would tell: a
//! namespace with a misspelt label looks managed, and is not.
//!
//! Must not know what follows from the label.

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use sluice_crds::{ENFORCEMENT_LABEL, GROUP};

/// The keys of Sluice's domain on a namespace that mean nothing there, each with the key that may be meant.
pub fn unknown_keys(namespace: &Namespace) -> Vec<String> {
    let name = namespace.name_any();
    let labels = namespace.labels().keys().map(|key| ("labels", key));
    let annotations = namespace.annotations().keys();
    let annotations = annotations.map(|key| ("annotations", key));
    let ours = labels.chain(annotations).filter(|(_, key)| {
        let domain = key.split_once('/').map(|(domain, _)| domain);
        domain == Some(GROUP)
    });
    let unknown = ours.filter(|found| *found != ("labels", &ENFORCEMENT_LABEL.to_owned()));
    unknown
        .map(|(map, key)| {
            format!(
                "namespace {name}: metadata.{map}[{key}]: has no effect on a namespace; set \
                 metadata.labels[{ENFORCEMENT_LABEL}]"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_that_mean_nothing_are_told_with_the_one_that_does() {
        let told = |labels: serde_json::Value, annotations: serde_json::Value| {
            let metadata = json!({"name": "a", "labels": labels, "annotations": annotations});
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            unknown_keys(&serde_json::from_value(namespace).unwrap())
        };
        let none = json!({});
        let well =
            json!({"sluice.dev/enforcement": "Hold", "team": "a", "acme.io/enforcment": "x"});
        assert!(told(well, none.clone()).is_empty());
        assert_eq!(
            told(
                json!({"sluice.dev/enforcment": "Hold"}),
                json!({"sluice.dev/enforcement": "Hold"})
            ),
            [
                "namespace a: metadata.labels[sluice.dev/enforcment]: has no effect on a namespace; set metadata.labels[sluice.dev/enforcement]",
                "namespace a: metadata.annotations[sluice.dev/enforcement]: has no effect on a namespace; set metadata.labels[sluice.dev/enforcement]",
            ]
        );
    }
}
