//! `kubectl sluice check` names what is wrong, one thing after the other.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::{SluiceOptions, eventually};
use sluice_webhooks::certificates::{issue_ca, issue_serving};

use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::plugin::run;
use crate::support::visibility::{free_port, register};

const SYSTEM: &str = "sluice-system";

/// Waits until the command ends so, and says this of one thing that it looks at.
async fn see(bed: &Bed, code: i32, check: &str, told: &str) -> Result<()> {
    eventually(&format!("{check}: {told}"), DEADLINE, async || {
        let (ended, stdout, stderr) = run(bed, "check").await?;
        let found = stdout.lines().find_map(|line| line.strip_prefix(check));
        let found = found.map(|rest| rest.split_whitespace().collect::<Vec<_>>().join(" "));
        let is_so = found.as_ref().is_some_and(|found| found.starts_with(told));
        ensure!(is_so && ended == code, "{ended}: {stdout}{stderr}");
        Ok(())
    })
    .await
}

async fn patch_secret(bed: &Bed, patch: Value) -> Result<()> {
    let patch = patch.to_string();
    let secret = [
        "patch",
        "secret",
        "sluice-webhook-certificate",
        "-n",
        SYSTEM,
        "-p",
    ];
    let args = [&secret[..], &[patch.as_str()]].concat();
    bed.cp.kubectl(args, None).await?.ok().map(drop)
}

#[tokio::test]
async fn what_is_wrong_is_named() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("check", sluice, async |bed, _| {
        // Sluice is no Deployment here, and everything else is well.
        let absent = "FAILED there is no Deployment of Sluice in sluice-system";
        see(bed, 1, "replicas", absent).await?;
        let account = "system:serviceaccount:sluice-system:sluice";
        see(bed, 1, "rights", &format!("ok {account} has the ")).await?;
        see(bed, 1, "leader", "ok sluice-").await?;
        see(bed, 1, "clocks", "ok no clock differs by more than 5 s").await?;
        see(bed, 1, "certificate", "ok valid until ").await?;
        see(bed, 1, "webhook configurations", "ok installed, with a CA").await?;
        let refused = "ok a Job with a bad gate is refused by the webhook";
        see(bed, 1, "admission", refused).await?;
        see(bed, 1, "visibility", "ok not installed").await?;
        // Nobody listens there.
        register(bed, free_port()?).await?;
        see(bed, 1, "visibility", "FAILED the API").await?;
        let service = ["delete", "apiservice", "v1alpha1.visibility.sluice.dev"];
        bed.cp.kubectl(service, None).await?.ok()?;

        // The namespace is that of the account that the rights are bound to.
        let moved = json!([{"op": "replace", "path": "/subjects/0/namespace", "value": "check-elsewhere"}]);
        let moved = moved.to_string();
        let moved = ["patch", "clusterrolebinding", "sluice", "--type=json", "-p", &moved];
        bed.cp.kubectl(moved, None).await?.ok()?;
        let absent = "FAILED there is no Deployment of Sluice in check-elsewhere";
        see(bed, 1, "replicas", absent).await?;

        // Somebody unbinds the role: what is held by watches goes on for a while, and only this tells of it.
        let unbound = ["delete", "clusterrolebinding", "sluice"];
        bed.cp.kubectl(unbound, None).await?.ok()?;
        let missing = format!("FAILED {account} may not get clusterqueues.sluice.dev, list clusterqueues.sluice.dev, ");
        see(bed, 1, "rights", &missing).await?;
        let rbac = concat!(env!("CARGO_MANIFEST_DIR"), "/config/rbac");
        bed.cp.kubectl(["apply", "-k", rbac], None).await?.ok()?;
        see(bed, 1, "rights", &format!("ok {account} has the ")).await?;

        bed.sluice.stop().await?;
        see(bed, 1, "leader", "FAILED nobody holds the Lease: nothing is admitted").await?;
        see(bed, 1, "admission", "FAILED Internal error occurred: failed calling webhook").await?;
        // Nobody renews it now.
        let long_ago: Timestamp = "2020-01-01T00:00:00Z".parse()?;
        let ended = issue_serving(&issue_ca(long_ago)?, &[], &["127.0.0.1".parse()?], long_ago)?;
        let pair = json!({"tls.crt": ended.certificate_pem, "tls.key": ended.key_pem});
        patch_secret(bed, json!({"stringData": pair})).await?;
        see(bed, 1, "certificate", "FAILED it has ended at 2020-").await?;
        let now = Timestamp::now();
        let ca = issue_ca(now)?;
        let other = issue_serving(&ca, &[], &["127.0.0.1".parse()?], now)?;
        let pair = json!({"tls.crt": other.certificate_pem, "tls.key": other.key_pem, "ca.crt": ca.certificate_pem});
        patch_secret(bed, json!({"stringData": pair})).await?;
        see(bed, 1, "certificate", "FAILED valid until ").await?;
        let (_, told, _) = run(bed, "check").await?;
        ensure!(told.contains(" webhooks trust another CA: the leader puts that right"), "{told}");
        patch_secret(bed, json!({"data": null})).await?;
        let none = "FAILED there is none yet: no replica has led since Sluice was installed";
        see(bed, 1, "certificate", none).await
    })
    .await
}
