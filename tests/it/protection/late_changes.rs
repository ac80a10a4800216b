//! What asks to be held only after Sluice has looked at it: other mutating policies write that when they are called for the
//! second time. Then neither Sluice's policies nor its webhooks are called again.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::support::admission::{Admission, both_ways, play};
use crate::support::objects::{GATED, Job, is_suspended, quota};
use crate::support::pods::{Pod, queued, replicated};
use crate::support::{DEADLINE, Scene, refusal};
use sluice_crds::{MANAGED_LABEL, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

both_ways!(
    what_is_queued_or_gated_too_late_is_refused,
    no_controller_makes_pods_that_hide,
);

/// What the policies are to add to an object.
const LATE: &str = "acme.io/late";

const NOT_HELD: &str = "Forbidden: nothing holds the object, as another mutating webhook or policy changed it after Sluice; have Sluice called after that one, or write the queue label or the gate annotation into the manifest";

/// One of two policies. Each changes the object when it is called first, and so the other one is called once more. Then
/// it adds what the object names.
fn mutator(scene: &Scene<'_>, number: u32) -> [Value; 2] {
    let name = scene.name(&format!("late-{number}"));
    let seen = format!("acme.io/late-{number}");
    let expression = format!(
        "!('{seen}' in object.metadata.annotations) ?\n\
         Object{{metadata: Object.metadata{{annotations: {{'{seen}': 'true'}}}}}} :\n\
         object.metadata.annotations['{LATE}'] == 'queue' ?\n\
         Object{{metadata: Object.metadata{{labels: {{'{QUEUE_NAME_LABEL}': 'q'}}}}}} :\n\
         Object{{metadata: Object.metadata{{annotations: {{'{GATED}': 'acme.io/budget'}}}}}}"
    );
    let rule = |group: &str, resources: &[&str]| {
        json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
               "resources": resources})
    };
    let is_here = json!({"matchLabels": {"kubernetes.io/metadata.name": scene.ns}});
    let metadata = json!({"name": name});
    let api_version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": api_version, "kind": "MutatingAdmissionPolicy", "metadata": metadata,
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "IfNeeded",
                "matchConstraints": {
                    "namespaceSelector": is_here,
                    "resourceRules": [
                        rule("", &["pods"]),
                        rule("apps", &["deployments", "statefulsets"]),
                        rule("batch", &["jobs"]),
                    ],
                },
                "matchConditions": [{
                    "name": "is-to-be-changed",
                    "expression": format!("object.metadata.?annotations[?'{LATE}'].hasValue()"),
                }],
                "mutations": [{
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {"expression": expression},
                }],
            },
        }),
        json!({
            "apiVersion": api_version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata,
            "spec": {"policyName": name},
        }),
    ]
}

fn late(mut object: Value, adds: &str) -> Value {
    object["metadata"]["annotations"][LATE] = json!(adds);
    object
}

async fn what_is_queued_or_gated_too_late_is_refused(admission: Admission) -> Result<()> {
    play(admission, "late", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for object in [mutator(scene, 1), mutator(scene, 2)].iter().flatten() {
            scene.apply(object).await?;
        }
        let objects = [
            Job::new("job").json(),
            replicated("Deployment", "web", 1, Pod::new("")),
            replicated("StatefulSet", "db", 1, Pod::new("")),
            Pod::new("pod").json(),
        ];
        let at_queue = format!("metadata.labels[{QUEUE_NAME_LABEL}]: {NOT_HELD}");
        let at_gate = format!("metadata.annotations[{GATED}]: {NOT_HELD}");
        eventually("the policies to change objects", DEADLINE, async || {
            let probe = late(Job::new("probe").json(), "queue");
            let args = ["create", "-f", "-", "--dry-run=server"];
            let told = scene
                .kubectl(&args, Some(&probe.to_string()))
                .await?
                .err()?;
            ensure!(told.contains(&at_queue), "{told}");
            Ok(())
        })
        .await?;
        for object in &objects {
            for (adds, problem) in [("queue", &at_queue), ("gate", &at_gate)] {
                let told = refusal(scene.try_create(&late(object.clone(), adds)).await)?;
                ensure!(told.ends_with(problem.as_str()), "{told}");
            }
        }
        ensure!(scene.list("Pod").await?.is_empty(), "a pod runs");
        // One that can't be suspended is held at each edit.
        let edited = replicated("Deployment", "edited", 0, Pod::new(""));
        scene.create(&edited).await?;
        let patch = json!({"metadata": {"annotations": {(LATE): "queue"}}});
        let told = refusal(scene.try_merge("Deployment", "edited", patch).await)?;
        ensure!(told.ends_with(&at_queue), "{told}");
        // What asks for it from the start is suspended, whatever is added later.
        let object = late(Job::new("held").queue("q").json(), "gate");
        ensure!(is_suspended(&scene.create(&object).await?), "it runs");
        let object = late(
            queued(replicated("Deployment", "held", 1, Pod::new(""))),
            "gate",
        );
        let answer = scene.try_create(&object).await;
        if answer.is_ok() {
            // Webhooks are called after all policies, and give the gate to the template.
            let held = scene.get("Deployment", "held").await?;
            let gates = &held["spec"]["template"]["spec"]["schedulingGates"];
            ensure!(gates.to_string().contains("acme.io/budget"), "{gates}");
        } else {
            // The order of policies is random, and changes when one of them does: Sluice's may be the first.
            // https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go
            let told = refusal(answer)?;
            ensure!(admission == Admission::Policies, "{told}");
            ensure!(told.ends_with(&at_gate), "{told}");
        }
        Ok(())
    })
    .await
}

/// KubeRay copies the labels of a group over those of its template, where Sluice wrote the mark by which pods are watched.
async fn no_controller_makes_pods_that_hide(admission: Admission) -> Result<()> {
    play(admission, "hide", async |scene| {
        let hidden = json!({(MANAGED_LABEL): "false"});
        let mut web = replicated("ReplicaSet", "web", 1, Pod::new("web"));
        web["spec"]["template"]["metadata"]["labels"][MANAGED_LABEL] = json!("false");
        scene.create(&web).await?;
        let mut bare = Pod::new("bare").json();
        bare["metadata"]["labels"] = hidden;
        scene.create(&bare).await?;
        // It might select its pods by that label.
        scene
            .see_condition(
                "ReplicaSet",
                "web",
                "ReplicaFailure",
                "True",
                "FailedCreate",
            )
            .await?;
        scene.see_so_many("there", 1, |_| true).await?;
        for pod in scene.list("Pod").await? {
            let mark = &pod["metadata"]["labels"][MANAGED_LABEL];
            ensure!(mark == "true", "{pod}");
        }
        Ok(())
    })
    .await
}
