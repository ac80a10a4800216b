//! Leaders that follow one another: what is still under way of a leader whose term has ended, what came
//! while nobody led, and what a process is worth whose API server says nothing.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::ADMISSION_ANNOTATION;
use sluice_testbed::{Options, Proxy, Sluice, SluiceOptions, eventually, sum_of_series};

use crate::leaders::failover::{leader, see_another_leader};
use crate::support::bed::{self, Bed};
use crate::support::history::Revision;
use crate::support::objects::{self, Job, condition, is_admitted, is_suspended, name_of, quota};
use crate::support::pods::{has_queue_gate, is_live};
use crate::support::{DEADLINE, Scene};

/// The term of the leader, as its admissions carry it.
async fn term(scene: &Scene<'_>) -> Result<String> {
    let path = "--output=jsonpath={.spec.leaseTransitions}.{.metadata.uid}";
    let args = ["get", "lease", "sluice", "--namespace=sluice-system", path];
    scene.cp.kubectl(args, None).await?.ok()
}

/// A leader behind a proxy, and another Sluice that waits to lead.
struct Two {
    first: Sluice,
    proxy: Proxy,
    /// The name and the term of the first.
    leader: String,
    term: String,
}

impl Two {
    async fn start(bed: &Bed, scene: &Scene<'_>) -> Result<Self> {
        let proxy = Proxy::start(bed.cp.server()).await?;
        let first = SluiceOptions {
            webhooks: false,
            server: Some(proxy.server()),
            ..SluiceOptions::new(bed::BINARY)
        };
        let first = Sluice::install(&bed.cp, first).await?;
        first.start().await?;
        bed::see_leading(scene).await?;
        let (leader, term) = (leader(scene).await?, term(scene).await?);
        bed.sluice.start().await?;
        scene.create_all(&priorities(scene)).await?;
        Ok(Self {
            first,
            proxy,
            leader,
            term,
        })
    }

    /// Waits until so many wait by what the first knows. If nobody does any more, its admission is on its way.
    async fn see_waiting(&self, scene: &Scene<'_>, count: f64) -> Result<()> {
        let of_queue = format!("cluster_queue=\"{}\"", scene.ns);
        eventually("the first to know or decide", DEADLINE, async || {
            let metrics = self.first.metrics().await.map_err(|e| format!("{e:#}"))?;
            let known = sum_of_series(&metrics, "sluice_pending_workloads", &[&of_queue]);
            let is_known = known.is_some_and(|known| (known - count).abs() < 0.5);
            is_known.then_some(()).ok_or(format!("{known:?}"))
        })
        .await
    }

    /// Waits until the second leads. Returns its term.
    async fn see_second_leading(&self, scene: &Scene<'_>) -> Result<String> {
        see_another_leader(scene, &self.leader).await?;
        eventually("the leader of before to end", DEADLINE, async || {
            self.first.process().exit_status().ok_or("it runs")
        })
        .await?;
        term(scene).await
    }
}

fn priorities(scene: &Scene<'_>) -> [Value; 2] {
    [("low", 10), ("high", 1000)]
        .map(|(name, value)| objects::priority_class(&scene.name(name), value))
}

async fn play(prefix: &str, test: impl AsyncFn(&Bed, &Scene<'_>) -> Result<()>) -> Result<()> {
    let options = Options::with_crds()?;
    bed::own(prefix, SluiceOptions::new(bed::BINARY), options, test).await
}

/// A waits for the answer to its admission of `late`, which lies in a socket. B leads, and admits `urgent`,
/// which came meanwhile. Then A's admission arrives: there is quota for one of them.
#[tokio::test]
async fn a_late_admission_is_taken_back_before_anything_is_released() -> Result<()> {
    play("late", async |bed, scene| {
        let two = Two::start(bed, scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = |name: &str| Job::new(name).queue("q").runs_forever();
        // Nobody makes pods for it, so no pod has to end before its quota is free: the first leads for
        // some seconds only when its requests are held back.
        let first = job("first").with(&["spec", "managedBy"], json!("tests.sluice.dev/nobody"));
        scene.create(&first.json()).await?;
        scene
            .see("Job", "first", "released", |job| !is_suspended(job))
            .await?;
        scene.create(&job("late").json()).await?;
        scene
            .see_workload("late", "told what it waits for", |w| {
                condition(w, "QuotaReserved").is_some()
            })
            .await?;
        let workloads = scene.record("Workload").await?;
        let jobs = scene.record("Job").await?;

        two.see_waiting(scene, 1.0).await?;
        // Quota is freed by the end of a job: what is told of another quota is a write, and the
        // admission that comes late would be refused for it.
        two.proxy.hold_requests();
        scene.delete("Job", "first").await?;
        two.see_waiting(scene, 0.0).await?;
        let urgent = job("urgent").priority_class(&scene.name("high"));
        scene.create(&urgent.json()).await?;
        let second = two.see_second_leading(scene).await?;
        let admitted = scene.see_admitted("urgent").await?;
        ensure!(
            admitted["status"]["admission"]["term"] == second.as_str(),
            "{admitted}"
        );
        two.proxy.let_through();
        let taken_back = |w: &Value| {
            !is_admitted(w)
                && condition(w, "Admitted")
                    .is_some_and(|(s, r, _)| (s, r) == ("False", "TermEnded"))
        };
        scene.see_workload("late", "taken back", taken_back).await?;
        scene.see_event("late", "Requeued").await?;
        scene.delete("Job", "urgent").await?;
        scene
            .see("Job", "late", "released", |job| !is_suspended(job))
            .await?;

        let workloads = scene.history("Workload", &workloads).await?;
        let of_late = |r: &&Revision| {
            r.object["metadata"]["ownerReferences"][0]["name"] == "late" && !r.is_deleted
        };
        let in_term = |term: &str| {
            let mut all = workloads.iter().filter(of_late);
            all.find(|r| r.object["status"]["admission"]["term"] == term)
        };
        ensure!(in_term(&two.term).is_some(), "the first's never came");
        let effective = in_term(&second).map(|r| r.number);
        let jobs = scene.history("Job", &jobs).await?;
        let released = jobs
            .iter()
            .find(|r| name_of(&r.object) == "late" && !is_suspended(&r.object))
            .map(|r| r.number);
        ensure!(
            effective.is_some() && effective < released,
            "admitted at {effective:?}, released at {released:?}"
        );
        Ok(())
    })
    .await
}

/// The same for a pod that is admitted by itself, where the admission is the release: it is deleted, as its
/// Job makes another one, which waits.
#[tokio::test]
async fn a_pod_that_was_ungated_late_is_evicted() -> Result<()> {
    play("latepod", async |bed, scene| {
        let two = Two::start(bed, scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = |name: &str| {
            let job = Job::new(name).annotation(ADMISSION_ANNOTATION, "PerPod");
            // A pod that is deleted counts as failed.
            let job = job.with(&["spec", "backoffLimit"], json!(3));
            job.queue("q").runs_forever()
        };
        let runs = |name: &'static str| {
            move |pod: &Value| {
                let is_its = pod["metadata"]["labels"]["job-name"] == name;
                is_its && is_live(pod) && !has_queue_gate(pod)
            }
        };
        scene.create(&job("first").json()).await?;
        scene.see_so_many("released", 1, runs("first")).await?;
        scene.create(&job("late").json()).await?;
        scene.see_so_many("gated", 1, has_queue_gate).await?;
        let pods = scene.record("Pod").await?;

        two.see_waiting(scene, 1.0).await?;
        two.proxy.hold_requests();
        scene.set_cpu("2").await?;
        two.see_waiting(scene, 0.0).await?;
        let urgent = job("urgent").priority_class(&scene.name("high"));
        scene.create(&urgent.json()).await?;
        two.see_second_leading(scene).await?;
        scene.see_so_many("released", 1, runs("urgent")).await?;
        two.proxy.let_through();

        let came = format!("\"term\":\"{}\"", two.term);
        eventually(
            "the late admission to come and to go",
            DEADLINE,
            async || {
                let seen = pods.so_far();
                let admitted = |r: &&Revision| {
                    let record = &r.object["metadata"]["annotations"]["sluice.dev/admitted"];
                    let is_first_s = record.as_str().is_some_and(|text| text.contains(&came));
                    is_first_s && runs("late")(&r.object)
                };
                let Some(late) = seen.iter().find(admitted) else {
                    return Err("it has not come".to_owned());
                };
                let uid = &late.object["metadata"]["uid"];
                let gone = seen
                    .iter()
                    .any(|r| r.is_deleted && r.object["metadata"]["uid"] == *uid);
                if gone {
                    Ok(())
                } else {
                    Err("it runs".to_owned())
                }
            },
        )
        .await?;
        scene.see_so_many("gated", 1, has_queue_gate).await?;
        scene.see_so_many("released", 1, runs("urgent")).await?;
        Ok(())
    })
    .await
}

/// While nobody led quota was freed, and a job of a high priority came.
#[tokio::test]
async fn a_job_created_while_nobody_led_is_ordered_by_priority() -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own_unsupervised("meanwhile", sluice, async |bed, scene| {
        scene.create_all(&priorities(scene)).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let job = |name: &str, class: &str| {
            let class = scene.name(class);
            let job = Job::new(name).queue("q").priority_class(&class);
            job.runs_forever().with(&["spec", "suspend"], json!(true))
        };
        scene.create(&job("first", "low").json()).await?;
        scene.see_admitted("first").await?;
        scene.create(&job("patient", "low").json()).await?;
        scene.see_workload("patient", "there", |_| true).await?;
        bed.sluice.kill();
        scene.delete("Job", "first").await?;
        scene.see_gone("Job", "first").await?;
        eventually("what was first to be gone", DEADLINE, async || {
            let workloads = scene.list("Workload").await.map_err(|e| format!("{e:#}"))?;
            let left = workloads.len();
            if left == 1 {
                Ok(())
            } else {
                Err(format!("{left}"))
            }
        })
        .await?;
        // Many, so that it takes the controller a while to see them all into their queue.
        for index in 0..20 {
            scene
                .create(&job(&format!("other-{index}"), "low").json())
                .await?;
        }
        scene.create(&job("urgent", "high").json()).await?;
        let recorded = scene.record("Workload").await?;
        bed.sluice.start_again().await?;
        scene.see_admitted("urgent").await?;
        let history = scene.history("Workload", &recorded).await?;
        let first = history.iter().find(|r| is_admitted(&r.object)).unwrap();
        let owner = &first.object["metadata"]["ownerReferences"][0]["name"];
        ensure!(*owner == "urgent", "{owner} was admitted first");
        Ok(())
    })
    .await
}

/// A process that hears nothing of its API server any more says so within half a minute: what it knows may
/// be old.
#[tokio::test]
async fn a_silent_api_server_ends_readiness() -> Result<()> {
    play("silent", async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        let proxy = Proxy::start(bed.cp.server()).await?;
        let standby = SluiceOptions {
            webhooks: false,
            server: Some(proxy.server()),
            ..SluiceOptions::new(bed::BINARY)
        };
        let standby = Sluice::install(&bed.cp, standby).await?;
        standby.start().await?;
        let see = async |status: u16| {
            eventually(
                &format!("/readyz to say {status}"),
                DEADLINE,
                async || match standby.health("/readyz").await {
                    Ok(said) if said == status => Ok(()),
                    other => Err(format!("{other:?}")),
                },
            )
            .await
        };
        // Three rounds of watches on, nothing has changed and all is well. On a busy machine a watch may be
        // renewed late, and is heard again then.
        let begun = std::time::Instant::now();
        let (mut looks, mut silent) = (0, 0);
        while begun.elapsed() < std::time::Duration::from_mins(1) {
            looks += 1;
            if standby.health("/readyz").await? != 200 {
                silent += 1;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        ensure!(4 * silent < looks, "not ready {silent} of {looks} times");
        see(200).await?;
        proxy.hold_all();
        let begun = std::time::Instant::now();
        see(503).await?;
        // Half a minute; the rest is for a loaded machine.
        ensure!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
        ensure!(standby.health("/healthz").await? == 200, "it goes on");
        proxy.let_through();
        see(200).await
    })
    .await
}
