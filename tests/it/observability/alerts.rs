//! Alerts that a real Prometheus raises by the metrics of a real Sluice and of the API server: faults make them fire, and
//! they stop when those are mended. A second stands for a minute, and two for an hour. That each alert fires by its series,
//! over as much time as it takes, is in `tests/alerts.rs`.

mod api_server;
mod fast_rules;
mod firing;
mod processes;
mod queues;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use sluice_testbed::{ControlPlane, Options, Sluice, SluiceOptions};

use crate::support::Scene;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{Job, quota};
use crate::support::visibility::free_port;

use api_server::Troubles;
use firing::Alerts;

/// What makes an alert fire here.
const FAULTS: [(&str, &str); 22] = [
    ("SluiceNoLeader", "the only replica is stopped"),
    ("SluiceLeaderFlaps", "each replica that leads is restarted"),
    ("SluiceWritesRefused", "the right to write statuses is gone"),
    (
        "SluiceWritesUnanswered",
        "the replies to new Workloads are lost",
    ),
    (
        "SluiceObjectUnreadable",
        "a CRD of another version lets an object in",
    ),
    (
        "SluiceJobKindNotReady",
        "the role of a JobKind's objects is gone",
    ),
    (
        "SluiceNothingAdmitted",
        "the head of a StrictFIFO queue does not fit",
    ),
    (
        "SluicePendingTooLong",
        "the head of a StrictFIFO queue does not fit",
    ),
    ("SluiceQueueInactive", "a ResourceFlavor is not there"),
    (
        "SluiceWorkloadsStalled",
        "the controller of an evicted job does nothing",
    ),
    (
        "SluicePodsUncounted",
        "the API server lets nobody label a pod",
    ),
    ("SluiceGateBacklogged", "nobody lifts a gate"),
    (
        "SluiceWebhookFails",
        "the API server does not say who may lift a gate",
    ),
    ("SluiceWebhookUnreached", "no replica runs"),
    (
        "SluiceWebhookSlow",
        "the API server does not say who may lift a gate",
    ),
    (
        "SluiceCertificateEnds",
        "cert-manager has stopped renewing a short-lived certificate",
    ),
    (
        "SluiceWatchErrors",
        "each watch of a resource is told that it is too old",
    ),
    ("SluiceWatchSilent", "the watch of a resource is refused"),
    (
        "SluiceVisibilityUnavailable",
        "the API server does not reach the port",
    ),
    ("SluiceReportsDropped", "the right to create events is gone"),
    ("SluiceConfigurationRefused", "a field has a wrong type"),
    (
        "SluiceRestartRequired",
        "a field that is read at the start is changed",
    ),
];

/// Why nothing makes an alert fire here.
const NOT_FIRED: [(&str, &str); 4] = [
    (
        "SluiceLoopStalled",
        "Only a bug stops the loop and nothing else: a process that is paused or starved answers no scrape, and its loop \
         goes on with the first answer. What the metric says of a loop that does not turn is seen in \
         `src/process/metrics/tests.rs`.",
    ),
    (
        "SluiceWorkloadsWithoutPods",
        "Sluice waits for five minutes for pods, which can't be made shorter. What the metric says then is seen in \
         `src/controller/tests/missing_pods.rs`.",
    ),
    (
        "SluiceMetricsDropped",
        "It takes 20,000 queues. What is counted then is seen in `src/process/metrics/tests.rs`.",
    ),
    (
        "SluiceInvariantViolated",
        "Only a bug violates an invariant, and the build under test panics then, before anything is counted \
         (`webhooks/src/invariants.rs`, `engine/src/state/invariants.rs`).",
    ),
];

#[test]
fn each_alert_has_a_fault_or_a_reason_to_have_none() -> Result<()> {
    let known = FAULTS.iter().chain(&NOT_FIRED);
    let mut named: Vec<&str> = known.map(|(alert, _)| *alert).collect();
    let mut shipped = fast_rules::alerts()?;
    named.sort_unstable();
    shipped.sort_unstable();
    assert_eq!(named, shipped);
    Ok(())
}

#[tokio::test]
async fn alerts_fire_by_their_faults_and_stop() -> Result<()> {
    bed::persevere(async || {
        let cp = ControlPlane::start(Options::with_crds()?).await?;
        let troubles = Troubles::between(&cp).await?;
        let port = free_port()?;
        let options = SluiceOptions {
            config: Some("ignoredResources: []\n".to_owned()),
            server: Some(troubles.server().to_owned()),
            ..SluiceOptions::new(BINARY).with_visibility(port)
        };
        let sluice = Sluice::install(&cp, options).await?;
        let bed = Bed { sluice, cp };
        // They hold all that the faults need at once.
        let test = async |scene: &Scene<'_>| Box::pin(play(&bed, scene, (&troubles, port))).await;
        Box::pin(Scene::play(&bed.cp, &bed.sluice, "alerts", test)).await
    })
    .await
}

async fn play(bed: &Bed, scene: &Scene<'_>, (troubles, port): (&Troubles, u16)) -> Result<()> {
    bed.sluice.start().await?;
    bed::see_leading(scene).await?;
    let second = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(BINARY)
    };
    let second = Sluice::install(&bed.cp, second).await?;
    scene.queue(&[quota("cpu", "100")]).await?;
    scene.create(&Job::new("first").queue("q").json()).await?;
    scene.see_complete("first").await?;
    let alerts = Alerts::by(&bed.cp, &[&bed.sluice, &second]).await?;
    processes::nobody_leads(bed, scene, &alerts).await?;
    processes::the_leader_changes(bed, &second, &alerts).await?;
    api_server::an_api_that_is_not_reached(bed, port, &alerts).await?;
    // They wait, and each has objects of its own.
    tokio::try_join!(
        alerts.see_over("SluiceWebhookUnreached"),
        alerts.see_over("SluiceLeaderFlaps"),
        processes::a_configuration_that_is_refused(bed, &alerts),
        processes::a_certificate_near_its_end(bed, &alerts),
        api_server::watches_that_fail(troubles, &alerts),
        api_server::rights_that_nobody_tells(scene, troubles, &alerts),
        api_server::a_pod_that_is_not_labelled(scene, troubles, &alerts),
        api_server::events_that_are_refused(scene, troubles, &alerts),
        queues::what_queues_and_gates_lack(scene, &alerts),
        queues::a_kind_that_may_not_be_read(scene, &alerts),
        queues::an_object_of_another_version(scene, &alerts),
        queues::a_head_that_does_not_fit(scene, &alerts),
        queues::a_job_that_does_not_stop(scene, &alerts),
    )?;
    api_server::writes_that_fail(scene, troubles, &alerts).await?;
    let tried: BTreeSet<&str> = FAULTS.iter().map(|(alert, _)| *alert).collect();
    let seen = alerts.over();
    ensure!(seen == tried, "fired and stopped: {seen:?}");
    Ok(())
}
