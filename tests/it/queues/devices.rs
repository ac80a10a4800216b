//! Devices that pods claim, counted by their class: what their usage is, what is held and why, and what
//! becomes of jobs when a template comes, changes or goes.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, Options, SluiceOptions, eventually};

use crate::support::objects::{self, Job, condition, is_admitted, is_suspended, quota, with};
use crate::support::pods::{Pod, has_queue_gate, queued, replicated};
use crate::support::{DEADLINE, Scene, bed};

const CONFIG: &str = "deviceClasses:
- name: example.com/gpu
  deviceClassNames: [gpu.example.com, big-gpu.example.com]
";
const RESOURCE: &str = "example.com/gpu";

fn options() -> SluiceOptions {
    SluiceOptions {
        config: Some(CONFIG.to_owned()),
        ..SluiceOptions::new(bed::BINARY)
    }
}

/// A template with one request.
fn template(name: &str, mut request: Value) -> Value {
    request["name"] = json!("r");
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    })
}

fn of_count(name: &str, count: u32) -> Value {
    let exactly = json!({"deviceClassName": "gpu.example.com", "count": count});
    template(name, json!({ "exactly": exactly }))
}

fn by_template(name: &str) -> Value {
    json!([{"name": "gpu", "resourceClaimTemplateName": name}])
}

/// A Job of one pod with these claims.
fn job(name: &str, queue: &str, claims: Value) -> Value {
    let path = ["spec", "template", "spec", "resourceClaims"];
    let job = Job::new(name).queue(queue).with(&path, claims);
    job.json()
}

fn held_for(rule: &str) -> String {
    let field = "spec.template.spec.resourceClaims[0]";
    format!("Can't be queued: {field}: Invalid value: \"gpu\": {rule}")
}

fn missing(template: &str) -> String {
    let rule = format!(
        "there is no ResourceClaimTemplate {template:?}: create it, and its devices are counted"
    );
    held_for(&rule)
}

/// Waits until a job is told that it is held for this. That its template is not known may be told before: the
/// template comes to Sluice by a watch of its own.
async fn see_held_for(scene: &Scene<'_>, job: &str, rule: &str) -> Result<()> {
    let told = ("InvalidPodSets".to_owned(), held_for(rule));
    let what = format!("an event {told:?} about {job}");
    eventually(&what, DEADLINE, async || {
        let events = scene.events(job).await?;
        ensure!(events.contains(&told), "{events:?}");
        Ok(())
    })
    .await
}

fn used(workload: &Value) -> &Value {
    &workload["spec"]["podSets"][0]["requests"][RESOURCE]
}

async fn see_waiting(scene: &Scene<'_>, job: &str) -> Result<()> {
    let waits = |workload: &Value| {
        condition(workload, "QuotaReserved")
            .is_some_and(|(status, reason, _)| (status, reason) == ("False", "WaitingForQuota"))
    };
    scene.see_workload(job, "told that it waits", waits).await?;
    Ok(())
}

/// Waits until this much of the devices of a ClusterQueue is used.
async fn see_used(scene: &Scene<'_>, queue: &str, amount: &str) -> Result<Value> {
    let what = format!("using {amount} devices");
    scene
        .see("ClusterQueue", queue, &what, |queue| {
            let resources = queue["status"]["flavorsUsage"][0]["resources"].as_array();
            let mut resources = resources.into_iter().flatten();
            resources.any(|used| used["name"] == RESOURCE && used["total"] == amount)
        })
        .await
}

/// A queue `q` for two devices, and a queue `spare` for eight.
async fn make_queues(scene: &Scene<'_>) -> Result<()> {
    let quotas = |gpus| [quota("cpu", "8"), quota(RESOURCE, gpus)];
    scene.queue(&quotas("2")).await?;
    let spare = scene.name("spare");
    let queue = objects::cluster_queue(&spare, &scene.ns, &quotas("8"));
    scene.create(&queue).await?;
    scene.create(&objects::local_queue("spare", &spare)).await?;
    Ok(())
}

#[tokio::test]
async fn claimed_devices_are_counted_and_templates_come_and_go() -> Result<()> {
    bed::own_running_with("devices", options(), async |bed, scene| {
        make_queues(scene).await?;
        scene.create(&of_count("two", 2)).await?;
        scene.create(&job("first", "q", by_template("two"))).await?;
        let first = scene.see_admitted("first").await?;
        assert_eq!(*used(&first), "2");
        assert_eq!(
            first["spec"]["podSets"][0]["resourceClaimTemplates"],
            json!(["two"])
        );
        assert_eq!(
            first["spec"]["podSets"][0]["claimedDevices"],
            json!({ RESOURCE: "2" })
        );
        see_used(scene, &scene.ns, "2").await?;
        scene
            .create(&job("second", "q", by_template("two")))
            .await?;
        see_waiting(scene, "second").await?;

        // Its user writes nothing more.
        scene
            .create(&job("early", "spare", by_template("late")))
            .await?;
        assert_eq!(
            scene.see_event("early", "InvalidPodSets").await?,
            missing("late")
        );
        ensure!(is_suspended(&scene.get("Job", "early").await?));
        scene.create(&of_count("late", 3)).await?;
        let early = scene.see_admitted("early").await?;
        assert_eq!(*used(&early), "3");
        see_used(scene, &scene.name("spare"), "3").await?;

        // Who waits is counted anew; an admitted job keeps its usage.
        scene.delete("ResourceClaimTemplate", "two").await?;
        assert_eq!(
            scene.see_event("second", "InvalidPodSets").await?,
            missing("two")
        );
        scene.create(&of_count("two", 1)).await?;
        let recounted = |workload: &Value| *used(workload) == "1";
        scene
            .see_workload("second", "counted anew", recounted)
            .await?;
        scene.delete("ResourceClaimTemplate", "late").await?;
        bed.sluice.stop().await?;
        bed.sluice.start().await?;
        scene
            .create(&job("last", "spare", by_template("two")))
            .await?;
        scene.see_admitted("last").await?;
        see_used(scene, &scene.name("spare"), "4").await?;
        for (name, count) in [("first", "2"), ("early", "3")] {
            let workload = scene.see_admitted(name).await?;
            assert_eq!(*used(&workload), count);
            ensure!(condition(&workload, "Evicted").is_none(), "{workload}");
            scene
                .see("Job", name, "released", |job| !is_suspended(job))
                .await?;
        }
        scene.delete("Job", "first").await?;
        let second = scene.see_admitted("second").await?;
        assert_eq!(*used(&second), "1");
        see_used(scene, &scene.ns, "1").await?;
        Ok(())
    })
    .await
}

/// They are the same devices, whichever way a container gets them.
#[tokio::test]
async fn devices_that_are_requested_by_the_name_of_their_class_use_the_same_quota() -> Result<()> {
    bed::own_running_with("devices-named", options(), async |_, scene| {
        make_queues(scene).await?;
        let name = "deviceclass.resource.kubernetes.io/big-gpu.example.com";
        let mut by_name = Job::new("first").queue("q").json();
        let pod = &mut by_name["spec"]["template"]["spec"];
        pod["containers"][0]["resources"]["limits"] = json!({ name: "2" });
        scene.create(&by_name).await?;
        let first = scene.see_admitted("first").await?;
        assert_eq!(*used(&first), "2");
        see_used(scene, &scene.ns, "2").await?;
        scene.create(&of_count("one", 1)).await?;
        scene
            .create(&job("second", "q", by_template("one")))
            .await?;
        see_waiting(scene, "second").await?;

        let mut pod = Pod::new("pod").queue("spare").json();
        pod["spec"]["containers"][0]["resources"]["limits"] = json!({ name: "1" });
        scene.create(&pod).await?;
        see_used(scene, &scene.name("spare"), "1").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn devices_that_can_not_be_counted_hold_a_job() -> Result<()> {
    bed::own("devices-not", options(), Options::with_crds()?, async |bed, scene| {
        bed.sluice.start().await?;
        bed::see_leading(scene).await?;
        make_queues(scene).await?;
        let of_class = json!({"deviceClassName": "gpu.example.com"});
        let requests = [
            (
                "class",
                json!({"exactly": {"deviceClassName": "nic.example.com"}}),
                "deviceClasses in Sluice's configuration names no resource for device class \
                 \"nic.example.com\"",
            ),
            (
                "all",
                json!({"exactly": with(of_class.clone(), "/allocationMode", json!("All"))}),
                "allocationMode \"All\" leaves open how many devices are allocated: must be \"ExactCount\"",
            ),
            (
                "any",
                json!({"firstAvailable": [{"name": "s", "deviceClassName": "gpu.example.com"}]}),
                "firstAvailable leaves open which devices are allocated: use exactly",
            ),
            (
                "admin",
                json!({"exactly": with(of_class, "/adminAccess", json!(true))}),
                "adminAccess grants devices that are allocated to others: must be false",
            ),
        ];
        let may = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
        scene.merge("Namespace", &scene.ns, may).await?;
        for (name, request, rule) in requests {
            scene.create(&template(name, request)).await?;
            scene.create(&job(name, "q", by_template(name))).await?;
            let rule =
                format!("ResourceClaimTemplate {name:?} can't be counted, because of its request \"r\": {rule}");
            see_held_for(scene, name, &rule).await?;
        }
        let shared = json!([{"name": "gpu", "resourceClaimName": "mine"}]);
        scene.create(&job("shared", "q", shared)).await?;
        let rule = "devices of ResourceClaim \"mine\" can't be counted, as other pods may share them: name a ResourceClaimTemplate instead";
        assert_eq!(
            scene.see_event("shared", "InvalidPodSets").await?,
            held_for(rule)
        );

        // Only the pod itself would record its usage.
        scene.create(&of_count("one", 1)).await?;
        let pod = Pod::new("pod").queue("q");
        let pod = pod.with(&["spec", "resourceClaims"], by_template("one"));
        scene.create(&pod.json()).await?;
        let told = scene.see_event("pod", "InvalidPodSets").await?;
        let rule = "devices of a claim can't be counted for a pod that is admitted by itself";
        ensure!(told.contains(rule), "{told}");
        ensure!(has_queue_gate(&scene.get("Pod", "pod").await?));
        for name in ["class", "all", "any", "admin", "shared"] {
            ensure!(is_suspended(&scene.get("Job", name).await?), "{name}");
            ensure!(scene.find_workload(name).await?.is_none(), "{name}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gated_pods_are_ungated_with_the_claims_of_their_job() -> Result<()> {
    bed::own_running_with("devices-whole", options(), async |_, scene| {
        make_queues(scene).await?;
        scene.create(&of_count("one", 1)).await?;
        let pod = Pod::new("pod").with(&["spec", "resourceClaims"], by_template("one"));
        let mut whole = queued(replicated("Deployment", "whole", 2, pod));
        whole["metadata"]["annotations"] = json!({"sluice.dev/admission": "Whole"});
        scene.create(&whole).await?;
        see_used(scene, &scene.ns, "2").await?;
        // The quota is reserved a moment earlier.
        let is_admitted_once = |queue: &Value| queue["status"]["admittedWorkloads"] == 1;
        let what = "with one admitted Workload";
        scene
            .see("ClusterQueue", &scene.ns, what, is_admitted_once)
            .await?;
        scene
            .see_so_many("released", 2, |pod| !has_queue_gate(pod))
            .await?;
        let workloads = scene.list("Workload").await?;
        ensure!(workloads.iter().all(is_admitted), "{workloads:?}");
        Ok(())
    })
    .await
}

/// Nobody else has to wait for them.
#[tokio::test]
async fn templates_that_may_not_be_read_hold_up_those_that_claim_and_nobody_else() -> Result<()> {
    bed::own(
        "devices-blind",
        options(),
        Options::with_crds()?,
        async |bed, scene| {
            let role = scene.get("ClusterRole", "sluice-core").await?;
            let all = role["rules"].as_array().cloned().unwrap_or_default();
            let mut fewer = all.clone();
            fewer.retain(|rule| rule["apiGroups"] != json!(["resource.k8s.io"]));
            ensure!(fewer.len() + 1 == all.len(), "{role}");
            let without = json!({ "rules": fewer });
            scene.merge("ClusterRole", "sluice-core", without).await?;
            let rules =
                |role: &Value| !role["rules"].to_string().contains("resourceclaimtemplates");
            scene
                .see("ClusterRole", "sluice", "without the right", rules)
                .await?;
            let user = format!("--as=system:serviceaccount:{NAMESPACE}:sluice");
            let resource = "resourceclaimtemplates.resource.k8s.io";
            let may = ["auth", "can-i", "list", resource, "--all-namespaces", &user];
            // The API server hears of it a moment later.
            eventually("the right to be gone", DEADLINE, async || {
                scene.kubectl(&may, None).await?.err()
            })
            .await?;
            bed.sluice.start().await?;
            bed::see_leading(scene).await?;
            make_queues(scene).await?;
            scene.create(&of_count("two", 2)).await?;
            scene
                .create(&job("claims", "q", by_template("two")))
                .await?;
            assert_eq!(
                scene.see_event("claims", "InvalidPodSets").await?,
                missing("two")
            );
            scene.create(&Job::new("plain").queue("q").json()).await?;
            scene.see_complete("plain").await?;
            scene
                .merge("ClusterRole", "sluice-core", json!({ "rules": all }))
                .await?;
            let workload = scene.see_admitted("claims").await?;
            assert_eq!(*used(&workload), "2");
            Ok(())
        },
    )
    .await
}
