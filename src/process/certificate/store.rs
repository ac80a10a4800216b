//! Stores the certificate.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use sluice_crds::CERTIFICATE_SECRET;
use tokio::time::timeout;

use crate::process::answer::ApiAnswer;

/// Longest time to store a certificate: somebody's webhook may be asked about it, and hang.
const DEADLINE: Duration = Duration::from_secs(5);

/// Replaces the Secret. It carries its resourceVersion: of two replicas one fails and reads what the other has stored.
pub(super) async fn store(api: &Api<Secret>, secret: &Secret) -> Result<()> {
    let params = PostParams::default();
    let replaced = api.replace(CERTIFICATE_SECRET, &params, secret);
    let replaced = timeout(DEADLINE, replaced).await;
    match replaced.context("store the webhook certificate: no answer")? {
        Ok(_) => Ok(()),
        Err(error) if ApiAnswer::of(&error) == ApiAnswer::Conflict => Err(anyhow!(
            "somebody else stored a certificate at the same time"
        )),
        Err(error) => Err(error).context("store the webhook certificate"),
    }
}
