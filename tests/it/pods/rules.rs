//! What nobody may do to pods behind gates: rules of the API server, and of the webhook for pods.

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sluice_crds::{
    ADMISSION_ANNOTATION, ADMITTED_ANNOTATION, MANAGED_LABEL, POD_GROUP_LABEL,
    POD_GROUP_TOTAL_ANNOTATION, QUEUE_GATE, QUEUE_NAME_LABEL,
};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, Job, name_of, quota};
use crate::support::persist::{answered, persist};
use crate::support::pods::{
    Pod, gates, has_queue_gate, is_released, is_running, queued, replicated,
};
use crate::support::refusal;

both_ways!(
    pods_that_break_a_rule_are_refused,
    templates_behind_gates_name_no_node,
    edits_that_break_a_rule_are_refused,
    an_admitted_pod_does_not_grow,
    what_waits_suspended_gets_no_gate_of_others,
    a_container_grows_below_a_pod_level_request,
    pods_that_gates_alone_held_grow,
    other_pods_are_left_alone,
    a_pod_that_runs_joins_no_queue,
);

async fn pods_that_break_a_rule_are_refused(admission: Admission) -> Result<()> {
    let node_0 = json!("node-0");
    let rows = [
        (
            Pod::new("bound").queue("q").with(&["spec", "nodeName"], node_0.clone()),
            "spec.nodeName: Forbidden: may not be set on a pod that waits: the pod would run at once"
                .to_owned(),
        ),
        (
            Pod::new("member").queue("q").group("gang", 2).with(&["spec", "nodeName"], node_0),
            "spec.nodeName: Forbidden: may not be set on a pod that waits: the pod would run at once"
                .to_owned(),
        ),
        (
            Pod::new("perhaps").annotation(QUEUE_GATE, "perhaps"),
            format!(
                "metadata.annotations[{QUEUE_GATE}]: Unsupported value: \"perhaps\": supported values: \
                 \"false\", \"true\""
            ),
        ),
        (
            Pod::new("gated").annotation(GATED, "mygate"),
            format!(
                "metadata.annotations[{GATED}]: Invalid value: \"mygate\": must be a domain-prefixed path \
                 (such as \"acme.io/foo\")"
            ),
        ),
        (
            Pod::new("alone").queue("q").label(POD_GROUP_LABEL, "gang"),
            format!(
                "metadata.annotations[{POD_GROUP_TOTAL_ANNOTATION}]: Required value: must say how many pods \
                 the group has"
            ),
        ),
        (
            Pod::new("none").queue("q").group("gang", 0),
            format!(
                "metadata.annotations[{POD_GROUP_TOTAL_ANNOTATION}]: Invalid value: \"0\": must be a whole \
                 number between 1 and 1000"
            ),
        ),
    ];
    play(admission, "rules-create", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for (pod, problem) in &rows {
            let answer = answered(async || scene.try_create(&pod.json()).await).await?;
            let told = refusal(answer)?;
            // The first that is asked: behind a gate and bound, the API server itself would refuse it
            // before the other is.
            assert_eq!(told, admission.of_new_pod(problem));
        }
        ensure!(
            scene.list("Pod").await?.is_empty(),
            "a refused pod was stored"
        );
        Ok(())
    })
    .await
}

/// The API server takes no pod that has a node and a gate: their controllers would try again for ever.
async fn templates_behind_gates_name_no_node(admission: Admission) -> Result<()> {
    let problem = "spec.template.spec.nodeName: Forbidden: may not be set on a pod that waits: the pod would run at once";
    let path = ["spec", "template", "spec", "nodeName"];
    let bound = |kind: &str, name: &str| {
        let pod = Pod::new("").with(&["spec", "nodeName"], json!("node-0"));
        replicated(kind, name, 1, pod)
    };
    let mut gated = bound("Deployment", "gated");
    gated["metadata"]["annotations"] = json!({ (GATED): "acme.io/data" });
    let elastic = Job::new("elastic")
        .queue("q")
        .annotation(ADMISSION_ANNOTATION, "PerPod");
    let behind = Job::new("behind").queue("q").with(
        &["spec", "template", "spec", "schedulingGates"],
        json!([{ "name": "acme.io/data" }]),
    );
    let refused = [
        queued(bound("Deployment", "web")),
        queued(bound("StatefulSet", "db")),
        gated,
        elastic.with(&path, json!("node-0")).json(),
        behind.with(&path, json!("node-0")).json(),
    ];
    play(admission, "rules-bound", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for object in &refused {
            let told = refusal(answered(async || scene.try_create(object).await).await?)?;
            ensure!(
                told.ends_with(&format!("denied the request: {problem}"))
                    || told.ends_with(&format!("denied request: {problem}")),
                "{}: {told}",
                name_of(object)
            );
        }
        // It runs where nothing holds it, until it is to be queued; and what is queued gets no node.
        scene.create(&bound("Deployment", "plain")).await?;
        scene.see_so_many("running", 1, is_running).await?;
        let queue = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        let joins = answered(async || scene.try_merge("Deployment", "plain", queue.clone()).await);
        let told = refusal(joins.await?)?;
        ensure!(told.ends_with(problem), "{told}");
        scene.delete("Deployment", "plain").await?;
        let web = queued(replicated("Deployment", "web", 1, Pod::new("")));
        scene.create(&web).await?;
        let node = json!({"spec": {"template": {"spec": {"nodeName": "node-0"}}}});
        let bind = answered(async || scene.try_merge("Deployment", "web", node.clone()).await);
        let told = refusal(bind.await?)?;
        ensure!(told.ends_with(problem), "{told}");
        scene.delete("Deployment", "web").await?;
        // A Job that waits suspended has no pods before it is admitted, and these have no gates then.
        let whole = Job::new("whole").queue("q").with(&path, json!("node-0"));
        scene.create(&whole.json()).await?;
        scene.see_complete("whole").await?;
        Ok(())
    })
    .await
}

async fn edits_that_break_a_rule_are_refused(admission: Admission) -> Result<()> {
    play(admission, "rules-edit", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Pod::new("runs").queue("q").json()).await?;
        scene.see("Pod", "runs", "running", is_running).await?;
        let waits = Pod::new("waits").queue("q").scheduling_gate("example.com/data");
        scene.create(&waits.json()).await?;
        let label = |key: &str, value: Value| json!({"metadata": {"labels": {(key): value}}});
        let note = |key: &str, value: Value| json!({"metadata": {"annotations": {(key): value}}});
        let data = json!([{ "name": "example.com/data" }]);
        let alone = "Forbidden: is set by Sluice alone";
        let rows = [
            (
                "waits",
                json!({"spec": {"schedulingGates": data}}),
                format!(
                    "spec.schedulingGates: Forbidden: the gate \"{QUEUE_GATE}\" is removed by Sluice when \
                     LocalQueue \"q\" admits the pod"
                ),
            ),
            (
                "waits",
                label(MANAGED_LABEL, Value::Null),
                format!("metadata.labels[{MANAGED_LABEL}]: {alone}"),
            ),
            (
                "waits",
                note(ADMITTED_ANNOTATION, json!("{}")),
                format!("metadata.annotations[{ADMITTED_ANNOTATION}]: {alone}"),
            ),
            (
                "waits",
                note(GATED, json!("acme.io/late")),
                format!(
                    "metadata.annotations[{GATED}]: Forbidden: may only be set at creation and removed later"
                ),
            ),
            (
                "waits",
                note(QUEUE_GATE, Value::Null),
                format!("metadata.annotations[{QUEUE_GATE}]: Forbidden: is immutable"),
            ),
            (
                "runs",
                label(QUEUE_NAME_LABEL, json!("other")),
                format!(
                    "metadata.labels[{QUEUE_NAME_LABEL}]: Forbidden: is immutable while the pod is admitted; \
                     delete the pod and create it again in the other queue"
                ),
            ),
            (
                "runs",
                note(ADMITTED_ANNOTATION, Value::Null),
                format!("metadata.annotations[{ADMITTED_ANNOTATION}]: {alone}"),
            ),
        ];
        for (pod, patch, problem) in rows {
            let answer =
                answered(async || scene.try_merge("Pod", pod, patch.clone()).await).await?;
            let told = refusal(answer)?;
            assert_eq!(told, admission.of_pod(&problem));
        }
        // Gates can't come later: a rule of the API server.
        let late = json!([{ "name": "example.com/late" }]);
        for pod in ["runs", "waits"] {
            let patch = Patch::Strategic(json!({"spec": {"schedulingGates": late}}));
            let (api, params) = (scene.api("Pod"), PatchParams::default());
            let answer = answered(async || api.patch(pod, &params, &patch).await).await?;
            let told = refusal(answer.map(crate::support::into_value))?;
            ensure!(told.contains("only deletion is allowed"), "{told}");
        }
        // What waits may still go elsewhere, and its other gates are not Sluice's business.
        scene.merge("Pod", "waits", label(QUEUE_NAME_LABEL, json!("other"))).await?;
        scene.merge("Pod", "waits", label(QUEUE_NAME_LABEL, json!("q"))).await?;
        scene.open_gate("waits", "example.com/data").await?;
        let waits = scene.get("Pod", "waits").await?;
        assert_eq!(gates(&waits), [QUEUE_GATE]);
        scene.delete("Pod", "runs").await?;
        scene.see("Pod", "waits", "released", is_released).await.map(drop)
    })
    .await
}

/// It may shrink and not grow.
async fn an_admitted_pod_does_not_grow(admission: Admission) -> Result<()> {
    play(admission, "rules-resize", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&Pod::new("runs").queue("q").json()).await?;
        scene.see("Pod", "runs", "running", is_running).await?;
        let resize = async |cpu: &str| scene.resize("runs", cpu).await;
        let told = refusal(answered(async || resize("2").await).await?)?;
        let problem = "spec.containers[0].resources.requests[cpu]: Forbidden: may not grow from 1 to 2 while \
                       the pod is admitted";
        assert_eq!(told, admission.of_pod(problem));
        persist(async || resize("500m").await).await?;
        // Its node has not given anything back yet.
        scene.see_account("cpu", ("1", "1", "0"), 0).await?;
        scene.show_resources("runs", "500m").await?;
        scene.see_account("cpu", ("500m", "500m", "0"), 0).await
    })
    .await
}

/// Its pods would wait for that gate once it is admitted, and hold its quota.
async fn what_waits_suspended_gets_no_gate_of_others(admission: Admission) -> Result<()> {
    play(admission, "rules-late-gates", async |scene| {
        scene.queue(&[quota("cpu", "0")]).await?;
        let gates = json!([{ "name": "acme.io/x" }]);
        let path = ["spec", "template", "spec", "schedulingGates"];
        scene.create(&Job::new("waits").queue("q").json()).await?;
        let alone = Job::new("alone").with(&["spec", "suspend"], json!(true));
        scene.create(&alone.with(&path, gates.clone()).json()).await?;
        let gated = json!({"spec": {"template": {"spec": {"schedulingGates": gates}}}});
        let joined = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        let rows = [
            (
                "waits",
                gated,
                "spec.template.spec.schedulingGates: Forbidden: the gate \"acme.io/x\" may only be set at creation: it determines how the object is held",
            ),
            (
                "alone",
                joined,
                "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation, when the pod templates of this object get scheduling gates; delete the object and create it again with the label",
            ),
        ];
        for (name, patch, problem) in rows {
            let answer = answered(async || scene.try_merge("Job", name, patch.clone()).await);
            assert_eq!(refusal(answer.await?)?, admission.of_job(problem));
        }
        Ok(())
    })
    .await
}

/// The pod as a whole does not grow.
async fn a_container_grows_below_a_pod_level_request(admission: Admission) -> Result<()> {
    play(admission, "rules-pod-level", async |scene| {
        scene.queue(&[quota("cpu", "3")]).await?;
        let requests = json!({"requests": {"cpu": "3"}});
        let pod = Pod::new("runs").queue("q");
        let pod = pod.with(&["spec", "resources"], requests);
        scene.create(&pod.json()).await?;
        scene.see("Pod", "runs", "running", is_running).await?;
        persist(async || scene.resize("runs", "2").await).await?;
        scene.see_account("cpu", ("3", "3", "0"), 0).await
    })
    .await
}

/// They hold no quota.
async fn pods_that_gates_alone_held_grow(admission: Admission) -> Result<()> {
    play(admission, "rules-unqueued", async |scene| {
        for mode in ["PerPod", "Whole"] {
            let name = mode.to_lowercase();
            let mut web = replicated("Deployment", &name, 1, Pod::new("p"));
            web["metadata"]["annotations"] =
                json!({ (GATED): "acme.io/data", (ADMISSION_ANNOTATION): mode });
            scene.create(&web).await?;
            let lifted = json!({"metadata": {"annotations": {(GATED): null}}});
            scene.merge("Deployment", &name, lifted).await?;
        }
        for pod in scene.see_so_many("running", 2, is_running).await? {
            persist(async || scene.resize(name_of(&pod), "2").await).await?;
        }
        Ok(())
    })
    .await
}

/// What has nothing to do with queues is left alone, and not even labelled.
async fn other_pods_are_left_alone(admission: Admission) -> Result<()> {
    play(admission, "rules-others", async |scene| {
        scene.queue(&[quota("cpu", "0")]).await?;
        let others = [
            Pod::new("plain"),
            Pod::new("declines").annotation(QUEUE_GATE, "false"),
            Pod::new("bound").with(&["spec", "nodeName"], json!("node-0")),
        ];
        for pod in &others {
            let stored = scene.create(&pod.json()).await?;
            ensure!(gates(&stored).is_empty(), "{stored}");
            ensure!(
                stored["metadata"]["labels"][MANAGED_LABEL].is_null(),
                "{stored}"
            );
        }
        scene
            .see_so_many("running", others.len(), is_running)
            .await?;
        let foreign = Pod::new("foreign").scheduling_gate("example.com/data");
        let stored = scene.create(&foreign.json()).await?;
        assert_eq!(gates(&stored), ["example.com/data"]);
        let waits = scene.create(&Pod::new("waits").queue("q").json()).await?;
        ensure!(has_queue_gate(&waits), "{waits}");
        Ok(())
    })
    .await
}

/// Its usage would count there, and others would wait for quota that nobody gave it.
async fn a_pod_that_runs_joins_no_queue(admission: Admission) -> Result<()> {
    play(admission, "rules-joins", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let user = scene.editor("tenant").await?;
        let tenant = scene.acting_as(&user)?;
        let deployment = replicated("Deployment", "served", 1, Pod::new("served").cpu("9"));
        tenant.create(&deployment).await?;
        tenant
            .create(&Job::new("free").cpu("9").runs_forever().json())
            .await?;
        scene.see_so_many("running", 2, is_running).await?;
        let label = json!({"metadata": {"labels": {(QUEUE_NAME_LABEL): "q"}}});
        for pod in scene.list("Pod").await? {
            let name = name_of(&pod);
            let told = refusal(tenant.try_merge("Pod", name, label.clone()).await)?;
            ensure!(
                told.contains("only a controller may change it"),
                "{name}: {told}"
            );
        }
        scene
            .create(&Job::new("next").queue("q").cpu("4").json())
            .await?;
        scene.see_admitted("next").await?;
        Ok(())
    })
    .await
}
