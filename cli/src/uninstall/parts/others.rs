//! What is in Sluice's namespace besides Sluice. An overlay of kustomize may put Sluice where others are already: it gives
//! their namespace Sluice's label, as it renames the shipped one.

use kube::Client;
use kube::api::{ListParams, ObjectMeta};
use sluice_crds::{CERTIFICATE_SECRET, GROUP, VERSION};

use crate::cluster::{ClusterError, Served, answer};

/// What has no label of Sluice's parts.
const WITHOUT_LABEL: &str = "app.kubernetes.io/name!=sluice";

/// What a namespace is used for: group, version, kind. What runs comes first, as it says most about whose the namespace is.
const USES: [(&str, &str, &str); 11] = [
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("", "v1", "Pod"),
    ("", "v1", "PersistentVolumeClaim"),
    ("", "v1", "Service"),
    (GROUP, VERSION, "LocalQueue"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
];

/// ConfigMaps that controllers make in every namespace: Kubernetes', OpenShift's and Istio's.
const EVERYWHERE: [&str; 3] = [
    "kube-root-ca.crt",
    "openshift-service-ca.crt",
    "istio-ca-root-cert",
];

/// Annotations of Secrets that are made for each account: its token, and what OpenShift lets it pull images with.
const OF_ACCOUNTS: [&str; 2] = [
    "kubernetes.io/service-account.name",
    "openshift.io/internal-registry-auth-token.service-account",
];

/// An object there that is somebody else's, as `pod/name`; None if there is none.
pub(super) async fn find(
    client: &Client,
    served: &Served,
    namespace: &str,
) -> Result<Option<String>, ClusterError> {
    let params = ListParams::default().labels(WITHOUT_LABEL);
    for (group, version, kind) in USES {
        let Some(resource) = served.of_kind(group, version, kind) else {
            continue;
        };
        let objects = resource.objects(client, Some(namespace));
        let what = format!("list {}", resource.api.plural);
        let list = answer(what, objects.list_metadata(&params)).await?;
        let mut found = list.items.into_iter().map(|object| object.metadata);
        let other = found.find(|metadata| is_of_others(kind, metadata));
        if let Some(name) = other.and_then(|metadata| metadata.name) {
            return Ok(Some(format!("{}/{name}", resource.name)));
        }
    }
    Ok(None)
}

/// Whether an object without Sluice's label is somebody's, and stays if nobody deletes it.
fn is_of_others(kind: &str, metadata: &ObjectMeta) -> bool {
    let name = metadata.name.as_deref().unwrap_or_default();
    let has = |key: &&str| {
        let annotations = metadata.annotations.as_ref();
        annotations.is_some_and(|annotations| annotations.contains_key(*key))
    };
    let comes_by_itself = match kind {
        "ConfigMap" => EVERYWHERE.contains(&name),
        // cert-manager makes that of the webhooks anew if it is deleted, by the Certificate of an earlier version without the
        // label.
        "Secret" => name == CERTIFICATE_SECRET || OF_ACCOUNTS.iter().any(has),
        _ => false,
    };
    !comes_by_itself && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_with_a_namespace_is_nobodys() {
        for (kind, metadata, expected) in [
            ("ConfigMap", json!({"name": "kube-root-ca.crt"}), false),
            (
                "ConfigMap",
                json!({"name": "openshift-service-ca.crt"}),
                false,
            ),
            ("ConfigMap", json!({"name": "settings"}), true),
            ("Service", json!({"name": "kube-root-ca.crt"}), true),
            (
                "Secret",
                json!({"name": "default-token-x", "annotations": {"kubernetes.io/service-account.name": "default"}}),
                false,
            ),
            ("Secret", json!({"name": CERTIFICATE_SECRET}), false),
            (
                "Secret",
                json!({"name": "password", "annotations": {"a.io/b": "c"}}),
                true,
            ),
            // Helm would forget a release that is installed still.
            (
                "Secret",
                json!({"name": "sh.helm.release.v1.db.v1", "labels": {"owner": "helm"}}),
                true,
            ),
            ("Pod", json!({"name": "db-0"}), true),
            (
                "Pod",
                json!({"name": "db-0", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
                false,
            ),
        ] {
            let read: ObjectMeta = serde_json::from_value(metadata.clone()).unwrap();
            assert_eq!(is_of_others(kind, &read), expected, "{kind} {metadata}");
        }
    }
}
