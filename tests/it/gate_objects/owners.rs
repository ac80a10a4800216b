//! Gates with owners: only who may `lift` a Gate in the namespace of an object takes its gate off that, by every road.

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gates::roads::{
    AT_GATED, AT_GATES, PARTS, Part, ROADS, Road, apply, edit, gates_of, mk_job,
};
use crate::support::admission::{Admission, both_ways, play};
use crate::support::made_up::controlled_by;
use crate::support::objects::{GATED, GATES, Job, own, own_gate, quota, with};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, gates, queued, replicated};
use crate::support::{DEADLINE, Scene, into_value, refusal};

both_ways!(
    each_owner_lifts_its_own_gate_by_every_road,
    a_right_counts_where_it_is_given,
    a_right_that_is_taken_away_counts_no_more,
    anybody_lifts_a_gate_without_owners,
    a_pod_is_ungated_by_the_owners_of_its_gate,
    pods_of_a_deployment_wait_for_the_owners_of_its_gate,
    nobody_gives_a_gated_object_to_another_owner,
    a_job_that_is_made_again_is_gated_as_it_says,
    the_largest_job_is_judged_too,
);

/// The account of a controller that adopts the pods that it selects.
const REPLICAS: &str = "system:serviceaccount:kube-system:replicaset-controller";

/// A Gate of the scene that has owners: the gate, and the name of the Gate.
async fn owned_gate(scene: &Scene<'_>, path: &str) -> Result<(String, String)> {
    let (gate, object) = own_gate(&scene.ns, path);
    let spec = json!({"contact": format!("{path}@acme.io")});
    scene.apply(&own("Gate", &object, spec)).await?;
    Ok((gate, object))
}

/// Makes a role with the right to lift this Gate.
async fn may_lift(scene: &Scene<'_>, object: &str) -> Result<()> {
    let resource = format!("--resource-name={object}");
    let role = scene.name(object);
    let args = [
        "create",
        "clusterrole",
        &role,
        "--verb=lift",
        "--resource=gates.sluice.dev",
        &resource,
    ];
    scene.kubectl(&args, None).await?.ok().map(drop)
}

/// Makes a role with all rights to write jobs and pods, their status included.
async fn may_edit(scene: &Scene<'_>) -> Result<String> {
    let role = scene.name("editor");
    let resources = "--resource=jobs.batch,jobs.batch/status,pods,pods/status,deployments.apps";
    let verbs = "--verb=create,delete,get,patch,update";
    let args = ["create", "clusterrole", &role, verbs, resources];
    let output = scene.kubectl(&args, None).await?;
    let is_there = output.code == 0 || output.stderr.contains("AlreadyExists");
    ensure!(is_there, "{}", output.stderr);
    Ok(role)
}

/// Gives a user a role: in the namespace of the scene, or in all.
async fn bind(scene: &Scene<'_>, kind: &str, user: &str, role: &str) -> Result<String> {
    let name = format!("{}-{role}", user.replace(':', "-"));
    let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
    scene
        .kubectl(&["create", kind, &name, &role, &user], None)
        .await?
        .ok()?;
    Ok(name)
}

/// Waits until the API server says the same of the right to lift a Gate in the namespace of the scene. It hears of
/// bindings by a watch of its own.
async fn see_right(scene: &Scene<'_>, user: &str, object: &str, expected: &str) -> Result<()> {
    let (gate, user) = (format!("gates.sluice.dev/{object}"), format!("--as={user}"));
    eventually("the right to be known", DEADLINE, async || {
        let args = ["auth", "can-i", "lift", &gate, &user];
        let answer = scene.kubectl(&args, None).await?.stdout;
        ensure!(answer.trim() == expected, "{answer}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

/// A user who edits the namespace and may lift this Gate there.
pub async fn owner<'a>(scene: &Scene<'a>, name: &str, object: &str) -> Result<(String, Scene<'a>)> {
    let user = format!("system:serviceaccount:{}:{name}", scene.ns);
    bind(scene, "rolebinding", &user, &may_edit(scene).await?).await?;
    may_lift(scene, object).await?;
    bind(scene, "rolebinding", &user, &scene.name(object)).await?;
    see_right(scene, &user, object, "yes").await?;
    Ok((user.clone(), scene.acting_as(&user)?))
}

/// A user who edits the namespace.
pub async fn tenant<'a>(scene: &Scene<'a>) -> Result<(String, Scene<'a>)> {
    let user = scene.editor("tenant").await?;
    bind(scene, "rolebinding", &user, &may_edit(scene).await?).await?;
    Ok((user.clone(), scene.acting_as(&user)?))
}

/// What somebody is told who may not lift a gate of the scene.
fn told(at: &str, scene: &Scene<'_>, user: &str, path: &str) -> String {
    let (gate, object) = own_gate(&scene.ns, path);
    format!(
        "{at}: Forbidden: only its owners may lift the gate \"{gate}\": user \"{user}\" cannot lift gates.sluice.dev \"{object}\" in namespace \"{}\"; ask {path}@acme.io",
        scene.ns
    )
}

/// Waits until the Gates are known to whoever judges edits: until this one is refused with these words.
pub async fn see_refused(
    what: &str,
    expected: &str,
    mut attempt: impl AsyncFnMut() -> kube::Result<Value>,
) -> Result<()> {
    eventually(what, DEADLINE, async || {
        let told = refusal(answered(&mut attempt).await?)?;
        ensure!(told.ends_with(expected), "{told}");
        Ok(())
    })
    .await
}

pub async fn dry(scene: &Scene<'_>, kind: &str, name: &str, patch: Value) -> kube::Result<Value> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patched = scene
        .api(kind)
        .patch(name, &params, &Patch::Merge(patch))
        .await;
    patched.map(into_value)
}

/// The patch that takes an annotation away.
pub fn without(key: &str) -> Value {
    json!({"metadata": {"annotations": {(key): null}}})
}

async fn each_owner_lifts_its_own_gate_by_every_road(admission: Admission) -> Result<()> {
    play(admission, "own-roads", async |scene| {
        let (budget, budget_object) = owned_gate(scene, "budget").await?;
        let (data, data_object) = owned_gate(scene, "data").await?;
        let (ann, of_ann) = owner(scene, "ann", &budget_object).await?;
        let (bob, of_bob) = owner(scene, "bob", &data_object).await?;
        let both = format!("{budget}, {data}");
        let stored = [(GATES, both.as_str())];
        persist(async || apply(scene, &mk_job("first", &stored), false).await).await?;
        for (user, scene_of, other) in [(&ann, &of_ann, "data"), (&bob, &of_bob, "budget")] {
            let expected = told(AT_GATES, scene, user, other);
            see_refused("the Gates to be known", &expected, async || {
                dry(scene_of, "Job", "first", without(GATES)).await
            })
            .await?;
        }
        for road in ROADS {
            for part in PARTS {
                // What was applied to the object is not taken back by applying to its status.
                if (road, part) == (Road::ServerSideApply, Part::Status) {
                    continue;
                }
                let name = format!("{road:?}-{part:?}").to_lowercase();
                persist(async || apply(scene, &mk_job(&name, &stored), false).await).await?;
                // Ann may not lift the other gate, nor both.
                for to in [&[(GATES, budget.as_str())][..], &[]] {
                    for dry_run in [true, false] {
                        let road = (road, part, dry_run);
                        let answer =
                            answered(async || edit(&of_ann, road, &name, &stored, to).await);
                        let refused =
                            refusal(answer.await?).with_context(|| format!("{name} to {to:?}"))?;
                        let expected = told(AT_GATES, scene, &ann, "data");
                        ensure!(refused.ends_with(&expected), "{name} to {to:?}: {refused}");
                    }
                }
                let left = [(GATES, data.as_str())];
                let road = (road, part, false);
                let job = persist(async || edit(&of_ann, road, &name, &stored, &left).await).await;
                let job = job.with_context(|| name.clone())?;
                assert_eq!(gates_of(&job), left.into(), "{name}");
                let answer =
                    answered(async || edit(&of_ann, road, &name, &left, &[]).await).await?;
                refusal(answer).with_context(|| name.clone())?;
                let job = persist(async || edit(&of_bob, road, &name, &left, &[]).await).await;
                assert!(gates_of(&job?).is_empty(), "{name}");
                scene.see_workload(&name, "there", |_| true).await?;
            }
        }
        // Whoever may do anything may do this.
        persist(async || scene.merge_once("Job", "first", without(GATES)).await).await?;
        scene
            .see_workload("first", "there", |_| true)
            .await
            .map(drop)
    })
    .await
}

async fn a_right_counts_where_it_is_given(admission: Admission) -> Result<()> {
    play(admission, "own-where", async |scene| {
        let (gate, object) = owned_gate(scene, "budget").await?;
        let other = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: scene.cp.create_namespace("own-elsewhere").await?,
        };
        let (ann, of_ann) = owner(scene, "ann", &object).await?;
        bind(&other, "rolebinding", &ann, &may_edit(scene).await?).await?;
        for scene in [scene, &other] {
            scene.create(&Job::new("j").gate(&gate).json()).await?;
        }
        let elsewhere = Scene {
            ns: other.ns.clone(),
            ..of_ann
        };
        let expected = format!("in namespace \"{}\"; ask budget@acme.io", other.ns);
        see_refused("the right not to count", &expected, async || {
            dry(&elsewhere, "Job", "j", without(GATED)).await
        })
        .await?;
        scene
            .acting_as(&ann)?
            .merge("Job", "j", without(GATED))
            .await?;
        let role = scene.name(&object);
        bind(scene, "clusterrolebinding", &ann, &role).await?;
        see_right(&other, &ann, &object, "yes").await?;
        // What was answered before counts for a few seconds.
        eventually("the right to count", DEADLINE, async || {
            elsewhere.merge_once("Job", "j", without(GATED)).await
        })
        .await?;
        other.delete("Namespace", &other.ns).await
    })
    .await
}

async fn a_right_that_is_taken_away_counts_no_more(admission: Admission) -> Result<()> {
    play(admission, "own-taken", async |scene| {
        let (gate, object) = owned_gate(scene, "budget").await?;
        let (ann, of_ann) = owner(scene, "ann", &object).await?;
        let (user, of_tenant) = tenant(scene).await?;
        scene.create(&Job::new("j").gate(&gate).json()).await?;
        let lift = async |scene: &Scene<'_>| dry(scene, "Job", "j", without(GATED)).await;
        let expected = told(AT_GATED, scene, &user, "budget");
        see_refused("the Gate to be known", &expected, async || {
            lift(&of_tenant).await
        })
        .await?;
        persist(async || lift(&of_ann).await).await?;
        let binding = format!("{}-{}", ann.replace(':', "-"), scene.name(&object));
        let args = ["delete", "rolebinding", &binding];
        scene.kubectl(&args, None).await?.ok()?;
        let expected = told(AT_GATED, scene, &ann, "budget");
        see_refused("the right to be gone", &expected, async || {
            lift(&of_ann).await
        })
        .await
    })
    .await
}

async fn anybody_lifts_a_gate_without_owners(admission: Admission) -> Result<()> {
    play(admission, "own-none", async |scene| {
        let (gate, object) = owned_gate(scene, "budget").await?;
        let (user, of_tenant) = tenant(scene).await?;
        let names = ["anyone", "deleted", "never"];
        for name in names {
            scene.create(&Job::new(name).gate(&gate).json()).await?;
        }
        let expected = told(AT_GATED, scene, &user, "budget");
        see_refused("the Gate to be known", &expected, async || {
            dry(&of_tenant, "Job", "anyone", without(GATED)).await
        })
        .await?;
        let lift = async |name: &str| {
            eventually("the gate to be lifted", DEADLINE, async || {
                of_tenant.merge_once("Job", name, without(GATED)).await
            })
            .await
        };
        let anyone = json!({"spec": {"lifting": "Anyone"}});
        scene.merge("Gate", &object, anyone).await?;
        lift("anyone").await?;
        let owners = json!({"spec": {"lifting": "Owners"}});
        scene.merge("Gate", &object, owners).await?;
        see_refused("the gate to have owners again", &expected, async || {
            dry(&of_tenant, "Job", "deleted", without(GATED)).await
        })
        .await?;
        scene.delete("Gate", &object).await?;
        lift("deleted").await?;
        let (other, _) = own_gate(&scene.ns, "other");
        scene.create(&Job::new("other").gate(&other).json()).await?;
        lift("other").await.map(drop)
    })
    .await
}

async fn a_pod_is_ungated_by_the_owners_of_its_gate(admission: Admission) -> Result<()> {
    play(admission, "own-pod", async |scene| {
        let (gate, object) = owned_gate(scene, "budget").await?;
        let (_, of_ann) = owner(scene, "ann", &object).await?;
        let (user, of_tenant) = tenant(scene).await?;
        scene
            .create(&Pod::new("p").annotation(GATED, &gate).json())
            .await?;
        let pod = scene.get("Pod", "p").await?;
        assert_eq!(gates(&pod), [gate.as_str()]);
        let both =
            json!({"metadata": {"annotations": {(GATED): null}}, "spec": {"schedulingGates": []}});
        let expected = told(AT_GATED, scene, &user, "budget");
        for patch in [without(GATED), both] {
            see_refused("the gate to hold", &expected, async || {
                dry(&of_tenant, "Pod", "p", patch.clone()).await
            })
            .await?;
        }
        let alone = json!({"spec": {"schedulingGates": []}});
        let answer = answered(async || dry(&of_tenant, "Pod", "p", alone.clone()).await).await?;
        let refused = refusal(answer)?;
        ensure!(
            refused.contains("stands for a gate annotation on the pod itself"),
            "{refused}"
        );
        let params = PatchParams::default();
        let patch = Patch::Merge(without(GATED));
        let api = of_tenant.api("Pod");
        see_refused("the gate to hold", &expected, async || {
            api.patch_status("p", &params, &patch).await.map(into_value)
        })
        .await?;
        of_ann.merge("Pod", "p", without(GATED)).await?;
        scene
            .see("Pod", "p", "ungated", |pod| gates(pod).is_empty())
            .await
            .map(drop)
    })
    .await
}

async fn pods_of_a_deployment_wait_for_the_owners_of_its_gate(admission: Admission) -> Result<()> {
    play(admission, "own-deployment", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let (gate, object) = owned_gate(scene, "budget").await?;
        let (_, of_ann) = owner(scene, "ann", &object).await?;
        let (user, of_tenant) = tenant(scene).await?;
        let deployment = queued(replicated("Deployment", "d", 1, Pod::new("x")));
        let deployment = with(deployment, "/metadata/annotations", json!({(GATES): gate}));
        scene.create(&deployment).await?;
        let expected = told(AT_GATES, scene, &user, "budget");
        see_refused("the gate to hold", &expected, async || {
            dry(&of_tenant, "Deployment", "d", without(GATES)).await
        })
        .await?;
        scene
            .see_so_many("behind the gate", 1, |pod| {
                gates(pod).contains(&gate.as_str())
            })
            .await?;
        of_ann.merge("Deployment", "d", without(GATES)).await?;
        scene
            .see_so_many("ungated", 1, |pod| gates(pod).is_empty())
            .await
            .map(drop)
    })
    .await
}

async fn nobody_gives_a_gated_object_to_another_owner(admission: Admission) -> Result<()> {
    play(admission, "own-given", async |scene| {
        let (gate, _) = owned_gate(scene, "budget").await?;
        let (user, of_tenant) = tenant(scene).await?;
        let maker = scene
            .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "own"}}))
            .await?;
        let maker = with(
            with(maker, "/apiVersion", json!("v1")),
            "/kind",
            json!("ConfigMap"),
        );
        scene.create(&Job::new("j").gate(&gate).json()).await?;
        let expected = told("metadata.ownerReferences", scene, &user, "budget");
        see_refused("the job to stay", &expected, async || {
            let owners = json!({"metadata": {"ownerReferences": controlled_by(&maker)}});
            dry(&of_tenant, "Job", "j", owners).await
        })
        .await?;
        scene
            .create(&Pod::new("p").annotation(GATED, &gate).json())
            .await?;
        let adopted = json!({"metadata": {"ownerReferences": controlled_by(&maker)}});
        let expected = told("metadata.ownerReferences", scene, REPLICAS, "budget");
        let replicas = scene.acting_as(REPLICAS)?;
        see_refused("the pod to stay", &expected, async || {
            dry(&replicas, "Pod", "p", adopted.clone()).await
        })
        .await
    })
    .await
}

async fn a_job_that_is_made_again_is_gated_as_it_says(admission: Admission) -> Result<()> {
    play(admission, "own-again", async |scene| {
        let (gate, _) = owned_gate(scene, "budget").await?;
        let (user, of_tenant) = tenant(scene).await?;
        let job = Job::new("j").gate(&gate).json();
        scene.create(&job).await?;
        let expected = told(AT_GATED, scene, &user, "budget");
        let is_held = async || {
            see_refused("the gate to hold", &expected, async || {
                dry(&of_tenant, "Job", "j", without(GATED)).await
            })
            .await
        };
        is_held().await?;
        // Whoever may edit a job may delete it.
        for again in [job, Job::new("j").json()] {
            of_tenant.delete("Job", "j").await?;
            scene.see_gone("Job", "j").await?;
            of_tenant.create(&again).await?;
            if again["metadata"]["annotations"][GATED].is_string() {
                is_held().await?;
            }
        }
        scene.see_complete("j").await.map(drop)
    })
    .await
}

/// A rule that costs more than its budget would not count.
async fn the_largest_job_is_judged_too(admission: Admission) -> Result<()> {
    play(admission, "own-large", async |scene| {
        let (gate, _) = owned_gate(scene, "budget").await?;
        let (user, of_tenant) = tenant(scene).await?;
        let others = (1..16).map(|nth| format!("{}.io/{nth:02}", "a.".repeat(28) + "a"));
        let all: Vec<_> = others.chain([gate]).collect();
        let job = Job::new("j").gates(&all.join(",")).json();
        let job = with(
            job,
            "/metadata/annotations/filler",
            json!("x".repeat(250_000)),
        );
        let job = with(
            job,
            "/spec/template/spec/containers/0/env",
            json!([{"name": "LARGE", "value": "x".repeat(900_000)}]),
        );
        scene.create(&job).await?;
        let expected = told(AT_GATES, scene, &user, "budget");
        see_refused("the gate to hold", &expected, async || {
            dry(&of_tenant, "Job", "j", without(GATES)).await
        })
        .await
    })
    .await
}
