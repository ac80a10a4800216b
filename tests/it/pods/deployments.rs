//! Deployments and StatefulSets: each pod is admitted by itself, and no controller waits for another.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::{Value, json};
use sluice_crds::{PRIORITY_CLASS_LABEL, QUEUE_GATE};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, name_of, priority_class, quota};
use crate::support::pods::{
    Pod, check_gates, check_usage, gates, is_running, is_scheduling_gated, order_of_going, queued,
    replicated,
};
use crate::support::queues::nanos;
use crate::support::{DEADLINE, Scene};

both_ways!(
    a_deployment_runs_as_far_as_quota_goes,
    a_stateful_set_continues_once_there_is_quota,
    replicas_behind_a_foreign_gate_hold_nothing,
    gates_of_a_deployment_go_from_all_its_pods,
    pods_of_a_deployment_follow_its_priority_class,
);

/// The containers of a revision.
fn containers(tag: &str) -> Value {
    json!([{
        "name": "main",
        "image": format!("example.com/none:{tag}"),
        "resources": { "requests": { "cpu": "1" } },
    }])
}

fn is_of(pod: &Value, tag: &str) -> bool {
    pod["spec"]["containers"][0]["image"] == format!("example.com/none:{tag}").as_str()
}

/// Five replicas over a quota of three; another revision of them; none; and some again.
async fn a_deployment_runs_as_far_as_quota_goes(admission: Admission) -> Result<()> {
    play(admission, "deploy-roll", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let pods = scene.record("Pod").await?;
        let pod = Pod::new("").with(&["spec", "containers"], containers("1"));
        let mut web = queued(replicated("Deployment", "web", 5, pod));
        // By default four of them would have to be available, and without these four Kubernetes takes
        // none of the first revision away.
        web["spec"]["strategy"] = json!({"rollingUpdate": {"maxUnavailable": 3}});
        scene.create(&web).await?;
        scene
            .see_so_many("running", 3, |p| is_running(p) && is_of(p, "1"))
            .await?;
        scene
            .see_so_many("gated", 2, |p| is_scheduling_gated(p) && is_of(p, "1"))
            .await?;
        scene.see_account("cpu", ("3", "3", "0"), 2).await?;

        let next = json!({"spec": {"template": {"spec": {"containers": containers("2")}}}});
        scene.merge("Deployment", "web", next).await?;
        scene
            .see_so_many("running", 3, |p| is_running(p) && is_of(p, "2"))
            .await?;
        // Those of the first revision that never ran go first, and all go.
        see_replicas(scene, "web", 5, 3).await?;
        scene
            .see_so_many("of the second revision", 5, |p| is_of(p, "2"))
            .await?;
        scene
            .see_so_many("left of others", 0, |p| !is_of(p, "2"))
            .await?;
        scene.see_account("cpu", ("3", "3", "0"), 2).await?;

        let scale = async |replicas: u32| {
            let patch = json!({"spec": {"replicas": replicas}});
            scene.merge("Deployment", "web", patch).await
        };
        scale(0).await?;
        scene.see_so_many("left", 0, |_| true).await?;
        scene
            .see("LocalQueue", "q", "idle", crate::queues::quota::is_idle)
            .await?;
        scale(2).await?;
        scene.see_so_many("running", 2, is_running).await?;
        see_replicas(scene, "web", 2, 2).await?;
        scene.see_account("cpu", ("2", "2", "0"), 0).await?;

        let history = scene.history("Pod", &pods).await?;
        let most = check_usage(&history, "cpu", "3", |_| true)?;
        assert_eq!(most, nanos(&json!(3)));
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

/// Waits until a Deployment has this many replicas of its newest revision, and so many available.
async fn see_replicas(scene: &Scene<'_>, name: &str, updated: u32, available: u32) -> Result<()> {
    let what = format!("at {updated} replicas with {available} available");
    scene
        .see("Deployment", name, &what, |deployment| {
            let status = &deployment["status"];
            status["observedGeneration"] == deployment["metadata"]["generation"]
                && status["replicas"] == updated
                && status["updatedReplicas"] == updated
                && status["availableReplicas"] == available
        })
        .await
        .map(drop)
}

/// A StatefulSet makes its pods one after the other: the one that waits is the last.
async fn a_stateful_set_continues_once_there_is_quota(admission: Admission) -> Result<()> {
    play(admission, "deploy-set", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let set = queued(replicated("StatefulSet", "db", 4, Pod::new("")));
        scene.create(&set).await?;
        scene.see_so_many("running", 2, is_running).await?;
        scene
            .see("Pod", "db-2", "gated", is_scheduling_gated)
            .await?;
        scene.set_cpu("4").await?;
        scene.see_so_many("running", 4, is_running).await?;
        scene.see_account("cpu", ("4", "4", "0"), 0).await?;
        // One that is deleted comes again, by the same name, behind the gate.
        scene.set_cpu("3").await?;
        scene
            .see("ClusterQueue", &scene.ns, "known with less", |queue| {
                queue["status"]["conditions"][0]["observedGeneration"]
                    == queue["metadata"]["generation"]
            })
            .await?;
        let first = scene.get("Pod", "db-1").await?;
        scene.delete("Pod", "db-1").await?;
        scene
            .see("Pod", "db-1", "another one, gated", |pod| {
                pod["metadata"]["uid"] != first["metadata"]["uid"] && is_scheduling_gated(pod)
            })
            .await?;
        scene.see_account("cpu", ("3", "3", "0"), 1).await?;
        scene.set_cpu("4").await?;
        scene.see("Pod", "db-1", "running", is_running).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "4", |_| true)?;
        check_gates(&history, &BTreeSet::new())?;
        assert_eq!(
            order_of_going(&history),
            ["db-0", "db-1", "db-2", "db-3", "db-1"]
        );
        Ok(())
    })
    .await
}

/// Half of the replicas have a gate of somebody else's: they wait without holding the others up.
async fn replicas_behind_a_foreign_gate_hold_nothing(admission: Admission) -> Result<()> {
    play(admission, "deploy-gate", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        let pods = scene.record("Pod").await?;
        let pod = Pod::new("").scheduling_gate("example.com/data");
        scene
            .create(&queued(replicated("Deployment", "held", 2, pod)))
            .await?;
        scene
            .see_so_many("there", 2, |p| gates(p).contains(&"example.com/data"))
            .await?;
        let free = queued(replicated("Deployment", "free", 3, Pod::new("")));
        scene.create(&free).await?;
        scene.see_so_many("running", 2, is_running).await?;
        scene.see_account("cpu", ("2", "2", "0"), 1).await?;
        let held = scene
            .see_so_many("held", 2, |p| gates(p).contains(&"example.com/data"))
            .await?;
        let mut opened = BTreeSet::new();
        for pod in &held {
            opened.insert(scene.open_gate(name_of(pod), "example.com/data").await?);
        }
        scene.see_account("cpu", ("2", "2", "0"), 3).await?;
        scene.delete("Deployment", "free").await?;
        eventually("the held to run", DEADLINE, async || {
            let all = scene.list("Pod").await.map_err(|e| format!("{e:#}"))?;
            let is_held = |pod: &&Value| pod["metadata"]["labels"]["app"] == "held";
            let running = all.iter().filter(is_held).filter(|p| is_running(p));
            match running.count() {
                2 => Ok(()),
                count => Err(format!("{count} do")),
            }
        })
        .await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "2", |_| true)?;
        check_gates(&history, &opened)
    })
    .await
}

/// Gates of the object hold its pods, and lifted, hold none: neither those that are there, nor those of
/// a later revision, whose template still names them.
async fn gates_of_a_deployment_go_from_all_its_pods(admission: Admission) -> Result<()> {
    play(admission, "deploy-gates", async |scene| {
        // One more than it has: Kubernetes makes a new pod before it takes one away.
        scene.queue(&[quota("cpu", "3")]).await?;
        let pods = scene.record("Pod").await?;
        let mut web = queued(replicated("Deployment", "web", 2, Pod::new("")));
        web["metadata"]["annotations"][GATED] = json!("example.com/budget");
        scene.create(&web).await?;
        let both = BTreeSet::from(["example.com/budget", QUEUE_GATE]);
        let held = scene
            .see_so_many("gated twice", 2, |pod| {
                gates(pod).into_iter().collect::<BTreeSet<_>>() == both && is_scheduling_gated(pod)
            })
            .await?;
        // Written anew as a whole, it keeps them. Its controller may write between kubectl's look and
        // its write.
        let manifest = web.to_string();
        eventually("the Deployment to be replaced", DEADLINE, async || {
            let args = ["replace", "-f", "-"];
            scene.kubectl(&args, Some(&manifest)).await?.ok()
        })
        .await?;
        scene.delete("Pod", name_of(&held[0])).await?;
        scene
            .see_so_many("gated twice, another one among them", 2, |pod| {
                gates(pod).len() == 2 && name_of(pod) != name_of(&held[0])
            })
            .await?;
        let lifted = json!({"metadata": {"annotations": {(GATED): null}}});
        scene.merge("Deployment", "web", lifted).await?;
        scene.see_so_many("running", 2, is_running).await?;
        let next = json!({"spec": {"template": {"spec": {"containers": containers("2")}}}});
        scene.merge("Deployment", "web", next).await?;
        see_replicas(scene, "web", 2, 2).await?;
        scene
            .see_so_many("left of others", 0, |p| !is_of(p, "2"))
            .await?;
        scene.see_account("cpu", ("2", "2", "0"), 0).await?;
        let history = scene.history("Pod", &pods).await?;
        check_usage(&history, "cpu", "3", |_| true)?;
        check_gates(&history, &BTreeSet::new())
    })
    .await
}

async fn pods_of_a_deployment_follow_its_priority_class(admission: Admission) -> Result<()> {
    play(admission, "deploy-class", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (low, high) = (scene.name("low"), scene.name("high"));
        for (name, value) in [(&low, 1), (&high, 100)] {
            scene.create(&priority_class(name, value)).await?;
        }
        let class = |name: &str| json!({"metadata": {"labels": {(PRIORITY_CLASS_LABEL): name}}});
        let is_of = |pod: &Value, name: &str| {
            pod["metadata"]["labels"][PRIORITY_CLASS_LABEL].as_str() == Some(name)
        };
        let mut first = queued(replicated("Deployment", "first", 1, Pod::new("")));
        first["metadata"]["labels"][PRIORITY_CLASS_LABEL] = json!(low);
        let mut second = queued(replicated("Deployment", "second", 1, Pod::new("")));
        second["metadata"]["labels"][PRIORITY_CLASS_LABEL] = json!(low);
        second["spec"]["strategy"] = json!({"type": "Recreate"});
        scene.create(&first).await?;
        scene
            .see_so_many("running", 1, |p| is_running(p) && is_of(p, &low))
            .await?;
        scene.create(&second).await?;
        scene
            .see_so_many("of the low class", 2, |p| is_of(p, &low))
            .await?;
        scene.merge("Deployment", "second", class(&high)).await?;
        scene
            .see_so_many("of the high class", 1, |p| {
                is_of(p, &high) && p["metadata"]["labels"]["app"] == "second"
            })
            .await?;
        scene
            .see_so_many("of the low class", 1, |p| is_of(p, &low))
            .await?;
        Ok(())
    })
    .await
}
