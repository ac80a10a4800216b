//! The charts on a control plane that has never seen Sluice, by the real Helm: installed, upgraded, rolled back and
//! uninstalled with live jobs, in each variant. Sluice runs as a process with the account that the chart makes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sluice_testbed::{Assets, ControlPlane, Options, Sluice, SluiceOptions, eventually};

use super::{Folder, ROOT, admission_kinds};
use crate::support::bed::{BINARY, persevere, see_leading};
use crate::support::objects::{Job, is_suspended, quota};
use crate::support::plugin::run_on;
use crate::support::widgets::Widgets;
use crate::support::{DEADLINE, Scene};

/// What Sluice is made of, but for its CRDs, what users make, and what holds and judges.
const PARTS: &str = "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,poddisruptionbudgets,\
    networkpolicies,resourcequotas,clusterroles,clusterrolebindings,jobkinds,flowschemas";

/// What a release may take of the mebibyte that a Secret holds, where Helm keeps it with the whole chart: the rest is for what else
/// a chart has that Sluice is a dependency of.
const RELEASE_MAX_BYTES: usize = 600_000;

/// Helm can't be stuck: a run of it ends within this.
const HELM_DEADLINE: Duration = Duration::from_mins(3);

/// Helm as the administrator of a control plane.
struct Helm<'a> {
    program: PathBuf,
    cp: &'a ControlPlane,
}

impl<'a> Helm<'a> {
    async fn of(cp: &'a ControlPlane) -> Result<Self> {
        let program = tokio::task::spawn_blocking(Assets::ensure_helm).await??;
        Ok(Self { program, cp })
    }

    async fn run(&self, args: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(args).env("KUBECONFIG", self.cp.kubeconfig());
        command.env("HOME", self.cp.dir()).kill_on_drop(true);
        let output = tokio::time::timeout(HELM_DEADLINE, command.output()).await??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {args:?}: {stderr}");
        Ok(String::from_utf8(output.stdout)?)
    }
}

fn chart(name: &str) -> String {
    format!("{ROOT}/charts/{name}")
}

/// Plays on a control plane of its own, where Sluice was installed by Helm with these flags, and runs.
async fn installed(
    options: SluiceOptions,
    flags: &[&str],
    test: impl AsyncFn(&Helm<'_>, &Sluice, &Scene<'_>, &[&str]) -> Result<()>,
) -> Result<()> {
    persevere(async || {
        let cp = ControlPlane::start(Options::default()).await?;
        let helm = Helm::of(&cp).await?;
        let (namespace, mut all) = (
            &options.namespace,
            flags
                .iter()
                .map(|&flag| flag.to_owned())
                .collect::<Vec<_>>(),
        );
        let sluice = Sluice::install_by(&cp, options.clone(), async |port| {
            all.extend([
                format!("--namespace={namespace}"),
                format!("--post-renderer={ROOT}/tests/it/release/webhooks-here.sh"),
                format!("--post-renderer-args={port}"),
            ]);
            let flags: Vec<&str> = all.iter().map(String::as_str).collect();
            let chart = chart("sluice");
            let install = ["install", "queues", &chart, "--create-namespace"];
            helm.run(&[&install[..], &flags].concat()).await?;
            cp.crds_established().await
        })
        .await?;
        see_small(&cp, namespace).await?;
        sluice.start().await?;
        let flags: Vec<&str> = all.iter().map(String::as_str).collect();
        Scene::play(&cp, &sluice, "charts", async |scene: &Scene<'_>| {
            see_leading(scene).await?;
            test(&helm, &sluice, scene, &flags).await
        })
        .await
    })
    .await
}

/// That the release takes no more than it may of the Secret where Helm keeps it.
async fn see_small(cp: &ControlPlane, namespace: &str) -> Result<()> {
    let path = "go-template={{.data.release | base64decode | len}}";
    let secret = "sh.helm.release.v1.queues.v1";
    let args = ["get", "secret", secret, "-n", namespace, "-o", path];
    let size: usize = cp.kubectl(args, None).await?.ok()?.trim().parse()?;
    ensure!(size < RELEASE_MAX_BYTES, "{size} bytes");
    Ok(())
}

/// A job that runs and one that waits.
async fn live_jobs(scene: &Scene<'_>) -> Result<()> {
    scene.queue(&[quota("cpu", "1")]).await?;
    for name in ["running", "waiting"] {
        scene
            .create(&Job::new(name).queue("q").runs_forever().json())
            .await?;
        scene.see_workload(name, "there", |_| true).await?;
        scene.see_admitted("running").await?;
    }
    scene.see_pods("Running", 1).await.map(drop)
}

/// What is left after Sluice was uninstalled: queues and jobs, and nothing that holds any.
async fn nothing_holds(scene: &Scene<'_>) -> Result<()> {
    let parts = format!("{PARTS},{}", admission_kinds(scene.cp).await?);
    let left = [
        "get",
        &parts,
        "-A",
        "-o",
        "name",
        "-l",
        "app.kubernetes.io/name=sluice",
    ];
    eventually("all parts of Sluice to be gone", DEADLINE, async || {
        // CRDs stay, so JobKinds are a kind still.
        let left = scene.cp.kubectl(left, None).await?.ok()?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await?;
    ensure!(
        scene.find("LocalQueue", "q").await?.is_some(),
        "the queue is gone"
    );
    scene.see_pods("Running", 1).await?;
    let by_hand = json!({"spec": {"suspend": false}});
    // The API server forgets one policy after the other.
    eventually("the waiting job to be started", DEADLINE, async || {
        scene.merge_once("Job", "waiting", by_hand.clone()).await?;
        let probe = Job::new("new").queue("q").manifest();
        let args = ["create", "-f", "-", "--dry-run=server", "-o", "json"];
        let probe = scene.kubectl(&args, Some(&probe)).await?.ok()?;
        ensure!(!is_suspended(&serde_json::from_str(&probe)?), "{probe}");
        anyhow::Ok(())
    })
    .await?;
    scene.see_pods("Running", 2).await.map(drop)
}

/// Waits until the webhooks of declared kinds have this timeout, as the shipped ones.
async fn see_declared_ask_for(scene: &Scene<'_>, seconds: u8) -> Result<()> {
    let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
    let path = "jsonpath={range .items[?(@.metadata.name=='sluice-declared')].webhooks[*]}{.timeoutSeconds} {end}";
    eventually("the timeout of declared kinds", DEADLINE, async || {
        let found = scene
            .kubectl(&["get", kinds, "-o", path], None)
            .await?
            .ok()?;
        let found: Vec<&str> = found.split_whitespace().collect();
        let seconds = seconds.to_string();
        let is_told = !found.is_empty() && found.iter().all(|of_one| *of_one == seconds);
        ensure!(is_told, "{found:?}");
        Ok(())
    })
    .await
}

/// Waits until the API server has counted requests of Sluice at the levels that its FlowSchemas name.
async fn see_requests_apart(scene: &Scene<'_>) -> Result<()> {
    eventually("requests of their own levels", DEADLINE, async || {
        let metrics = scene.kubectl(&["get", "--raw", "/metrics"], None).await?.ok()?;
        for (schema, level) in [("sluice-leases", "leader-election"), ("sluice", "workload-high")] {
            let series = format!(
                "apiserver_flowcontrol_dispatched_requests_total{{flow_schema=\"{schema}\",priority_level=\"{level}\"}}"
            );
            ensure!(metrics.contains(&series), "no {series}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn with_webhooks_it_is_installed_upgraded_rolled_back_and_uninstalled() -> Result<()> {
    let options = SluiceOptions {
        namespace: "batch-infra".to_owned(),
        ..SluiceOptions::new(BINARY)
    };
    installed(options, &[], async |helm, sluice, scene, flags| {
        live_jobs(scene).await?;
        let widgets = Widgets::new(scene);
        widgets.serve().await?;
        widgets.manage(&widgets.job_kind()).await?;
        let deployment = async || -> Result<Value> {
            let args = [
                "get",
                "deployment",
                "sluice",
                "-n",
                "batch-infra",
                "-o",
                "json",
            ];
            Ok(serde_json::from_str(
                &scene.cp.kubectl(args, None).await?.ok()?,
            )?)
        };
        let chart = chart("sluice");
        let upgrade = [
            "upgrade",
            "queues",
            &chart,
            "--set=replicas=3,config.undeclaredResources=Ignore,webhooks.timeoutSeconds=7",
        ];
        helm.run(&[&upgrade[..], flags].concat()).await?;
        let upgraded = deployment().await?;
        assert_eq!(upgraded["spec"]["replicas"], 3);
        let annotations = &upgraded["spec"]["template"]["metadata"]["annotations"];
        ensure!(annotations["checksum/config"].is_string(), "{annotations}");
        // Jobs are held all the time: what Helm writes into the webhooks is put right at once.
        sluice.wait_ready().await?;
        see_declared_ask_for(scene, 7).await?;
        helm.run(&["rollback", "queues", "1", "--namespace=batch-infra"])
            .await?;
        assert_eq!(deployment().await?["spec"]["replicas"], 2);
        sluice.wait_ready().await?;
        scene.see_admitted("running").await?;
        ensure!(
            is_suspended(&scene.get("Job", "waiting").await?),
            "it was started"
        );
        helm.run(&["uninstall", "queues", "--namespace=batch-infra"])
            .await?;
        nothing_holds(scene).await
    })
    .await
}

#[tokio::test]
async fn with_policies_it_is_installed_and_uninstalled() -> Result<()> {
    let options = SluiceOptions {
        namespace: "queueing".to_owned(),
        service_account: "warden".to_owned(),
        webhooks: false,
        ..SluiceOptions::new(BINARY)
    };
    let flags = ["--set=variant=policies,serviceAccount.name=warden,priorityAndFairness=true"];
    installed(options, &flags, async |helm, _, scene, _| {
        live_jobs(scene).await?;
        see_requests_apart(scene).await?;
        // Nobody but Sluice starts it, once the API server has compiled the policies.
        let by_hand = json!({"spec": {"suspend": false}});
        eventually("the policies to judge", DEADLINE, async || {
            let started = scene.merge_once("Job", "waiting", by_hand.clone()).await;
            ensure!(started.is_err(), "it was started");
            anyhow::Ok(())
        })
        .await?;
        helm.run(&["uninstall", "queues", "--namespace=queueing"])
            .await?;
        nothing_holds(scene).await
    })
    .await
}

/// `crds/` of the chart sluice is for the first install alone. The chart sluice-crds takes the CRDs over, brings them up
/// to date, and leaves them when it is uninstalled.
#[tokio::test]
async fn the_chart_of_the_crds_keeps_them_up_to_date() -> Result<()> {
    let cp = ControlPlane::start(Options::with_crds()?).await?;
    let helm = Helm::of(&cp).await?;
    let older = Folder::new("older-crds")?;
    let copied = super::run(
        std::process::Command::new("cp")
            .arg("-RL")
            .arg(chart("sluice-crds"))
            .arg(older.path()),
    );
    copied.context("copying the chart")?;
    let older = older.path().join("sluice-crds");
    let file = older.join("manifests/gates.yaml");
    let text = std::fs::read_to_string(&file)?;
    let without = text.replace(
        "  - jsonPath: .status.held\n",
        "  - jsonPath: .status.wasHeld\n",
    );
    ensure!(text != without, "gates.yaml has no such column");
    std::fs::write(&file, without)?;
    let column = async || {
        let path = "jsonpath={.spec.versions[0].additionalPrinterColumns[*].jsonPath}";
        let args = ["get", "crd", "gates.sluice.dev", "-o", path];
        cp.kubectl(args, None).await?.ok()
    };
    let install = |verb: &'static str, chart: &Path| {
        [
            verb,
            "sluice-crds",
            "--namespace=default",
            "--take-ownership",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain([chart.to_string_lossy().into_owned()])
        .collect::<Vec<_>>()
    };
    for (verb, chart, wanted) in [
        ("install", older, ".status.wasHeld"),
        ("upgrade", chart("sluice-crds").into(), ".status.held"),
    ] {
        let args = install(verb, &chart);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        helm.run(&args).await?;
        let found = column().await?;
        ensure!(
            found.split(' ').any(|path| path == wanted),
            "{verb}: {found}"
        );
    }
    helm.run(&["uninstall", "sluice-crds", "--namespace=default"])
        .await?;
    column().await.map(drop)
}

/// What the plugin takes away Helm counts as installed still, until it is told to forget the release.
#[tokio::test]
async fn helm_forgets_after_the_plugin_has_taken_sluice_away() -> Result<()> {
    let cp = ControlPlane::start(Options::default()).await?;
    let helm = Helm::of(&cp).await?;
    let chart = chart("sluice");
    let install = ["install", "queues", &chart, "--create-namespace"];
    let flags = [
        "--namespace=taken-away",
        "--set=variant=policies,priorityAndFairness=true",
    ];
    helm.run(&[&install[..], &flags].concat()).await?;
    cp.crds_established().await?;
    let (code, told, lacks) = run_on(&cp, "uninstall --release-jobs").await?;
    ensure!(code == 0, "{told}{lacks}");
    let args = [
        "get",
        "flowschemas",
        "-o",
        "name",
        "-lapp.kubernetes.io/name=sluice",
    ];
    let left = cp.kubectl(args, None).await?.ok()?;
    ensure!(left.is_empty(), "{left}");
    let list = ["list", "--short", "--namespace=taken-away"];
    let left = helm.run(&list).await?;
    ensure!(left.trim() == "queues", "{left}");
    helm.run(&["uninstall", "queues", "--namespace=taken-away"])
        .await?;
    let left = helm.run(&list).await?;
    ensure!(left.trim().is_empty(), "{left}");
    Ok(())
}
