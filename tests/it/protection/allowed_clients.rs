//! Whom the webhook answers: with `--webhook-client-ca` only API servers that show a client certificate.

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_crds::QUEUE_NAME_LABEL;
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions, eventually};

use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY};

/// The name in the certificate that the API server shows to webhooks.
const API_SERVER: &str = "kube-apiserver-webhooks";

/// A Sluice whose webhook answers only clients of this name.
async fn answering(cp: &ControlPlane, name: &str) -> Result<Sluice> {
    let authority = cp.dir().join("pki/ca.crt");
    let options = SluiceOptions {
        args: vec![
            format!("--webhook-client-ca={}", authority.display()),
            format!("--webhook-client-name={name}"),
        ],
        ..SluiceOptions::new(BINARY)
    };
    Sluice::install(cp, options).await
}

#[tokio::test]
async fn only_api_servers_with_a_certificate_are_answered() -> Result<()> {
    let options = Options {
        webhook_client: Some(API_SERVER.to_owned()),
        ..Options::with_crds()?
    };
    let default = SluiceOptions::new(BINARY);
    bed::own("clients", default, options, async |bed, _| {
        // It is ready when a job that is created is held.
        let sluice = answering(&bed.cp, API_SERVER).await?;
        sluice.start().await?;
        sluice.stop().await?;

        let other = answering(&bed.cp, "another").await?;
        other.process().start_again()?;
        let container = json!({"name": "main", "image": "busybox"});
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "labels": {QUEUE_NAME_LABEL: "q"}},
            "spec": {"template": {"spec": {"containers": [container], "restartPolicy": "Never"}}},
        })
        .to_string();
        let create = ["create", "--dry-run=server", "-f", "-"];
        eventually("the webhook to hang up", DEADLINE, async || {
            ensure!(other.health("/readyz").await? == 200, "not ready");
            let refusal = bed.cp.kubectl(create, Some(&job)).await?.stderr;
            ensure!(
                refusal.contains("failed calling webhook") && !refusal.contains("refused"),
                "{refusal}"
            );
            Ok(())
        })
        .await
    })
    .await
}
