//! What an installed Sluice is waited for: its rights, and that the API server calls and trusts its webhooks.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;

use super::NAME;
use crate::wait::eventually;

/// The controllers aggregate roles in milliseconds; the rest is for a loaded machine.
const RIGHTS_DEADLINE: Duration = Duration::from_mins(3);

/// The roles of all kinds come together a moment after they were applied.
pub(super) async fn wait_for_rights(kubeconfig: &Path) -> Result<()> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client_of(kubeconfig).await?);
    let may = async |verb: &str, group: &str, resource: &str| {
        let asked = serde_json::from_value(json!({
            "spec": { "resourceAttributes": { "verb": verb, "group": group, "resource": resource } },
        }))?;
        let answer = reviews.create(&PostParams::default(), &asked).await?;
        let is_allowed = answer.status.is_some_and(|status| status.allowed);
        ensure!(is_allowed, "may not {verb} {resource}.{group}");
        Ok(())
    };
    eventually("Sluice to get its rights", RIGHTS_DEADLINE, async || {
        may("list", "batch", "jobs").await?;
        may("create", "sluice.dev", "workloads").await
    })
    .await
}

/// A client of the user of a kubeconfig, without kube's retries.
pub(super) async fn client_of(kubeconfig: &Path) -> Result<kube::Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// Whether the API server has a CA to trust for every webhook.
pub(super) async fn trusted(client: &kube::Client) -> Result<()> {
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let check = |webhook: &str, config: &WebhookClientConfig| {
        ensure!(config.ca_bundle.is_some(), "{webhook} has no caBundle");
        Ok(())
    };
    for webhook in validating.get(NAME).await?.webhooks.iter().flatten() {
        check(&webhook.name, &webhook.client_config)?;
    }
    for webhook in mutating.get(NAME).await?.webhooks.iter().flatten() {
        check(&webhook.name, &webhook.client_config)?;
    }
    Ok(())
}

/// Whether a job with a gate would be held: the API server has heard of the webhooks and the
/// certificate, and Sluice of the `JobKind`. A dry run, so nothing stays.
pub(super) async fn holds(client: &kube::Client) -> Result<()> {
    let job: Job = serde_json::from_value(json!({
        "metadata": {
            "generateName": "testbed-probe-",
            "annotations": { "kueue.x-k8s.io/scheduling-gated-by": "testbed.sluice.dev/probe" },
        },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "example.com/none" }],
        } } },
    }))?;
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let held = jobs.create(&dry_run, &job).await?.spec;
    let held = held.and_then(|spec| spec.suspend);
    ensure!(held == Some(true), "a job with a gate is not held");
    Ok(())
}
