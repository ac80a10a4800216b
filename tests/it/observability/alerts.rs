//! Alerts that a real Prometheus raises by the metrics of a real Sluice: faults make them fire, and they stop when those are
//! mended. A second stands for a minute, and a minute for an hour. That each alert fires by its series, over as much time as
//! it takes, is in `tests/alerts.rs`.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Prometheus, SluiceOptions, eventually};

use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{self, Job, cluster_queue, flavor, name_of, own_gate, quota};
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene};

const RULES: &str = "config/monitoring/prometheus-operator/rules.yaml";

/// The shipped rules, sixty times as fast.
fn fast_rules() -> Result<String> {
    let path = format!("{}/{RULES}", env!("CARGO_MANIFEST_DIR"));
    let shipped: Value = serde_saphyr::from_str(&fs::read_to_string(path)?)?;
    let mut groups = shipped["spec"]["groups"].clone();
    let rules = groups[0]["rules"].as_array_mut().context("no rules")?;
    for rule in rules {
        for field in ["expr", "for"] {
            if let Some(text) = rule[field].as_str() {
                rule[field] = json!(fast(text, field == "for"));
            }
        }
    }
    Ok(json!({ "groups": groups }).to_string())
}

/// Minutes become seconds, and hours minutes: of a duration, and of those in brackets.
fn fast(text: &str, is_duration: bool) -> String {
    let mut is_inside = is_duration;
    let faster = text.chars().map(|letter| {
        is_inside = is_duration || letter == '[' || is_inside && letter != ']';
        match letter {
            'm' if is_inside => 's',
            'h' if is_inside => 'm',
            letter => letter,
        }
    });
    faster.collect()
}

#[test]
fn times_are_made_short() {
    assert_eq!(fast("15m", true), "15s");
    assert_eq!(
        fast("sum(rate(some_hm[10m])) > 0.1 * hm", false),
        "sum(rate(some_hm[10s])) > 0.1 * hm"
    );
}

async fn see_firing(prometheus: &Prometheus, alert: &str, fires: bool) -> Result<()> {
    let what = format!("{alert} to {}", if fires { "fire" } else { "stop" });
    eventually(&what, DEADLINE, async || {
        let firing = prometheus.firing().await?;
        ensure!(firing.contains(alert) == fires, "{firing:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

#[tokio::test]
async fn alerts_fire_by_their_faults_and_stop() -> Result<()> {
    let options = SluiceOptions {
        config: Some("ignoredResources: []\n".to_owned()),
        ..SluiceOptions::new(BINARY)
    };
    bed::own_unsupervised("alerts", options, async |bed: &Bed, scene: &Scene<'_>| {
        scene.queue(&[quota("cpu", "100")]).await?;
        scene.create(&Job::new("first").queue("q").json()).await?;
        scene.see_complete("first").await?;
        let target = bed.sluice.metrics_url();
        let target = target
            .trim_start_matches("http://")
            .trim_end_matches("/metrics");
        let prometheus = Prometheus::start(&bed.cp, target, &fast_rules()?).await?;
        a_configuration_that_is_refused(bed, &prometheus).await?;
        what_queues_and_gates_lack(scene, &prometheus).await?;
        a_kind_that_may_not_be_read(scene, &prometheus).await?;
        writes_that_are_refused(scene, &prometheus).await?;
        nobody_leads(bed, &prometheus).await
    })
    .await
}

async fn a_configuration_that_is_refused(bed: &Bed, prometheus: &Prometheus) -> Result<()> {
    bed.sluice.configure("fairSharing: 1\n")?;
    see_firing(prometheus, "SluiceConfigurationRefused", true).await?;
    bed.sluice
        .configure("ignoredResources: []\nqueueLabelAliases: [acme.io/queue]\n")?;
    see_firing(prometheus, "SluiceConfigurationRefused", false).await?;
    see_firing(prometheus, "SluiceRestartRequired", true).await?;
    bed.sluice.configure("ignoredResources: []\n")?;
    see_firing(prometheus, "SluiceRestartRequired", false).await
}

/// A flavor that is not there, and a gate that nobody lifts.
async fn what_queues_and_gates_lack(scene: &Scene<'_>, prometheus: &Prometheus) -> Result<()> {
    let late = scene.name("late");
    let queue = cluster_queue(&late, &late, &[quota("cpu", "1")]);
    scene.create(&queue).await?;
    let (gate, object) = own_gate(&scene.ns, "forgotten");
    let spec = json!({"description": "Nobody lifts it", "backlog": {"held": 0}});
    scene.create(&objects::own("Gate", &object, spec)).await?;
    let held = Job::new("held").queue("q").gates(&gate);
    scene.create(&held.json()).await?;
    see_firing(prometheus, "SluiceQueueInactive", true).await?;
    see_firing(prometheus, "SluiceGateBacklogged", true).await?;
    scene.create(&flavor(&late)).await?;
    scene.delete("Job", "held").await?;
    see_firing(prometheus, "SluiceQueueInactive", false).await?;
    see_firing(prometheus, "SluiceGateBacklogged", false).await
}

/// The role of a kind is gone.
async fn a_kind_that_may_not_be_read(scene: &Scene<'_>, prometheus: &Prometheus) -> Result<()> {
    let widgets = Widgets::new(scene);
    widgets.serve().await?;
    widgets.manage(&widgets.job_kind()).await?;
    let [_, role] = widgets.crd();
    scene.delete("ClusterRole", name_of(&role)).await?;
    see_firing(prometheus, "SluiceJobKindNotReady", true).await?;
    scene.apply(&role).await?;
    see_firing(prometheus, "SluiceJobKindNotReady", false).await
}

/// Without the right to write statuses nothing is admitted.
async fn writes_that_are_refused(scene: &Scene<'_>, prometheus: &Prometheus) -> Result<()> {
    let role = scene.get("ClusterRole", "sluice-core").await?;
    let rules = role["rules"].as_array().context("no rules")?;
    let is_of_statuses = |rule: &&Value| rule["resources"] == json!(["workloads/status"]);
    let fewer: Vec<&Value> = rules.iter().filter(|rule| !is_of_statuses(rule)).collect();
    ensure!(fewer.len() + 1 == rules.len(), "{rules:?}");
    scene
        .merge("ClusterRole", "sluice-core", json!({ "rules": fewer }))
        .await?;
    let number = std::cell::Cell::new(0);
    let waiting = async || {
        number.set(number.get() + 1);
        let job = Job::new(&format!("waits-{}", number.get())).queue("q");
        scene.create(&job.json()).await?;
        let firing = prometheus.firing().await?;
        ensure!(firing.contains("SluiceWritesRefused"), "{firing:?}");
        Ok::<_, anyhow::Error>(())
    };
    eventually("SluiceWritesRefused to fire", DEADLINE, waiting).await?;
    scene
        .merge("ClusterRole", "sluice-core", json!({ "rules": rules }))
        .await?;
    see_firing(prometheus, "SluiceWritesRefused", false).await
}

async fn nobody_leads(bed: &Bed, prometheus: &Prometheus) -> Result<()> {
    bed.sluice.stop().await?;
    see_firing(prometheus, "SluiceNoLeader", true).await?;
    bed.sluice.start_again().await?;
    see_firing(prometheus, "SluiceNoLeader", false).await
}
