//! Gates that are lifted after another object: which object that is, who may name it, and what is told meanwhile. What
//! goes wrong lies in `gates_after_faults.rs`.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::support::admission::{Admission, both_ways, play};
use crate::support::after::{AFTER, after_gate, job_rule, object, rule, waiting};
use crate::support::made_up::MadeUp;
use crate::support::objects::{GATED, Job, is_suspended, own, own_gate, quota};
use crate::support::pods::Pod;
use crate::support::{DEADLINE, Scene};

both_ways!(
    a_job_waits_for_another_one_to_be_complete,
    a_job_waits_for_a_claim_to_be_bound,
    a_job_waits_for_the_status_of_a_custom_resource,
    a_job_names_nothing_outside_of_its_namespace,
    a_gate_names_an_object_of_another_namespace,
    a_gate_names_an_object_without_a_namespace,
    a_pod_waits_for_an_object,
    an_object_that_comes_again_is_that_of_its_name,
);

/// A Gate and its role, as they are shipped.
const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/config/samples/gates/input.yaml"
);

async fn see_suspended(scene: &Scene<'_>, name: &str) -> Result<()> {
    ensure!(is_suspended(&scene.get("Job", name).await?), "{name}");
    Ok(())
}

async fn a_job_waits_for_another_one_to_be_complete(admission: Admission) -> Result<()> {
    play(admission, "after-job", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = after_gate(scene, json!({"kinds": [job_rule()]})).await?;
        scene.create(&waiting("train", &gate, "prepare").json()).await?;
        let told = scene.see_told("train", "Gated", "does not exist").await?;
        let expected = format!(
            "Held until these gates are removed: {gate} (waits for Job.batch \"prepare\", which does not exist)"
        );
        ensure!(told == expected, "{told}");
        scene.create(&Job::new("prepare").runs("2").json()).await?;
        let not_yet = "waits for Job.batch \"prepare\": its condition is not true yet";
        scene.see_told("train", "Gated", not_yet).await?;
        see_suspended(scene, "train").await?;
        scene.see_complete("prepare").await?;
        let train = scene.see_complete("train").await?;
        ensure!(train["metadata"]["annotations"][GATED].is_null(), "{train}");
        let record = train["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
        let record: Value = serde_json::from_str(record.unwrap_or_default())?;
        assert_eq!(record[0]["by"], "sluice");
        assert_eq!(record[0]["reason"], "Job.batch prepare satisfies the condition of the Gate");
        let told = scene.see_event("train", "GateLifted").await?;
        ensure!(
            told.ends_with("as Job.batch prepare satisfies the condition of the Gate"),
            "{told}"
        );
        // One that is complete already keeps nobody waiting.
        scene.create(&waiting("again", &gate, "Job.batch/prepare").json()).await?;
        scene.see_complete("again").await?;
        let (_, gate) = own_gate(&scene.ns, "data");
        scene
            .see_condition("Gate", &gate, "Active", "True", "Ready")
            .await?;
        Ok(())
    })
    .await
}

async fn a_job_waits_for_a_claim_to_be_bound(admission: Admission) -> Result<()> {
    play(admission, "after-claim", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        // As it is shipped: the Gate, and the right that it needs.
        scene.kubectl(&["apply", "-f", SAMPLE], None).await?.ok()?;
        let gate = "acme.io/input";
        scene
            .create(&waiting("train", gate, "PersistentVolumeClaim/data").json())
            .await?;
        scene
            .see_told("train", "Gated", "waits for PersistentVolumeClaim \"data\", which does not exist")
            .await?;
        let volume = scene.name("volume");
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": volume,
            "resources": {"requests": {"storage": "1Gi"}},
        });
        scene
            .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}))
            .await?;
        scene.see_told("train", "Gated", "its condition is not true yet").await?;
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"},
            "storageClassName": "",
            "claimRef": {"namespace": scene.ns, "name": "data"},
        });
        scene
            .apply(&json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec}))
            .await?;
        scene.see_complete("train").await?;
        Ok(())
    })
    .await
}

async fn a_job_waits_for_the_status_of_a_custom_resource(admission: Admission) -> Result<()> {
    play(admission, "after-crd", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let widget = MadeUp::new(scene, "Widget");
        let done = rule(&widget.group, "Widget", "has(object.status) && object.status.rows > 9");
        let gate = after_gate(scene, json!({"kinds": [done]})).await?;
        scene.create(&waiting("train", &gate, "table").json()).await?;
        let (_, object) = own_gate(&scene.ns, "data");
        let told = scene
            .see_condition("Gate", &object, "Active", "False", "KindNotServed")
            .await?;
        ensure!(told.contains("is not served; install its CRD"), "{told}");
        widget.install_crd(scene).await?;
        // The right is missing: the Gate says which, and it works once it is there.
        let told = scene
            .see_condition("Gate", &object, "Active", "False", "Forbidden")
            .await?;
        let missing = format!(
            "Widget.{0} can't be watched: add a ClusterRole with the label sluice.dev/aggregate-to-controller: \"true\" and the rule {{apiGroups: [\"{0}\"], resources: [widgets], verbs: [list, watch]}}",
            widget.group
        );
        ensure!(told.ends_with(&missing), "{told}");
        scene.see_told("train", "Gated", "such objects can't be watched").await?;
        scene.apply(&widget.role()).await?;
        scene
            .see_condition("Gate", &object, "Active", "True", "Ready")
            .await?;
        scene.see_told("train", "Gated", "does not exist").await?;
        let table = widget.create(scene, &widget.object("table")).await?;
        ensure!(table["status"].is_null(), "{table}");
        scene.see_told("train", "Gated", "its condition is not true yet").await?;
        // What can't be evaluated holds, and no value of the object is told.
        widget.set_status(scene, "table", json!({"rows": "hunter2"})).await?;
        let told = scene.see_told("train", "Gated", "can't be evaluated").await?;
        ensure!(!told.contains("hunter2"), "{told}");
        see_suspended(scene, "train").await?;
        widget.set_status(scene, "table", json!({"rows": 10})).await?;
        scene.see_complete("train").await?;
        scene.delete("Gate", &object).await?;
        widget.delete_crd(scene).await
    })
    .await
}

async fn a_job_names_nothing_outside_of_its_namespace(admission: Admission) -> Result<()> {
    play(admission, "after-own", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = after_gate(scene, json!({"kinds": [job_rule()]})).await?;
        scene.create(&Job::new("prepare").json()).await?;
        scene.see_complete("prepare").await?;
        let unnamed = Job::new("unnamed").queue("q").gate(&gate);
        scene.create(&unnamed.json()).await?;
        scene
            .see_told("unnamed", "Gated", "metadata.annotations[sluice.dev/after]: Required value: the name of a Job.batch in the namespace of this object")
            .await?;
        for (name, named) in [
            ("elsewhere", "kube-system/prepare"),
            ("deeper", "Job/kube-system/prepare"),
            ("other-kind", "Secret/prepare"),
            ("empty", ""),
        ] {
            scene.create(&waiting(name, &gate, named).json()).await?;
            let told = scene.see_event(name, "Gated").await?;
            let problem = format!(
                "metadata.annotations[sluice.dev/after]: Invalid value: {named:?}: must be the name of a Job.batch in the namespace of this object"
            );
            ensure!(told.contains(&problem), "{told}");
            see_suspended(scene, name).await?;
        }
        // It may be named later.
        let named = json!({"metadata": {"annotations": {(AFTER): "prepare"}}});
        scene.merge("Job", "elsewhere", named).await?;
        scene.see_complete("elsewhere").await?;
        Ok(())
    })
    .await
}

async fn a_gate_names_an_object_of_another_namespace(admission: Admission) -> Result<()> {
    play(admission, "after-other", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let other = scene.name("other");
        scene
            .apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}))
            .await?;
        let gate = after_gate(scene, object(job_rule(), "load", Some(&other))).await?;
        // What the job names is of no account, and neither is an object of that name in its own namespace.
        scene.create(&Job::new("load").json()).await?;
        scene.see_complete("load").await?;
        scene
            .create(&waiting("train", &gate, "load").json())
            .await?;
        let missing =
            format!("waits for Job.batch \"load\" in namespace {other:?}, which does not exist");
        scene.see_told("train", "Gated", &missing).await?;
        see_suspended(scene, "train").await?;
        let mut load = Job::new("load").json();
        load["metadata"]["namespace"] = json!(other);
        let (args, load) = (["create", "-f", "-"], load.to_string());
        scene.cp.kubectl(&args, Some(&load)).await?.ok()?;
        let train = scene.see_complete("train").await?;
        let record = train["metadata"]["annotations"]["sluice.dev/lifted-gates"].as_str();
        let reason = format!("Job.batch {other}/load satisfies the condition of the Gate");
        ensure!(
            record.is_some_and(|record| record.contains(&reason)),
            "{train}"
        );
        scene.delete("Namespace", &other).await
    })
    .await
}

async fn a_gate_names_an_object_without_a_namespace(admission: Admission) -> Result<()> {
    play(admission, "after-cluster", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let label = format!("{}.example.com/ready", scene.ns);
        let ready = format!("{label:?} in object.metadata.labels");
        let namespace = rule("", "Namespace", &ready);
        let (_, name) = own_gate(&scene.ns, "data");
        // Only a Gate may name such an object, and it can't be in a namespace.
        let gate = after_gate(scene, json!({"kinds": [namespace]})).await?;
        let told = scene
            .see_condition("Gate", &name, "Active", "False", "WrongScope")
            .await?;
        ensure!(
            told.ends_with("spec.after.kinds: Namespace has no namespaces: only spec.after.object can name such an object"),
            "{told}"
        );
        scene.create(&waiting("train", &gate, &scene.ns).json()).await?;
        scene.see_told("train", "Gated", "such objects can't be watched").await?;
        scene.delete("Gate", &name).await?;
        after_gate(scene, object(namespace.clone(), &scene.ns, Some("default"))).await?;
        // What was told of the Gate before may come once more.
        eventually("the Gate to be told about its namespace", DEADLINE, async || {
            let told = scene
                .see_condition("Gate", &name, "Active", "False", "WrongScope")
                .await?;
            ensure!(told.contains("must not be set, as Namespace has no namespaces"), "{told}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        scene.delete("Gate", &name).await?;
        after_gate(scene, object(namespace, &scene.ns, None)).await?;
        scene
            .see_condition("Gate", &name, "Active", "True", "Ready")
            .await?;
        scene.see_told("train", "Gated", "its condition is not true yet").await?;
        see_suspended(scene, "train").await?;
        let ready = json!({"metadata": {"labels": {(label): "true"}}});
        scene.merge("Namespace", &scene.ns, ready).await?;
        scene.see_complete("train").await?;
        Ok(())
    })
    .await
}

async fn a_pod_waits_for_an_object(admission: Admission) -> Result<()> {
    play(admission, "after-pod", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = after_gate(scene, json!({"kinds": [job_rule()]})).await?;
        let pod = Pod::new("pod").queue("q").annotation(GATED, &gate);
        scene
            .create(&pod.annotation(AFTER, "prepare").json())
            .await?;
        let (_, object) = own_gate(&scene.ns, "data");
        scene
            .see("Gate", &object, "holding it", |gate| {
                gate["status"]["held"] == 1
            })
            .await?;
        scene.create(&Job::new("prepare").json()).await?;
        let is_released = |pod: &Value| {
            let gates = pod["spec"]["schedulingGates"].as_array();
            gates.is_none_or(Vec::is_empty) && pod["metadata"]["annotations"][GATED].is_null()
        };
        scene.see("Pod", "pod", "released", is_released).await?;
        Ok(())
    })
    .await
}

async fn an_object_that_comes_again_is_that_of_its_name(admission: Admission) -> Result<()> {
    play(admission, "after-again", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        let gate = after_gate(scene, json!({"kinds": [job_rule()]})).await?;
        scene.create(&Job::new("prepare").json()).await?;
        scene.see_complete("prepare").await?;
        scene
            .create(&waiting("first", &gate, "prepare").json())
            .await?;
        scene.see_complete("first").await?;
        scene.delete("Job", "prepare").await?;
        scene.see_gone("Job", "prepare").await?;
        // The watch shows that within moments; until then the one that was complete may count.
        let mut round = 0;
        loop {
            round += 1;
            let name = format!("second-{round}");
            scene
                .create(&waiting(&name, &gate, "prepare").json())
                .await?;
            let told = scene.see_told(&name, "Gated", "").await;
            if told.is_ok_and(|told| told.contains("does not exist")) {
                see_suspended(scene, &name).await?;
                scene.create(&Job::new("prepare").json()).await?;
                scene.see_complete(&name).await?;
                return Ok(());
            }
            ensure!(round < 5, "it is known for ever");
        }
    })
    .await
}

/// What a Gate says can't be followed.
#[tokio::test]
async fn a_bad_gate_is_refused_or_holds() -> Result<()> {
    let bad = [
        (
            json!({"kinds": [rule("", "Secret", "has(object.data)")]}),
            "spec.after.kinds[0].kind: Invalid value: \"Secret\": is not read by Sluice, whatever its roles say",
        ),
        (
            json!({"kinds": [rule("batch", "Job", "object.status.succeeded >")]}),
            "spec.after.kinds[0].condition: Invalid value: \"object.status.succeeded >\": must be a CEL expression",
        ),
        (
            json!({"kinds": [rule("batch", "Job", "secrets.password == 'a'")]}),
            "only \"object\" is declared",
        ),
        (
            object(rule("batch", "Job", "true"), "Prepare", None),
            "spec.after.object.name: Invalid value: \"Prepare\": a lowercase RFC 1123 subdomain",
        ),
    ];
    play(Admission::Webhooks, "after-bad", async |scene| {
        let (_, name) = own_gate(&scene.ns, "bad");
        for (after, problem) in &bad {
            let gate = own("Gate", &name, json!({"after": after}));
            let told = crate::support::refusal(scene.try_create(&gate).await)?;
            ensure!(told.contains(problem), "{told}");
        }
        Ok(())
    })
    .await?;
    play(Admission::Policies, "after-bad", async |scene| {
        let (gate, name) = own_gate(&scene.ns, "data");
        for (after, problem) in &bad {
            after_gate(scene, after.clone()).await?;
            let told = scene
                .see_condition("Gate", &name, "Active", "False", "Invalid")
                .await?;
            ensure!(told.contains(problem), "{told}");
            scene.delete("Gate", &name).await?;
        }
        after_gate(scene, bad[0].0.clone()).await?;
        scene.create(&waiting("j", &gate, "prepare").json()).await?;
        scene
            .see_told("j", "Gated", "its Gate is not valid")
            .await?;
        see_suspended(scene, "j").await
    })
    .await?;
    // By the schema, whoever judges.
    play(Admission::Policies, "after-schema", async |scene| {
        let (_, name) = own_gate(&scene.ns, "bad");
        let either = "exactly one of object and kinds must be set";
        for (spec, problem) in [
            (json!({"after": {}}), either),
            (json!({"after": {"kinds": []}}), either),
            (
                json!({"after": {"kinds": [job_rule()]}, "counter": {"limit": 1}}),
                "must have at most one of approval, schedule, after and counter: a gate is lifted in one way",
            ),
        ] {
            let told = crate::support::refusal(scene.try_create(&own("Gate", &name, spec)).await)?;
            ensure!(told.contains(problem), "{told}");
        }
        Ok(())
    })
    .await
}
