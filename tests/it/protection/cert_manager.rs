//! The certificate of the webhooks by the real cert-manager: taken over from Sluice, issued anew, told of, and taken back.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{CertManager, eventually};
use sluice_webhooks::certificates::{issue_ca, issue_serving};

use crate::support::bed::{self, Bed};
use crate::support::objects::{Job, is_suspended};
use crate::support::plugin::run;
use crate::support::{DEADLINE, Scene};

const SYSTEM: &str = "sluice-system";
const SECRET: &str = "sluice-webhook-certificate";
const SERVED: &str = "serving webhooks with a new certificate";

async fn secret(bed: &Bed) -> Result<Value> {
    let args = ["get", "secret", SECRET, "-n", SYSTEM, "-o", "json"];
    serde_json::from_str(&bed.cp.kubectl(args, None).await?.ok()?).context("kubectl -o json")
}

/// How often Sluice has begun to serve another certificate.
fn served(bed: &Bed) -> Result<usize> {
    let log = std::fs::read_to_string(bed.sluice.process().log())?;
    Ok(log.matches(SERVED).count())
}

/// Does something, and waits until Sluice serves another certificate, which cert-manager has issued.
async fn issued(bed: &Bed, cause: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let (before, count) = (secret(bed).await?, served(bed)?);
    cause().await?;
    eventually("a certificate of cert-manager", DEADLINE, async || {
        let now = secret(bed).await?;
        let name = &now["metadata"]["annotations"]["cert-manager.io/certificate-name"];
        ensure!(*name == "sluice-webhook", "{name}");
        ensure!(
            now["data"]["tls.crt"] != before["data"]["tls.crt"],
            "it is the same"
        );
        ensure!(count < served(bed)?, "it is not served");
        Ok(())
    })
    .await
}

/// The manifests, with the address at which Sluice serves here.
async fn apply(bed: &Bed) -> Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/cert-manager");
    let shipped = bed.cp.kubectl(["kustomize", folder], None).await?.ok()?;
    let here = shipped.replace(
        "  dnsNames:\n",
        "  ipAddresses:\n  - 127.0.0.1\n  dnsNames:\n",
    );
    ensure!(here != shipped, "no dnsNames: {shipped}");
    bed.cp
        .kubectl(["apply", "-f", "-"], Some(&here))
        .await?
        .ok()
        .map(drop)
}

async fn patch(bed: &Bed, spec: Value) -> Result<()> {
    let patch = json!({"spec": spec}).to_string();
    let args = [
        "patch",
        "certificate",
        "sluice-webhook",
        "-n",
        SYSTEM,
        "--type=merge",
        "-p",
    ];
    let args = [&args[..], &[patch.as_str()]].concat();
    bed.cp.kubectl(args, None).await?.ok().map(drop)
}

/// That the plugin deletes what cert-manager has of Sluice, and the Secret only then: it would be made anew.
async fn goes_with_sluice(bed: &Bed) -> Result<()> {
    let (code, told, _) = run(bed, "uninstall --dry-run").await?;
    let parts = [
        "certificate.cert-manager.io/sluice-webhook deleted",
        "issuer.cert-manager.io/sluice-webhook deleted",
        "secret/sluice-webhook-certificate deleted",
    ];
    let places = parts.map(|part| told.find(part));
    ensure!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{code}: {told}"
    );
    Ok(())
}

/// Deletes the Certificate, as `helm upgrade` does, which leaves the annotation. What was issued ends, and the leader takes
/// the Secret back.
async fn taken_back(bed: &Bed) -> Result<()> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/cert-manager");
    bed.cp.kubectl(["delete", "-k", folder], None).await?.ok()?;
    let long_ago = "2020-01-01T00:00:00Z".parse()?;
    let ended = issue_serving(&issue_ca(long_ago)?, &[], &["127.0.0.1".parse()?], long_ago)?;
    let count = served(bed)?;
    let pair = json!({"tls.crt": ended.certificate_pem, "tls.key": ended.key_pem});
    let patch = json!({ "stringData": pair }).to_string();
    let args = ["patch", "secret", SECRET, "-n", SYSTEM, "-p", &patch];
    bed.cp.kubectl(args, None).await?.ok()?;
    eventually("the leader's own certificate", DEADLINE, async || {
        let now = secret(bed).await?;
        let name = &now["metadata"]["annotations"]["cert-manager.io/certificate-name"];
        ensure!(name.is_null(), "{name}");
        ensure!(count < served(bed)?, "it is not served");
        Ok(())
    })
    .await?;
    let (code, told, _) = run(bed, "check").await?;
    ensure!(
        told.contains("; the leader renews it from "),
        "{code}: {told}"
    );
    Ok(())
}

/// Creates jobs all the time. Ends if a request fails. Whoever drops it can't tell whether the last one was created: its
/// name is not used again.
async fn traffic(scene: &Scene<'_>, created: &std::cell::Cell<u32>) -> Result<()> {
    loop {
        let number = created.replace(created.get() + 1);
        let job = Job::new(&format!("job-{number}")).gate("acme.io/budget");
        let born = scene.create_once(&job.json()).await;
        let born = born.context("a request has failed")?;
        ensure!(is_suspended(&born), "{born}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn no_request_fails_while_cert_manager_takes_over_and_rotates() -> Result<()> {
    bed::own_running("cert-manager", async |bed, scene| {
        let cert_manager = CertManager::start(&bed.cp).await?;
        let created = std::cell::Cell::new(0);
        let rotations = async || -> Result<()> {
            issued(bed, async || apply(bed).await).await?;
            let (code, told, _) = run(bed, "check").await?;
            let by = "; cert-manager renews it by Certificate sluice-webhook";
            ensure!(told.contains(by), "{code}: {told}");
            let more =
                json!({"dnsNames": ["sluice-webhook.sluice-system.svc", "another.example.com"]});
            issued(bed, async || patch(bed, more.clone()).await).await?;
            let metrics = bed.sluice.metrics().await?;
            ensure!(
                metrics.contains("sluice_webhook_certificate_expiration_timestamp_seconds"),
                "{metrics}"
            );
            Ok(())
        };
        tokio::select! {
            failed = traffic(scene, &created) => failed?,
            rotated = rotations() => rotated?,
        }
        ensure!(
            created.get() > 50,
            "only {} jobs were created",
            created.get()
        );
        goes_with_sluice(bed).await?;
        // It goes away, and what it has issued is served on.
        cert_manager.process().stop();
        let after = scene
            .create_once(&Job::new("after").gate("acme.io/budget").json())
            .await?;
        ensure!(is_suspended(&after), "{after}");
        tokio::select! {
            failed = traffic(scene, &created) => failed?,
            taken = taken_back(bed) => taken?,
        }
        Ok(())
    })
    .await
}
