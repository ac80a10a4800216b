//! What Sluice is made of: cluster-scoped objects with its label, which only administrators can make, and objects with its
//! label in its own namespace. Objects with the label elsewhere are somebody else's. The namespace itself goes only if
//! nobody else's objects are in it (`parts/others.rs`).

mod others;

use kube::Client;
use kube::api::{DeleteParams, ListParams, ObjectMeta};

use crate::cluster::{ClusterError, DryRun, Resource, Served, answer};
use crate::uninstall::outcome::{UninstallError, UninstallReport};

/// The label of all parts.
const LABEL: &str = "app.kubernetes.io/name=sluice";
/// The Lease.
pub(super) const NAME: &str = "sluice";
/// The policies that limit Sluice's own account: they go when the account has no rights.
const JAIL: &str = "sluice-jail";

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const CERT_MANAGER: &str = "cert-manager.io";

/// A kind of parts: group, version, kind.
type Kind = (&'static str, &'static str, &'static str);

/// What holds and judges. Bindings before policies: a policy without one judges nothing.
const HOLDS: [Kind; 6] = [
    (ADMISSION, "v1", "MutatingWebhookConfiguration"),
    (ADMISSION, "v1", "ValidatingWebhookConfiguration"),
    (ADMISSION, "v1", "MutatingAdmissionPolicyBinding"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicyBinding"),
    (ADMISSION, "v1", "MutatingAdmissionPolicy"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicy"),
];

/// The process, and the rights of whatever else runs with its account. First what leads to it: while nobody answers
/// there, the API server can't tell which kinds it has, and ends no namespace.
const PROCESS: [Kind; 4] = [
    ("apiregistration.k8s.io", "v1", "APIService"),
    ("apps", "v1", "Deployment"),
    (RBAC, "v1", "ClusterRoleBinding"),
    (RBAC, "v1", "RoleBinding"),
];

/// What is left of [`HOLDS`]: the limits of Sluice's own account, and webhooks that it has made again before it ended.
const LEFT: [Kind; 4] = [
    (ADMISSION, "v1", "MutatingWebhookConfiguration"),
    (ADMISSION, "v1", "ValidatingWebhookConfiguration"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicyBinding"),
    (ADMISSION, "v1", "ValidatingAdmissionPolicy"),
];

/// Everything else. The namespace last: it takes with it what is in it.
const REST: [Kind; 16] = [
    ("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema"),
    (RBAC, "v1", "ClusterRole"),
    (RBAC, "v1", "Role"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("monitoring.coreos.com", "v1", "ServiceMonitor"),
    // Before the Secret, which cert-manager would make anew.
    (CERT_MANAGER, "v1", "Certificate"),
    (CERT_MANAGER, "v1", "Issuer"),
    ("networking.k8s.io", "v1", "NetworkPolicy"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("", "v1", "Service"),
    ("", "v1", "ResourceQuota"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "Secret"),
    ("coordination.k8s.io", "v1", "Lease"),
    // By it Sluice's namespace is found when this is run again.
    ("", "v1", "ServiceAccount"),
    ("", "v1", "Namespace"),
];

/// Deletes the parts.
pub(super) struct Parts<'a> {
    client: &'a Client,
    served: &'a Served,
    namespace: &'a str,
    dry_run: DryRun,
}

impl<'a> Parts<'a> {
    pub(super) fn new(
        client: &'a Client,
        served: &'a Served,
        namespace: &'a str,
        dry_run: DryRun,
    ) -> Self {
        Self {
            client,
            served,
            namespace,
            dry_run,
        }
    }

    /// Deletes what holds new objects and judges edits, but for the limits of Sluice's own account.
    pub(super) async fn delete_admission(
        &mut self,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        let is_no_jail = |name: &str| !name.starts_with(JAIL);
        self.delete_kinds(&HOLDS, is_no_jail, report).await
    }

    /// Deletes the Deployment, and the rights of the account.
    pub(super) async fn delete_process(
        &mut self,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        self.delete_kinds(&PROCESS, |_| true, report).await
    }

    /// Deletes everything else but CRDs and what is of their kinds.
    pub(super) async fn delete_rest(
        &mut self,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        // In a dry run the others are there still, and were told of.
        let is_dry = self.dry_run.is_dry();
        let is_left = |name: &str| !is_dry || name.starts_with(JAIL);
        self.delete_kinds(&LEFT, is_left, report).await?;
        self.delete_kinds(&REST, |_| true, report).await
    }

    /// Deletes the CRDs of the group, and with them all of its objects.
    pub(super) async fn delete_crds(
        &mut self,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        let kind = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let Some(resource) = self.served.of_kind(kind.0, kind.1, kind.2) else {
            return Ok(());
        };
        let all = ListParams::default();
        let of_group = format!(".{}", sluice_crds::GROUP);
        for name in self.names(&resource, &all).await? {
            if name.ends_with(&of_group) {
                self.delete(&resource, &name, report).await?;
            }
        }
        Ok(())
    }

    async fn delete_kinds(
        &mut self,
        kinds: &[Kind],
        is_wanted: impl Fn(&str) -> bool,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        for (group, version, kind) in kinds {
            let Some(resource) = self.served.of_kind(group, version, kind) else {
                continue;
            };
            // Sluice makes the Lease itself, by its name and without the label.
            let params = match *kind {
                "Lease" => ListParams::default().fields(&format!("metadata.name={NAME}")),
                "Namespace" => {
                    let name = format!("metadata.name={}", self.namespace);
                    ListParams::default().labels(LABEL).fields(&name)
                }
                _ => ListParams::default().labels(LABEL),
            };
            for name in self.names(&resource, &params).await? {
                if is_wanted(&name) && !(*kind == "Namespace" && self.is_shared(report).await?) {
                    self.delete(&resource, &name, report).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the namespace holds objects of others, which is told: they would go with it.
    async fn is_shared(&self, report: &mut UninstallReport<'_>) -> Result<bool, UninstallError> {
        let namespace = self.namespace;
        let other = others::find(self.client, self.served, namespace).await?;
        if let Some(other) = &other {
            report.left(format!(
                "namespace/{namespace} stays: it holds {other}, which is not Sluice's"
            ))?;
        }
        Ok(other.is_some())
    }

    async fn names(
        &self,
        resource: &Resource,
        params: &ListParams,
    ) -> Result<Vec<String>, ClusterError> {
        let objects = resource.objects(self.client, Some(self.namespace));
        let what = format!("list {}", resource.api.plural);
        let list = answer(what, objects.list_metadata(params)).await?;
        // What is being deleted takes its time.
        let found = list.items.into_iter().map(|object| object.metadata);
        let left = found.filter(|metadata: &ObjectMeta| metadata.deletion_timestamp.is_none());
        Ok(left.filter_map(|metadata| metadata.name).collect())
    }

    async fn delete(
        &self,
        resource: &Resource,
        name: &str,
        report: &mut UninstallReport<'_>,
    ) -> Result<(), UninstallError> {
        let objects = resource.objects(self.client, Some(self.namespace));
        let params = DeleteParams {
            dry_run: self.dry_run.is_dry(),
            ..DeleteParams::background()
        };
        let object = format!("{}/{name}", resource.name);
        match answer(format!("delete {object}"), objects.delete(name, &params)).await {
            Ok(_) => report.done(format!("{object} deleted"))?,
            // Somebody else was faster.
            Err(error) if error.is_not_found() => {}
            Err(error) => report.failed(format!("{object}: {error}"))?,
        }
        Ok(())
    }
}
