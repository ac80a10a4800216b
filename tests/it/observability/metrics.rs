//! What Sluice's metrics say of queues and jobs, as a scraper reads them. Names and meanings are in docs/metrics.md.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use sluice_testbed::{Sluice, SluiceOptions, eventually, sum_of_series};

use crate::support::objects::{self, Job, quota, with};
use crate::support::{DEADLINE, Scene, bed};

/// Waits until a metric has this value for the queue of the test, in the series with these other labels.
async fn see_metric(scene: &Scene<'_>, name: &str, labels: &[&str], value: f64) -> Result<()> {
    see_metric_of(&scene.ns, name, labels, value).await
}

/// The same for another ClusterQueue.
async fn see_metric_of(queue: &str, name: &str, labels: &[&str], value: f64) -> Result<()> {
    let of_queue = format!("cluster_queue=\"{queue}\"");
    let labels: Vec<&str> = labels.iter().copied().chain([of_queue.as_str()]).collect();
    let sluice = Sluice::shared(bed::BINARY);
    let what = format!("{name}{labels:?} to be {value}");
    eventually(&what, DEADLINE, async || {
        let text = sluice.sluice.metrics().await?;
        let known = sum_of_series(&text, name, &labels);
        let is_it = known.is_some_and(|known| (known - value).abs() < 1e-6);
        ensure!(is_it, "{known:?}");
        Ok(())
    })
    .await
}

/// Everything that the metrics say of the queue of the test.
async fn said(scene: &Scene<'_>) -> Result<Vec<String>> {
    let text = Sluice::shared(bed::BINARY).sluice.metrics().await?;
    let of_queue = format!("cluster_queue=\"{}\"", scene.ns);
    let lines = text.lines().filter(|line| line.contains(&of_queue));
    Ok(lines.map(str::to_owned).collect())
}

#[tokio::test]
async fn a_queue_and_its_jobs_are_measured_until_the_queue_is_gone() -> Result<()> {
    bed::shared("metrics", async |scene| {
        let cohort = scene.name("family");
        let quotas = [quota("cpu", "2").borrow("1").lend("500m")];
        let queue = objects::cluster_queue(&scene.ns, &scene.ns, &quotas);
        scene
            .queue_like(with(queue, "/spec/cohortName", json!(cohort)))
            .await?;
        for (name, value) in [
            ("sluice_cluster_queue_nominal_quota", 2.0),
            ("sluice_cluster_queue_borrowing_limit", 1.0),
            ("sluice_cluster_queue_lending_limit", 0.5),
            ("sluice_cluster_queue_resource_usage", 0.0),
        ] {
            see_metric(scene, name, &["resource=\"cpu\""], value).await?;
        }
        see_metric(
            scene,
            "sluice_cluster_queue_status",
            &["status=\"active\""],
            1.0,
        )
        .await?;
        let of_cohort = format!("cohort=\"{cohort}\"");
        let text = Sluice::shared(bed::BINARY).sluice.metrics().await?;
        let lent = sum_of_series(&text, "sluice_cohort_subtree_quota", &[&of_cohort]);
        ensure!(
            lent.is_some_and(|lent| (lent - 0.5).abs() < 1e-6),
            "{lent:?}"
        );
        let runs = Job::new("runs").queue("q").cpu("1500m").runs_forever();
        scene.create(&runs.json()).await?;
        scene.see_admitted("runs").await?;
        scene
            .create(&Job::new("waits").queue("q").cpu("1").json())
            .await?;
        see_metric(
            scene,
            "sluice_cluster_queue_resource_usage",
            &["resource=\"cpu\""],
            1.5,
        )
        .await?;
        see_metric(scene, "sluice_admitted_workloads_total", &[], 1.0).await?;
        see_metric(scene, "sluice_admission_wait_time_seconds_count", &[], 1.0).await?;
        see_metric(scene, "sluice_released_jobs_total", &[], 1.0).await?;
        see_metric(scene, "sluice_release_seconds_count", &[], 1.0).await?;
        see_metric(scene, "sluice_ready_wait_time_seconds_count", &[], 1.0).await?;
        let until_ready = "sluice_admitted_until_ready_wait_time_seconds_count";
        see_metric(scene, until_ready, &[], 1.0).await?;
        see_metric(scene, "sluice_reserving_active_workloads", &[], 1.0).await?;
        see_metric(
            scene,
            "sluice_pending_workloads",
            &["status=\"inadmissible\""],
            1.0,
        )
        .await?;
        let reason = ["reason=\"WaitingForQuota\""];
        see_metric(scene, "sluice_pending_workloads_by_reason", &reason, 1.0).await?;
        let requested = "sluice_cluster_queue_resource_pending";
        see_metric(scene, requested, &["resource=\"cpu\""], 1.0).await?;

        let runs = scene.find_workload("runs").await?.unwrap_or_default();
        let workload = runs["metadata"]["name"].as_str().unwrap_or_default();
        let inactive = json!({"spec": {"active": false}});
        scene.merge("Workload", workload, inactive).await?;
        scene.see_complete("waits").await?;
        see_metric(
            scene,
            "sluice_evicted_workloads_total",
            &["reason=\"Deactivated\""],
            1.0,
        )
        .await?;
        see_metric(
            scene,
            "sluice_deactivated_workloads_total",
            &["reason=\"User\""],
            1.0,
        )
        .await?;
        see_metric(
            scene,
            "sluice_finished_workloads_total",
            &["result=\"Succeeded\""],
            1.0,
        )
        .await?;
        see_metric(scene, "sluice_finish_wait_time_seconds_count", &[], 1.0).await?;

        scene.delete("ClusterQueue", &scene.ns).await?;
        scene.see_gone("ClusterQueue", &scene.ns).await?;
        eventually("the series of the queue to be gone", DEADLINE, async || {
            let said = said(scene).await?;
            ensure!(said.is_empty(), "{said:?}");
            Ok(())
        })
        .await
    })
    .await
}

/// Whoever may make a LocalQueue can't raise the alert that nothing is admitted though something could be.
#[tokio::test]
async fn what_can_not_be_admitted_whatever_is_free_counts_as_inadmissible() -> Result<()> {
    bed::shared("metrics-inadmissible", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let held = objects::local_queue("held", &scene.ns);
        let held = with(held, "/spec/stopPolicy", json!("Hold"));
        scene.create(&held).await?;
        let queue = |name: &str, flavor: &str| {
            objects::cluster_queue(&scene.name(name), flavor, &[quota("cpu", "1")])
        };
        let nobody = json!({"matchLabels": {"team": "nobody"}});
        let stopped = with(
            queue("stopped", &scene.ns),
            "/spec/stopPolicy",
            json!("Hold"),
        );
        let closed = with(
            queue("closed", &scene.ns),
            "/spec/namespaceSelector",
            nobody,
        );
        let bare = queue("bare", &scene.name("no-flavor"));
        scene.create_all(&[stopped, closed, bare]).await?;
        for name in ["stopped", "closed", "bare"] {
            let local_queue = objects::local_queue(name, &scene.name(name));
            scene.create(&local_queue).await?;
        }
        for name in ["held", "stopped", "closed", "bare"] {
            scene.create(&Job::new(name).queue(name).json()).await?;
        }
        let of = async |queue: &str, status: &str, value: f64| {
            let status = format!("status=\"{status}\"");
            see_metric_of(queue, "sluice_pending_workloads", &[&status], value).await
        };
        for name in ["held", "stopped", "closed", "bare"] {
            let queue = match name {
                "held" => scene.ns.clone(),
                _ => scene.name(name),
            };
            of(&queue, "inadmissible", 1.0).await?;
            of(&queue, "active", 0.0).await?;
        }
        // It counts as before once its LocalQueue admits again, as the others wait for their queues.
        let open = json!({"spec": {"stopPolicy": "None"}});
        scene.merge("LocalQueue", "held", open).await?;
        scene.see_complete("held").await?;
        of(&scene.ns, "inadmissible", 0.0).await?;
        for name in ["stopped", "closed", "bare"] {
            of(&scene.name(name), "inadmissible", 1.0).await?;
            of(&scene.name(name), "active", 0.0).await?;
        }
        Ok(())
    })
    .await
}

/// A gate without a Gate has no series of its own: any user can think of one.
#[tokio::test]
async fn what_gates_hold_of_a_queue_is_measured() -> Result<()> {
    bed::shared("metrics-gates", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (known, object) = objects::own_gate(&scene.ns, "budget");
        let spec = json!({"lifting": "Anyone"});
        scene.apply(&objects::own("Gate", &object, spec)).await?;
        let (unknown, _) = objects::own_gate(&scene.ns, "data");
        for (name, gate) in [("a", &known), ("b", &known), ("c", &unknown)] {
            scene
                .create(&Job::new(name).queue("q").gate(gate).json())
                .await?;
        }
        let held = "sluice_cluster_queue_gate_held_objects";
        let of_known = format!("gate=\"{object}\"");
        see_metric(scene, held, &[&of_known], 2.0).await?;
        see_metric(scene, held, &["gate=\"\""], 1.0).await?;
        let job = scene.get("Job", "a").await?;
        let created = job["metadata"]["creationTimestamp"].as_str();
        let created: Timestamp = created.unwrap_or_default().parse()?;
        let oldest = "sluice_cluster_queue_gate_oldest_held_timestamp_seconds";
        let created = f64::from(u32::try_from(created.as_second())?);
        see_metric(scene, oldest, &[&of_known], created).await?;
        for name in ["a", "b", "c"] {
            let lifted = json!({"metadata": {"annotations": {(objects::GATED): null}}});
            scene.merge("Job", name, lifted).await?;
            scene.see_complete(name).await?;
        }
        eventually("no gate to hold anything", DEADLINE, async || {
            let said = said(scene).await?;
            ensure!(said.iter().all(|line| !line.starts_with(held)), "{said:?}");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn local_queues_are_measured_where_that_is_asked_for() -> Result<()> {
    let options = SluiceOptions {
        args: vec!["--local-queue-metrics".to_owned()],
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own_unsupervised("metrics-local", options, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (gate, _) = objects::own_gate(&scene.ns, "data");
        scene
            .create(&Job::new("held").queue("q").gate(&gate).json())
            .await?;
        scene
            .create(&Job::new("runs").queue("q").runs_forever().json())
            .await?;
        let of_queue = format!("namespace=\"{}\"", scene.ns);
        let labels = [of_queue.as_str(), "name=\"q\""];
        let series = [
            ("sluice_local_queue_gate_held_objects", 1.0),
            ("sluice_local_queue_admitted_active_workloads", 1.0),
            ("sluice_local_queue_pending_workloads", 0.0),
            ("sluice_local_queue_admitted_workloads_total", 1.0),
            ("sluice_local_queue_admission_wait_time_seconds_count", 1.0),
        ];
        eventually("the series of the LocalQueue", DEADLINE, async || {
            let text = bed.sluice.metrics().await?;
            for (name, value) in series {
                let known = sum_of_series(&text, name, &labels);
                let is_it = known.is_some_and(|known| (known - value).abs() < 1e-6);
                ensure!(is_it, "{name}: {known:?}");
            }
            Ok(())
        })
        .await
    })
    .await
}
