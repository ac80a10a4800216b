//! Gates with a counter: at every revision of the history no more objects have passed than it says, by priority and
//! age, whatever happens to the controller meanwhile.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, Sluice, SluiceOptions, eventually};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::history::Revision;
use crate::support::objects::{
    GATED, Job, is_complete, local_queue, name_of, own, own_gate, priority_class, quota,
};
use crate::support::pods::Pod;
use crate::support::scale::scaled;
use crate::support::{DEADLINE, Scene, bed, refusal, see_a_second_pass};

both_ways!(
    no_more_pass_than_the_counter_says,
    the_next_place_goes_by_priority_then_age,
    what_users_write_takes_no_place_and_frees_none,
    what_would_not_start_takes_no_place,
);

const LIFTED: &str = "sluice.dev/lifted-gates";
const LIMIT: usize = 3;

fn is_held(job: &Value) -> bool {
    job["metadata"]["annotations"][GATED].is_string()
}

fn is_past(job: &Value) -> bool {
    !is_held(job) && !is_complete(job)
}

/// The most jobs that had passed the gate and had not finished at the same time.
fn most_past(history: &[Revision]) -> usize {
    let mut past: BTreeMap<&str, bool> = BTreeMap::new();
    let mut most = 0;
    for revision in history {
        let job = &revision.object;
        past.insert(name_of(job), is_past(job) && !revision.is_deleted);
        most = most.max(past.values().filter(|past| **past).count());
    }
    most
}

async fn counter(scene: &Scene<'_>, limit: usize) -> Result<String> {
    let (name, object) = own_gate(&scene.ns, "licence");
    let spec =
        json!({"description": "A licence", "counter": {"limit": limit}, "lifting": "Anyone"});
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok(name)
}

async fn no_more_pass_than_the_counter_says(admission: Admission) -> Result<()> {
    play(admission, "count", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let gate = counter(scene, 2).await?;
        let jobs = scene.record("Job").await?;
        for index in 0..8 {
            // Half of them need no queue, only the licence.
            let job = Job::new(&format!("j{index}")).gate(&gate).runs("1");
            let job = if index % 2 == 0 { job.queue("q") } else { job };
            scene.create(&job.json()).await?;
        }
        for index in 0..8 {
            scene.see_complete(&format!("j{index}")).await?;
        }
        let history = scene.history("Job", &jobs).await?;
        let most = most_past(&history);
        ensure!(most == 2, "{most} have passed at the same time");
        let (_, object) = own_gate(&scene.ns, "licence");
        scene
            .see("Gate", &object, "empty", |gate| {
                let status = &gate["status"];
                status["held"] == 0 && status["passed"] == 0 && status["liftedTotal"] == 8
            })
            .await?;
        let told = scene.see_event("j0", "GateLifted").await?;
        ensure!(
            told.ends_with("was lifted by \"sluice\", as a place was free"),
            "{told}"
        );
        Ok(())
    })
    .await
}

async fn the_next_place_goes_by_priority_then_age(admission: Admission) -> Result<()> {
    play(admission, "count-order", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let class = scene.name("high");
        scene.apply(&priority_class(&class, 1000)).await?;
        let gate = counter(scene, 0).await?;
        let job = |name: &str| Job::new(name).queue("q").gate(&gate);
        let first = scene.create(&job("first").json()).await?;
        see_a_second_pass(&first["metadata"]["creationTimestamp"]).await?;
        scene.create(&job("second").json()).await?;
        scene
            .create(&job("high").priority_class(&class).json())
            .await?;
        let other = own_gate(&scene.ns, "other").0;
        let both = Job::new("gated-twice").queue("q").priority_class(&class);
        let both = both.gate(&gate).gates(&other);
        scene.create(&both.json()).await?;
        let (_, object) = own_gate(&scene.ns, "licence");
        scene
            .see("Gate", &object, "holding all", |gate| {
                gate["status"]["held"] == 4
            })
            .await?;
        let jobs = scene.record("Job").await?;
        scene
            .merge("Gate", &object, json!({"spec": {"counter": {"limit": 1}}}))
            .await?;
        for name in ["high", "first", "second"] {
            scene.see_complete(name).await?;
        }
        let history = scene.history("Job", &jobs).await?;
        let lifted = history.iter().filter(|revision| !is_held(&revision.object));
        let mut order: Vec<_> = lifted.map(|r| name_of(&r.object).to_owned()).collect();
        order.dedup();
        let mut seen = Vec::new();
        for name in order {
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
        assert_eq!(seen, ["high", "first", "second"]);
        ensure!(
            is_held(&scene.get("Job", "gated-twice").await?),
            "another gate holds it"
        );
        Ok(())
    })
    .await
}

/// What a job keeps says which places are taken: whoever could write that could keep all others waiting, or let
/// through more than there are licences.
async fn what_users_write_takes_no_place_and_frees_none(admission: Admission) -> Result<()> {
    play(admission, "count-forged", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let gate = counter(scene, 1).await?;
        let forged = json!([{"gate": gate, "by": "sluice"}]).to_string();
        let path = ["spec", "template", "metadata", "annotations", LIFTED];
        let unqueued = Job::new("unqueued")
            .annotation(LIFTED, &forged)
            .runs_forever();
        let template = Job::new("template").queue("q").runs_forever();
        let template = template.with(&path, json!(forged));
        let pod = Pod::new("pod").label("sluice.dev/managed", "true");
        let pod = pod.annotation(LIFTED, &forged).runs("forever");
        for object in [unqueued.json(), template.json(), pod.json()] {
            // Whether it is refused or has no effect.
            if let Err(error) = scene.try_create(&object).await {
                let told = refusal::<Value>(Err(error))?;
                ensure!(told.contains("is set by Sluice alone"), "{told}");
            }
        }
        scene
            .create(&Job::new("plain").runs_forever().json())
            .await?;
        let job = |name: &str| Job::new(name).queue("q").gate(&gate).runs_forever();
        scene.create(&job("first").json()).await?;
        let first = scene.see("Job", "first", "past the gate", is_past).await?;

        let plain = scene.get("Job", "plain").await?;
        let own = json!([{"gate": gate, "by": "sluice", "uid": plain["metadata"]["uid"]}]);
        let record = |value: Value| json!({"metadata": {"annotations": {(LIFTED): value}}});
        let at = format!("metadata.annotations[{LIFTED}]: Forbidden: is set by Sluice alone");
        for (name, value) in [("plain", json!(own.to_string())), ("first", Value::Null)] {
            let told = refusal(scene.try_merge("Job", name, record(value)).await)?;
            ensure!(told.contains(&at), "{name}: {told}");
        }
        scene.create(&job("second").json()).await?;
        let (_, object) = own_gate(&scene.ns, "licence");
        scene
            .see("Gate", &object, "counting one", |gate| {
                gate["status"]["held"] == 1 && gate["status"]["passed"] == 1
            })
            .await?;
        scene.delete("Job", name_of(&first)).await?;
        scene.see("Job", "second", "past the gate", is_past).await?;
        Ok(())
    })
    .await
}

/// Else anybody could keep all others waiting at no cost.
async fn what_would_not_start_takes_no_place(admission: Admission) -> Result<()> {
    play(admission, "count-idle", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let gate = counter(scene, 1).await?;
        let suspended = Job::new("suspended").gate(&gate);
        let suspended = suspended.with(&["spec", "suspend"], json!(true));
        let nowhere = Job::new("nowhere").queue("not-there").gate(&gate);
        for job in [suspended, nowhere] {
            scene.create(&job.json()).await?;
        }
        let (_, object) = own_gate(&scene.ns, "licence");
        scene
            .see("Gate", &object, "holding both", |gate| {
                gate["status"]["held"] == 2
            })
            .await?;
        scene
            .create(&Job::new("runs").queue("q").gate(&gate).json())
            .await?;
        scene.see_complete("runs").await?;
        let told = [
            (
                "suspended",
                "gets no place: suspended by its user; set its suspend field to false",
            ),
            (
                "nowhere",
                "gets no place: LocalQueue \"not-there\" does not exist or is not active",
            ),
        ];
        for (name, why) in told {
            ensure!(is_held(&scene.get("Job", name).await?), "{name}");
            let told = scene.see_event(name, "Gated").await?;
            ensure!(told.contains(why), "{name}: {told}");
        }
        // It gets a place when its queue is there.
        let queue = local_queue("not-there", &scene.ns);
        scene.create(&queue).await?;
        scene.see_complete("nowhere").await?;
        Ok(())
    })
    .await
}

/// There are two replicas, and each is killed five times at full scale.
#[tokio::test]
async fn killed_in_the_middle_no_more_pass_than_the_counter_says() -> Result<()> {
    let (kills, count) = (scaled(10), scaled(200));
    let options = Options::with_crds()?;
    bed::own(
        "count-crash",
        SluiceOptions::new(bed::BINARY),
        options,
        async |bed, scene| {
            bed.sluice.start().await?;
            let second = SluiceOptions {
                webhooks: false,
                ..SluiceOptions::new(bed::BINARY)
            };
            let second = Sluice::install(&bed.cp, second).await?;
            second.start().await?;
            scene.queue(&[quota("cpu", "100")]).await?;
            let gate = counter(scene, LIMIT).await?;
            let jobs = scene.record("Job").await?;
            for index in 0..count {
                let job = Job::new(&format!("j{index}"))
                    .queue("q")
                    .cpu("10m")
                    .gate(&gate);
                scene.create(&job.json()).await?;
            }
            for round in 0..kills {
                let lifted = (round + 1) * 10;
                eventually(
                    "jobs in the middle of which to kill",
                    DEADLINE,
                    async || {
                        let all = scene.list("Job").await?;
                        let past = all.iter().filter(|job| !is_held(job)).count();
                        ensure!(lifted <= past, "{past} of {lifted}");
                        Ok::<_, anyhow::Error>(())
                    },
                )
                .await?;
                let killed = [&bed.sluice, &second][round % 2];
                killed.kill();
                killed.start_again().await?;
            }
            eventually("all jobs to be complete", DEADLINE, async || {
                let all = scene.list("Job").await?;
                let complete = all.iter().filter(|job| is_complete(job)).count();
                ensure!(complete == count, "{complete} of {count}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
            let most = most_past(&scene.history("Job", &jobs).await?);
            ensure!(most <= LIMIT, "{most} have passed at the same time");
            ensure!(most == LIMIT, "only {most} have passed at the same time");
            Ok(())
        },
    )
    .await
}
