//! What there is only with admission policies: an install without webhooks, and limits of CEL.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_testbed::{NAMESPACE, Options, Sluice, SluiceOptions, eventually};

use crate::gates::roads::{AT_GATED, AT_GATES, CREATE_ONLY, invalid};
use crate::support::admission::{Admission, apply_policies, play};
use crate::support::objects::{GATED, GATES, Job, quota};
use crate::support::pods::Pod;
use crate::support::{DEADLINE, Scene, bed, refusal};

const POLICIES: Admission = Admission::Policies;

/// Kinds and names of what a folder of manifests holds.
async fn objects_of(folder: &str) -> Result<BTreeSet<(String, String)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let path = path.to_string_lossy();
    let cp = &Sluice::shared(bed::BINARY).control_plane;
    let text = cp.kubectl(["kustomize", &*path], None).await?.ok()?;
    let value = |document: &str, key: &str| {
        let line = document.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().to_owned()
    };
    let documents = text.split("\n---\n");
    Ok(documents
        .map(|d| (value(d, "kind: "), value(d, "  name: ")))
        .collect())
}

#[tokio::test]
async fn an_install_without_webhooks_lacks_nothing_else() -> Result<()> {
    let with = objects_of("config/default").await?;
    let without = objects_of("config/without-webhook").await?;
    let kinds = |objects: &BTreeSet<(String, String)>, others: &BTreeSet<(String, String)>| {
        let more = objects.difference(others);
        more.map(|(kind, _)| kind.clone()).collect::<BTreeSet<_>>()
    };
    let set = |kinds: &[&str]| {
        kinds
            .iter()
            .map(|&kind| kind.to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        kinds(&with, &without),
        set(&[
            "MutatingWebhookConfiguration",
            "Service",
            "ValidatingWebhookConfiguration"
        ])
    );
    assert_eq!(
        kinds(&without, &with),
        set(&[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding"
        ])
    );
    Ok(())
}

/// A control plane of its own with policies, where Sluice is not in its jail.
async fn play_out_of_jail(
    prefix: &str,
    test: impl AsyncFn(&Scene<'_>) -> Result<()>,
) -> Result<()> {
    let sluice = SluiceOptions {
        webhooks: false,
        ..SluiceOptions::new(bed::BINARY)
    };
    bed::own(prefix, sluice, Options::with_crds()?, async |bed, scene| {
        apply_policies(&bed.cp).await?;
        let args = ["delete", "validatingadmissionpolicybinding", "sluice-jail"];
        scene.kubectl(&args, None).await?.ok()?;
        bed.sluice.start().await?;
        test(scene).await
    })
    .await
}

/// Writes to a job as Sluice out of its jail, whom no rule holds: by a bad value that is stored.
async fn store(scene: &Scene<'_>, job: &str, key: &str, value: &str) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {(key): value}}}).to_string();
    let user = format!("--as=system:serviceaccount:{NAMESPACE}:sluice");
    let args = ["patch", "job", job, &user, "--type=merge", "-p", &patch];
    // The API server hears within a second that the jail is open.
    eventually("Sluice to be out of its jail", DEADLINE, async || {
        scene.kubectl(&args, None).await?.ok()
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_bad_value_that_is_stored_blocks_no_other_edit() -> Result<()> {
    play_out_of_jail("policy-ratchet", async |scene| {
        let gate = |value: Value| json!({"metadata": {"annotations": {(GATES): value}}});
        let huge = ",".repeat(100_000);
        for (name, stored) in [("list", ", a.io/x,a.io/x"), ("huge", huge.as_str())] {
            let job = Job::new(name)
                .queue("nowhere")
                .annotation(GATED, "a.io/held");
            scene.create(&job.json()).await?;
            store(scene, name, GATES, stored).await?;
            scene
                .merge("Job", name, json!({"spec": {"parallelism": 2}}))
                .await?;
            let note = json!({"metadata": {"annotations": {"tests/note": "yes"}}});
            scene.merge("Job", name, note).await?;
        }
        // What is bad may be mended, and a list that is too long to be compared may only go.
        scene.merge("Job", "list", gate(json!("a.io/x,"))).await?;
        let told = refusal(scene.try_merge("Job", "list", gate(json!("a.io/y"))).await)?;
        assert_eq!(told, POLICIES.of_job(&format!("{AT_GATES}: {CREATE_ONLY}")));
        scene.merge("Job", "list", gate(json!("a.io/x"))).await?;
        let told = refusal(scene.try_merge("Job", "huge", gate(json!(","))).await)?;
        let rule = "Forbidden: is longer than any valid value: it may only be removed";
        assert_eq!(told, POLICIES.of_job(&format!("{AT_GATES}: {rule}")));
        let more = huge.clone() + ",a.io/x";
        let told = refusal(scene.try_merge("Job", "huge", gate(json!(more))).await)?;
        let rule = "Too long: may not be more than 1024 bytes";
        assert_eq!(told, POLICIES.of_job(&format!("{AT_GATES}: {rule}")));
        scene.merge("Job", "huge", gate(Value::Null)).await?;
        Ok(())
    })
    .await
}

/// No value costs more than the API server lets a policy spend.
#[tokio::test]
async fn the_costliest_values_are_judged() -> Result<()> {
    play(POLICIES, "policy-cost", async |scene| {
        let longest: Vec<_> = (10..26)
            .map(|i| format!("{}.io/{}{i}", "a".repeat(29), "x".repeat(28)))
            .collect();
        let longest = longest.join(",");
        assert_eq!(longest.len(), 1023);
        let bad = vec!["A.io/ü"; 16].join(",");
        let rows = [
            (longest.clone(), None),
            (
                bad,
                Some("metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Invalid value: \"A.io\""),
            ),
            (",".repeat(1024), Some("Too many: 1025: must have at most 16 items")),
            ("x".repeat(200_000), Some("Too long: may not be more than 1024 bytes")),
        ];
        for (value, problem) in rows {
            let job = Job::new("j").annotation(GATED, "a.io/x").annotation(GATES, &value);
            let dry_run = PostParams {
                dry_run: true,
                field_manager: None,
            };
            let object: DynamicObject = serde_json::from_value(job.json())?;
            let answer = scene.api("Job").create(&dry_run, &object).await;
            match problem {
                None => drop(answer?),
                Some(problem) => {
                    let told = refusal(answer)?;
                    ensure!(told.contains(problem), "{told}");
                }
            }
        }
        let full = Job::new("full").annotation(GATES, &longest);
        scene.create(&full.json()).await?;
        let mut names: Vec<_> = longest.split(',').collect();
        names.reverse();
        let reversed = json!({"metadata": {"annotations": {(GATES): names.join(",")}}});
        scene.merge("Job", "full", reversed).await?;
        Ok(())
    })
    .await
}

/// Webhooks make another name by a hash; CEL can't.
#[tokio::test]
async fn a_gate_that_pods_can_not_carry_is_refused_where_pods_wait() -> Result<()> {
    play(POLICIES, "policy-names", async |scene| {
        let rule = |gate: &str| {
            format!(
                "{AT_GATED}: Forbidden: names {gate:?}, which is not a valid name of a scheduling gate, and the pods wait behind such gates; use a name such as \"acme.io/foo\""
            )
        };
        for gate in ["acme.io/a/b", "acme.io/a%2fb", "acme.io/queue-allocation-gate"] {
            let pod = Pod::new("pod").annotation(GATED, gate);
            let told = refusal(scene.try_create(&pod.json()).await)?;
            ensure!(told.ends_with(&format!("denied request: {}", rule(gate))), "{told}");
            let each = Job::new("each")
                .annotation("sluice.dev/admission", "PerPod")
                .annotation(GATED, gate);
            let told = refusal(scene.try_create(&each.json()).await)?;
            assert_eq!(told, POLICIES.of_job(&rule(gate)));
        }
        // A job that is suspended carries any gate.
        let whole = Job::new("whole").annotation(GATED, "acme.io/a/b");
        scene.create(&whole.json()).await?;
        let bad = Job::new("bad").annotation(GATED, "mygate");
        let told = refusal(scene.try_create(&bad.json()).await)?;
        let rule = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        assert_eq!(told, POLICIES.of_job(&invalid(AT_GATED, "mygate", rule)));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn nobody_but_sluice_writes_the_status_of_a_workload() -> Result<()> {
    play(POLICIES, "policy-status", async |scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene.create(&Job::new("job").queue("q").json()).await?;
        let workload = scene.see_complete("job").await.map(|_| ());
        workload?;
        let workload = scene.see_workload("job", "there", |_| true).await?;
        let name = workload["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Merge(json!({"status": {"conditions": []}}));
        let api = scene.api("Workload");
        let answer = api
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        let told = refusal(answer)?;
        ensure!(
            told.ends_with("denied request: status: Forbidden: is written by Sluice alone"),
            "{told}"
        );
        Ok(())
    })
    .await
}
