//! The place in the queue that a lifted gate leaves: by the creation of the object, or, where the Gate says so, by the
//! time when it was lifted. Jobs, groups and pods; also after a restart; with webhooks, which know the time, and with
//! policies, which do not.

use anyhow::Result;
use serde_json::{Value, json};
use sluice_testbed::SluiceOptions;

use crate::support::admission::{Admission, apply_policies};
use crate::support::bed::{self, Bed};
use crate::support::history::Revision;
use crate::support::objects::{GATED, Job, is_admitted, name_of, own, own_gate, quota};
use crate::support::pods::{Pod, order_of_going};
use crate::support::{Scene, see_a_second_pass};

#[tokio::test]
async fn a_gate_says_where_its_objects_take_their_place_by_webhooks() -> Result<()> {
    places(Admission::Webhooks).await
}

#[tokio::test]
async fn a_gate_says_where_its_objects_take_their_place_by_policies() -> Result<()> {
    places(Admission::Policies).await
}

async fn places(admission: Admission) -> Result<()> {
    let options = SluiceOptions {
        webhooks: admission == Admission::Webhooks,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own_running_with("place-lifted", options, async |bed, scene| {
        if admission == Admission::Policies {
            apply_policies(&bed.cp).await?;
        }
        scene.queue(&[quota("cpu", "1")]).await?;
        for restarts in [false, true] {
            round(bed, scene, restarts).await?;
        }
        Ok(())
    })
    .await
}

/// A job, a group of one pod and a pod that is admitted by itself, whose names begin so.
fn objects(name: &str, gate: Option<&str>) -> [Value; 3] {
    let job = Job::new(&format!("{name}-job")).queue("q").runs("0.1");
    let member = Pod::new(&format!("{name}-member")).queue("q").runs("0.1");
    let member = member.group(&format!("{name}-group"), 1);
    let pod = Pod::new(&format!("{name}-pod")).queue("q").runs("0.1");
    match gate {
        None => [job.json(), member.json(), pod.json()],
        Some(gate) => [
            job.gate(gate).json(),
            member.annotation(GATED, gate).json(),
            pod.annotation(GATED, gate).json(),
        ],
    }
}

async fn round(bed: &Bed, scene: &Scene<'_>, restarts: bool) -> Result<()> {
    scene.stop("Hold").await?;
    let mut gates = Vec::new();
    for place in ["WhenCreated", "WhenLifted"] {
        let (gate, object) = own_gate(&scene.ns, &place.to_lowercase());
        let spec = json!({"lifting": "Anyone", "place": place});
        scene.apply(&own("Gate", &object, spec)).await?;
        gates.push(gate);
    }
    let workloads = scene.record("Workload").await?;
    let pods = scene.record("Pod").await?;
    let prefix = if restarts { "again" } else { "once" };
    let name = |what: &str| format!("{prefix}{what}");
    let mut gated = Vec::new();
    for (what, gate) in ["kept", "late"].into_iter().zip(&gates) {
        for object in objects(&name(what), Some(gate)) {
            gated.push(scene.create(&object).await?);
        }
    }
    see_a_second_pass(&gated[gated.len() - 1]["metadata"]["creationTimestamp"]).await?;
    let mut rivals = Vec::new();
    for object in objects(&name("rival"), None) {
        rivals.push(scene.create(&object).await?);
    }
    see_a_second_pass(&rivals[rivals.len() - 1]["metadata"]["creationTimestamp"]).await?;
    for object in &gated {
        let kind = object["kind"].as_str().unwrap_or_default();
        let patch = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge(kind, name_of(object), patch).await?;
    }
    // Two objects of each kind with a Workload are queued beside the rival, and all pods.
    let all_wait = |queue: &Value| queue["status"]["pendingWorkloads"] == 9;
    scene
        .see("LocalQueue", "q", "of 9 pending", all_wait)
        .await?;
    if restarts {
        bed.sluice.kill();
        bed.sluice.start_again().await?;
        scene
            .see("LocalQueue", "q", "of 9 pending", all_wait)
            .await?;
    }
    scene.stop("None").await?;
    for what in ["kept", "rival", "late"] {
        scene.see_complete(&format!("{}-job", name(what))).await?;
        for pod in ["member", "pod"] {
            let pod = format!("{}-{pod}", name(what));
            let has_ended = |pod: &Value| pod["status"]["phase"] == "Succeeded";
            scene.see("Pod", &pod, "at its end", has_ended).await?;
        }
    }
    let order = [name("kept"), name("rival"), name("late")];
    let named = |suffix: &str| order.clone().map(|name| format!("{name}-{suffix}"));
    let history = scene.history("Workload", &workloads).await?;
    assert_eq!(admitted(&history, "-job"), named("job"));
    assert_eq!(admitted(&history, "-group"), named("group"));
    let mut gone = order_of_going(&scene.history("Pod", &pods).await?);
    gone.retain(|name| name.starts_with(prefix) && name.ends_with("-pod"));
    assert_eq!(gone, named("pod"));
    Ok(())
}

/// The objects with such names, in the order in which their Workloads were admitted. A Workload is named after its
/// object.
fn admitted(history: &[Revision], suffix: &str) -> Vec<String> {
    let mut order = Vec::new();
    for revision in history
        .iter()
        .filter(|revision| is_admitted(&revision.object))
    {
        let name = name_of(&revision.object);
        let end = name.find(suffix).map(|at| at + suffix.len());
        let Some(object) = end.and_then(|end| name.get(..end)) else {
            continue;
        };
        if !order.iter().any(|known| known == object) {
            order.push(object.to_owned());
        }
    }
    order
}
