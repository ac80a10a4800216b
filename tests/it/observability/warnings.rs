//! What authors of new objects are warned of, by a real API server: each replica hears of queues, classes and Gates a
//! moment later, so each warning is waited for.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_crds::{ADMISSION_ANNOTATION, QUEUE_NAME_LABEL};
use sluice_testbed::eventually;

use crate::support::objects::{
    self, GATED, Job, condition, flavor, local_queue, own, own_gate, quota, with,
};
use crate::support::pods::{Pod, is_running, queued, replicated};
use crate::support::{DEADLINE, Scene, bed};

/// Waits until whoever creates the object is warned of just this.
async fn see_warnings(scene: &Scene<'_>, object: &Value, expected: &[String]) -> Result<()> {
    eventually("the warnings", DEADLINE, async || {
        let args = ["create", "--dry-run=server", "-f", "-"];
        let output = scene.kubectl(&args, Some(&object.to_string())).await?;
        ensure!(output.code == 0, "{}", output.stderr);
        let told = output.stderr.lines();
        let told: Vec<_> = told
            .filter_map(|line| line.strip_prefix("Warning: "))
            .collect();
        ensure!(told == expected, "{told:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await
}

fn requesting(name: &str, pods: u32, resource: &str, amount: &str) -> Job {
    Job::new(name)
        .queue("q")
        .pods(pods)
        .request(resource, amount)
}

#[tokio::test]
async fn what_can_never_fit_is_told_with_what_could_be_borrowed() -> Result<()> {
    bed::shared("warn-fits", async |scene| {
        // 2 of its own, and 3 of the other's.
        scene.create(&flavor(&scene.ns)).await?;
        let cohort = scene.name("cohort");
        let queue = |name: &str, cpu: &str| {
            let queue = objects::cluster_queue(name, &scene.ns, &[quota("cpu", cpu).borrow("3")]);
            with(queue, "/spec/cohortName", json!(cohort))
        };
        scene.create(&queue(&scene.ns, "2")).await?;
        scene.create(&local_queue("q", &scene.ns)).await?;
        let (name, ns) = ("j", &scene.ns);
        let too_large = |amount: u32, most: u32| {
            format!(
                "pod set \"main\": requests {amount} of cpu, and ClusterQueue {ns:?} can provide at most {most} in one flavor ({ns:?}); the object can't be admitted"
            )
        };
        let of_six = requesting(name, 3, "cpu", "2").json();
        see_warnings(scene, &of_six, &[too_large(6, 2)]).await?;
        scene.create(&queue(&scene.name("other"), "4")).await?;
        see_warnings(scene, &of_six, &[too_large(6, 5)]).await?;
        see_warnings(scene, &requesting(name, 5, "cpu", "1").json(), &[]).await?;
        // Fewer will do.
        let partial = requesting(name, 3, "cpu", "2").annotation("sluice.dev/min-parallelism", "2");
        see_warnings(scene, &partial.json(), &[]).await?;
        let of_gpu = requesting(name, 1, "example.com/gpu", "1").json();
        let none = format!(
            "pod set \"main\": requests example.com/gpu, for which ClusterQueue {ns:?} has no quota; the object can't be admitted"
        );
        see_warnings(scene, &of_gpu, &[none]).await?;
        let pod = Pod::new("p").queue("q").cpu("6").json();
        see_warnings(scene, &pod, &[too_large(6, 5)]).await?;
        // It is taken all the same, and the queue says the same.
        scene.create(&of_six).await?;
        scene
            .see_workload(name, "too large", |workload| {
                condition(workload, "QuotaReserved")
                    .is_some_and(|(_, reason, _)| reason == "ExceedsMaxQuota")
            })
            .await?;
        // Quota is raised: nothing is said any more.
        scene.set_cpu("6").await?;
        let another = with(of_six, "/metadata/name", json!("k"));
        see_warnings(scene, &another, &[]).await
    })
    .await
}

#[tokio::test]
async fn what_waits_for_nothing_is_told() -> Result<()> {
    bed::shared("warn-all", async |scene| {
        scene.queue(&[quota("cpu", "4")]).await?;
        let ns = &scene.ns;
        let job = || Job::new("j");
        let missing = format!(
            "metadata.labels[sluice.dev/queue-name]: there is no LocalQueue \"none\" in namespace {ns:?}; the object waits until there is"
        );
        see_warnings(scene, &job().queue("none").json(), std::slice::from_ref(&missing)).await?;
        // As of an edit that names it.
        let paused = Job::new("edited")
            .with(&["spec", "suspend"], json!(true))
            .json();
        scene.create(&paused).await?;
        let args = ["label", "job", "edited", "sluice.dev/queue-name=none"];
        let told = scene.kubectl(&args, None).await?.stderr;
        ensure!(told.contains(&missing), "{told}");
        let args = ["annotate", "job", "edited", "acme.io/note=x"];
        let told = scene.kubectl(&args, None).await?.stderr;
        ensure!(told.is_empty(), "{told}");
        let class = job().queue("q").priority_class("nowhere").json();
        let unknown = "metadata.labels[sluice.dev/priority-class]: there is no WorkloadPriorityClass \"nowhere\"; the object can't be queued until there is";
        see_warnings(scene, &class, &[unknown.to_owned()]).await?;
        let of_pods = job().queue("q").with(
            &["spec", "template", "spec", "priorityClassName"],
            json!("nowhere"),
        );
        let unknown = "spec.priorityClassName of its pods: there is no PriorityClass \"nowhere\"; no pod can be made until there is";
        see_warnings(scene, &of_pods.json(), &[unknown.to_owned()]).await?;
        let idle = with(
            job().queue("q").json(),
            "/spec/template/spec/containers/0/resources",
            json!({}),
        );
        let nothing = "pod set \"main\": its pods request nothing, so they use no quota, unless a LimitRange adds requests";
        see_warnings(scene, &idle, &[nothing.to_owned()]).await?;
        let off = job().queue("q").label("sluice.dev/priority-clas", "x").json();
        let meant = "metadata.labels[sluice.dev/priority-clas]: is not a key that Sluice knows; did you mean sluice.dev/priority-class?";
        see_warnings(scene, &off, &[meant.to_owned()]).await?;
        let (gate, object) = own_gate(ns, "budget");
        scene.apply(&own("Gate", &object, json!({}))).await?;
        let (domain, _) = gate.split_once('/').unwrap_or_default();
        let gated = job().gate(&format!("{domain}/budgt")).json();
        let no_gate = format!(
            "gate \"{domain}/budgt\" has no Gate, as other gates of {domain} have; whoever may edit the object may lift it"
        );
        see_warnings(scene, &gated, &[no_gate]).await?;
        scene.stop("Hold").await?;
        let stopped = format!(
            "metadata.labels[sluice.dev/queue-name]: ClusterQueue {ns:?} is stopped (stopPolicy); the object waits until it is not"
        );
        see_warnings(scene, &job().queue("q").json(), &[stopped]).await
    })
    .await
}

#[tokio::test]
async fn keys_of_a_template_that_have_no_effect_are_told() -> Result<()> {
    bed::shared("warn-templates", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        scene.create(&local_queue("other", &scene.ns)).await?;
        let metadata = |map: &'static str, key: &'static str| ["spec", "template", "metadata", map, key];
        let field = format!("metadata.annotations[{GATED}]");
        let gate = |kind: &str| {
            format!(
                "spec.template.{field}: has no effect, as gates do not hold pods that a controller makes; set {field} of the {kind}"
            )
        };
        let gated = Job::new("gated").queue("q").with(&metadata("annotations", GATED), json!("nobody.example/data"));
        see_warnings(scene, &gated.json(), &[gate("Job")]).await?;
        see_warnings(scene, &gated.clone().gate("nobody.example/data").json(), &[]).await?;
        let unqueued = with(gated.json(), "/metadata/labels", json!({}));
        see_warnings(scene, &unqueued, &[gate("Job")]).await?;
        // It is true: nothing holds it.
        scene.create(&gated.json()).await?;
        scene.see_complete("gated").await?;
        let pod = Pod::new("").annotation(GATED, "nobody.example/data");
        let web = queued(replicated("Deployment", "web", 1, pod));
        see_warnings(scene, &web, &[gate("Deployment")]).await?;
        scene.create(&web).await?;
        scene.see_so_many("running", 1, is_running).await?;
        scene.delete("Deployment", "web").await?;

        let label = format!("metadata.labels[{QUEUE_NAME_LABEL}]");
        let queue = |kind: &str| {
            format!(
                "spec.template.{label}: queues no pod, as the {kind} is admitted as a whole in LocalQueue \"q\", which {label} names"
            )
        };
        let whole = Job::new("whole").queue("q").with(&metadata("labels", QUEUE_NAME_LABEL), json!("other"));
        see_warnings(scene, &whole.json(), &[queue("Job")]).await?;
        let same = Job::new("same").queue("q").with(&metadata("labels", QUEUE_NAME_LABEL), json!("q"));
        see_warnings(scene, &same.json(), &[]).await?;
        scene.create(&whole.json()).await?;
        let workload = scene.see_admitted("whole").await?;
        assert_eq!(workload["spec"]["queueName"], "q");
        scene.see_complete("whole").await?;
        let mut web = queued(replicated("Deployment", "whole-web", 1, Pod::new("").queue("other")));
        // Each pod by itself: in the queue that the template names.
        see_warnings(scene, &web, &[]).await?;
        web["metadata"]["annotations"] = json!({ (ADMISSION_ANNOTATION): "Whole" });
        see_warnings(scene, &web, &[queue("Deployment")]).await?;
        scene.create(&web).await?;
        scene.see_so_many("running", 1, is_running).await?;
        scene.see_account("cpu", ("1", "1", "0"), 0).await
    })
    .await
}

/// Nothing else tells of a misspelt key: the webhooks are not asked about what has no key that they know.
#[tokio::test]
async fn a_key_that_means_nothing_is_told_where_no_webhook_is_asked() -> Result<()> {
    bed::shared("warn-keys", async |scene| {
        let told = |policy: &str, text: &str| {
            format!("Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{policy}': {text}")
        };
        let job = Job::new("j").label("sluice.dev/queue-nam", "q");
        let labels = told(
            "sluice-object-keys",
            "metadata.labels[sluice.dev/queue-nam]: is not a key that Sluice knows: labels that it knows: \
             \"sluice.dev/queue-name\", \"sluice.dev/priority-class\", \"sluice.dev/pod-group-name\"",
        );
        see_warnings(scene, &job.json(), std::slice::from_ref(&labels)).await?;
        let deployment = replicated("Deployment", "web", 1, Pod::new("p"));
        let misspelt = json!({"sluice.dev/queue-nam": "q"});
        let deployment = with(deployment, "/metadata/labels", misspelt);
        see_warnings(scene, &deployment, &[labels]).await?;
        let of_kueue = Job::new("j").label("kueue.x-k8s.io/queue-name", "q");
        let foreign = told(
            "sluice-foreign-keys",
            "metadata.labels[kueue.x-k8s.io/queue-name]: means nothing to Sluice, as queueLabelAliases of its configuration does not list it: if Sluice is to queue the object, use sluice.dev/queue-name",
        );
        see_warnings(scene, &of_kueue.json(), &[foreign]).await?;
        // What has another key is the webhooks' business, and what has none nobody's.
        see_warnings(scene, &Job::new("j").json(), &[]).await?;
        let namespace = |name: &str, key: &str| {
            json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {key: "Hold"}}})
        };
        let name = scene.name("other");
        let set = told(
            "sluice-namespace-keys",
            "metadata.labels[sluice.dev/enforcment]: has no effect on a namespace: set metadata.labels[sluice.dev/enforcement]",
        );
        see_warnings(scene, &namespace(&name, "sluice.dev/enforcment"), &[set]).await?;
        see_warnings(scene, &namespace(&name, "sluice.dev/enforcement"), &[]).await
    })
    .await
}
