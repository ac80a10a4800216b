//! `kubectl sluice uninstall`: of each variant, with live jobs of each kind. What waits is started or told of, what runs
//! goes on, and nothing of Sluice is left that holds anything.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{SluiceOptions, eventually};

use super::admission_kinds;
use crate::support::admission::own_with_policies;
use crate::support::bed::{self, BINARY, Bed};
use crate::support::objects::{Job, is_suspended, name_of, quota};
use crate::support::plugin::run;
use crate::support::pods::Pod;
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene};

/// Of the group that is taken out of its queue.
const MEMBERS: [&str; 2] = ["member-a", "member-b"];
const OURS: &str = "sluice.dev/queue-allocation-gate";

/// Exit code, standard output and standard error of the plugin.
pub async fn uninstall(bed: &Bed, flags: &[&str]) -> Result<(i32, String, String)> {
    run(bed, &[&["uninstall"], flags].concat().join(" ")).await
}

/// A pod that waits by itself.
fn pod(name: &str, gates: &[&str]) -> Value {
    let gates: Vec<_> = gates.iter().map(|gate| json!({"name": gate})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"sluice.dev/queue-name": "q"},
                     "annotations": {"testbed.sluice.dev/run-seconds": "forever"}},
        "spec": {"schedulingGates": gates, "containers": [{
            "name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}},
        }]},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "service", "labels": {"sluice.dev/queue-name": "q"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "service"}}, "template": {
            "metadata": {"labels": {"app": "service"}},
            "spec": {"containers": [{
                "name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}},
            }]},
        }},
    })
}

/// Objects that run, wait, and are held, by all that can hold them.
async fn live(scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "1")]).await?;
    scene
        .create(&Job::new("running").queue("q").runs_forever().json())
        .await?;
    scene.see_admitted("running").await?;
    scene
        .create(&Job::new("waiting").queue("q").runs_forever().json())
        .await?;
    scene
        .create(&Job::new("gated").queue("q").gate("acme.io/x").json())
        .await?;
    scene
        .create(&Job::new("inactive").queue("q").json())
        .await?;
    scene.create(&deployment()).await?;
    scene.create(&pod("bare", &[])).await?;
    scene.create(&pod("external", &["acme.io/x"])).await?;
    for name in MEMBERS {
        let pod = Pod::new(name).queue("q").group("g", 2).runs("forever");
        scene.create(&pod.json()).await?;
    }
    scene
        .see("Workload", "g-pod-group", "there", |_| true)
        .await?;
    scene
        .merge(
            "Workload",
            "g-pod-group",
            json!({"spec": {"active": false}}),
        )
        .await?;
    scene.see_workload("waiting", "there", |_| true).await?;
    let workload = scene.see_workload("inactive", "there", |_| true).await?;
    let name = workload["metadata"]["name"].as_str().unwrap();
    scene
        .merge("Workload", name, json!({"spec": {"active": false}}))
        .await?;
    scene.see("Pod", "bare", "gated", has_gate).await?;
    scene.see_pods("Running", 1).await?;
    scene.see_pods("Pending", 6).await.map(drop)
}

fn has_gate(pod: &Value) -> bool {
    pod["spec"]["schedulingGates"].to_string().contains(OURS)
}

/// What the command does with the objects of [`live`], and what it leaves.
async fn takes_sluice_away(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    live(scene).await?;
    let everything = async || -> Result<String> {
        let admission = admission_kinds(&bed.cp).await?;
        let kinds = format!("{admission},clusterroles,clusterrolebindings,jobkinds");
        let args = [
            "get",
            &kinds,
            "-l",
            "app.kubernetes.io/name=sluice",
            "-o",
            "name",
        ];
        bed.cp.kubectl(args, None).await?.ok()
    };
    let before = everything().await?;
    let (code, told, left) = uninstall(bed, &["--release-jobs", "--dry-run"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    ensure!(
        told.contains(" in ") && told.lines().all(|line| line.ends_with("(dry run)")),
        "{told}"
    );
    ensure!(
        before == everything().await?,
        "a dry run has changed something"
    );
    ensure!(
        is_suspended(&scene.get("Job", "waiting").await?),
        "it was started"
    );

    // Without the flag nothing is started, and all that waits is told of.
    let ns = &scene.ns;
    let member = |name: &str| {
        format!(
            "left: pod/{name} in {ns} stays behind the gate {OURS}: it was taken out of its queue\n"
        )
    };
    let (code, told, left) = uninstall(bed, &[]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    for line in [
        format!("left: job.batch/waiting in {ns} stays suspended: it was waiting for quota\n"),
        format!("left: job.batch/gated in {ns} stays suspended: held by acme.io/x\n"),
        format!(
            "left: job.batch/inactive in {ns} stays suspended: it was taken out of its queue\n"
        ),
        format!("left: pod/bare in {ns} stays behind the gate {OURS}\n"),
        format!("left: pod/external in {ns} still waits: held by acme.io/x\n"),
        member(MEMBERS[0]),
        member(MEMBERS[1]),
    ] {
        ensure!(left.contains(&line), "no {line} in {left}");
    }
    ensure!(
        is_suspended(&scene.get("Job", "waiting").await?),
        "it was started"
    );

    let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0, "{code}: {told} {left}");
    for line in [
        format!("job.batch/waiting in {ns} started\n"),
        format!("deployment.apps/service in {ns}: gate taken out of its pod template\n"),
        format!("pod/bare in {ns}: gate taken off\n"),
    ] {
        ensure!(told.contains(&line), "no {line} in {told}");
    }
    ensure!(
        !told.contains("gated in") && !told.contains("inactive in"),
        "{told}"
    );
    for name in MEMBERS {
        let line = member(name);
        ensure!(left.contains(&line), "no {line} in {left}");
    }
    // Two jobs, the Deployment and the bare pod.
    eventually("everything that may run to run", DEADLINE, async || {
        let running = scene.list("Pod").await?;
        let running = running
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running");
        let count = running.count();
        ensure!(count == 5, "{count} pods run");
        anyhow::Ok(())
    })
    .await?;
    for name in ["gated", "inactive"] {
        ensure!(
            is_suspended(&scene.get("Job", name).await?),
            "{name} was started"
        );
    }
    for pod in scene.list("Pod").await? {
        let is_inactive = MEMBERS.contains(&name_of(&pod));
        ensure!(has_gate(&pod) == is_inactive, "{pod}");
    }
    nothing_is_left(bed, scene).await?;
    // Again: there is nothing to do.
    let (code, told, _) = uninstall(bed, &["--release-jobs"]).await?;
    ensure!(code == 0 && told.is_empty(), "{code}: {told}");
    Ok(())
}

/// Nothing of Sluice but queues and kinds: new jobs run, and their gates hold nobody.
async fn nothing_is_left(bed: &Bed, scene: &Scene<'_>) -> Result<()> {
    let admission = admission_kinds(&bed.cp).await?;
    let kinds = format!(
        "{admission},clusterroles,clusterrolebindings,deployments,roles,rolebindings,secrets,serviceaccounts"
    );
    let args = [
        "get",
        &kinds,
        "-A",
        "-l",
        "app.kubernetes.io/name=sluice",
        "-o",
        "name",
    ];
    let parts = bed.cp.kubectl(args, None).await?.ok()?;
    ensure!(parts.is_empty(), "{parts}");
    scene.create(&Job::new("new").queue("q").json()).await?;
    scene.see_complete("new").await?;
    ensure!(
        scene.find("JobKind", "job").await?.is_some(),
        "JobKinds are gone"
    );
    let (code, told, left) = uninstall(bed, &["--crds", "--dry-run"]).await?;
    ensure!(code == 0 && told.contains("customresourcedefinition.apiextensions.k8s.io/jobkinds.sluice.dev deleted (dry run)"), "{told} {left}");
    Ok(())
}

#[tokio::test]
async fn with_webhooks_nothing_is_stranded() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-webhooks", sluice, takes_sluice_away).await
}

#[tokio::test]
async fn with_policies_nothing_is_stranded() -> Result<()> {
    own_with_policies("away-policies", takes_sluice_away).await
}

/// Who means a namespace of jobs is told before anything is done to the others.
#[tokio::test]
async fn only_where_sluice_is_it_is_taken_away() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-elsewhere", sluice, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("waiting").queue("q").cpu("2").json())
            .await?;
        scene.see_workload("waiting", "there", |_| true).await?;
        let ns = &scene.ns;
        let not_there = format!(
            "error: Sluice is not in the namespace \"{ns}\" that --system-namespace names: neither a ServiceAccount nor a \
             Deployment there has the label app.kubernetes.io/name=sluice, nor has the namespace; without the flag Sluice is found by its \
             ClusterRoleBinding, or by its ServiceAccount, also if only a part of it is left. Nothing was changed\n"
        );
        for (flag, expected) in [
            (format!("-n={ns}"), "error: unexpected argument '-n' found"),
            (format!("--namespace={ns}"), "error: unexpected argument '--namespace' found"),
            (format!("--system-namespace={ns}"), not_there.as_str()),
            (
                "--system-namespace=".to_owned(),
                "error: --system-namespace \"\": must be a lowercase RFC 1123 subdomain\n",
            ),
        ] {
            let (code, told, left) = uninstall(bed, &["--release-jobs", flag.as_str()]).await?;
            ensure!(code == 2 && told.is_empty(), "{flag}: {code}: {told}");
            ensure!(left.starts_with(expected), "{flag}: {left}");
        }
        let kinds = admission_kinds(&bed.cp).await?;
        let kinds = format!("{kinds},clusterrolebindings");
        let args = ["get", &kinds, "-l", "app.kubernetes.io/name=sluice", "-o", "name"];
        let parts = bed.cp.kubectl(args, None).await?.ok()?;
        ensure!(
            parts.contains("mutatingwebhookconfiguration") && parts.contains("clusterrolebinding"),
            "{parts}"
        );
        ensure!(
            is_suspended(&scene.get("Job", "waiting").await?),
            "it was started"
        );

        let flags = ["--release-jobs", "--system-namespace=sluice-system"];
        let (code, told, left) = uninstall(bed, &flags).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        ensure!(told.contains("serviceaccount/sluice deleted\n"), "{told}");
        scene.see_complete("waiting").await?;
        // Nothing says any more that it was there, and nothing is to be done.
        let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
        ensure!(code == 0 && told.is_empty(), "{code}: {told} {left}");
        Ok(())
    })
    .await
}

/// A policy of somebody else, which lets no job run whose name begins with `refused`.
fn third_party(scene: &Scene<'_>) -> [Value; 2] {
    let name = scene.name("refuses");
    let group = "admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"],
                "operations": ["CREATE", "UPDATE"],
            }]},
            "validations": [{
                "expression": "!object.metadata.name.startsWith('refused') || has(object.spec.suspend) && object.spec.suspend",
                "message": "nobody may run this",
            }],
        },
    });
    let binding = json!({
        "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    [policy, binding]
}

/// A job can't be started: the Workloads stay, by which the next run knows which jobs it may start.
#[tokio::test]
async fn crds_stay_until_everything_is_released() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-refused", sluice, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        for name in ["refused", "inactive"] {
            scene
                .create(&Job::new(name).queue("q").cpu("2").runs_forever().json())
                .await?;
            scene.see_workload(name, "there", |_| true).await?;
        }
        let workload = scene.see_workload("inactive", "there", |_| true).await?;
        scene
            .merge("Workload", name_of(&workload), json!({"spec": {"active": false}}))
            .await?;
        scene.create_all(&third_party(scene)).await?;
        let probe = Job::new("refused-probe").manifest();
        let probe_is_refused = async || -> Result<bool> {
            let args = ["create", "-f", "-", "--dry-run=server"];
            let probed = scene.kubectl(&args, Some(&probe)).await?;
            Ok(probed.stderr.contains("nobody may run this"))
        };
        eventually("the policy to judge", DEADLINE, async || {
            ensure!(probe_is_refused().await?, "the probe is taken");
            anyhow::Ok(())
        })
        .await?;

        let ns = &scene.ns;
        let flags = ["--release-jobs", "--crds"];
        let (code, told, left) = uninstall(bed, &flags).await?;
        ensure!(code == 1, "{code}: {told} {left}");
        for line in [
            format!("error: job.batch/refused in {ns}: "),
            format!("left: job.batch/inactive in {ns} stays suspended: it was taken out of its queue\n"),
            "error: the CRDs stay, as something else failed: without Workloads and JobKinds nobody knows which jobs \
             may be started; mend that, and run this again, without --system-namespace if Sluice's account is gone\n"
                .to_owned(),
        ] {
            ensure!(left.contains(&line), "no {line} in {left}");
        }
        ensure!(!told.contains("customresourcedefinition"), "{told}");

        for object in third_party(scene) {
            let kind = object["kind"].as_str().unwrap_or_default();
            scene.delete(kind, name_of(&object)).await?;
        }
        eventually("the policy to be forgotten", DEADLINE, async || {
            ensure!(!probe_is_refused().await?, "the probe is refused");
            anyhow::Ok(())
        })
        .await?;
        let (code, told, left) = uninstall(bed, &flags).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        let line = format!("job.batch/refused in {ns} started\n");
        ensure!(told.contains(&line), "no {line} in {told}");
        ensure!(
            told.contains("customresourcedefinition.apiextensions.k8s.io/workloads.sluice.dev deleted\n"),
            "{told}"
        );
        ensure!(
            is_suspended(&scene.get("Job", "inactive").await?),
            "what was taken out of its queue was started"
        );
        Ok(())
    })
    .await
}

/// A CRD whose objects the API server can't read in the version of their JobKind, as their operator is gone, which
/// converted them: the others are started.
#[tokio::test]
async fn what_can_not_be_listed_keeps_no_other_job_from_being_started() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-unlisted", sluice, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("waiting").queue("q").cpu("2").json())
            .await?;
        scene.see_workload("waiting", "there", |_| true).await?;
        let widgets = Widgets::new(scene);
        let [mut crd, _] = widgets.crd();
        let mut stored = crd["spec"]["versions"][0].clone();
        stored["name"] = json!("v2");
        crd["spec"]["versions"][0]["storage"] = json!(false);
        crd["spec"]["versions"] = json!([crd["spec"]["versions"][0], stored]);
        crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/convert"},
        }});
        scene.apply(&crd).await?;
        widgets.see_served().await?;
        let mut widget = widgets.widget("lost");
        widget["apiVersion"] = json!(format!("{}/v2", widgets.group));
        scene.apply(&widget).await?;
        scene.create(&widgets.job_kind()).await?;

        // Groups come in order, so that of the widgets before that of Jobs.
        let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
        ensure!(code == 1, "{code}: {told} {left}");
        let line = format!(
            "error: can't list widget.{}, so what waits of it stays: ",
            widgets.group
        );
        ensure!(left.contains(&line), "no {line} in {left}");
        for line in [
            format!("job.batch/waiting in {} started\n", scene.ns),
            "serviceaccount/sluice deleted\n".to_owned(),
        ] {
            ensure!(told.contains(&line), "no {line} in {told}");
        }
        scene.see_complete("waiting").await.map(drop)
    })
    .await
}

/// Somebody has deleted the CRDs, and JobKinds and Workloads with them: what waits is still started.
#[tokio::test]
async fn what_waits_is_started_after_everything_else_was_deleted() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-late", sluice, async |bed, scene| {
        scene.queue(&[quota("cpu", "1")]).await?;
        scene
            .create(&Job::new("waiting").queue("q").cpu("2").json())
            .await?;
        scene.see_workload("waiting", "there", |_| true).await?;
        bed.sluice.stop().await?;
        for args in [
            format!(
                "delete {} -l app.kubernetes.io/name=sluice",
                admission_kinds(&bed.cp).await?
            ),
            format!("delete -k {}/crds --timeout=180s", super::ROOT),
        ] {
            let args: Vec<&str> = args.split(' ').collect();
            bed.cp.kubectl(args, None).await?.ok()?;
        }
        let (code, told, left) = uninstall(bed, &["--release-jobs"]).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        let line = format!("job.batch/waiting in {} started\n", scene.ns);
        ensure!(told.contains(&line), "{told}");
        scene.see_complete("waiting").await.map(drop)
    })
    .await
}

/// An overlay of kustomize may put Sluice into a namespace of others, which gets Sluice's label then.
#[tokio::test]
async fn a_namespace_stays_while_others_have_objects_in_it() -> Result<()> {
    let sluice = SluiceOptions::new(BINARY);
    bed::own_unsupervised("away-shared", sluice, async |bed, _| {
        let theirs = |verb| [verb, "configmap", "theirs", "-n", "sluice-system"];
        bed.cp.kubectl(theirs("create"), None).await?.ok()?;
        let stays = "left: namespace/sluice-system stays: it holds configmap/theirs, which is not Sluice's\n";
        for flags in [&["--dry-run"][..], &[]] {
            let (code, told, left) = uninstall(bed, flags).await?;
            ensure!(code == 0, "{code}: {told} {left}");
            ensure!(
                left.contains(stays) && !told.contains("namespace/"),
                "{told} {left}"
            );
            ensure!(told.contains("secret/sluice-webhook-certificate deleted"));
        }
        bed.cp.kubectl(theirs("delete"), None).await?.ok()?;
        let (code, told, left) = uninstall(bed, &[]).await?;
        ensure!(code == 0, "{code}: {told} {left}");
        ensure!(told == "namespace/sluice-system deleted\n", "{told} {left}");
        Ok(())
    })
    .await
}
