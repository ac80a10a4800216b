//! Sluice is killed at one write after the other: before the write leaves, when it has happened and the
//! reply has not come, and when the reply has come. What there is at the end, and how often everything
//! was done on the way, is as in a run in which nobody was killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_faults::history::{Kind, Revision};
use sluice_faults::load::{Act, Load, named_job};
use sluice_faults::proxy::{Fault, Moment};

use crate::bed::Bed;
use crate::round::{self, Figures};

const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Committed, Moment::Answered];

/// Kills at every `step`th point of the writes of a small load.
pub async fn sweep(step: usize) -> Result<()> {
    let bed = Bed::start(1).await?;
    let (calm, writes) = play(&bed, None).await?;
    let expected = summary(&calm.history);
    let points = (0..writes).flat_map(|n| MOMENTS.map(|moment| (n, moment)));
    let mut tried = 0;
    for (n, moment) in points.step_by(step) {
        let played = play(&bed, Some((n, moment))).await;
        let (figures, _) = played.with_context(|| format!("killed at write {n}, {moment:?}"))?;
        let summary = summary(&figures.history);
        ensure!(
            summary == expected,
            "killed at write {n}, {moment:?}: {summary:#?}\nwithout: {expected:#?}\n{}",
            bed.logs()
        );
        tried += 1;
    }
    let killed = bed.faults().get("crash").copied().unwrap_or_default();
    println!(
        "killed at {killed} of {tried} points of {writes} writes: no difference, no violation"
    );
    ensure!(tried <= killed + 2, "most points were not reached");
    Ok(())
}

/// Plays the small load, and kills Sluice at one write. Returns how many writes were counted.
async fn play(bed: &Bed, at: Option<(usize, Moment)>) -> Result<(Figures, usize)> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    bed.proxies[0].follow(Box::new(move |asked| {
        // Of the status of queues it is chance when it is written, and how often.
        let counts = asked.is_write()
            && asked.target.contains("/namespaces/round-")
            && !asked.target.contains("queues/");
        if !counts {
            return None;
        }
        let index = counter.fetch_add(1, Ordering::Relaxed);
        let (n, moment) = at?;
        (index == n).then_some(Fault::Crash(moment))
    }));
    let figures = round::play(bed, small_load, async || Ok(())).await?;
    Ok((figures, count.load(Ordering::Relaxed)))
}

/// Every turn of a job's life that Sluice writes for: held and lifted, waiting for another one, of
/// several pods, each pod by itself, deleted while it waits.
fn small_load(namespace: &str) -> Load {
    let job = |name: &str, pods: u8, annotations: Value| {
        Act::Create(named_job(name, "a", "1", pods, annotations))
    };
    let gate = json!({"kueue.x-k8s.io/scheduling-gated-by": "acme.io/budget"});
    Load {
        queues: Load::one_queue(namespace, "a", "3"),
        acts: vec![
            job("gated", 1, gate),
            job("first", 2, json!({})),
            job("waits", 3, json!({})),
            job("deleted", 3, json!({})),
            Act::Delete("deleted".to_owned()),
            job("by-pod", 2, json!({"sluice.dev/admission": "PerPod"})),
            Act::LiftGate("gated".to_owned()),
        ],
    }
}

/// How often what happened to each job, and how it ended.
fn summary(history: &[Revision]) -> BTreeMap<String, BTreeMap<&'static str, usize>> {
    let mut summary: BTreeMap<String, BTreeMap<&'static str, usize>> = BTreeMap::new();
    let mut last: BTreeMap<_, Value> = BTreeMap::new();
    let mut count = |job: &str, what: &'static str, happened: bool| {
        // Of this one it is chance how far it comes.
        if happened && job != "deleted" {
            *summary
                .entry(job.to_owned())
                .or_default()
                .entry(what)
                .or_default() += 1;
        }
    };
    for revision in history {
        let before = last.remove(&revision.key);
        let Some(now) = &revision.object else {
            continue;
        };
        let owner = now["metadata"]["ownerReferences"][0]["name"]
            .as_str()
            .unwrap_or_default();
        let became =
            |is_so: &dyn Fn(&Value) -> bool| is_so(now) && !before.as_ref().is_some_and(is_so);
        match revision.key.kind {
            Kind::Workload => {
                count(owner, "Workloads", before.is_none());
                count(
                    owner,
                    "admissions",
                    became(&|w| w["status"]["admission"].is_object()),
                );
                count(owner, "finished", became(&|w| has_condition(w, "Finished")));
            }
            Kind::Job => {
                let name = &revision.key.name;
                count(
                    name,
                    "suspensions",
                    before.is_some() && became(&|j| j["spec"]["suspend"] == true),
                );
                count(
                    name,
                    "releases",
                    before.is_some() && became(&|j| j["spec"]["suspend"] != true),
                );
                count(name, "complete", became(&|j| has_condition(j, "Complete")));
            }
            Kind::Pod => {
                count(owner, "pods", before.is_none());
                count(
                    owner,
                    "ungated",
                    before.is_some() && became(&|p| p["spec"]["schedulingGates"].is_null()),
                );
            }
            Kind::ClusterQueue | Kind::Cohort | Kind::Lease => {}
        }
        last.insert(revision.key.clone(), now.clone());
    }
    summary
}

fn has_condition(object: &Value, type_: &str) -> bool {
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    conditions.any(|c| c["type"] == type_ && c["status"] == "True")
}
