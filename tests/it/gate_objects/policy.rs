//! Gates that are set by policy (`spec.appliesTo`): which objects are born with them, and that no edit is a way round.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gate_objects::owners::{dry, owner, see_refused, tenant, without};
use crate::support::admission::{Admission, play};
use crate::support::bed;
use crate::support::objects::{
    GATES, Job, here, is_suspended, own, own_gate, priority_class, quota, with,
};
use crate::support::persist::{answered, persist};
use crate::support::pods::{Pod, gates, queued, replicated};
use crate::support::{DEADLINE, Scene, into_value, refusal};

const GPU: &str = "nvidia.com/gpu";

/// A Gate that applies to what this says, once objects are born with its gate: the gate, and the name of the Gate.
async fn applied(scene: &Scene<'_>, path: &str, applies_to: Value) -> Result<(String, String)> {
    let (gate, object) = own_gate(&scene.ns, path);
    let spec = json!({"contact": format!("{path}@acme.io"), "appliesTo": applies_to});
    scene.apply(&own("Gate", &object, spec)).await?;
    scene
        .see_condition("Gate", &object, "Applied", "True", "InPlace")
        .await?;
    Ok((gate, object))
}

fn gate_list(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][GATES].as_str()
}

/// Checks that an object has this gate, or none.
fn check_gate(object: &Value, expected: Option<&str>) -> Result<()> {
    ensure!(gate_list(object) == expected, "{expected:?}: {object}");
    Ok(())
}

/// A Job in the queue `q` whose pods ask for 5 GPUs each.
fn of_pods(name: &str, pods: u32) -> Job {
    Job::new(name).queue("q").request(GPU, "5").pods(pods)
}

#[tokio::test]
async fn more_than_64_gpus_need_an_approval() -> Result<()> {
    play(Admission::Webhooks, "pol-gpus", async |scene| {
        scene
            .queue(&[quota("cpu", "100"), quota(GPU, "100")])
            .await?;
        let when = "requests['nvidia.com/gpu'] > 64";
        let applies_to = json!({"namespaceSelector": here(&scene.ns), "when": when});
        let (gate, object) = applied(scene, "budget", applies_to).await?;
        let (_, of_ann) = owner(scene, "ann", &object).await?;
        let (_, of_tenant) = tenant(scene).await?;

        let small = of_pods("small", 8).request(GPU, "8").runs_forever();
        check_gate(&of_tenant.create(&small.json()).await?, None)?;
        scene.see_admitted("small").await?;
        let no_gpus = Job::new("no-gpus").queue("q").runs_forever();
        check_gate(&of_tenant.create(&no_gpus.json()).await?, None)?;
        scene.see_admitted("no-gpus").await?;

        let big = of_pods("big", 13).json();
        // A new job is gated anew.
        for _ in 0..2 {
            let stored = of_tenant.create(&big).await?;
            check_gate(&stored, Some(&gate))?;
            ensure!(is_suspended(&stored), "{stored}");
            let message = scene.see_event("big", "Gated").await?;
            ensure!(message.contains(&gate), "{message}");
            ensure!(scene.find_workload("big").await?.is_none());
            of_tenant.delete("Job", "big").await?;
            scene.see_gone("Job", "big").await?;
        }
        of_tenant.create(&big).await?;
        let told = format!("only its owners may lift the gate \"{gate}\"");
        let answer = answered(async || dry(&of_tenant, "Job", "big", without(GATES)).await).await?;
        let refused = refusal(answer)?;
        ensure!(refused.contains(&told), "{refused}");
        of_ann.merge("Job", "big", without(GATES)).await?;
        scene.see_workload("big", "there", |_| true).await?;
        scene.delete("Gate", &object).await
    })
    .await
}

#[tokio::test]
async fn its_author_is_warned_by_every_road() -> Result<()> {
    play(Admission::Webhooks, "pol-roads", async |scene| {
        let applies_to = json!({"queues": ["q"], "when": format!("object.metadata.namespace == '{}'", scene.ns)});
        let (gate, object) = applied(scene, "budget", applies_to).await?;
        let warning = format!(
            "Warning: held by gate {gate}, which Gate \"{object}\" sets; ask budget@acme.io"
        );
        let manifest = of_pods("j", 1).manifest();
        for args in [
            &["create", "--dry-run=server", "-f", "-"][..],
            &["apply", "--dry-run=server", "-f", "-"],
            &["apply", "--server-side", "--dry-run=server", "-f", "-"],
            &["apply", "--server-side", "-f", "-"],
        ] {
            let output = scene.kubectl(args, Some(&manifest)).await?;
            ensure!(output.code == 0, "{args:?}: {}", output.stderr);
            ensure!(output.stderr.contains(&warning), "{args:?}: {}", output.stderr);
        }
        check_gate(&scene.get("Job", "j").await?, Some(&gate))?;
        // What was applied says nothing of the gate, and applied again takes nothing away.
        let args = ["apply", "--server-side", "-f", "-"];
        let output = scene.kubectl(&args, Some(&manifest)).await?;
        ensure!(output.code == 0, "{}", output.stderr);
        check_gate(&scene.get("Job", "j").await?, Some(&gate))?;
        scene.delete("Gate", &object).await
    })
    .await
}

#[tokio::test]
async fn no_edit_is_a_way_round() -> Result<()> {
    play(Admission::Webhooks, "pol-edits", async |scene| {
        let low = scene.name("low");
        scene.create(&priority_class(&low, -100)).await?;
        let here = here(&scene.ns);
        let gpus = json!({"namespaceSelector": here, "when": "requests['nvidia.com/gpu'] > 64"});
        let (big, big_gate) = applied(scene, "big", gpus).await?;
        let (gold, gold_gate) = applied(
            scene,
            "gold",
            json!({"namespaceSelector": here, "queues": ["gold"]}),
        )
        .await?;
        let low_ones = json!({"namespaceSelector": here, "when": "priority < 0"});
        let (low_gate, low_object) = applied(scene, "low", low_ones).await?;
        let (user, of_tenant) = tenant(scene).await?;
        let (_, of_ann) = owner(scene, "ann", &big_gate).await?;
        // There is no queue: the job waits.
        let queued = of_pods("queued", 1).with(&["spec", "completions"], json!(20));
        check_gate(&of_tenant.create(&queued.json()).await?, None)?;
        // It is its user who suspends it.
        let suspended = Job::new("suspended").with(&["spec", "suspend"], json!(true));
        let suspended = suspended.request(GPU, "5").with(&["spec", "completions"], json!(20));
        check_gate(&of_tenant.create(&suspended.json()).await?, None)?;
        let told = |field: &str, gate: &str, object: &str, path: &str| {
            format!(
                "{field}: Forbidden: Gate \"{object}\" applies to the object after this edit, and its gate \"{gate}\" can be set only at creation; user \"{user}\" cannot lift gates.sluice.dev \"{object}\" in namespace \"{}\": delete the object and create it again; ask {path}@acme.io",
                scene.ns
            )
        };
        let grown = json!({"spec": {"parallelism": 13}});
        let in_gold = json!({"metadata": {"labels": {"sluice.dev/queue-name": "gold"}}});
        let lower = json!({"metadata": {"labels": {"sluice.dev/priority-class": low}}});
        for (name, patch, expected) in [
            ("queued", &grown, told("spec", &big, &big_gate, "big")),
            ("suspended", &grown, told("spec", &big, &big_gate, "big")),
            ("queued", &in_gold, told("metadata.labels[sluice.dev/queue-name]", &gold, &gold_gate, "gold")),
            ("queued", &lower, told("metadata", &low_gate, &low_object, "low")),
        ] {
            see_refused(name, &expected, async || {
                of_tenant.merge_once("Job", name, patch.clone()).await
            })
            .await?;
        }
        // Up to the limit it may grow, and its owner may let it grow further.
        let less = json!({"spec": {"parallelism": 12}});
        of_tenant.merge("Job", "queued", less).await?;
        of_ann.merge("Job", "queued", grown).await?;
        for object in [big_gate, gold_gate, low_object] {
            scene.delete("Gate", &object).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_gate_applies_by_who_asks() -> Result<()> {
    play(Admission::Webhooks, "pol-users", async |scene| {
        let (user, of_tenant) = tenant(scene).await?;
        let group = scene.name("staff");
        let here = here(&scene.ns);
        let when = format!("user == '{user}'");
        let (of_user, one) = applied(
            scene,
            "user",
            json!({"namespaceSelector": here, "when": when}),
        )
        .await?;
        let when = format!("'{group}' in groups");
        let (of_group, other) = applied(
            scene,
            "group",
            json!({"namespaceSelector": here, "when": when}),
        )
        .await?;
        check_gate(&scene.create(&of_pods("a", 1).json()).await?, None)?;
        let stored = of_tenant.create(&of_pods("b", 1).json()).await?;
        check_gate(&stored, Some(&of_user))?;
        let args = [
            "create",
            "-f",
            "-",
            "--as=x",
            &format!("--as-group={group}"),
            "--as-group=system:masters",
            "-o",
            "json",
        ];
        let printed = scene
            .kubectl(&args, Some(&of_pods("c", 1).manifest()))
            .await?
            .ok()?;
        check_gate(&serde_json::from_str(&printed)?, Some(&of_group))?;
        scene.delete("Gate", &one).await?;
        scene.delete("Gate", &other).await
    })
    .await
}

#[tokio::test]
async fn in_a_selected_namespace_nothing_needs_a_queue() -> Result<()> {
    play(Admission::Webhooks, "pol-all", async |scene| {
        let (gate, object) = own_gate(&scene.ns, "team");
        let label = json!({"matchLabels": {"team": scene.ns}});
        let (_, of_tenant) = tenant(scene).await?;
        applied(scene, "team", json!({"namespaceSelector": label})).await?;
        check_gate(&of_tenant.create(&Job::new("before").json()).await?, None)?;
        scene
            .merge("Namespace", &scene.ns, json!({"metadata": {"labels": {"team": scene.ns}}}))
            .await?;
        // API servers and Sluice hear of the label by watches.
        eventually("the label to be known", DEADLINE, async || {
            let params = PatchParams::apply("tests");
            let params = PatchParams { dry_run: true, ..params };
            let probe = Patch::Apply(Job::new("probe").json());
            let stored = of_tenant.api("Job").patch("probe", &params, &probe).await?;
            check_gate(&into_value(stored), Some(&gate))
        })
        .await?;
        let stored = of_tenant.create(&Job::new("j").json()).await?;
        ensure!(is_suspended(&stored), "{stored}");
        check_gate(&stored, Some(&gate))?;
        let stored = of_tenant.create(&Pod::new("p").json()).await?;
        check_gate(&stored, Some(&gate))?;
        assert_eq!(gates(&stored), [gate.as_str()]);
        let deployment = replicated("Deployment", "d", 2, Pod::new("x"));
        check_gate(&of_tenant.create(&deployment).await?, Some(&gate))?;
        scene
            .see_so_many("behind the gate", 3, |pod| gates(pod) == [gate.as_str()])
            .await?;
        // A CronJob is not managed; the Jobs that are made for it are.
        let forged = with(
            Pod::new("forged").json(),
            "/metadata/ownerReferences",
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]),
        );
        let refused = refusal(answered(async || of_tenant.create_once(&forged).await).await?)?;
        ensure!(refused.contains("which only its controller may name"), "{refused}");
        // What the Gate is deleted under stays held.
        scene.delete("Gate", &object).await?;
        eventually("the Gate to apply no more", DEADLINE, async || {
            let stored = dry_create(&of_tenant, &Job::new("free").json()).await?;
            check_gate(&stored, None)
        })
        .await?;
        check_gate(&scene.get("Job", "j").await?, Some(&gate))?;
        scene.merge("Job", "j", without(GATES)).await?;
        scene.see_complete("j").await.map(drop)
    })
    .await
}

async fn dry_create(scene: &Scene<'_>, object: &Value) -> Result<Value> {
    let params = kube::api::PostParams {
        dry_run: true,
        field_manager: None,
    };
    let object = serde_json::from_value(object.clone())?;
    let stored = persist(async || scene.api("Job").create(&params, &object).await).await?;
    Ok(into_value(stored))
}

#[tokio::test]
async fn each_pod_of_a_deployment_waits_for_the_gate_too() -> Result<()> {
    play(Admission::Webhooks, "pol-each", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let kinds = json!([{"group": "apps", "kind": "Deployment"}]);
        let applies_to =
            json!({"namespaceSelector": here(&scene.ns), "kinds": kinds, "when": "pods > 2"});
        let (gate, object) = applied(scene, "wide", applies_to).await?;
        let (user, of_tenant) = tenant(scene).await?;
        check_gate(&of_tenant.create(&of_pods("j", 5).json()).await?, None)?;
        let each = |name: &str, pods| {
            let deployment = queued(replicated("Deployment", name, pods, Pod::new("x").cpu("1")));
            with(
                deployment,
                "/metadata/annotations",
                json!({"sluice.dev/admission": "PerPod"}),
            )
        };
        check_gate(&of_tenant.create(&each("narrow", 2)).await?, None)?;
        scene
            .see_so_many("running", 2, |pod| gates(pod).is_empty())
            .await?;
        check_gate(&of_tenant.create(&each("wide", 3)).await?, Some(&gate))?;
        scene
            .see_so_many("behind the gate", 3, |pod| {
                gates(pod).contains(&gate.as_str())
            })
            .await?;
        let expected = format!("user \"{user}\" cannot lift gates.sluice.dev \"{object}\" in namespace \"{}\": delete the object and create it again; ask wide@acme.io", scene.ns);
        see_refused("it may not get wider", &expected, async || {
            let wider = json!({"spec": {"replicas": 3}});
            of_tenant.merge_once("Deployment", "narrow", wider).await
        })
        .await?;
        scene.delete("Gate", &object).await
    })
    .await
}

#[tokio::test]
async fn an_expression_that_fails_holds_and_says_so() -> Result<()> {
    play(Admission::Webhooks, "pol-fails", async |scene| {
        let when = "object.metadata.labels.cost > 1";
        let applies_to = json!({"namespaceSelector": here(&scene.ns), "when": when});
        let (gate, object) = applied(scene, "cost", applies_to).await?;
        let output = scene
            .kubectl(&["create", "-f", "-"], Some(&of_pods("j", 1).manifest()))
            .await?;
        let why = "spec.appliesTo.when fails: No such key: cost";
        ensure!(output.stderr.contains(why), "{}", output.stderr);
        check_gate(&scene.get("Job", "j").await?, Some(&gate))?;
        let message = scene.see_event("j", "Gated").await?;
        let told = format!("set because it can't be determined whether they apply: {gate}: {why}");
        ensure!(message.contains(&told), "{message}");
        scene.delete("Gate", &object).await
    })
    .await
}

#[tokio::test]
async fn an_expression_is_checked_with_its_gate() -> Result<()> {
    play(Admission::Webhooks, "pol-checked", async |scene| {
        let (_, object) = own_gate(&scene.ns, "bad");
        for (when, expected) in [
            ("requests[", "must be a CEL expression"),
            ("cost > 1", "undeclared reference to \"cost\" at 1:1"),
            ("pods", "fails for every object: gave int, not a bool"),
            (
                "requests.cpu > '1'",
                "requests.cpu is a double and \"1\" is a string: > can't compare them",
            ),
        ] {
            let gate = own("Gate", &object, json!({"appliesTo": {"when": when}}));
            let refused = refusal(answered(async || scene.create_once(&gate).await).await?)?;
            let at = format!("spec.appliesTo.when: Invalid value: {when:?}: ");
            ensure!(refused.contains(&at), "{refused}");
            ensure!(refused.contains(expected), "{refused}");
        }
        Ok(())
    })
    .await
}

/// Without a webhook nobody sets the gate: it is to be named, where no expression has to be evaluated.
#[tokio::test]
async fn without_a_webhook_a_gate_has_to_be_named() -> Result<()> {
    play(Admission::Policies, "pol-none", async |scene| {
        scene.queue(&[quota("cpu", "10")]).await?;
        let not_set = "Objects that match spec.appliesTo do not get the gate";
        let see_told = async |object: &str, expected: &str| {
            let told = scene
                .see_condition("Gate", object, "Applied", "False", "NoWebhook")
                .await?;
            ensure!(told.starts_with(expected), "{told}");
            Ok::<_, anyhow::Error>(())
        };
        let (gate, object) = own_gate(&scene.ns, "budget");
        let here = here(&scene.ns);
        let plain = json!({"namespaceSelector": here, "kinds": [{"group": "batch", "kind": "Job"}, {"kind": "Pod"}]});
        let spec = json!({"contact": "budget@acme.io", "appliesTo": plain});
        scene.apply(&own("Gate", &object, spec)).await?;
        see_told(&object, &format!("{not_set}; an admission policy may refuse")).await?;
        let expected = format!(
            "metadata.annotations[{GATES}]: Forbidden: must name the gate \"{gate}\", as Gate \"{object}\" applies to this object, which is to be created with it; ask budget@acme.io"
        );
        let (_, of_tenant) = tenant(scene).await?;
        for new in [Job::new("j").json(), of_pods("j", 1).json(), Pod::new("j").json()] {
            let params = kube::api::PostParams {
                dry_run: true,
                field_manager: None,
            };
            let object = serde_json::from_value(new.clone())?;
            let api = of_tenant.api(new["kind"].as_str().unwrap());
            see_refused("it has no gate", &expected, async || {
                api.create(&params, &object).await.map(into_value)
            })
            .await?;
        }
        of_tenant.create(&Job::new("j").gates(&format!("a.io/x,{gate}")).json()).await?;
        of_tenant.create(&Job::new("k").gate(&gate).json()).await?;
        // Of no kind that it applies to; its pods are made by a controller.
        of_tenant.create(&replicated("Deployment", "d", 1, Pod::new("x"))).await?;
        scene.see_so_many("made", 1, |_| true).await?;

        let gold = json!({"namespaceSelector": here, "queues": ["gold"], "kinds": [{"group": "apps", "kind": "Deployment"}]});
        let (_, of_gold) = own_gate(&scene.ns, "gold");
        scene.apply(&own("Gate", &of_gold, json!({"appliesTo": gold}))).await?;
        let expected = format!("as Gate \"{of_gold}\" applies to this object, which is to be created with it");
        let joins = json!({"metadata": {"labels": {"sluice.dev/queue-name": "gold"}}});
        see_refused("it may not join", &expected, async || {
            dry(&of_tenant, "Deployment", "d", joins.clone()).await
        })
        .await?;

        let (_, of_size) = own_gate(&scene.ns, "size");
        let sized = json!({"namespaceSelector": here, "when": "pods > 0"});
        scene.apply(&own("Gate", &of_size, json!({"appliesTo": sized}))).await?;
        see_told(&of_size, &format!("{not_set}, as only the webhook evaluates spec.appliesTo.when")).await?;
        for object in [object, of_gold, of_size] {
            scene.delete("Gate", &object).await?;
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn while_sluice_is_down_no_other_namespace_waits_for_it() -> Result<()> {
    bed::own_running("pol-down", async |bed, scene| {
        let applies_to = json!({"namespaceSelector": here(&scene.ns), "when": "pods > 2"});
        let (_, object) = applied(scene, "wide", applies_to).await?;
        let elsewhere = Scene {
            cp: scene.cp,
            client: scene.client.clone(),
            ns: scene.cp.create_namespace("pol-elsewhere").await?,
        };
        check_gate(&scene.create(&Job::new("narrow").json()).await?, None)?;
        bed.sluice.kill();
        let job = Job::new("j").json();
        elsewhere.create_once(&job).await?;
        elsewhere.create_once(&Pod::new("p").json()).await?;
        let refused = refusal(scene.create_once(&job).await)?;
        let told = format!("failed calling webhook \"{object}.gates.sluice.dev\"");
        ensure!(refused.contains(&told), "{refused}");
        // Nor does what is there already, as long as its spec stays.
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        scene.merge_once("Job", "narrow", label).await?;
        Ok(())
    })
    .await
}
