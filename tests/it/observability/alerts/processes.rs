//! Replicas that do not run, or not for long, and what they are started with.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use sluice_testbed::{Issued, NAMESPACE, Sluice, eventually, sum_of_series};

use crate::support::bed::Bed;
use crate::support::objects::Job;
use crate::support::{DEADLINE, Scene};

use super::firing::Alerts;

const DAY: Duration = Duration::from_hours(24);

/// The only replica is stopped, while jobs are created. That the webhook is reached again is not waited for.
pub async fn nobody_leads(bed: &Bed, scene: &Scene<'_>, alerts: &Alerts) -> Result<()> {
    bed.sluice.stop().await?;
    let unreached = async || {
        let job = Job::new("refused").queue("q").json();
        ensure!(scene.create_once(&job).await.is_err(), "it was created");
        alerts.fires("SluiceWebhookUnreached").await
    };
    eventually("SluiceWebhookUnreached to fire", DEADLINE, unreached).await?;
    alerts.see_firing("SluiceNoLeader").await?;
    bed.sluice.start_again().await?;
    alerts.see_over("SluiceNoLeader").await
}

/// Each of two replicas is restarted when it leads. At last only the first runs, and that the alert stops is not waited for.
pub async fn the_leader_changes(bed: &Bed, second: &Sluice, alerts: &Alerts) -> Result<()> {
    second.start().await?;
    eventually("SluiceLeaderFlaps to fire", DEADLINE, async || {
        restart(&bed.sluice, second).await?;
        restart(second, &bed.sluice).await?;
        alerts.fires("SluiceLeaderFlaps").await
    })
    .await?;
    second.stop().await.map(drop)
}

/// Restarts a replica that leads, once the other one does.
async fn restart(leader: &Sluice, other: &Sluice) -> Result<()> {
    leader.stop().await?;
    eventually("the other replica to lead", DEADLINE, async || {
        let leads = sum_of_series(&other.metrics().await?, "sluice_leader", &[]);
        ensure!(leads == Some(1.0), "{leads:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;
    leader.start_again().await
}

pub async fn a_configuration_that_is_refused(bed: &Bed, alerts: &Alerts) -> Result<()> {
    bed.sluice.configure("fairSharing: 1\n")?;
    alerts.see_firing("SluiceConfigurationRefused").await?;
    bed.sluice
        .configure("ignoredResources: []\nqueueLabelAliases: [acme.io/queue]\n")?;
    alerts.see_over("SluiceConfigurationRefused").await?;
    alerts.see_firing("SluiceRestartRequired").await?;
    bed.sluice.configure("ignoredResources: []\n")?;
    alerts.see_over("SluiceRestartRequired").await
}

/// cert-manager has issued one for a month, and is not there any more. The leader would not renew it yet.
pub async fn a_certificate_near_its_end(bed: &Bed, alerts: &Alerts) -> Result<()> {
    let issued = Issued::new("127.0.0.1".parse()?, 25 * DAY, 5 * DAY)?;
    let kept = json!({
        "metadata": {"annotations": {"cert-manager.io/certificate-name": "sluice-webhook"}},
        "stringData": {"ca.crt": issued.ca, "tls.crt": issued.certificate, "tls.key": issued.key},
    });
    patch_secret(bed, &kept.to_string()).await?;
    alerts.see_firing("SluiceCertificateEnds").await?;
    // As docs/runbook.md says.
    let taken_back = r#"{"metadata":{"annotations":{"cert-manager.io/certificate-name":null}},"data":{"names":null}}"#;
    patch_secret(bed, taken_back).await?;
    alerts.see_over("SluiceCertificateEnds").await
}

async fn patch_secret(bed: &Bed, patch: &str) -> Result<()> {
    let args = [
        "patch",
        "secret",
        "sluice-webhook-certificate",
        "--type=merge",
        "-n",
        NAMESPACE,
        "-p",
        patch,
    ];
    bed.cp.kubectl(args, None).await?.ok().map(drop)
}
