//! What may be said of queues and cohorts beside their quota: taken as written, refused with the field and
//! the rule, and told in their statuses.

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use sluice_testbed::{SluiceOptions, eventually};

use crate::support::objects::{
    self, Job, cluster_queue, cohort, flavor, local_queue, own, quota, with,
};
use crate::support::persist::answered;
use crate::support::queues::nanos;
use crate::support::{DEADLINE, Scene, bed, by_objects_webhook, refusal};

/// A ClusterQueue of the namespace in which all is said that can be said.
fn talkative(scene: &Scene<'_>) -> Value {
    let mut queue = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
    for (field, value) in [
        ("cohortName", json!(scene.name("cohort"))),
        (
            "preemption",
            json!({
                "withinClusterQueue": "LowerOrNewerEqualPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100},
            }),
        ),
        (
            "flavorFungibility",
            json!({
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "MayStopSearch",
                "preference": "PreemptionOverBorrowing",
            }),
        ),
        ("fairSharing", json!({"weight": "1500m"})),
        (
            "admissionScope",
            json!({"admissionMode": "UsageBasedAdmissionFairSharing"}),
        ),
        ("maxPending", json!(3)),
    ] {
        queue["spec"][field] = value;
    }
    queue
}

#[tokio::test]
async fn what_is_said_of_queues_is_taken_as_written() -> Result<()> {
    bed::shared("fields-taken", async |scene| {
        let queue = talkative(scene);
        scene.create(&flavor(&scene.ns)).await?;
        let stored = scene.create(&queue).await?;
        for (field, value) in queue["spec"].as_object().context("a spec")? {
            assert_eq!(&stored["spec"][field], value, "{field}");
        }
        let weight = json!({"weight": 2});
        let root = cohort(&scene.name("cohort"), None);
        scene
            .create(&with(root, "/spec/fairSharing", weight.clone()))
            .await?;
        let queue = local_queue("q", &scene.ns);
        scene
            .create(&with(queue, "/spec/fairSharing", weight.clone()))
            .await?;
        for (kind, name) in [
            ("ClusterQueue", scene.ns.clone()),
            ("Cohort", scene.name("cohort")),
            ("LocalQueue", "q".to_owned()),
        ] {
            scene
                .see_condition(kind, &name, "Active", "True", "Ready")
                .await?;
        }
        scene.create(&Job::new("one").queue("q").json()).await?;
        scene.see_complete("one").await?;

        // What is said where nothing is said.
        let quiet = json!({"preemption": {"borrowWithinCohort": {}}, "flavorFungibility": {}});
        let quiet = own("ClusterQueue", &scene.name("quiet"), quiet);
        let spec = scene.create(&quiet).await?["spec"].take();
        assert_eq!(
            spec["preemption"],
            json!({
                "withinClusterQueue": "Never",
                "reclaimWithinCohort": "Never",
                "borrowWithinCohort": {"policy": "Never"},
            })
        );
        assert_eq!(
            spec["flavorFungibility"],
            json!({
                "whenCanBorrow": "MayStopSearch",
                "whenCanPreempt": "TryNextFlavor",
                "preference": "BorrowingOverPreemption",
            })
        );
        Ok(())
    })
    .await
}

/// Names that begin so, numbered.
fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}-{i}")).collect()
}

/// A resource group in which each of these flavors has quota for each of these resources.
fn group(flavors: &[String], resources: &[String], nominal: &str) -> Value {
    let quotas: Vec<_> = resources
        .iter()
        .map(|name| json!({"name": name, "nominalQuota": nominal}))
        .collect();
    let flavors: Vec<_> = flavors
        .iter()
        .map(|name| json!({"name": name, "resources": quotas}))
        .collect();
    json!({"coveredResources": resources, "flavors": flavors})
}

/// A ClusterQueue with these resource groups.
fn queue_of(name: &str, groups: &[Value]) -> Value {
    let spec = json!({"namespaceSelector": {}, "resourceGroups": groups});
    own("ClusterQueue", name, spec)
}

#[tokio::test]
async fn a_group_has_up_to_64_flavors_and_64_resources() -> Result<()> {
    bed::shared("fields-large", async |scene| {
        let flavors = numbered(&scene.name("flavor"), 64);
        let mut resources = numbered("acme.io/r", 63);
        resources.push("cpu".to_owned());
        // Only the last flavor has unused quota, so that all are tried.
        let mut full = group(&flavors, &resources, "0");
        full["flavors"][63]["resources"][63]["nominalQuota"] = json!("2");
        // The names may stand in any order.
        if let Some(quotas) = full["flavors"][5]["resources"].as_array_mut() {
            quotas.reverse();
        }
        for name in &flavors {
            scene.create(&flavor(name)).await?;
        }
        scene.create(&queue_of(&scene.ns, &[full])).await?;
        scene.create(&local_queue("q", &scene.ns)).await?;
        scene
            .see_condition("ClusterQueue", &scene.ns, "Active", "True", "Ready")
            .await?;
        scene.create(&Job::new("one").queue("q").json()).await?;
        let workload = scene.see_admitted("one").await?;
        let assignment = &workload["status"]["admission"]["podSetAssignments"][0];
        assert_eq!(assignment["flavors"]["cpu"], json!(flavors[63]));

        // As much as there may be of both: the costs of the rules are within the API server's budget.
        let name = scene.name("most");
        let groups = [0, 1, 2, 3].map(|i| {
            let flavors = numbered(&format!("flavor-{i}"), 64);
            group(&flavors, &numbered(&format!("acme.io/r{i}"), 64), "0")
        });
        scene.create(&queue_of(&name, &groups)).await?;
        let cohort = own("Cohort", &name, json!({ "resourceGroups": groups }));
        scene.create(&cohort).await?;
        scene.delete("ClusterQueue", &name).await?;
        scene.delete("Cohort", &name).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn more_flavors_and_resources_are_refused() -> Result<()> {
    let one = ["cpu".to_owned()];
    let flavors = |count| group(&numbered("flavor", count), &one, "0");
    let resources = |count| group(&["flavor".to_owned()], &numbered("acme.io/r", count), "0");
    let of_five = |first: &dyn Fn(usize) -> Value| (0..5).map(first).collect::<Vec<_>>();
    let rows = [
        (
            vec![flavors(65)],
            "spec.resourceGroups[0].flavors: Too many: 65: must have at most 64 items",
        ),
        (
            vec![resources(65)],
            "spec.resourceGroups[0].coveredResources: Too many: 65: must have at most 64 items",
        ),
        (
            of_five(&|i| {
                group(
                    &numbered(&format!("f{i}"), 52),
                    &[format!("acme.io/{i}")],
                    "0",
                )
            }),
            "all resource groups together must have at most 256 flavors",
        ),
        (
            of_five(&|i| {
                group(
                    &[format!("f{i}")],
                    &numbered(&format!("acme.io/{i}"), 52),
                    "0",
                )
            }),
            "all resource groups together must cover at most 256 resources",
        ),
    ];
    bed::shared("fields-too-large", async |scene| {
        for (groups, rule) in &rows {
            let queue = queue_of(&scene.name("bad"), groups);
            let cohort = own(
                "Cohort",
                &scene.name("bad"),
                json!({ "resourceGroups": groups }),
            );
            for object in [queue, cohort] {
                let told = refusal(scene.try_create(&object).await)?;
                ensure!(told.contains(rule), "{told}");
            }
        }
        // A flavor that names another resource than its group, or one of it twice.
        let mut other = resources(3);
        other["flavors"][0]["resources"][1]["name"] = json!("acme.io/other");
        let queue = queue_of(&scene.name("bad"), &[other]);
        let told = refusal(scene.try_create(&queue).await)?;
        let rule = "every flavor must have quota for exactly the coveredResources of its group";
        ensure!(told.contains(rule), "{told}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn weights_that_can_not_be_used_are_refused() -> Result<()> {
    let rows = [
        (json!("-1"), "must be greater than or equal to 0"),
        (json!(-1), "must be greater than or equal to 0"),
        (json!("-1m"), "must be greater than or equal to 0"),
        (json!(4_000_001), "must be less than or equal to 4000000"),
        (
            json!("4000000.001"),
            "must be less than or equal to 4000000",
        ),
        (json!("8Ei"), "must be less than or equal to 4000000"),
        (json!("1e40"), "must be less than or equal to 4000000"),
        (json!("0.0005"), "must be a multiple of 0.001"),
        (json!("1n"), "must be a multiple of 0.001"),
        (json!("99999.999000001"), "must be a multiple of 0.001"),
    ];
    let taken = [
        json!(0),
        json!(1),
        json!("0.001"),
        json!("1.001"),
        json!("1k"),
    ];
    let taken = taken.into_iter().chain([json!("4M"), json!("3999999.999")]);
    bed::shared("fields-weight", async |scene| {
        let stored = [
            own("ClusterQueue", &scene.name("queue"), json!({})),
            own("Cohort", &scene.name("cohort"), json!({})),
            local_queue("q", "none"),
        ];
        scene.create_all(&stored).await?;
        for object in &stored {
            let kind = object["kind"].as_str().unwrap();
            let name = objects::name_of(object);
            let weigh = |weight: &Value| json!({"spec": {"fairSharing": {"weight": weight}}});
            for (weight, rule) in &rows {
                let told = refusal(scene.try_merge(kind, name, weigh(weight)).await)?;
                let expected = format!(
                    "{kind}.sluice.dev {name:?} is invalid: spec.fairSharing.weight: Invalid value: \
                     {weight}: {rule}"
                );
                assert_eq!(told, expected);
            }
            for weight in taken.clone() {
                scene.merge(kind, name, weigh(&weight)).await?;
            }
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_can_not_be_meant_is_refused_by_field() -> Result<()> {
    let unchecked = "<nil>: Invalid value: null: some validation rules were not checked because the \
                     object was invalid; correct the existing errors to complete validation";
    let unsupported = |field: &str, supported: &str| {
        format!(
            "[spec.{field}: Unsupported value: \"Sometimes\": supported values: {supported}, {unchecked}]"
        )
    };
    let rows = [
        (
            json!({"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}),
            "spec.preemption.borrowWithinCohort.policy: Invalid value: must be Never while reclaimWithinCohort is Never: a queue that may not reclaim its nominal quota may not preempt to borrow"
                .to_owned(),
        ),
        (
            json!({"preemption": {"withinClusterQueue": "Sometimes"}}),
            unsupported(
                "preemption.withinClusterQueue",
                "\"Never\", \"LowerPriority\", \"LowerOrNewerEqualPriority\"",
            ),
        ),
        (
            json!({"preemption": {"reclaimWithinCohort": "Sometimes"}}),
            unsupported(
                "preemption.reclaimWithinCohort",
                "\"Never\", \"LowerPriority\", \"Any\"",
            ),
        ),
        (
            json!({"preemption": {"borrowWithinCohort": {"policy": "Sometimes"}}}),
            unsupported(
                "preemption.borrowWithinCohort.policy",
                "\"Never\", \"LowerPriority\"",
            ),
        ),
        (
            json!({"flavorFungibility": {"whenCanPreempt": "Sometimes"}}),
            unsupported(
                "flavorFungibility.whenCanPreempt",
                "\"MayStopSearch\", \"TryNextFlavor\"",
            ),
        ),
        (
            json!({"flavorFungibility": {"preference": "Sometimes"}}),
            unsupported(
                "flavorFungibility.preference",
                "\"BorrowingOverPreemption\", \"PreemptionOverBorrowing\"",
            ),
        ),
        (
            json!({"admissionScope": {"admissionMode": "Sometimes"}}),
            unsupported(
                "admissionScope.admissionMode",
                "\"NoAdmissionFairSharing\", \"UsageBasedAdmissionFairSharing\"",
            ),
        ),
        (
            json!({"admissionScope": {}}),
            format!("[spec.admissionScope.admissionMode: Required value, {unchecked}]"),
        ),
        (
            json!({"maxPending": 0}),
            "spec.maxPending: Invalid value: 0: spec.maxPending in body should be greater than or \
             equal to 1"
                .to_owned(),
        ),
    ];
    bed::shared("fields-bad", async |scene| {
        let name = scene.name("bad");
        for (spec, problem) in &rows {
            let queue = own("ClusterQueue", &name, spec.clone());
            let told = refusal(scene.try_create(&queue).await)?;
            let expected = format!("ClusterQueue.sluice.dev {name:?} is invalid: {problem}");
            assert_eq!(told, expected);
        }
        // Quota is judged as before beside all that.
        let mut queue = talkative(scene);
        let cpu = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota";
        *queue.pointer_mut(cpu).context("quota")? = json!("-1");
        let told = refusal(answered(async || scene.try_create(&queue).await).await?)?;
        let problem = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: \
                       \"-1\": must be greater than or equal to 0";
        assert_eq!(told, by_objects_webhook(problem));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_samples_of_sharing_are_taken() -> Result<()> {
    bed::shared("fields-samples", async |scene| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/config/samples/sharing");
        let args = ["apply", "--dry-run=server", "-n", "default", "-f", folder];
        // Each is shown to the webhook, which may not answer in time.
        eventually("the samples to be taken", DEADLINE, async || {
            scene.cp.kubectl(args, None).await?.ok()
        })
        .await?;
        Ok(())
    })
    .await
}

/// What a LocalQueue has used, in nano-units of cpu, and up to when.
fn used(queue: &Value) -> Option<(i128, Timestamp)> {
    let status = &queue["status"]["fairSharing"]["admissionFairSharingStatus"];
    let at = status["lastUpdate"].as_str()?.parse().ok()?;
    Some((nanos(&status["consumedResources"]["cpu"]), at))
}

#[tokio::test]
async fn statuses_tell_shares_and_use_and_use_outlives_the_controller() -> Result<()> {
    let config = "fairSharing: {}\nadmissionFairSharing: {usageHalfLifeTime: 60s}\n";
    let options = SluiceOptions {
        config: Some(config.to_owned()),
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own_running_with("fields-status", options, async |bed, scene| {
        let root = scene.name("root");
        let mut borrower = cluster_queue(&scene.ns, &scene.ns, &[quota("cpu", "2")]);
        borrower["spec"]["cohortName"] = json!(root);
        borrower["spec"]["admissionScope"] =
            json!({"admissionMode": "UsageBasedAdmissionFairSharing"});
        let mut lender = cluster_queue(&scene.name("lender"), &scene.ns, &[quota("cpu", "2")]);
        lender["spec"]["cohortName"] = json!(root);
        scene
            .create_all(&[
                cohort(&root, None),
                flavor(&scene.ns),
                borrower,
                lender,
                local_queue("q", &scene.ns),
                local_queue("idle", &scene.ns),
                local_queue("lender", &scene.name("lender")),
            ])
            .await?;
        scene
            .create(&Job::new("large").queue("q").cpu("3").runs_forever().json())
            .await?;
        let workload = scene.see_admitted("large").await?;
        // 1 of 4 is borrowed.
        for (kind, name, share) in [
            ("ClusterQueue", scene.ns.clone(), 250),
            ("ClusterQueue", scene.name("lender"), 0),
            ("Cohort", root, 0),
        ] {
            let what = format!("of a share of {share}");
            scene
                .see(kind, &name, &what, |object| {
                    object["status"]["fairSharing"]["weightedShare"] == share
                })
                .await?;
        }
        let is_told = |queue: &Value| used(queue).is_some_and(|(cpu, _)| 0 < cpu);
        scene
            .see("LocalQueue", "q", "told what it has used", is_told)
            .await?;
        let idle = scene.get("LocalQueue", "idle").await?;
        ensure!(used(&idle).is_none(), "{idle}");

        // 3 CPUs have been in use since then, also while nobody counted.
        let conditions = workload["status"]["conditions"].as_array();
        let admitted = conditions
            .into_iter()
            .flatten()
            .find(|c| c["type"] == "Admitted");
        let since = admitted.context("no condition Admitted")?["lastTransitionTime"].as_str();
        let since: Timestamp = since.context("no time")?.parse()?;
        let first = scene.get("LocalQueue", "q").await?;
        let mut before = used(&first).map(|(_, at)| at);
        for job in ["one", "two"] {
            // Jobs come and go: it decides, and time passes.
            let small = Job::new(job).queue("lender").cpu("500m").runs("2");
            scene.create(&small.json()).await?;
            scene.see_complete(job).await?;
            bed.sluice.stop().await?;
            let queue = scene.get("LocalQueue", "q").await?;
            let (cpu, at) = used(&queue).context("no record")?;
            ensure!(before < Some(at), "not written at the end: {queue}");
            before = Some(at);
            // Half of it after a minute; times are written in whole seconds.
            let seconds = at.duration_since(since).as_secs_f64();
            let expected = |seconds: f64| 3e9 * (1.0 - (-seconds / 60.0).exp2());
            #[expect(
                clippy::cast_precision_loss,
                reason = "a few seconds more or less will do"
            )]
            let cpu = cpu as f64;
            ensure!(
                expected(seconds - 2.0) <= cpu && cpu <= expected(seconds + 3.0),
                "{cpu} nano-units after {seconds} s: {queue}"
            );
            bed.sluice.start_again().await?;
            bed::see_leading(scene).await?;
        }
        Ok(())
    })
    .await
}
