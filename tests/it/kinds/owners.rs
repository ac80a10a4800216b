//! Who is queued when one object owns another: what is above, told by UID, and never both. A reference
//! that leads nowhere changes nothing.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Options, RUN_SECONDS, SluiceOptions, eventually};

use crate::support::history::{History, Revision};
use crate::support::made_up::{MadeUp, controlled_by};
use crate::support::objects::{Job, condition, is_admitted, is_suspended, quota, with};
use crate::support::{DEADLINE, Scene, bed, see_a_second_pass};

/// A Job in the queue that names `owner` as its controller.
fn mk_part(name: &str, owner: &Value) -> Value {
    with(
        Job::new(name).queue("q").json(),
        "/metadata/ownerReferences",
        controlled_by(owner),
    )
}

/// A kind that makes Jobs and Notes, and one whose objects own things and are no Job-like objects.
pub(super) async fn mk_kinds(scene: &Scene<'_>) -> Result<(MadeUp, MadeUp)> {
    let note = MadeUp::new(scene, "Note");
    let crew = MadeUp::new(scene, "Crew")
        .makes("batch", "Job")
        .makes(&note.group, "Note");
    note.install_crd(scene).await?;
    scene.apply(&note.role()).await?;
    crew.install(scene).await?;
    // Roles are aggregated one after the other: one that is read shows that the other is.
    scene.create(&note.job_kind()).await?;
    note.see_watched(scene).await?;
    scene.delete("JobKind", &note.name).await?;
    Ok((crew, note))
}

/// A Job that was never suspended and that Sluice made no Workload for.
fn check_left_alone(job: &Value, jobs: &[Revision], workloads: &[Revision]) -> Result<()> {
    let uid = &job["metadata"]["uid"];
    let of_job = |r: &&Revision| r.object["metadata"]["ownerReferences"][0]["uid"] == *uid;
    let workload = workloads.iter().find(of_job);
    ensure!(workload.is_none(), "it got a Workload: {workload:?}");
    let held = jobs
        .iter()
        .find(|r| r.object["metadata"]["uid"] == *uid && is_suspended(&r.object));
    ensure!(held.is_none(), "it was suspended: {held:?}");
    Ok(())
}

/// What was recorded of Jobs and Workloads.
struct Records {
    jobs: History,
    workloads: History,
}

impl Records {
    async fn start(scene: &Scene<'_>) -> Result<Self> {
        Ok(Self {
            jobs: scene.record("Job").await?,
            workloads: scene.record("Workload").await?,
        })
    }

    async fn check_left_alone(&self, scene: &Scene<'_>, job: &Value) -> Result<()> {
        let jobs = scene.history("Job", &self.jobs).await?;
        let workloads = scene.history("Workload", &self.workloads).await?;
        check_left_alone(job, &jobs, &workloads)
    }
}

#[tokio::test]
async fn a_job_of_a_managed_object_is_left_alone_and_no_other_is() -> Result<()> {
    bed::shared("owner-managed", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let (crew, _) = mk_kinds(scene).await?;
        let solo = MadeUp::new(scene, "Solo");
        solo.install(scene).await?;
        let records = Records::start(scene).await?;

        let managed = crew.create(scene, &crew.queued("managed")).await?;
        crew.see_released(scene, "managed").await?;
        let part = scene.create(&mk_part("part", &managed)).await?;
        scene.see_complete("part").await?;

        // Its owner is in no queue: that it is there no webhook can see, so it is held a moment later.
        let unmanaged = crew.create(scene, &crew.object("unmanaged")).await?;
        let stray = Job::new("stray").queue("q").runs_forever().json();
        let owner = controlled_by(&unmanaged);
        let stray = with(stray, "/metadata/ownerReferences", owner);
        scene.create(&stray).await?;
        scene.see_admitted("stray").await?;

        // Its owner is, and makes no Jobs: somebody wants to be rid of the queue.
        let lone = solo.create(scene, &solo.queued("lone")).await?;
        solo.see_released(scene, "lone").await?;
        scene.create(&mk_part("sly", &lone)).await?;
        let told = |w: &Value| !is_admitted(w);
        scene.see_workload("sly", "waiting", told).await?;
        scene.see("Job", "sly", "held", is_suspended).await?;
        let own = scene
            .create(&Job::new("own").queue("q").runs_forever().json())
            .await?;
        scene.see_workload("own", "there", |_| true).await?;
        scene.create(&mk_part("sly-too", &own)).await?;
        scene.see_workload("sly-too", "there", |_| true).await?;

        records.check_left_alone(scene, &part).await
    })
    .await
}

/// Whoever lets a part go: it runs on what its owner was admitted with, and not before.
#[tokio::test]
async fn a_part_runs_on_what_its_owner_was_admitted_with() -> Result<()> {
    bed::shared("owner-parts", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (crew, _) = mk_kinds(scene).await?;
        let first = crew.create(scene, &crew.queued("first")).await?;
        crew.see_released(scene, "first").await?;
        let waiting = crew.create(scene, &crew.queued("waiting")).await?;
        let waits = |w: &Value| !is_admitted(w);
        scene.see_workload_of(&waiting, "waiting", waits).await?;

        let runs = "/spec/template/metadata/annotations";
        let forever = json!({ RUN_SECONDS: "forever" });
        let early = with(mk_part("early", &waiting), runs, forever.clone());
        scene.create(&early).await?;
        scene.see("Job", "early", "held", is_suspended).await?;
        let told = scene.see_event("early", "OwnerNotAdmitted").await?;
        assert_eq!(
            told,
            "Suspended: Crew \"waiting\", to which this object belongs, is not admitted; after the admission its controller resumes this object"
        );
        let greedy = with(
            mk_part("greedy", &first),
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!("1500m"),
        );
        scene.create(&with(greedy, runs, forever.clone())).await?;
        scene.see("Job", "greedy", "held", is_suspended).await?;
        let told = scene.see_event("greedy", "ExceedsOwner").await?;
        assert_eq!(
            told,
            "Suspended: it requests cpu 1500m, and Crew \"first\", to which it belongs, holds quota for 1; increase the requests of that object, or create this object without the owner reference, so that it is queued by itself"
        );

        // Each of these two fits, and both together do not.
        for name in ["second", "third"] {
            let mut part = with(mk_part(name, &first), runs, forever.clone());
            part["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
                json!("700m");
            let part = scene.create(&part).await?;
            if name == "second" {
                // Of two that are of one age, either is suspended.
                see_a_second_pass(&part["metadata"]["creationTimestamp"]).await?;
            }
        }
        scene.see("Job", "third", "held", is_suspended).await?;
        let told = scene.see_event("third", "ExceedsOwner").await?;
        assert_eq!(
            told,
            "Suspended: it requests cpu 700m, other objects that belong to Crew \"first\" use 700m, and Crew \"first\" holds quota for 1; increase the requests of that object, or create this object without the owner reference, so that it is queued by itself"
        );
        ensure!(!is_suspended(&scene.get("Job", "second").await?));
        scene.delete("Job", "second").await?;
        // A part grows beside its sibling.
        let quarter = |name: &str| {
            let mut part = with(mk_part(name, &first), runs, forever.clone());
            part["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] =
                json!("250m");
            part["spec"]["completions"] = json!(4);
            part
        };
        for name in ["fourth", "fifth"] {
            scene.create(&quarter(name)).await?;
        }
        scene.see_pods("Running", 2).await?;
        let grown = json!({"spec": {"parallelism": 4}});
        scene.merge("Job", "fourth", grown).await?;
        scene.see("Job", "fourth", "held", is_suspended).await?;
        ensure!(!is_suspended(&scene.get("Job", "fifth").await?));
        scene.delete("Job", "fifth").await?;

        crew.delete(scene, "first").await?;
        crew.see_released(scene, "waiting").await?;
        let resumed = json!({"spec": {"suspend": false}});
        scene.merge("Job", "early", resumed).await?;
        scene.see_pods("Running", 1).await.map(drop)
    })
    .await
}

/// An object between the two that Sluice knows nothing of; and the owner goes before the job.
#[tokio::test]
async fn owners_in_between_are_passed_through_and_may_go_first() -> Result<()> {
    let options = without_garbage_collection()?;
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own("owner-between", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        scene.queue(&[quota("cpu", "1")]).await?;
        let (crew, note) = mk_kinds(scene).await?;
        let records = Records::start(scene).await?;

        let top = crew.create(scene, &crew.queued("top")).await?;
        crew.see_released(scene, "top").await?;
        let middle = with(
            note.object("middle"),
            "/metadata/ownerReferences",
            controlled_by(&top),
        );
        let middle = note.create(scene, &middle).await?;
        let below = with(mk_part("below", &middle), "/spec/suspend", json!(true));
        let below = scene.create(&below).await?;
        let part = with(
            mk_part("part", &top),
            "/metadata/finalizers",
            json!(["tests/keep"]),
        );
        let part = with(part, "/spec/template/metadata/annotations", json!({}));
        let part = scene.create(&part).await?;
        scene.see_complete("part").await?;

        // The next in the queue waits, so the queue has been looked at since.
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene
            .see_workload("next", "waiting", |w| !is_admitted(w))
            .await?;
        ensure!(
            scene.find_workload("below").await?.is_none(),
            "it is queued by itself"
        );

        // The webhook sees no further than its owner.
        scene.see_event("below", "LeftToOwner").await?;

        // A restart shows all of them at once, in any order.
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene.create(&Job::new("sync").queue("q").json()).await?;
        let waits = |w: &Value| !is_admitted(w);
        scene.see_workload("sync", "waiting", waits).await?;
        let late = scene.create(&mk_part("late", &top)).await?;
        scene.see_complete("late").await?;

        // Its owner gone, it is what it was; and what follows it comes next.
        crew.delete(scene, "top").await?;
        scene.see_complete("next").await?;
        for seen in ["2", "3"] {
            let seen = json!({"metadata": {"annotations": {"tests/seen": seen}}});
            scene.merge("Job", "part", seen.clone()).await?;
            scene.merge("Job", "below", seen).await?;
            let name = format!("after-{}", scene.list("Job").await?.len());
            scene.create(&Job::new(&name).queue("q").json()).await?;
            scene.see_complete(&name).await?;
        }
        ensure!(
            scene.workload_of(&below).await?.is_none(),
            "it is queued by itself"
        );
        records.check_left_alone(scene, &part).await?;
        records.check_left_alone(scene, &late).await?;

        // Without the reference it is a job like any other.
        scene
            .merge(
                "Job",
                "below",
                json!({"metadata": {"ownerReferences": null}}),
            )
            .await?;
        scene.see_complete("below").await?;
        scene
            .merge("Job", "part", json!({"metadata": {"finalizers": null}}))
            .await
            .map(drop)
    })
    .await
}

/// As with an operator that makes Jobs and that Sluice knows nothing of: it may not read its objects.
#[tokio::test]
async fn a_job_of_an_object_that_may_not_be_read_is_queued_by_itself() -> Result<()> {
    bed::shared("owner-forbidden", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let note = MadeUp::new(scene, "Note");
        note.install_crd(scene).await?;
        let made = note.create(scene, &note.object("maker")).await?;
        scene.create(&mk_part("made", &made)).await?;
        scene.see_complete("made").await?;
        // It waits for quota like any other.
        let large = with(mk_part("large", &made), "/spec/parallelism", json!(2));
        scene
            .create(&with(large, "/spec/completions", json!(2)))
            .await?;
        scene
            .see_workload("large", "waiting for quota", |workload| {
                condition(workload, "QuotaReserved").is_some_and(|(status, ..)| status == "False")
            })
            .await?;
        Ok(())
    })
    .await
}

/// What nobody owns in truth is queued like any other job.
#[tokio::test]
async fn a_forged_reference_changes_nothing() -> Result<()> {
    let options = without_garbage_collection()?;
    let sluice = SluiceOptions::new(bed::BINARY);
    bed::own("owner-forged", sluice, options, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        scene.queue(&[quota("cpu", "20")]).await?;
        let (crew, note) = mk_kinds(scene).await?;
        let top = crew.create(scene, &crew.queued("top")).await?;
        crew.see_released(scene, "top").await?;
        let dead = crew.create(scene, &crew.object("dead")).await?;
        crew.delete(scene, "dead").await?;
        let namespaces = scene.get("Namespace", &scene.ns).await?;
        let elsewhere = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: scene.cp.create_namespace("owner-else").await?,
        };
        let abroad = crew.create(&elsewhere, &crew.queued("abroad")).await?;
        // Whoever knows a UID can name it under any kind and name.
        let misnamed = with(top.clone(), "/metadata/name", json!("other"));
        let other_kind = with(top.clone(), "/kind", json!("Note"));
        let rows = [
            ("wrong-uid", with(top.clone(), "/metadata/uid", json!("00000000-0000-4000-8000-000000000000"))),
            ("misnamed", misnamed),
            ("other-kind", other_kind),
            ("dead", dead),
            ("abroad", abroad),
            ("cluster-scoped", with(with(namespaces, "/kind", json!("Namespace")), "/apiVersion", json!("v1"))),
            ("no-such-kind", json!({"apiVersion": "no.example.com/v1", "kind": "Nothing", "metadata": {"name": "x", "uid": "u"}})),
            ("path", json!({"apiVersion": "v1", "kind": "../../x", "metadata": {"name": "a/../b?c", "uid": "u2"}})),
        ];
        // Those of kinds that make Jobs are not held at their creation: none must be complete before it is
        // seen.
        let runs = json!({ RUN_SECONDS: "10" });
        for (name, owner) in &rows {
            let part = mk_part(name, owner);
            scene.create(&with(part, "/spec/template/metadata/annotations", runs.clone())).await?;
        }
        // Two that own each other, and chains of ten and eleven owners.
        let (mut above, mut left) = (top.clone(), None);
        for place in 0..10 {
            let link = with(note.object(&format!("link-{place}")), "/metadata/ownerReferences", controlled_by(&above));
            above = note.create(scene, &link).await?;
            match place {
                8 => left = Some(scene.create(&mk_part("ten", &above)).await?),
                9 => drop(scene.create(&mk_part("eleven", &above)).await?),
                _ => {}
            }
        }
        let one = note.create(scene, &note.object("one")).await?;
        let two = with(note.object("two"), "/metadata/ownerReferences", controlled_by(&one));
        let two = note.create(scene, &two).await?;
        let cycle = json!({"metadata": {"ownerReferences": controlled_by(&two)}});
        note.merge(scene, "one", cycle).await?;
        scene.create(&mk_part("cycle", &two)).await?;

        for name in rows.iter().map(|(name, _)| *name).chain(["eleven", "cycle"]) {
            scene.see_admitted(name).await?;
            scene.see_complete(name).await?;
        }
        let ten = scene.workload_of(&left.unwrap()).await?;
        ensure!(ten.is_none(), "the tenth owner is managed: {ten:?}");
        elsewhere.delete("Namespace", &elsewhere.ns).await
    })
    .await
}

/// The garbage collector deletes what names an owner that is gone, often before anybody else sees it.
fn without_garbage_collection() -> Result<Options> {
    let mut options = Options::with_crds()?;
    let without = "--controllers=*,-garbage-collector-controller";
    options.controller_manager_args.push(without.to_owned());
    Ok(options)
}

/// Whoever may edit a job may write its owner references, also later: it stays what it was.
#[tokio::test]
async fn a_job_keeps_its_usage_whatever_owner_is_written_to_it() -> Result<()> {
    bed::shared("owner-late", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let (crew, _) = mk_kinds(scene).await?;
        let top = crew.create(scene, &crew.queued("top")).await?;
        crew.see_released(scene, "top").await?;
        let long = Job::new("long").queue("q").runs_forever().json();
        scene.create(&long).await?;
        scene.see_admitted("long").await?;
        scene.see_pods("Running", 1).await?;
        let editor = scene.editor("ed").await?;
        let user = format!("--as={editor}");
        let patch = json!({"metadata": {"ownerReferences": controlled_by(&top)}}).to_string();
        let args = ["patch", "job", "long", "--type=merge", "-p", &patch, &user];
        // The API server may not have heard yet that the user may edit at all.
        eventually("the edit to be refused", DEADLINE, async || {
            let told = scene.kubectl(&args, None).await?.err()?;
            ensure!(
                told.contains("metadata.ownerReferences: Forbidden"),
                "{told}"
            );
            anyhow::Ok(())
        })
        .await?;
        // Where no webhook was called, it has usage all the same.
        scene
            .merge("Job", "long", serde_json::from_str(&patch)?)
            .await?;
        scene.create(&Job::new("next").queue("q").json()).await?;
        scene
            .see_workload("next", "waiting", |w| !is_admitted(w))
            .await?;
        scene.create(&Job::new("last").queue("q").json()).await?;
        let told = |workload: &Value| {
            condition(workload, "QuotaReserved")
                .is_some_and(|(_, _, told)| told.contains("insufficient unused quota"))
        };
        scene.see_workload("last", "waiting", told).await?;
        let next = scene.get("Job", "next").await?;
        ensure!(is_suspended(&next), "{next}");
        Ok(())
    })
    .await
}
