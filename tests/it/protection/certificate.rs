//! The certificate of the webhook: who makes it, and what of it is kept.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};
use sluice_testbed::eventually;
use sluice_webhooks::certificates::{issue_ca, issue_serving};

use crate::installation::gitops::declare;
use crate::support::DEADLINE;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{Job, is_suspended};

/// Jobs that are created after each change of a certificate, besides those during it.
const JOBS_AFTER_A_CHANGE: usize = 30;

/// A Sluice that somebody runs at a desk against the cluster, with an administrator's rights and names of
/// its own in its certificate.
struct Desk {
    process: Child,
    log: std::path::PathBuf,
}

impl Desk {
    fn start(bed: &Bed) -> Result<Self> {
        let log = bed.cp.dir().join("desk.log");
        let free = "127.0.0.1:0";
        let process = Command::new(BINARY)
            .arg("--namespace=sluice-system")
            .arg("--webhook-san=desk.example.com")
            .arg(format!("--webhook-bind={free}"))
            .arg(format!("--metrics-bind={free}"))
            .arg(format!("--health-bind={free}"))
            .env("KUBECONFIG", bed.cp.kubeconfig())
            .env("POD_NAME", "desk")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        Ok(Self { process, log })
    }

    async fn see_told(&self, text: &str) -> Result<()> {
        eventually("the process at the desk to go on", DEADLINE, async || {
            let log = std::fs::read_to_string(&self.log)?;
            ensure!(log.contains(text), "no {text:?} in {log}");
            Ok(())
        })
        .await
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn get(bed: &Bed, args: &[&str]) -> Result<Value> {
    let args = [&["get", "-o", "json"], args].concat();
    let text = bed.cp.kubectl(args, None).await?.ok()?;
    serde_json::from_str(&text).context("kubectl -o json")
}

/// The certificate, and all that trusts it.
async fn certificate(bed: &Bed) -> Result<Value> {
    let secret = [
        "-n",
        "sluice-system",
        "secret",
        "sluice-webhook-certificate",
    ];
    let hooks = "validatingwebhookconfiguration,mutatingwebhookconfiguration";
    let hooks = get(bed, &[hooks]).await?;
    let data = get(bed, &secret).await?["data"].clone();
    let bundles = hooks["items"].as_array().context("no items")?;
    let bundles: Vec<_> = bundles
        .iter()
        .flat_map(|hook| hook["webhooks"].as_array().into_iter().flatten())
        .map(|webhook| webhook["clientConfig"]["caBundle"].clone())
        .collect();
    Ok(serde_json::json!([data, bundles]))
}

#[tokio::test]
async fn a_process_at_a_desk_changes_nothing_of_it() -> Result<()> {
    bed::own_running("desk", async |bed, scene| {
        let before = certificate(bed).await?;
        let desk = Desk::start(bed)?;
        // It serves what is stored, and waits for the Lease.
        desk.see_told("serving webhooks with a new certificate")
            .await?;
        desk.see_told("waiting for the lease").await?;
        ensure!(certificate(bed).await? == before, "the certificate changed");
        scene
            .see_condition("JobKind", "job", "Ready", "True", "Watched")
            .await?;
        Ok(())
    })
    .await
}

/// Changes the Secret, and waits until another certificate is served and trusted alone or beside the one before.
async fn rotate(bed: &Bed, patch: Value) -> Result<()> {
    let told = "serving webhooks with a new certificate";
    let served =
        || std::fs::read_to_string(bed.sluice.process().log()).map(|log| log.matches(told).count());
    let (before, served_before) = (certificate(bed).await?, served()?);
    let patch = patch.to_string();
    let secret = [
        "-n",
        "sluice-system",
        "patch",
        "secret",
        "sluice-webhook-certificate",
    ];
    let args = [&secret[..], &["-p", &patch]].concat();
    bed.cp.kubectl(args, None).await?.ok()?;
    eventually("another certificate", DEADLINE, async || {
        let after = certificate(bed).await?;
        ensure!(
            after[0]["tls.crt"] != before[0]["tls.crt"],
            "it is the same"
        );
        ensure!(after[1] != before[1], "it is not trusted");
        ensure!(served()? == served_before + 1, "it is not served");
        Ok(())
    })
    .await
}

/// Rotated, expired and emptied, while jobs are created all the time, of a kind that the shipped configurations name
/// and of one that only those of Sluice's own making name.
#[tokio::test]
async fn no_request_fails_while_certificates_change() -> Result<()> {
    bed::own_running("rotate", async |bed, scene| {
        let widgets = declare(scene).await?;
        let long_ago = "2020-01-01T00:00:00Z".parse()?;
        let expired = issue_serving(&issue_ca(long_ago)?, &[], &["127.0.0.1".parse()?], long_ago)?;
        let created = std::cell::Cell::new(0);
        let rotations = async || -> Result<()> {
            let pair = json!({"tls.crt": expired.certificate_pem, "tls.key": expired.key_pem});
            for patch in [
                json!({"stringData": {"names": "another"}}),
                json!({"stringData": pair}),
                json!({"data": null}),
            ] {
                rotate(bed, patch).await?;
                let wanted = created.get() + JOBS_AFTER_A_CHANGE;
                eventually(
                    "jobs to be created after the change",
                    DEADLINE,
                    async || {
                        ensure!(wanted <= created.get(), "{} of {wanted}", created.get());
                        Ok(())
                    },
                )
                .await?;
            }
            Ok(())
        };
        let traffic = async || -> Result<()> {
            loop {
                let name = format!("job-{}", created.get());
                let job = Job::new(&name).gate("acme.io/budget").json();
                let born = scene
                    .create_once(&job)
                    .await
                    .context("a request has failed")?;
                ensure!(is_suspended(&born), "{born}");
                let mut widget = widgets.widget(&name);
                widget["spec"]["halted"] = json!(false);
                let widget = serde_json::from_value(widget)?;
                let born = widgets.api().create(&PostParams::default(), &widget).await;
                let born = born.context("a request has failed")?;
                ensure!(born.data["spec"]["halted"] == true, "{born:?}");
                created.set(created.get() + 1);
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            failed = traffic() => failed?,
            rotated = rotations() => rotated?,
        }
        Ok(())
    })
    .await
}

/// Who reads the Secret can serve as Sluice does, and can't sign.
#[tokio::test]
async fn no_key_of_a_ca_is_kept() -> Result<()> {
    bed::own_running("ca-key", async |bed, _| {
        let stored = certificate(bed).await?[0].clone();
        let keys: Vec<_> = stored
            .as_object()
            .context("no data")?
            .keys()
            .cloned()
            .collect();
        assert_eq!(
            keys,
            ["ca-bundle.crt", "ca.crt", "names", "tls.crt", "tls.key"]
        );
        // One of an earlier version goes at the next start.
        let old = r#"{"stringData": {"ca.key": "old"}}"#;
        let patch = [
            "-n",
            "sluice-system",
            "patch",
            "secret",
            "sluice-webhook-certificate",
            "-p",
            old,
        ];
        bed.cp.kubectl(patch, None).await?.ok()?;
        bed.sluice.stop().await?;
        bed.sluice.start_again().await?;
        eventually("the old key to go", DEADLINE, async || {
            let stored = certificate(bed).await?[0].clone();
            ensure!(stored.get("ca.key").is_none(), "{stored}");
            Ok(())
        })
        .await?;
        Ok(())
    })
    .await
}
