//! Objects that can't be right: told where and why, and no harm to anybody else.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::eventually;

use crate::gates::kubectl::kubectl_answered;
use crate::support::objects::{
    self, Job, cluster_queue, flavor, is_admitted, is_suspended, local_queue, own, quota, with,
};
use crate::support::persist::answered;
use crate::support::{DEADLINE, Scene, bed, by_jobs_webhook, by_objects_webhook, refusal};

/// The neighbour: a job of the queue `q` comes through whatever else there is.
async fn the_neighbour_goes_on(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene.create(&Job::new(name).queue("q").json()).await?;
    scene.see_complete(name).await?;
    Ok(())
}

/// What a request is told that is refused; asked again while a webhook does not answer.
async fn refused(attempt: impl AsyncFnMut() -> kube::Result<Value>) -> Result<String> {
    refusal(answered(attempt).await?)
}

/// The same of an edit.
async fn refused_edit(scene: &Scene<'_>, kind: &str, name: &str, patch: Value) -> Result<String> {
    refused(async || scene.try_merge(kind, name, patch.clone()).await).await
}

/// Waits until this is told about a job. Something else may have been told before Sluice had seen all
/// queues.
async fn see_told(scene: &Scene<'_>, job: &str, reason: &str, message: &str) -> Result<()> {
    let told = (reason.to_owned(), message.to_owned());
    let what = format!("an event {told:?} about {job}");
    eventually(&what, DEADLINE, async || {
        let events = scene.events(job).await?;
        ensure!(events.contains(&told), "{events:?}");
        Ok(())
    })
    .await
}

const QUOTA: &str = "spec.resourceGroups[0].flavors[0].resources[0]";
const QUOTA_POINTER: &str = "/spec/resourceGroups/0/flavors/0/resources/0";

#[tokio::test]
async fn quota_that_can_not_be_counted_is_refused() -> Result<()> {
    let not_negative = "must be greater than or equal to 0";
    let too_large = "is too large to be counted: must be below 1e29";
    let rows = [
        ("nominalQuota", "-1", not_negative),
        ("nominalQuota", "-1m", not_negative),
        ("nominalQuota", "1e40", too_large),
        ("nominalQuota", "99999999999999999999999999999E", too_large),
        ("borrowingLimit", "-1", not_negative),
        ("borrowingLimit", "1e40", too_large),
        ("lendingLimit", "-1", not_negative),
        (
            "lendingLimit",
            "3",
            "must be less than or equal to the nominalQuota",
        ),
    ];
    bed::shared("bad-quota", async |scene| {
        let stored = with(
            cluster_queue(&scene.ns, "default", &[quota("cpu", "2")]),
            "/spec/cohortName",
            json!(scene.name("cohort")),
        );
        scene.create(&stored).await?;
        for (field, value, rule) in rows {
            let problem = format!("{QUOTA}.{field}: Invalid value: {value:?}: {rule}");
            let bad = with(
                stored.clone(),
                &format!("{QUOTA_POINTER}/{field}"),
                json!(value),
            );
            let new = with(bad.clone(), "/metadata/name", json!(scene.name("new")));
            let told = refused(async || scene.try_create(&new).await).await?;
            assert_eq!(told, by_objects_webhook(&problem));
            let patch = json!({"spec": bad["spec"]});
            let told = refused_edit(scene, "ClusterQueue", &scene.ns, patch).await?;
            assert_eq!(told, by_objects_webhook(&problem));
        }
        // What is no quantity at all the CRD itself refuses, by field and value.
        for value in ["two", "1.2.3", "", "0x10", "NaN"] {
            let bad = with(
                stored.clone(),
                &format!("{QUOTA_POINTER}/nominalQuota"),
                json!(value),
            );
            let patch = json!({"spec": bad["spec"]});
            let told = refused_edit(scene, "ClusterQueue", &scene.ns, patch).await?;
            let expected = format!("{QUOTA}.nominalQuota: Invalid value: {value:?}");
            ensure!(told.contains(&expected), "{told}");
        }
        let kept = scene.get("ClusterQueue", &scene.ns).await?;
        assert_eq!(
            kept["spec"]["resourceGroups"],
            stored["spec"]["resourceGroups"]
        );

        let alone = with(
            cluster_queue(
                &scene.name("alone"),
                "default",
                &[quota("cpu", "2").borrow("1")],
            ),
            "/metadata/labels",
            json!({}),
        );
        let told = refused(async || scene.try_create(&alone).await).await?;
        let problem = format!(
            "{QUOTA}.borrowingLimit: Invalid value: \"1\": must be absent without spec.cohortName: quota is shared only there"
        );
        assert_eq!(told, by_objects_webhook(&problem));

        // As kubectl shows it.
        let bad = with(
            stored.clone(),
            &format!("{QUOTA_POINTER}/nominalQuota"),
            json!("-1"),
        );
        let bad = bad.to_string();
        let apply = async || scene.kubectl(&["apply", "-f", "-"], Some(&bad)).await;
        let told = kubectl_answered(apply).await?.err()?;
        let problem = format!("{QUOTA}.nominalQuota: Invalid value: \"-1\": {not_negative}");
        ensure!(
            told.trim_end().ends_with(&by_objects_webhook(&problem)),
            "{told}"
        );
        scene.delete("ClusterQueue", &scene.ns).await
    })
    .await
}

#[tokio::test]
async fn a_bad_queue_name_is_refused() -> Result<()> {
    bed::shared("bad-name", async |scene| {
        for name in ["Upper", "under_score", "-dash"] {
            let job = Job::new("named").queue(name).json();
            let told = refused(async || scene.try_create(&job).await).await?;
            let at = "metadata.labels[sluice.dev/queue-name]: Invalid value: ";
            ensure!(
                told.contains(at) || told.contains("metadata.labels: Invalid value"),
                "{told}"
            );
        }
        Ok(())
    })
    .await
}

/// Why jobs of one namespace wait, while their neighbour's go on.
#[tokio::test]
async fn a_job_that_can_not_be_admitted_says_why() -> Result<()> {
    bed::shared("bad-why", async |scene| {
        let ns = &scene.ns;
        scene.queue(&[quota("cpu", "2"), quota("memory", "1Gi")]).await?;
        scene.create(&local_queue("lost", &scene.name("nowhere"))).await?;
        // A queue that selects no namespace, and one whose flavor there is not.
        let picky = with(
            cluster_queue(&scene.name("picky"), ns, &[quota("cpu", "2")]),
            "/spec/namespaceSelector",
            json!({"matchLabels": {"team": "red"}}),
        );
        let bare = cluster_queue(&scene.name("bare"), &scene.name("unborn"), &[quota("cpu", "2")]);
        scene.create_all(&[picky, bare]).await?;
        scene.create(&local_queue("picky", &scene.name("picky"))).await?;
        scene.create(&local_queue("bare", &scene.name("bare"))).await?;
        let plenty = "9223372036854775807";
        let rows = [
            (
                Job::new("unknown").queue("nope"),
                "Misconfigured",
                format!("LocalQueue \"{ns}/nope\" doesn't exist"),
            ),
            (
                Job::new("lost").queue("lost"),
                "Misconfigured",
                format!(
                    "ClusterQueue \"{ns}-nowhere\" of LocalQueue \"{ns}/lost\" doesn't exist"
                ),
            ),
            (
                Job::new("picky").queue("picky"),
                "Misconfigured",
                format!("ClusterQueue \"{ns}-picky\" doesn't select the namespace \"{ns}\""),
            ),
            (
                Job::new("bare").queue("bare"),
                "Misconfigured",
                format!(
                    "ClusterQueue \"{ns}-bare\" is inactive: ResourceFlavors that don't exist: \
                     \"{ns}-unborn\""
                ),
            ),
            (
                Job::new("licence").queue("q").request("example.com/licence", "1"),
                "NoMatchingFlavor",
                format!("ClusterQueue \"{ns}\" has no quota for resource \"example.com/licence\""),
            ),
            (
                Job::new("large").queue("q").cpu("3"),
                "ExceedsMaxQuota",
                format!(
                    "can never be admitted to ClusterQueue \"{ns}\": insufficient quota for cpu in flavor \"{ns}\": \
                     requests 3, more than the maximum capacity (nominal quota 2)"
                ),
            ),
            (
                Job::new("wide").queue("q").cpu("1500m").pods(2),
                "ExceedsMaxQuota",
                format!(
                    "can never be admitted to ClusterQueue \"{ns}\": insufficient quota for cpu in flavor \"{ns}\": \
                     requests 3, more than the maximum capacity (nominal quota 2)"
                ),
            ),
            (
                Job::new("endless").queue("q").request("memory", plenty).pods(1000),
                "Misconfigured",
                "can't be admitted: the requests for \"memory\" add up to more than can be counted"
                    .to_owned(),
            ),
        ];
        for (job, ..) in &rows {
            scene.create(&job.json()).await?;
        }
        the_neighbour_goes_on(scene, "neighbour").await?;
        for (job, reason, message) in &rows {
            let job = job.json();
            let name = objects::name_of(&job);
            scene.see_waiting(name, reason, message).await?;
            ensure!(is_suspended(&scene.get("Job", name).await?), "{name} runs");
            see_told(scene, name, "Inadmissible", message).await?;
        }
        for (name, reason) in [
            ("lost", "ClusterQueueNotFound"),
            ("picky", "NamespaceNotSelected"),
            ("bare", "ClusterQueueInactive"),
        ] {
            let told = scene.see_condition("LocalQueue", name, "Active", "False", reason).await?;
            ensure!(told.starts_with("Can't admit: ") && told.contains("; "), "{told}");
        }
        let bare = scene.name("bare");
        let told =
            scene.see_condition("ClusterQueue", &bare, "Active", "False", "FlavorNotFound").await?;
        assert_eq!(
            told,
            format!(
                "Can't admit: ResourceFlavors that don't exist: \"{ns}-unborn\"; create them, or remove them from spec.resourceGroups"
            )
        );
        the_neighbour_goes_on(scene, "neighbour-too").await
    })
    .await
}

#[tokio::test]
async fn cohorts_that_are_each_others_parents_admit_nothing_until_mended() -> Result<()> {
    bed::shared("bad-cycle", async |scene| {
        let (a, b) = (scene.name("a"), scene.name("b"));
        let in_a = with(
            cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]),
            "/spec/cohortName",
            json!(a),
        );
        scene.queue_like(in_a).await?;
        scene.create(&objects::cohort(&a, Some(&b))).await?;
        the_neighbour_goes_on(scene, "before").await?;
        scene.create(&objects::cohort(&b, Some(&a))).await?;
        let cycle = format!("cohorts that are each other's parents: \"{a}\", \"{b}\"");
        let remedy = "change spec.parentName of one of them";
        for name in [&a, &b] {
            let told = scene
                .see_condition("Cohort", name, "Active", "False", "CohortCycle")
                .await?;
            assert_eq!(
                told,
                format!("Queues of this cohort can't admit: {cycle}; {remedy}")
            );
        }
        let told = scene
            .see_condition("ClusterQueue", &scene.ns, "Active", "False", "CohortCycle")
            .await?;
        assert_eq!(told, format!("Can't admit: {cycle}; {remedy}"));
        scene.create(&Job::new("job").queue("q").json()).await?;
        let message = format!("ClusterQueue \"{}\" is inactive: {cycle}", scene.ns);
        scene.see_waiting("job", "Misconfigured", &message).await?;

        scene
            .merge("Cohort", &b, json!({"spec": {"parentName": null}}))
            .await?;
        scene.see_complete("job").await?;
        for name in [&a, &b] {
            scene
                .see_condition("Cohort", name, "Active", "True", "Ready")
                .await?;
        }
        // One that is its own parent is refused by the CRD.
        let own = scene.name("own");
        let own = objects::cohort(&own, Some(&own));
        let told = refused(async || scene.try_create(&own).await).await?;
        ensure!(
            told.contains("spec.parentName must not be the cohort itself"),
            "{told}"
        );
        Ok(())
    })
    .await
}

/// The JobKind of batch Job, for another kind.
fn mk_job_kind(name: &str, group: &str, version: &str, kind: &str) -> Value {
    own(
        "JobKind",
        name,
        json!({
            "group": group,
            "version": version,
            "kind": kind,
            "suspend": ".spec.suspend",
            "podSets": [{"name": "main", "template": ".spec.template"}],
            "finished": {"when": "false", "succeeded": "false"},
            "active": "true",
        }),
    )
}

#[tokio::test]
async fn a_job_kind_that_can_not_be_read_is_refused() -> Result<()> {
    let dot = "must start with a dot (such as \".spec.suspend\")";
    let names = "must be field names with a dot before each (such as \".spec.suspend\"); lists are \
                 named by forEach";
    let rows = [
        ("/spec/suspend", "spec.suspend", "spec.suspend", dot),
        ("/spec/suspend", "spec.suspend", ".spec..suspend", names),
        (
            "/spec/suspend",
            "spec.suspend",
            ".status.suspend",
            "must not lie in metadata or status",
        ),
        (
            "/spec/podSets/0/template",
            "spec.podSets[0].template",
            ".spec.jobs[*].template",
            names,
        ),
        (
            "/spec/podSets/0/template",
            "spec.podSets[0].template",
            ".spec.a~1b",
            names,
        ),
        (
            "/spec/active",
            "spec.active",
            "job.status",
            "undeclared reference to \"job\" at 1:1: only \"object\" is declared",
        ),
    ];
    bed::shared("bad-kind", async |scene| {
        let name = scene.name("kind");
        let good = mk_job_kind(&name, "bad.example.com", "v1", "Thing");
        for (pointer, field, value, rule) in rows {
            let bad = with(good.clone(), pointer, json!(value));
            let told = refused(async || scene.try_create(&bad).await).await?;
            let problem = format!("{field}: Invalid value: {value:?}: {rule}");
            assert_eq!(told, by_objects_webhook(&problem));
        }
        for (group, version, kind) in [
            ("", "v1", "Secret"),
            ("", "v1", "Node"),
            ("", "v1", "ReplicationController"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            ("networking.k8s.io", "v1", "Ingress"),
            ("resource.k8s.io", "v1", "ResourceClaim"),
            ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
            ("coordination.k8s.io", "v1", "Lease"),
            ("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
            ("sluice.dev", "v1alpha1", "Workload"),
        ] {
            let bad = mk_job_kind(&name, group, version, kind);
            let told = refused(async || scene.try_create(&bad).await).await?;
            let problem = format!(
                "spec.group: Forbidden: {kind} of group {group:?} may not be managed, because it secures or runs the cluster; allowed groups: batch, apps, sparkoperator.k8s.io, and groups with a dot that don't end in sluice.dev or .k8s.io (.x-k8s.io is allowed)"
            );
            assert_eq!(told, by_objects_webhook(&problem));
        }
        ensure!(scene.find("JobKind", &name).await?.is_none(), "a refused JobKind was stored");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_kind_that_does_not_fit_says_so() -> Result<()> {
    bed::shared("bad-fit", async |scene| {
        scene.queue(&[quota("cpu", "2")]).await?;
        // A kind that there is not.
        let name = scene.name("none");
        scene
            .create(&mk_job_kind(&name, "none.example.com", "v1", "None"))
            .await?;
        let told = scene
            .see_condition("JobKind", &name, "Ready", "False", "Waiting")
            .await?;
        assert_eq!(
            told,
            "None is not served in none.example.com/v1; install its CRD, or correct spec.version"
        );
        // A kind that another JobKind reads already.
        let name = scene.name("twice");
        scene
            .create(&mk_job_kind(&name, "batch", "v1", "Job"))
            .await?;
        let told = scene
            .see_condition("JobKind", &name, "Ready", "False", "AlreadyManaged")
            .await?;
        let expected =
            "JobKind \"job\" reads Job of group \"batch\" already; delete one of the two";
        ensure!(told == expected, "{told}");
        the_neighbour_goes_on(scene, "neighbour").await?;
        for name in ["none", "twice"] {
            scene.delete("JobKind", &scene.name(name)).await?;
        }
        the_neighbour_goes_on(scene, "neighbour-too").await
    })
    .await
}

/// A tenant's own Workload reserves nothing, whatever its status says and whoever owns it.
#[tokio::test]
async fn a_forged_workload_reserves_nothing() -> Result<()> {
    bed::shared("bad-forged", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Job::new("owner").gate("acme.io/x").json()).await?;
        let job = scene.get("Job", "owner").await?;
        let owner = |name: &str, uid: &Value| {
            json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true}])
        };
        let spec = json!({
            "queueName": "q",
            "podSets": [{"name": "main", "count": 1, "requests": {"cpu": "1"}}],
        });
        for (name, owners) in [
            ("forged", json!([])),
            ("forged-owner", owner("owner", &job["metadata"]["uid"])),
        ] {
            let workload =
                with(own("Workload", name, spec.clone()), "/metadata/ownerReferences", owners);
            scene.create(&workload).await?;
            let admission = json!({"status": {"admission": {
                "clusterQueue": scene.ns,
                "podSetAssignments": [{
                    "name": "main",
                    "count": 1,
                    "flavors": {"cpu": scene.ns},
                    "resourceUsage": {"cpu": "1"},
                }],
            }}});
            let args =
                ["patch", "workload", name, "--subresource=status", "--type=merge", "-p", &admission.to_string()];
            scene.kubectl(&args, None).await?.ok()?;
        }
        the_neighbour_goes_on(scene, "neighbour").await?;
        let forged = scene.get("Workload", "forged").await?;
        ensure!(is_admitted(&forged), "Sluice wrote to a Workload that is not its own: {forged}");
        ensure!(is_suspended(&scene.get("Job", "owner").await?), "a forged Workload released a job");
        Ok(())
    })
    .await
}

/// What can't be counted in a job's own requests is told at its creation.
#[tokio::test]
async fn requests_that_make_no_sense_are_refused() -> Result<()> {
    bed::shared("bad-request", async |scene| {
        scene.create(&flavor(&scene.ns)).await?;
        let negative = Job::new("negative").queue("q").cpu("-1").json();
        let told = refused(async || scene.try_create(&negative).await).await?;
        ensure!(told.contains("requests") && told.contains("-1"), "{told}");
        let endless = Job::new("endless").queue("q").cpu("1e30").json();
        // Kubernetes caps it, or Sluice refuses it: either way it is not taken for something small.
        if let Ok(job) = answered(async || scene.try_create(&endless).await).await? {
            ensure!(is_suspended(&job), "{job}");
        }
        let unsuspended = Job::new("count").queue("q").with(&["spec", "suspend"], json!(false));
        let job = scene.create(&unsuspended.json()).await?;
        ensure!(is_suspended(&job), "suspend: false in a manifest release it: {job}");
        let start = json!({"spec": {"suspend": false}});
        let again = refused_edit(scene, "Job", "count", start).await?;
        let expected = "spec.suspend: Forbidden: Sluice starts the job once it is admitted through LocalQueue \"q\"; to run it without a queue, remove the label sluice.dev/queue-name in the same update (refused where the namespace requires a queue)";
        assert_eq!(again, by_jobs_webhook(expected));
        Ok(())
    })
    .await
}
