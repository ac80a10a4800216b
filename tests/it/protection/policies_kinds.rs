//! What the shipped admission policies do with objects of other projects, by the CRDs that these publish:
//! the API server alone, with neither Sluice nor the projects' own controllers.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{ControlPlane, Crds, KubectlOutput, Options, eventually};

use crate::support::DEADLINE;

const POLICIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/policies");
const GATED: &str = "kueue.x-k8s.io/scheduling-gated-by";
const QUEUE_GATE: &str = "sluice.dev/queue-allocation-gate";
const RUN_POLICY: &str = "/spec/runPolicy/suspend";

/// The objects of one kind.
struct Objects {
    api_version: &'static str,
    kind: &'static str,
    spec: Value,
}

impl Objects {
    fn mk(&self, name: &str, labels: Value, annotations: Value) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": self.spec,
        })
    }

    fn queued(&self, name: &str) -> Value {
        self.mk(name, json!({"sluice.dev/queue-name": "q"}), json!({}))
    }

    fn gated(&self, name: &str) -> Value {
        self.mk(name, json!({}), json!({(GATED): "acme.io/foo"}))
    }

    /// Its resource with its group, for kubectl.
    fn resource(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap();
        format!("{}.{version}.{group}", self.kind)
    }
}

/// Creates an object and returns it as the API server answers.
async fn create(cp: &ControlPlane, object: &Value) -> Result<Value> {
    let args = ["create", "-f", "-", "--output=json"];
    let created = cp.kubectl(args, Some(&object.to_string())).await?.ok()?;
    serde_json::from_str(&created).context("kubectl -o json")
}

async fn merge(
    cp: &ControlPlane,
    kind: &Objects,
    name: &str,
    patch: Value,
) -> Result<KubectlOutput> {
    let (resource, patch) = (kind.resource(), patch.to_string());
    let args = ["patch", &resource, name, "--type=merge", "-p", &patch];
    cp.kubectl(args, None).await
}

fn template() -> Value {
    json!({"metadata": {}, "spec": {"containers": [{"name": "main", "image": "example.com/none"}]}})
}

/// The kinds that are held by their suspend field alone, and where it is.
fn suspended() -> Vec<(Objects, &'static str)> {
    let replicas = || json!({"Worker": {"replicas": 1, "template": template()}});
    let training = |kind: &'static str, field: &str| {
        let spec = json!({"runPolicy": {}, (field): replicas()});
        let api_version = "kubeflow.org/v1";
        (
            Objects {
                api_version,
                kind,
                spec,
            },
            RUN_POLICY,
        )
    };
    let by_spec = |api_version, kind, spec| {
        (
            Objects {
                api_version,
                kind,
                spec,
            },
            "/spec/suspend",
        )
    };
    let cluster = || {
        json!({
            "headGroupSpec": {"rayStartParams": {}, "template": template()},
            "workerGroupSpecs": [
                {"groupName": "small", "rayStartParams": {}, "minReplicas": 0, "maxReplicas": 2, "template": template()},
            ],
        })
    };
    vec![
        training("PyTorchJob", "pytorchReplicaSpecs"),
        training("TFJob", "tfReplicaSpecs"),
        training("XGBoostJob", "xgbReplicaSpecs"),
        training("PaddleJob", "paddleReplicaSpecs"),
        by_spec(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template()}}}]}),
        ),
        by_spec(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            json!({"runtimeRef": {"name": "torch"}}),
        ),
        by_spec("ray.io/v1", "RayCluster", cluster()),
        by_spec(
            "ray.io/v1",
            "RayJob",
            json!({"entrypoint": "sleep 1", "shutdownAfterJobFinishes": true, "rayClusterSpec": cluster()}),
        ),
        by_spec(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            json!({"components": [{
                "podSets": [{"path": "template"}],
                "template": {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": template()},
            }]}),
        ),
    ]
}

fn workflow() -> Objects {
    Objects {
        api_version: "argoproj.io/v1alpha1",
        kind: "Workflow",
        spec: json!({"entrypoint": "a"}),
    }
}

/// A control plane with the CRDs and the policies, and a queued Workflow from before them, whose pods would not wait.
async fn start() -> Result<ControlPlane> {
    let mut options = Options::with_crds()?;
    options.manifests.extend(Crds::manifests(&Crds::TOGETHER)?);
    let cp = ControlPlane::start(options).await?;
    let mut open = workflow().queued("open");
    open["spec"]["suspend"] = json!(true);
    create(&cp, &open).await?;
    cp.kubectl(["apply", "-k", POLICIES], None).await?.ok()?;
    // The API server hears of one policy after the other, of those that hold apart from those that judge,
    // and of CRDs too.
    for (kind, at) in suspended() {
        let good = kind.gated("probe");
        let mut bad = good.clone();
        bad["metadata"]["annotations"][GATED] = json!("probe");
        let (good, bad) = (good.to_string(), bad.to_string());
        eventually("the policies to work", DEADLINE, async || {
            let args = ["create", "-f", "-", "--dry-run=server", "--output=json"];
            let held = cp.kubectl(args, Some(&good)).await?.ok()?;
            let held: Value = serde_json::from_str(&held).context("kubectl -o json")?;
            ensure!(held.pointer(at) == Some(&json!(true)), "not held: {held}");
            let told = cp.kubectl(args, Some(&bad)).await?.err()?;
            ensure!(told.contains("ValidatingAdmissionPolicy"), "{told}");
            Ok(())
        })
        .await?;
    }
    Ok(cp)
}

#[tokio::test]
async fn kinds_of_other_projects_are_held_and_judged() -> Result<()> {
    let cp = start().await?;
    for (kind, at) in suspended() {
        by_suspend(&cp, &kind, at)
            .await
            .with_context(|| kind.kind.to_owned())?;
    }
    by_templates(&cp).await.context("LeaderWorkerSet")?;
    by_metadata(&cp).await?;
    by_metadata_for_good(&cp).await.context("Workflow")?;
    never_run(&cp).await.context("what never runs")?;
    by_queue_of_template(&cp)
        .await
        .context("queues of templates")
}

/// A queue that only a template names makes a Gate apply, also where the template is in a list or map.
async fn by_queue_of_template(cp: &ControlPlane) -> Result<()> {
    let gate = json!({"apiVersion": "sluice.dev/v1alpha1", "kind": "Gate", "metadata": {"name": "gold.acme.io"},
        "spec": {"appliesTo": {"queues": ["gold"]}}});
    cp.kubectl(["apply", "-f", "-"], Some(&gate.to_string()))
        .await?
        .ok()?;
    let expected =
        "must name the gate \"acme.io/gold\", as Gate \"gold.acme.io\" applies to this object";
    for (kind, _) in suspended() {
        let at = match kind.kind {
            "JobSet" => "/spec/replicatedJobs/0/template/spec/template/metadata",
            "RayCluster" => "/spec/workerGroupSpecs/0/template/metadata",
            "PyTorchJob" => "/spec/pytorchReplicaSpecs/Worker/template/metadata",
            _ => continue,
        };
        for (queue, is_refused) in [("gold", true), ("silver", false)] {
            let mut object = kind.mk("by-template", json!({}), json!({}));
            let metadata = object.pointer_mut(at).context("no template")?;
            metadata["labels"] = json!({"sluice.dev/queue-name": queue});
            let object = object.to_string();
            eventually("the Gate to apply", DEADLINE, async || {
                let args = ["create", "-f", "-", "--dry-run=server"];
                let output = cp.kubectl(args, Some(&object)).await?;
                let told = output.stderr.contains(expected);
                ensure!(told == is_refused, "{queue}: {}", output.stderr);
                ensure!(told || output.code == 0, "{}", output.stderr);
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
    }
    Ok(())
}

/// What the kind's controller would never run is refused where it is held, in the words of the webhook.
async fn never_run(cp: &ControlPlane) -> Result<()> {
    let kinds = suspended();
    let ray = |kind: &str| {
        let mut kinds = kinds.iter().map(|(kind, _)| kind);
        kinds.find(|it| it.kind == kind).context("no such kind")
    };
    let job = ray("RayJob")?;
    let keeps = json!({"spec": {"shutdownAfterJobFinishes": false}});
    let refused = "spec.shutdownAfterJobFinishes: Forbidden: must be true: KubeRay doesn't suspend";
    let mut bad = job.queued("keeps");
    bad["spec"]["shutdownAfterJobFinishes"] = json!(false);
    let create = ["create", "-f", "-"];
    let told = cp.kubectl(create, Some(&bad.to_string())).await?.err()?;
    ensure!(told.contains(refused), "{told}");
    let told = merge(cp, job, "queued", keeps.clone()).await?.err()?;
    ensure!(told.contains(refused), "{told}");
    merge(cp, job, "plain", keeps).await?.ok()?;

    let cluster = ray("RayCluster")?;
    let mut bad = cluster.gated("narrow");
    bad["spec"]["workerGroupSpecs"][0]["minReplicas"] = json!(3);
    let told = cp.kubectl(create, Some(&bad.to_string())).await?.err()?;
    ensure!(
        told.contains("spec.workerGroupSpecs: Forbidden: minReplicas must be less than or equal"),
        "{told}"
    );
    Ok(())
}

async fn by_suspend(cp: &ControlPlane, kind: &Objects, at: &str) -> Result<()> {
    let is_suspended = |object: &Value| object.pointer(at) == Some(&json!(true));
    let field = at.trim_start_matches('/').replace('/', ".");
    let policy = format!("sluice-{}", field.to_lowercase());
    let start = match at {
        RUN_POLICY => json!({"spec": {"runPolicy": {"suspend": false}}}),
        _ => json!({"spec": {"suspend": false}}),
    };

    let plain = create(cp, &kind.mk("plain", json!({}), json!({}))).await?;
    ensure!(!is_suspended(&plain), "{plain}");
    for object in [kind.queued("queued"), kind.gated("gated")] {
        let held = create(cp, &object).await?;
        ensure!(is_suspended(&held), "{held}");
    }
    for (name, rule) in [
        (
            "queued",
            "Sluice starts the job once it is admitted through LocalQueue \"q\"; to run it without a queue, remove the label sluice.dev/queue-name in the same update (refused where the namespace requires a queue)",
        ),
        (
            "gated",
            "the job is held by acme.io/foo; it is queued, or started if it has no queue, once the last gate is removed from its annotations",
        ),
    ] {
        let told = merge(cp, kind, name, start.clone()).await?.err()?;
        let refused = format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: {field}: Forbidden: {rule}"
        );
        ensure!(told.contains(&refused), "{told}");
    }
    // One policy is about all that are suspended by the same path.
    if !["JobSet", "PyTorchJob"].contains(&kind.kind) {
        return Ok(());
    }
    let regate = json!({"metadata": {"annotations": {(GATED): "acme.io/bar"}}});
    let told = merge(cp, kind, "gated", regate).await?.err()?;
    ensure!(
        told.contains("may only be set at creation and removed later"),
        "{told}"
    );
    let by_pod = kind.mk(
        "each",
        json!({"sluice.dev/queue-name": "q"}),
        json!({"sluice.dev/admission": "PerPod"}),
    );
    let told = cp
        .kubectl(["create", "-f", "-"], Some(&by_pod.to_string()))
        .await?
        .err()?;
    let refused = "metadata.annotations[sluice.dev/admission]: Unsupported value: \"PerPod\": supported \
                   values: \"Whole\"";
    ensure!(told.contains(refused), "{told}");
    // Left alone by its own will, it may start.
    let mut leave = start;
    leave["metadata"] = json!({"labels": {"sluice.dev/queue-name": null}});
    merge(cp, kind, "queued", leave).await?.ok()?;
    // A JobSet makes no such objects: one that says so is queued by itself.
    let mut child = kind.queued("child");
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet", "name": "s", "uid": "6b1c2b5e-0000-4000-8000-000000000000", "controller": true}]);
    let child = create(cp, &child).await?;
    ensure!(is_suspended(&child), "{child}");
    Ok(())
}

/// Two templates, one of which need not be there.
async fn by_templates(cp: &ControlPlane) -> Result<()> {
    let gates = |template: &Value| template["spec"]["schedulingGates"].clone();
    let queue_gate = json!([{"name": QUEUE_GATE}]);
    let mut kind = Objects {
        api_version: "leaderworkerset.x-k8s.io/v1",
        kind: "LeaderWorkerSet",
        spec: json!({"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}),
    };
    let held = create(cp, &kind.queued("worker")).await?;
    let templates = &held["spec"]["leaderWorkerTemplate"];
    assert_eq!(gates(&templates["workerTemplate"]), queue_gate, "{held}");
    assert_eq!(templates["leaderTemplate"], Value::Null, "{held}");
    kind.spec["leaderWorkerTemplate"]["leaderTemplate"] = template();
    let held = create(cp, &kind.queued("leader")).await?;
    let templates = &held["spec"]["leaderWorkerTemplate"];
    assert_eq!(gates(&templates["workerTemplate"]), queue_gate, "{held}");
    assert_eq!(gates(&templates["leaderTemplate"]), queue_gate, "{held}");
    let leave = json!({"metadata": {"labels": {"sluice.dev/queue-name": null}}});
    for name in ["worker", "leader"] {
        let told = merge(cp, &kind, name, leave.clone()).await?.err()?;
        ensure!(
            told.contains("may not be removed while the pods have the queue gate"),
            "{told}"
        );
    }
    Ok(())
}

/// What the pods of a Workflow wait by is not taken away while it is suspended, nor is it started or queued without. The
/// same edits as in `webhooks/src/tests/jobs/metadata_alone.rs`.
async fn by_metadata_for_good(cp: &ControlPlane) -> Result<()> {
    let workflow = workflow();
    let refused = async |name: &str, patch: Value, rule: &str| {
        let told = merge(cp, &workflow, name, patch).await?.err()?;
        ensure!(told.contains(rule), "{told}");
        Ok(())
    };
    let must_ask = format!(
        "spec.podMetadata.annotations[{QUEUE_GATE}]: Required value: must be \"true\": the pods of this object wait in a queue"
    );
    let unasked =
        || json!({"annotations": {(QUEUE_GATE): null}, "labels": {"sluice.dev/queue-name": null}});
    let start = || json!({"spec": {"suspend": false}});
    create(cp, &workflow.queued("kept")).await?;
    let pause = json!({"spec": {"suspend": true, "podMetadata": unasked()}});
    refused("kept", pause, &must_ask).await?;
    let pause = json!({"spec": {"suspend": true}});
    merge(cp, &workflow, "kept", pause).await?.ok()?;
    let open = json!({"spec": {"podMetadata": unasked()}});
    refused("kept", open, &must_ask).await?;
    let open = json!({"spec": {"suspend": false, "podMetadata": unasked()}});
    refused("kept", open, &must_ask).await?;
    merge(cp, &workflow, "kept", start()).await?.ok()?;
    let started = "spec.suspend: Forbidden: Sluice starts the job once it is admitted";
    refused("open", start(), started).await?;
    let edit = json!({"spec": {"entrypoint": "b"}});
    merge(cp, &workflow, "open", edit).await?.ok()?;

    let labelled = || json!({"metadata": {"labels": {"sluice.dev/queue-name": "q"}}});
    let late =
        "metadata.labels[sluice.dev/queue-name]: Forbidden: may only be set at creation, when";
    let mut asking = workflow.mk("asking", json!({}), json!({}));
    asking["spec"]["podMetadata"] = json!({"annotations": {(QUEUE_GATE): "true"}});
    let plain = workflow.mk("late", json!({}), json!({}));
    for (name, object) in [("late", plain), ("asking", asking)] {
        create(cp, &object).await?;
        refused(name, labelled(), late).await?;
    }
    let both = json!({
        "metadata": labelled()["metadata"],
        "spec": {"podMetadata": {"annotations": {(QUEUE_GATE): "true"}}},
    });
    refused("late", both, late).await
}

/// Kinds that say nothing of their pods but their metadata.
async fn by_metadata(cp: &ControlPlane) -> Result<()> {
    let workflow = workflow();
    let marked = json!({
        "labels": {"sluice.dev/managed": "true", "sluice.dev/queue-name": "q"},
        "annotations": {(QUEUE_GATE): "true"},
    });
    let queued = create(cp, &workflow.queued("queued")).await?;
    assert_eq!(queued["spec"]["podMetadata"], marked, "{queued}");
    assert_eq!(queued["spec"]["suspend"], Value::Null, "{queued}");
    let mut both = workflow.queued("both");
    both["metadata"]["annotations"] = json!({(GATED): "acme.io/foo"});
    let both = create(cp, &both).await?;
    assert_eq!(both["spec"]["podMetadata"], marked, "{both}");
    assert_eq!(both["spec"]["suspend"], true, "{both}");
    assert_eq!(
        both["metadata"]["annotations"]["sluice.dev/held"], "true",
        "{both}"
    );
    let start = json!({"spec": {"suspend": false}});
    let told = merge(cp, &workflow, "both", start).await?.err()?;
    ensure!(
        told.contains("spec.suspend: Forbidden: the job is held by acme.io/foo"),
        "{told}"
    );
    let leave = json!({"metadata": {"labels": {"sluice.dev/queue-name": null}}});
    let told = merge(cp, &workflow, "queued", leave).await?.err()?;
    ensure!(
        told.contains("metadata.labels[sluice.dev/queue-name]: Forbidden"),
        "{told}"
    );

    for (metadata, rule) in [
        (
            json!({"labels": {"sluice.dev/managed": null}}),
            "spec.podMetadata.labels[sluice.dev/managed]: Forbidden: is set by Sluice alone"
                .to_owned(),
        ),
        (
            json!({"annotations": {(QUEUE_GATE): null}}),
            format!(
                "spec.podMetadata.annotations[{QUEUE_GATE}]: Required value: must be \"true\": the pods of this object wait in a queue"
            ),
        ),
    ] {
        let unmark = json!({"spec": {"podMetadata": metadata}});
        let told = merge(cp, &workflow, "queued", unmark).await?.err()?;
        ensure!(told.contains(&rule), "{told}");
    }

    let spark = Objects {
        api_version: "sparkoperator.k8s.io/v1beta2",
        kind: "SparkApplication",
        spec: json!({"type": "Scala", "sparkVersion": "4.0.0", "mainApplicationFile": "local:///a.jar", "driver": {}, "executor": {"instances": 2}}),
    };
    let queued = create(cp, &spark.queued("queued")).await?;
    for role in ["driver", "executor"] {
        let role = &queued["spec"][role];
        assert_eq!(role["labels"], marked["labels"], "{queued}");
        assert_eq!(role["annotations"], marked["annotations"], "{queued}");
    }
    let gated = spark.gated("gated").to_string();
    let told = cp
        .kubectl(["create", "-f", "-"], Some(&gated))
        .await?
        .err()?;
    let refused = format!(
        "metadata.annotations[{GATED}]: Forbidden: without the webhooks of Sluice a SparkApplication can \
         not be held by gates"
    );
    ensure!(told.contains(&refused), "{told}");
    Ok(())
}
